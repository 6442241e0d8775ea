//! Text, culprit and remedy of dead time because builder units are full, by what their events wait for.

use super::holdups::Holdup;
use super::{Moment, SILENT_SOURCE};
use crate::map::shown_time;
use crate::state::State;
use std::time::Duration;

/// Time that an event spends in a builder unit up to which more slots help. Events that take longer wait for something.
const ORDINARY: Duration = Duration::from_millis(100);

/// Slots of a builder unit below which it may be idle although it is full: while an event is stored and reported, no other one is
/// built. With more, whatever takes the time is busy without a pause.
const FEW: u64 = 32;

/// Text, culprit and remedy of an alarm about dead time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) text: String,
    pub(super) culprit: Option<String>,
    pub(super) remedy: String,
}

/// Load of the builder units over the time of the alarm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// Triggers per second, accepted or not.
    triggers_per_second: f64,
    /// Events that have ended, per second.
    ended_per_second: f64,
    /// Events in all builder units now.
    held: u64,
    /// Events for which they have room.
    slots: u64,
    /// Number of builder units that report.
    builders: u64,
}

impl Load {
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    pub(super) fn of(past: &Moment, now: &Moment, state: &State) -> Self {
        let seconds = (now.time_ms.saturating_sub(past.time_ms)).max(1) as f64 / 1e3;
        let builders = state.nodes.iter().filter(|node| node.role == "builder" && node.up);
        let fills: Vec<_> = builders.filter_map(|node| node.fill.get("slots")).collect();
        Self {
            triggers_per_second: now.triggers.saturating_sub(past.triggers) as f64 / seconds,
            ended_per_second: now.ended.saturating_sub(past.ended) as f64 / seconds,
            held: fills.iter().map(|fill| fill.value).sum(),
            slots: fills.iter().map(|fill| fill.limit).sum(),
            builders: fills.len() as u64,
        }
    }

    /// Returns the mean time that an event spends in a builder unit, by Little's law: events held = rate x time. `None` if none ends.
    #[expect(clippy::cast_precision_loss, reason = "a time for people")]
    fn time_in_builder(&self) -> Option<Duration> {
        (self.ended_per_second > 0.0)
            .then(|| Duration::from_secs_f64(self.held as f64 / self.ended_per_second))
    }

    /// Returns `builder.slots` with which the triggers would be taken if events took as long as now, with a half in reserve.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of slots is small and positive"
    )]
    #[expect(clippy::cast_precision_loss, reason = "a number of slots is small")]
    fn slots_needed(&self, time: Duration) -> u64 {
        let events = 1.5 * self.triggers_per_second * time.as_secs_f64();
        (events / self.builders.max(1) as f64).ceil() as u64
    }
}

impl Advice {
    /// Returns the advice about units that are full for this reason.
    pub(super) fn of(holdup: Holdup, load: &Load) -> Self {
        match holdup {
            Holdup::Source { source, .. } => Self::of_source(source),
            Holdup::Readout(readout) => Self {
                text: format!("events wait for fragments of {readout}"),
                remedy: "look at its host, the load of its processor, its network port and its log; `sheaf ctl exclude` leaves it out".to_owned(),
                culprit: Some(readout),
            },
            Holdup::Link { readout, builder } => Self {
                text: format!("events of {builder} wait for fragments of {readout}"),
                remedy: "look at the connection between the two: cables, ports of switches, losses".to_owned(),
                culprit: Some(format!("{readout}-{builder}")),
            },
            Holdup::Fragments => Self::of_fragments(load),
            Holdup::Filter if load.slots < FEW * load.builders => Self::of_slots(load),
            Holdup::Filter => Self {
                text: format!("events wait for the filter{}", load.shown()),
                culprit: None,
                remedy: "the filter is slower than the trigger: add filter workers or builder units, make the filter faster, or raise \
                         `builder.slots` if only bursts are cut"
                    .to_owned(),
            },
        }
    }

    /// Returns the advice about a source that events wait for.
    pub(super) fn of_source(source: String) -> Self {
        Self {
            text: format!("events wait for source {source}"),
            remedy: SILENT_SOURCE.to_owned(),
            culprit: Some(source),
        }
    }

    /// Returns the advice about events that wait for fragments of several readout units. If that is the ordinary time that fragments
    /// take, there are too few slots.
    fn of_fragments(load: &Load) -> Self {
        if load.time_in_builder().is_some_and(|time| time <= ORDINARY) {
            return Self::of_slots(load);
        }
        Self {
            text: format!("events wait for fragments of several readout units{}", load.shown()),
            culprit: None,
            remedy: "look at what the readout units have in common: the network, processor time, and the sources in trouble".to_owned(),
        }
    }

    /// Returns the advice about builder units with too few slots.
    fn of_slots(load: &Load) -> Self {
        let time = load.time_in_builder().unwrap_or_default();
        let needed = load.slots_needed(time).max(load.slots / load.builders.max(1) + 1);
        Self {
            text: format!("the builder units have too few slots{}", load.shown()),
            culprit: None,
            remedy: format!(
                "raise `builder.slots` to {needed} or more; if events take longer then, the filter or the network is too slow: \
                 make it faster, or add builder units"
            ),
        }
    }

    /// Adds the node that alone was full, if the advice names no culprit.
    pub(super) fn or_culprit(mut self, node: Option<&String>) -> Self {
        if let (None, Some(node)) = (&self.culprit, node) {
            self.text.push_str(&format!(" ({node})"));
            self.culprit = Some(node.clone());
        }
        self
    }
}

impl Load {
    /// Returns the load in words: `: 128 slots, and an event takes 1.2 ms`.
    fn shown(&self) -> String {
        let Some(time) = self.time_in_builder() else { return String::new() };
        format!(": {} slots, and an event takes {}", self.slots, shown_time(time.as_secs_f64()))
    }
}
