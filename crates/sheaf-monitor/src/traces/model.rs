//! A trace, as it is in files.

use serde::{Deserialize, Serialize};
use sheaf_telemetry::stamps::{FoundStamp, MOST_DETAIL, NodeStamps, Stage, Stamp, StampLabels};

/// Everything that is known of an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Number of the run.
    pub run: u32,
    /// Id of the event.
    pub event: u64,
    /// Reasons for the trace: `incomplete`, `slow`, `dropped`, `quarantined`, `sampled`.
    pub reasons: Vec<String>,
    /// Outcome, if the event has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Reason for the drop of a dropped event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_reason: Option<String>,
    /// Time of the trigger in nanoseconds since 1970, on the clock of the event manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
    /// Time of the end in nanoseconds since 1970, on the clock of the event manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
    /// Sources without a fragment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingPart>,
    /// Stages that the event has passed, by time.
    pub stamps: Vec<TraceStamp>,
}

impl Trace {
    /// Returns the time from the trigger to the end, if both are known, in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> Option<u64> {
        Some(self.ended_ns?.saturating_sub(self.began_ns?))
    }

    /// Returns whether something is wrong with the event.
    #[must_use]
    pub fn is_remarkable(&self) -> bool {
        self.reasons.iter().any(|reason| reason != "sampled")
    }

    /// Adds a reason, if it is not there.
    pub fn add_reason(&mut self, reason: &str) {
        if !self.reasons.iter().any(|known| known == reason) {
            self.reasons.push(reason.to_owned());
        }
    }

    /// Adds a missing source, or what is new about one.
    pub fn add_missing(&mut self, part: MissingPart) {
        match self.missing.iter_mut().find(|known| known.source == part.source) {
            Some(known) => known.required |= part.required,
            None => self.missing.push(part),
        }
    }

    /// Adds stamps that are not there, and sorts all by time.
    pub fn add_stamps(&mut self, stamps: impl IntoIterator<Item = TraceStamp>) {
        self.stamps.extend(stamps);
        self.stamps.sort_by(|one, other| (one.at_ns, &one.node).cmp(&(other.at_ns, &other.node)));
        self.stamps.dedup();
    }

    /// Returns whether the event has passed a stage.
    #[must_use]
    pub fn has(&self, stage: &str) -> bool {
        self.stamps.iter().any(|stamp| stamp.stage == stage)
    }
}

/// A source without a fragment in an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingPart {
    /// Id of the source.
    pub source: u32,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Reason.
    pub reason: String,
    /// Whether events are incomplete without the source.
    #[serde(default)]
    pub required: bool,
}

/// A stage that an event has passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStamp {
    /// The node.
    pub node: String,
    /// Time in nanoseconds since 1970.
    pub at_ns: u64,
    /// The stage ([`sheaf_telemetry::stamps::Stage`]).
    pub stage: String,
    /// The other node, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The source, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<u32>,
    /// The attempt to build the event, if the stage has one, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u16>,
    /// Number of the clock: 0, or that of a further host. Clocks of hosts are not compared.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock: usize,
}

impl TraceStamp {
    /// Writes out the meanings of the stamps that were found of an event.
    pub(super) fn of_all(found: &[FoundStamp<'_>]) -> Vec<Self> {
        found.iter().map(|found| Self::of(found.node, &found.stamp)).collect()
    }

    /// Writes out the meaning of a stamp that a node has made.
    fn of(node: &NodeStamps, stamp: &Stamp) -> Self {
        let StampLabels { readouts, builders, sources } = &node.labels;
        let detail = (stamp.detail < MOST_DETAIL).then_some(stamp.detail);
        let of = |names: &[String]| detail.and_then(|index| names.get(usize::from(index)).cloned());
        let peer = match stamp.stage {
            Stage::Assigned | Stage::Requested | Stage::Sent | Stage::Ended => of(builders),
            Stage::Answered => of(readouts),
            _ => None,
        };
        let is = |stage| stamp.stage == stage;
        let source = detail.filter(|_| is(Stage::Arrived));
        Self {
            node: node.name.clone(),
            at_ns: stamp.at_ns,
            stage: stamp.stage.name().to_owned(),
            peer,
            source: source.and_then(|index| sources.get(usize::from(index)).copied()),
            attempt: detail.filter(|_| is(Stage::Began)),
            clock: 0,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// First line of a file of traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// Number of the run.
    pub run: u32,
    /// Host that has written the file.
    pub host: String,
    /// One in so many events is always traced; 0: none.
    pub sample: u64,
    /// Time from a trigger to the end of its event from which on the event is traced, in nanoseconds.
    pub slow_ns: u64,
}

/// Last line of a file of traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEnd {
    /// Number of traces in the file.
    pub traces: u64,
    /// Events that have none.
    pub left_out: LeftOut,
}

/// Remarkable events without a trace, and stamps that traces lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Events for which the file had no room.
    pub file_full: u64,
    /// Events that were beyond the number that is traced in a second.
    pub too_many: u64,
    /// Slow events that ended while processes answered late.
    #[serde(default)]
    pub late_answers: u64,
    /// Events without a remark that had no room in their quarter of the file, or were beyond the number that is traced in a second.
    #[serde(default)]
    pub samples: u64,
    /// Remarks that were overwritten before they were read.
    pub remarks: u64,
    /// Stamps that were overwritten before they were read.
    pub stamps: u64,
}

impl LeftOut {
    /// Returns the number of remarkable events without a trace.
    #[must_use]
    pub const fn remarkable(&self) -> u64 {
        self.file_full + self.too_many + self.late_answers + self.remarks
    }

    /// Adds those of another file.
    pub fn add(&mut self, other: &Self) {
        self.file_full += other.file_full;
        self.too_many += other.too_many;
        self.late_answers += other.late_answers;
        self.samples += other.samples;
        self.remarks += other.remarks;
        self.stamps += other.stamps;
    }
}

/// Line of a file of traces.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TraceLine {
    Header(TraceHeader),
    Trace(Trace),
    End(TraceEnd),
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_telemetry::stamps::{StampHub, StampStore};

    #[test]
    fn the_detail_of_a_stamp_is_a_peer_a_source_or_an_attempt() {
        let of = |stage, detail| {
            let (hub, mut store) = (StampHub::default(), StampStore::default());
            let (builders, sources) = (vec!["bu0".into(), "bu1".into()], vec![40, 41]);
            let mut stamper = hub.add("ru0", StampLabels { sources, builders, ..StampLabels::default() });
            stamper.begin_round(5);
            stamper.stamp(stage, detail, 7, 1);
            stamper.flush();
            store.take(&hub, 6, &mut |_| {});
            let mut written = Vec::new();
            store.find(&[7], &mut |_, found| {
                written.extend(found.iter().map(|found| TraceStamp::of(found.node, &found.stamp)));
            });
            let stamp = written.pop().expect("it was stamped");
            assert_eq!((&*stamp.node, stamp.at_ns, &*stamp.stage), ("ru0", 5, stage.name()));
            (stamp.peer, stamp.source, stamp.attempt)
        };
        assert_eq!(of(Stage::Arrived, 1), (None, Some(41), None));
        assert_eq!(of(Stage::Sent, 1), (Some("bu1".into()), None, None));
        assert_eq!(of(Stage::Began, 2), (None, None, Some(2)));
        assert_eq!(of(Stage::Sent, MOST_DETAIL), (None, None, None), "the index is too large for a stamp");
    }
}
