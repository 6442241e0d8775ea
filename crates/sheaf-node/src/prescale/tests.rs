use super::*;
use crate::examples::event;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Written = Arc<Mutex<BTreeMap<u64, Tags>>>;

/// Keeps the events that it is given; refuses every event once if instructed to.
struct Keeper {
    written: Written,
    refuses: bool,
    refused: Option<u64>,
}

impl EventSink for Keeper {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        if self.refuses && self.refused.replace(event.id.0) != Some(event.id.0) {
            return Err(SinkError::Other("the disk is full".into()));
        }
        self.written.lock().unwrap().insert(event.id.0, verdict.tags);
        Ok(Taken::Accepted)
    }

    fn record(&mut self, _record: &Arc<RunRecord>) -> Result<(), SinkError> {
        Ok(())
    }

    fn end_batch(&mut self, _now: Timestamp) -> Result<(), SinkError> {
        Ok(())
    }

    fn press(&mut self) {}

    fn stored(&self) -> u64 {
        self.written.lock().unwrap().len() as u64
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn sink(prescales: &[u32], refuses: bool) -> (PrescaledTags, Written) {
    let written = Written::default();
    let keeper = Keeper { written: written.clone(), refuses, refused: None };
    let rule = |(index, prescale): (usize, &u32)| TagRule {
        tag: Tags::named(index).unwrap(),
        name: format!("t{index}"),
        prescale: *prescale,
    };
    let rules = prescales.iter().enumerate().map(rule).collect();
    (PrescaledTags::new(rules, Box::new(keeper)), written)
}

/// Writes events with these tags, repeating refused ones until they are taken; returns how many were left out.
fn write(sink: &mut PrescaledTags, tags: &[u64]) -> u64 {
    let mut left_out = 0;
    for (id, tags) in (0..).zip(tags) {
        let verdict = Verdict::accept().with_tags(Tags(*tags));
        let taken = sink.write(&event(id), &verdict).or_else(|_| sink.write(&event(id), &verdict)).unwrap();
        left_out += u64::from(taken == Taken::LeftOut);
    }
    left_out
}

fn counters(sink: &PrescaledTags) -> BTreeMap<String, u64> {
    sink.counters().into_iter().collect()
}

proptest! {
    #[test]
    fn events_keep_some_of_their_tags_and_are_left_out_only_where_they_keep_none(
        tags in prop::collection::vec(0_u64..32, 0..200),
        prescales in prop::collection::vec(1_u32..6, 0..5),
        refuses: bool,
    ) {
        let (mut sink, written) = sink(&prescales, refuses);
        let left_out = write(&mut sink, &tags);
        let written = written.lock().unwrap();
        for (id, before) in (0_u64..).zip(&tags) {
            match written.get(&id) {
                None => prop_assert!(*before != 0, "an event without tags passes"),
                Some(after) => {
                    prop_assert_eq!(after.0 & !before, 0, "no tag is added");
                    prop_assert_eq!(after.0 >> prescales.len(), before >> prescales.len(), "others keep theirs");
                    prop_assert_eq!(after.is_empty(), *before == 0);
                }
            }
        }
        prop_assert_eq!(left_out, tags.len() as u64 - written.len() as u64);
        let counters = counters(&sink);
        prop_assert_eq!(counters["tags_left_out"], left_out);
        for (bit, prescale) in prescales.iter().enumerate() {
            let has = |tags: u64| tags >> bit & 1;
            let before: u64 = tags.iter().map(|tags| has(*tags)).sum();
            let after: u64 = written.values().map(|tags| has(tags.0)).sum();
            prop_assert_eq!(counters[&format!("tag_t{bit}_before")], before);
            prop_assert_eq!(counters[&format!("tag_t{bit}_after")], after);
            prop_assert!(*prescale > 1 || before == after);
        }
    }
}

#[test]
fn a_prescale_keeps_one_of_so_many_and_two_tags_keep_different_events() {
    let (mut sink, written) = sink(&[10, 10], false);
    write(&mut sink, &vec![0b11; 100_000]);
    let counters = counters(&sink);
    for tag in ["tag_t0_after", "tag_t1_after"] {
        // Six standard deviations of 100,000 draws at 0.1 are 570.
        assert!(counters[tag].abs_diff(10_000) < 570, "{tag} is {}", counters[tag]);
    }
    let both = written.lock().unwrap().values().filter(|tags| tags.0 == 0b11).count();
    assert!(both.abs_diff(1_000) < 200, "{both} events kept both tags");
}

#[test]
fn what_was_not_judged_keeps_its_tag() {
    let (mut sink, written) = sink(&[u32::MAX], false);
    let tags = Tags::QUARANTINED | Tags(1);
    for id in 1..20 {
        assert_eq!(sink.write(&event(id), &Verdict::accept().with_tags(tags)), Ok(Taken::Accepted));
    }
    assert!(written.lock().unwrap().values().all(|kept| *kept == tags));
}
