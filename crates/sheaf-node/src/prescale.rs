//! Prescales of a trigger menu: of the events with a tag, one in a number keeps it.

use crate::sink::{EventSink, SinkError, Taken};
use bytes::Bytes;
use sheaf_wire::mix::mix64;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{Event, EventId, Tags, Timestamp, Verdict};
use std::sync::Arc;

/// A tag with its prescale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRule {
    /// The tag, one bit.
    pub tag: Tags,
    /// Name of the tag.
    pub name: String,
    /// One in this number of events keeps the tag; at least 1.
    pub prescale: u32,
}

/// An output behind prescales. It takes the tags away that an event does not keep; an event that keeps none of its tags is
/// left out. Events without tags, and quarantined ones, pass as they are.
pub struct PrescaledTags {
    sink: Box<dyn EventSink>,
    rules: Vec<(TagRule, Counts)>,
    left_out: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    before: u64,
    after: u64,
}

impl PrescaledTags {
    /// `sink` behind these prescales.
    #[must_use]
    pub fn new(rules: Vec<TagRule>, sink: Box<dyn EventSink>) -> Self {
        let rules = rules.into_iter().map(|rule| (rule, Counts::default())).collect();
        Self { sink, rules, left_out: 0 }
    }

    /// Returns the tags that an event keeps.
    fn kept(&self, event: EventId, tags: Tags) -> Tags {
        let lost = self.rules.iter().filter(|(rule, _)| tags.contains(rule.tag) && !rule.is_turn(event));
        lost.fold(tags, |kept, (rule, _)| Tags(kept.0 & !rule.tag.0))
    }

    fn count(&mut self, before: Tags, after: Tags) {
        for (rule, counts) in &mut self.rules {
            counts.before += u64::from(before.contains(rule.tag));
            counts.after += u64::from(after.contains(rule.tag));
        }
    }
}

impl TagRule {
    /// Returns whether an event keeps the tag. The decision hashes the bits of the event id and of the tag. So every
    /// builder unit decides the same, no period in the ids is preferred, and two tags with the same prescale keep
    /// different events.
    fn is_turn(&self, event: EventId) -> bool {
        let mixed = mix64(event.0 ^ mix64(u64::from(self.tag.0.trailing_zeros()) + 1));
        mixed.is_multiple_of(u64::from(self.prescale.max(1)))
    }
}

impl EventSink for PrescaledTags {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        self.give(&mut event.clone(), verdict)
    }

    fn give(&mut self, event: &mut Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        let before = verdict.tags;
        if before.contains(Tags::QUARANTINED) {
            return self.sink.give(event, verdict);
        }
        let after = self.kept(event.id, before);
        let taken = if after == before {
            self.sink.give(event, verdict)?
        } else if after.is_empty() {
            self.left_out += 1;
            Taken::LeftOut
        } else {
            self.sink.give(event, &verdict.clone().with_tags(after))?
        };
        // An event that the output refused comes again, and is counted when it is taken.
        self.count(before, after);
        Ok(taken)
    }

    fn record(&mut self, record: &Arc<RunRecord>) -> Result<(), SinkError> {
        self.sink.record(record)
    }

    fn end_batch(&mut self, now: Timestamp) -> Result<(), SinkError> {
        self.sink.end_batch(now)
    }

    fn press(&mut self) {
        self.sink.press();
    }

    fn has_room(&self) -> bool {
        self.sink.has_room()
    }

    fn stored(&self) -> u64 {
        self.sink.stored()
    }

    fn due(&self) -> Timestamp {
        self.sink.due()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let of_rule = |(rule, counts): &(TagRule, Counts)| {
            let name = &rule.name;
            [(format!("tag_{name}_before"), counts.before), (format!("tag_{name}_after"), counts.after)]
        };
        let own = [("tags_left_out".to_owned(), self.left_out)];
        self.sink.counters().into_iter().chain(own).chain(self.rules.iter().flat_map(of_rule)).collect()
    }
}

#[cfg(test)]
mod tests;
