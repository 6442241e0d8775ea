//! The example library of triggers in Rust: a pulser with a veto. Parameters: `period_us=1000 triggers=2000`.

use sheaf_filter::{
    EventId, FilterFailure, Nanos, PollEnd, Timestamp, TriggerInfo, TriggerPlugin, TriggerPluginSetup,
    TriggerRoom, TriggerType, export_trigger,
};
use std::time::Instant;

/// A pulser.
#[derive(Debug)]
pub struct Pulser {
    period: Nanos,
    triggers: u64,
    /// Id of the next trigger.
    next: EventId,
    /// Pulses so far, with those that were held back.
    pulses: u64,
    started: Instant,
    is_busy: bool,
}

export_trigger!(Pulser);

impl TriggerPlugin for Pulser {
    const HAS_VETO: bool = true;

    fn open(setup: &TriggerPluginSetup) -> Result<Self, FilterFailure> {
        let numbers =
            setup.parameters.strip_prefix("period_us=").and_then(|text| text.split_once(" triggers="));
        let numbers = numbers
            .and_then(|(period, triggers)| Some((period.parse::<u64>().ok()?, triggers.parse().ok()?)))
            .filter(|(period, _)| *period <= 999_999_999);
        let Some((period, triggers)) = numbers else {
            let right = "`trigger.library.parameters` should be like \"period_us=1000 triggers=2000\"";
            return Err(FilterFailure(right.into()));
        };
        // Connect to the hardware here.
        Ok(Self {
            period: Nanos::from_micros(period),
            triggers,
            next: EventId(0),
            pulses: 0,
            started: Instant::now(),
            is_busy: false,
        })
    }

    fn start(&mut self, next: EventId) {
        self.next = next;
        // Let the hardware take triggers here.
        self.started = Instant::now();
    }

    fn busy(&mut self, reason: Option<&str>) {
        // Tell the hardware to hold triggers back, or no longer.
        self.is_busy = reason.is_some();
    }

    fn poll(&mut self, room: &mut TriggerRoom<'_>) -> Result<PollEnd, FilterFailure> {
        let time = Nanos::from(self.started.elapsed());
        while room.left() > 0 {
            // Read the hardware here.
            if self.triggers == 0 {
                return Ok(PollEnd::Ended);
            }
            let due = Nanos(self.pulses * self.period.0);
            if due > time {
                return Ok(PollEnd::After(Nanos(due.0 - time.0)));
            }
            self.pulses += 1;
            if self.is_busy {
                room.add_vetoed(1);
                return Ok(PollEnd::After(Nanos::from_micros(100)));
            }
            self.triggers -= 1;
            let info = TriggerInfo { time: Timestamp(due.0), kind: TriggerType(7), bits: 1 };
            room.push_with(self.next, info, &[]);
            self.next.0 += 1;
        }
        Ok(PollEnd::More)
    }
}
