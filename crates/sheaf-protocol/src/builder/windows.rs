//! Windows of time that events stand for: their hits are requested of readout units that keep them.

use super::assembly::Assemblies;
use super::scope::Ask;
use sheaf_wire::HitInterval;
use sheaf_wire::message::{Body, EventRange, EventWindow, WindowRequest};
use sheaf_wire::{EventId, Payload, TimeUnit, Timestamp, TriggerType};
use std::collections::BTreeMap;

/// Window of an event around the time of its trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowExtent {
    /// Time before the trigger, in picoseconds.
    pub before_ps: u64,
    /// Time from the trigger on, in picoseconds.
    pub after_ps: u64,
}

/// Windows of time for which triggers stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerWindows {
    /// Trigger time that is time 0 of the hits.
    pub zero: Timestamp,
    /// Unit of the times of triggers.
    pub unit: TimeUnit,
    /// Window of triggers whose type has no window of its own.
    pub extent: WindowExtent,
    /// Windows by the type of the trigger.
    pub by_type: BTreeMap<TriggerType, WindowExtent>,
}

impl TriggerWindows {
    /// Returns the window of a trigger, as far as it is on the timeline of the hits. [`HitInterval::NONE`] if no part of it is.
    #[must_use]
    pub fn window(&self, time: Timestamp, trigger_type: TriggerType) -> HitInterval {
        let WindowExtent { before_ps, after_ps } =
            self.by_type.get(&trigger_type).copied().unwrap_or(self.extent);
        let time_ps = self.unit.picos(i128::from(time.0) - i128::from(self.zero.0));
        let (from_ps, until_ps) = (time_ps - i128::from(before_ps), time_ps + i128::from(after_ps));
        match (u64::try_from(from_ps.max(0)), u64::try_from(until_ps)) {
            (Ok(from_ps), Ok(until_ps)) if until_ps > 0 => HitInterval { from_ps, until_ps },
            _ => HitInterval::NONE,
        }
    }
}

/// Makes a request for events, in which those that stand for windows of time have these. `None` if they have all ended meanwhile.
pub(super) fn request<P: Payload>(
    of_triggers: Option<&TriggerWindows>,
    ask: Ask,
    ranges: Vec<EventRange>,
    assemblies: &Assemblies<P>,
) -> Option<Body<P>> {
    let mut events = Vec::new();
    let mut are_windows = of_triggers.is_some();
    for range in &ranges {
        for event in (0..u64::from(range.count)).map(|next| EventId(range.first.0 + next)) {
            let Some(key) = assemblies.find(event) else { continue };
            let assembly = &assemblies[key];
            let of_trigger = of_triggers.map(|windows| windows.window(assembly.time, assembly.trigger_type));
            are_windows |= !assembly.windows.is_empty();
            let windows = assembly.windows.iter().copied().chain(of_trigger);
            let attempt = range.attempt;
            events.extend(windows.map(|window| EventWindow { event, attempt, window }));
        }
    }
    if !are_windows {
        return Some(ask.into_body(ranges));
    }
    let sources = ask.sources.map(|sources| sources.to_vec()).unwrap_or_default();
    (!events.is_empty()).then_some(Body::WindowRequest(WindowRequest { part: ask.part, sources, events }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_window_is_exact_and_ends_with_the_timeline() {
        let windows = TriggerWindows {
            zero: Timestamp(100),
            unit: TimeUnit::from_fraction(25, 16).unwrap(),
            extent: WindowExtent { before_ps: 10, after_ps: 20 },
            by_type: [(TriggerType(3), WindowExtent { before_ps: 0, after_ps: 5_000 })].into(),
        };
        let window = |time, kind| windows.window(Timestamp(time), TriggerType(kind));
        // 16 units of 25/16 ns are 25 ns.
        assert_eq!(window(116, 0), HitInterval { from_ps: 24_990, until_ps: 25_020 });
        assert_eq!(window(116, 3), HitInterval { from_ps: 25_000, until_ps: 30_000 });
        assert_eq!(window(100, 0), HitInterval { from_ps: 0, until_ps: 20 }, "what is on the timeline");
        assert_eq!(window(97, 3), HitInterval { from_ps: 0, until_ps: 312 });
        assert_eq!(window(96, 3), HitInterval::NONE, "before time 0");
        assert_eq!(window(u64::MAX, 0), HitInterval::NONE, "beyond 213 days");
    }

    proptest! {
        #[test]
        fn a_window_contains_its_trigger(time in 0..1_u64 << 53, before_ps in 0..1_u64 << 40, after_ps in 1..1_u64 << 40) {
            let extent = WindowExtent { before_ps, after_ps };
            let windows = TriggerWindows {
                zero: Timestamp(0), unit: TimeUnit::NANOSECOND, extent, by_type: BTreeMap::new(),
            };
            let window = windows.window(Timestamp(time), TriggerType(0));
            prop_assert!(window.contains(time * 1_000));
            prop_assert!(window.until_ps - window.from_ps <= before_ps + after_ps);
        }
    }
}
