use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const ANA: ConsumerId = ConsumerId(1);
const BEN: ConsumerId = ConsumerId(2);

fn generous() -> Bounds {
    Bounds { queue_events: 1 << 40, queue_bytes: ByteCount(1 << 60), interval: Nanos::ZERO, copy_rate: None }
}

fn selection() -> impl Strategy<Value = Selection> {
    (0_u64..4, 0_u32..5, 0_u64..3).prop_map(|(tags, prescale, millis)| Selection {
        tags: Tags(tags),
        prescale,
        interval: Nanos::from_millis(millis),
    })
}

#[derive(Clone, Debug)]
enum Step {
    Offer { wait: Nanos, tags: u64, bytes: u64 },
    Read { consumer: u32 },
    Join { consumer: u32, selection: Selection },
    Leave { consumer: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_u64..2_000_000, 0_u64..4, 0_u64..400)
            .prop_map(|(wait, tags, bytes)| Step::Offer { wait: Nanos(wait), tags, bytes }),
        2 => (0_u32..4).prop_map(|consumer| Step::Read { consumer }),
        1 => (0_u32..4, selection()).prop_map(|(consumer, selection)| Step::Join { consumer, selection }),
        1 => (0_u32..4).prop_map(|consumer| Step::Leave { consumer }),
    ]
}

proptest! {
    /// Whatever happens, every event has one bin for every consumer, and no queue is longer than its bounds.
    #[test]
    fn every_event_is_counted_once_for_every_consumer_and_queues_keep_their_bounds(
        steps in proptest::collection::vec(step(), 1..200),
        queue_events in 1_u64..6,
        queue_bytes in 1_u64..1_000,
        rate in 1_000_u64..1_000_000,
    ) {
        let bounds = Bounds {
            queue_events,
            queue_bytes: ByteCount(queue_bytes),
            interval: Nanos::from_micros(300),
            copy_rate: ByteRate::new(rate),
        };
        let mut sampler = Sampler::new(bounds);
        let mut now = Timestamp(1_000);
        let mut queues: BTreeMap<ConsumerId, Vec<u64>> = BTreeMap::new();
        let mut seen: BTreeMap<ConsumerId, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Offer { wait, tags, bytes } => {
                    now += wait;
                    seen.values_mut().for_each(|seen| *seen += 1);
                    for id in sampler.offer(now, Tags(tags), ByteCount(bytes)) {
                        queues.get_mut(id).expect("only who has joined gets an event").push(bytes);
                    }
                }
                Step::Read { consumer } => {
                    let id = ConsumerId(consumer);
                    let queue: Vec<u64> = queues.get_mut(&id).map(std::mem::take).unwrap_or_default();
                    sampler.left_queue(id, queue.len() as u64, ByteCount(queue.iter().sum()));
                }
                Step::Join { consumer, selection } => {
                    sampler.join(ConsumerId(consumer), selection);
                    queues.insert(ConsumerId(consumer), Vec::new());
                    seen.insert(ConsumerId(consumer), 0);
                }
                Step::Leave { consumer } => {
                    let left = sampler.leave(ConsumerId(consumer));
                    let was_there = queues.remove(&ConsumerId(consumer)).is_some();
                    prop_assert_eq!(left.is_some(), was_there);
                    seen.remove(&ConsumerId(consumer));
                }
            }
            for (id, queue) in &queues {
                prop_assert!(queue.len() as u64 <= queue_events);
                prop_assert!(queue.iter().sum::<u64>() <= queue_bytes);
                let counts = sampler.counts(*id).expect("it has joined");
                let bins = counts.taken + counts.other_tags + counts.prescaled + counts.over_rate
                    + counts.queue_full + counts.over_budget;
                prop_assert_eq!(counts.seen, bins);
                prop_assert_eq!(counts.seen, seen[id]);
            }
        }
    }

    /// A rate is a rate: over any time, in any pattern, no more than it and one burst.
    #[test]
    fn a_consumer_never_gets_more_than_its_rate_and_one_burst(
        waits in proptest::collection::vec(0_u64..5_000_000, 1..400),
        interval_us in 100_u64..20_000,
    ) {
        let mut sampler = Sampler::new(generous());
        let interval = Nanos::from_micros(interval_us);
        sampler.join(ANA, Selection { interval, ..Selection::default() });
        let (start, mut now, mut taken) = (Timestamp(7), Timestamp(7), 0);
        for wait in waits {
            now += Nanos(wait);
            taken += sampler.offer(now, Tags(0), ByteCount(1)).len() as u64;
            let most = (now.since(start).0 + BURST.0) / interval.0 + 1;
            prop_assert!(taken <= most, "{taken} events, {most} are the most");
        }
    }
}

#[test]
fn a_consumer_gets_its_rate_where_events_come_in_batches() {
    let mut sampler = Sampler::new(generous());
    sampler.join(ANA, Selection { interval: Nanos::from_millis(1), ..Selection::default() });
    // Ten batches a second of a thousand events each: 1,000 a second are asked for.
    let mut taken = 0;
    for batch in 0..100 {
        let now = Timestamp(batch * 100_000_000);
        taken += (0..1_000).map(|_| sampler.offer(now, Tags(0), ByteCount(1)).len()).sum::<usize>();
    }
    assert!((9_900..=10_101).contains(&taken), "{taken} events in ten seconds");
}

#[test]
fn a_consumer_gets_only_events_with_one_of_its_tags() {
    let mut sampler = Sampler::new(generous());
    sampler.join(ANA, Selection { tags: Tags(0b110), ..Selection::default() });
    sampler.join(BEN, Selection::default());
    let now = Timestamp(1);
    assert_eq!(sampler.offer(now, Tags(0b001), ByteCount(1)), [BEN]);
    assert_eq!(sampler.offer(now, Tags(0b010), ByteCount(1)), [ANA, BEN]);
    assert_eq!(sampler.offer(now, Tags(0b1100), ByteCount(1)), [ANA, BEN]);
    assert_eq!(sampler.counts(ANA).map(|counts| (counts.taken, counts.other_tags)), Some((2, 1)));
}

#[test]
fn a_prescale_takes_the_first_event_and_then_one_of_so_many() {
    let mut sampler = Sampler::new(generous());
    sampler.join(ANA, Selection { prescale: 3, ..Selection::default() });
    let taken: Vec<bool> =
        (0..7).map(|event| !sampler.offer(Timestamp(event), Tags(0), ByteCount(1)).is_empty()).collect();
    assert_eq!(taken, [true, false, false, true, false, false, true]);
}

#[test]
fn a_slow_consumer_misses_events_and_others_do_not() {
    let mut sampler = Sampler::new(Bounds { queue_events: 2, ..generous() });
    sampler.join(ANA, Selection::default());
    sampler.join(BEN, Selection::default());
    for event in 0..10 {
        sampler.offer(Timestamp(event), Tags(0), ByteCount(1));
        sampler.left_queue(BEN, 1, ByteCount(1));
    }
    let missed = |id| sampler.counts(id).map(|counts| counts.missed());
    assert_eq!((missed(ANA), missed(BEN)), (Some(8), Some(0)));
}

#[test]
fn what_is_copied_for_all_consumers_together_is_bounded() {
    let bounds = Bounds { copy_rate: ByteRate::new(1_000_000), ..generous() };
    let mut sampler = Sampler::new(bounds);
    sampler.join(ANA, Selection::default());
    sampler.join(BEN, Selection::default());
    let mut copied = 0;
    for event in 0..100_000_u64 {
        // 100,000 events of 1 kB in ten seconds: 10 MB a second.
        let chosen = sampler.offer(Timestamp(event * 100_000), Tags(0), ByteCount(1_000));
        copied += if chosen.is_empty() { 0 } else { 1_000 };
    }
    assert!((9_900_000..=10_200_000).contains(&copied), "{copied} bytes in ten seconds");
}
