use super::*;
use crate::content;
use crate::pacing::Schedule;
use crate::size_model::SizeShape;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SOURCE: SourceId = SourceId(7);
const EVENTS: u64 = 500;

fn config() -> EmulatorConfig {
    EmulatorConfig {
        seed: 1,
        first_event: EventId(0),
        events: Some(EVENTS),
        size: SizeConfig {
            shape: SizeShape::LogNormal { mean_bytes: 200.0, rms_bytes: 200.0 },
            min: ByteCount(0),
            max: ByteCount(4_000),
        },
        content: Content::Pattern,
        checksum: true,
        time: EmulatedTime::Now,
        pace: Pace::default(),
        defects: Defects::default(),
        fault: None,
        block_size: ByteCount::kib(16),
        max_blocks: 4,
    }
}

fn source(config: &EmulatorConfig) -> EmulatedSource {
    EmulatedSource::new(SOURCE, config).unwrap()
}

/// Polls until the source ends, at the times it asks for, and drops each fragment but its numbers.
fn drain(source: &mut EmulatedSource) -> Vec<Fragment<()>> {
    let mut now = Timestamp(1);
    let mut fragments = Vec::new();
    loop {
        match source.poll(now) {
            SourcePoll::Fragment(fragment) => fragments.push(strip(&fragment)),
            SourcePoll::NotBefore(ready) => {
                assert!(ready >= now);
                now = ready;
            }
            SourcePoll::OutOfMemory | SourcePoll::Idle => panic!("no fragment is in use"),
            SourcePoll::Ended => return fragments,
        }
    }
}

/// Checks the content and forgets it.
fn strip(fragment: &Fragment<Bytes>) -> Fragment<()> {
    assert_eq!(fragment.source, SOURCE);
    content::check(SOURCE, fragment.event, &fragment.payload).unwrap();
    Fragment {
        event: fragment.event,
        source: fragment.source,
        time: fragment.time,
        checksum: fragment.checksum,
        processed: fragment.processed,
        mark: fragment.mark,
        payload: (),
    }
}

fn ids(fragments: &[Fragment<()>]) -> Vec<u64> {
    fragments.iter().map(|fragment| fragment.event.0).collect()
}

/// Numbers of the fragments, and the events whose data they have.
fn numbered(fault: TriggerFault) -> Vec<(u64, u64)> {
    let config = EmulatorConfig {
        first_event: EventId(10),
        events: Some(8),
        content: Content::Number,
        fault: Some(fault),
        ..config()
    };
    let mut source = source(&config);
    let mut numbers = Vec::new();
    while let SourcePoll::Fragment(fragment) = source.poll(Timestamp(1)) {
        let number = fragment.payload[..8].try_into().expect("eight bytes");
        numbers.push((fragment.event.0, u64::from_le_bytes(number)));
    }
    numbers
}

#[test]
fn a_source_that_misses_a_trigger_numbers_the_later_events_too_low() {
    let missed = numbered(TriggerFault { event: EventId(13), missed: 2 });
    assert_eq!(missed, [(10, 10), (11, 11), (12, 12), (13, 15), (14, 16), (15, 17)]);
    let doubled = numbered(TriggerFault { event: EventId(13), missed: -1 });
    let later = [(13, 13), (14, 13), (15, 14), (16, 15), (17, 16), (18, 17)];
    assert_eq!(doubled, [&[(10, 10), (11, 11), (12, 12)][..], &later].concat());
}

#[test]
fn a_source_without_defects_hands_out_every_event_once_in_order() {
    let config = EmulatorConfig { first_event: EventId(1_000), ..config() };
    let mut source = source(&config);
    let fragments = drain(&mut source);
    assert!(ids(&fragments).into_iter().eq(1_000..1_000 + EVENTS));
    assert_eq!(source.stats().fragments, EVENTS);
    assert_eq!(source.poll(Timestamp(9)), SourcePoll::Ended);
}

#[test]
fn sizes_checksums_and_bytes_are_those_of_the_script() {
    let mut source = source(&config());
    let mut bytes = 0;
    while let SourcePoll::Fragment(fragment) = source.poll(Timestamp::ZERO) {
        let Act::Fragment { size, .. } = source.script().act(fragment.event) else {
            panic!("the source has no defects");
        };
        assert_eq!(fragment.payload.len(), size.as_usize());
        assert_eq!(fragment.checksum, Some(crc32c(&fragment.payload)));
        bytes += size.0;
    }
    assert_eq!(source.stats().bytes, ByteCount(bytes));
}

#[test]
fn content_is_as_configured() {
    for (content, value) in [(Content::Fill(0x5a), 0x5a), (Content::None, 0)] {
        let mut source = source(&EmulatorConfig { content, ..config() });
        while let SourcePoll::Fragment(fragment) = source.poll(Timestamp::ZERO) {
            assert!(fragment.payload.iter().all(|byte| *byte == value));
        }
        assert_eq!(source.stats().fragments, EVENTS);
    }
}

#[test]
fn the_last_event_id_of_all_is_handed_out_and_then_the_source_ends() {
    let config = EmulatorConfig { first_event: EventId(u64::MAX - 2), events: None, ..config() };
    let fragments = drain(&mut source(&config));
    assert_eq!(ids(&fragments), [u64::MAX - 2, u64::MAX - 1, u64::MAX]);
}

#[test]
fn a_stopped_source_hands_out_nothing_more() {
    let config = EmulatorConfig {
        events: None,
        defects: Defects { duplicate: 1.0, ..Defects::default() },
        ..config()
    };
    let mut source = source(&config);
    assert!(matches!(source.poll(Timestamp::ZERO), SourcePoll::Fragment(_)));
    source.stop();
    assert_eq!(source.poll(Timestamp::ZERO), SourcePoll::Ended);
    assert_eq!(source.stats().fragments, 1);
}

#[test]
fn a_source_that_is_always_silent_does_not_hold_its_thread() {
    let config =
        EmulatorConfig { events: None, defects: Defects { silent: 1.0, ..Defects::default() }, ..config() };
    let mut source = source(&config);
    assert_eq!(source.poll(Timestamp(5)), SourcePoll::NotBefore(Timestamp(5)));
    source.stop();
    assert_eq!(source.poll(Timestamp(5)), SourcePoll::Ended);
}

#[test]
fn times_are_those_of_the_clock_or_of_the_event() {
    let mut at_hand_out = source(&config());
    let SourcePoll::Fragment(fragment) = at_hand_out.poll(Timestamp(123)) else {
        panic!("the source is new");
    };
    assert_eq!(fragment.time, Timestamp(123));

    let time = EmulatedTime::PerEvent { origin: Timestamp(1_000), period: Nanos(25) };
    let fragments = drain(&mut source(&EmulatorConfig { time, ..config() }));
    assert!(fragments.iter().all(|fragment| fragment.time.0 == 1_000 + 25 * fragment.event.0));
}

#[test]
fn sources_at_a_rate_stay_in_step_whatever_each_is_silent_about() {
    let config = EmulatorConfig {
        pace: Pace { schedule: Schedule::FixedRate { events_per_second: 1e6 }, pause: Nanos::ZERO },
        defects: Defects { silent: 0.5, ..Defects::default() },
        ..config()
    };
    for id in 0..3 {
        let mut source = EmulatedSource::new(SourceId(id), &config).unwrap();
        let start = Timestamp(5_000);
        let mut now = start;
        loop {
            match source.poll(now) {
                // The schedule starts with the first poll, and the first event may be a silent one.
                SourcePoll::Fragment(fragment) => assert_eq!(now.since(start).0, fragment.event.0 * 1_000),
                SourcePoll::NotBefore(ready) => now = ready,
                SourcePoll::OutOfMemory | SourcePoll::Idle => panic!("no fragment is in use"),
                SourcePoll::Ended => break,
            }
        }
        assert_eq!(source.stats().max_lag, Nanos::ZERO);
    }
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let refuse = |config: EmulatorConfig| EmulatedSource::new(SOURCE, &config).unwrap_err().to_string();
    let small = EmulatorConfig { block_size: ByteCount(3_999), ..config() };
    assert_eq!(refuse(small), "blocks of 3999 B cannot hold the largest fragment, 4000 B");
    let none = EmulatorConfig { max_blocks: 0, ..config() };
    assert!(refuse(none).contains("at least 1 block"));
    let mut unlikely = config();
    unlikely.defects.late = 1.5;
    assert_eq!(refuse(unlikely), "probability 1.5 of a source's being late must be from 0 to 1");
    let mut regular = config();
    regular.defects.oversize = 0.1;
    regular.defects.oversize_size = ByteCount(4_000);
    assert!(refuse(regular).contains("must be larger than the largest regular fragment, 4000 B"));
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]

    #[test]
    fn the_source_does_what_its_script_says(
        seed: u64, silent in 0.0..0.5_f64, duplicate in 0.0..0.5_f64, late in 0.0..0.5_f64, late_by in 0..50_u64,
        oversize in 0.0..0.5_f64, events in 0..500_u64,
    ) {
        let defects = Defects { silent, duplicate, late, late_by, oversize, oversize_size: ByteCount(8_000) };
        let config = EmulatorConfig { seed, events: Some(events), defects, ..config() };
        let mut source = source(&config);
        let fragments = drain(&mut source);

        let mut copies: BTreeMap<u64, u64> = BTreeMap::new();
        for event in ids(&fragments) {
            *copies.entry(event).or_default() += 1;
        }
        let mut expected = SourceStats::default();
        for event in 0..events {
            let copies = copies.get(&event).copied().unwrap_or(0);
            match source.script().act(EventId(event)) {
                Act::Silent => {
                    prop_assert_eq!(copies, 0);
                    expected.silent += 1;
                }
                Act::Fragment { size, oversize, late, duplicate } => {
                    prop_assert_eq!(copies, 1 + u64::from(duplicate));
                    prop_assert_eq!(oversize, size == ByteCount(8_000));
                    expected.fragments += copies;
                    expected.bytes += ByteCount(copies * size.0);
                    expected.late += u64::from(late);
                    expected.oversize += u64::from(oversize);
                    expected.duplicated += u64::from(duplicate);
                }
            }
        }
        prop_assert_eq!(source.stats(), expected);
    }

    #[test]
    fn a_late_fragment_comes_after_exactly_the_events_that_it_should(seed: u64, late_by in 0..20_u64) {
        let defects = Defects { late: 0.2, late_by, ..Defects::default() };
        let config = EmulatorConfig { seed, defects, ..config() };
        let mut source = source(&config);
        let order = ids(&drain(&mut source));
        let is_late = |event| matches!(source.script().act(EventId(event)), Act::Fragment { late: true, .. });
        for (index, event) in order.iter().enumerate() {
            // The highest event begun before this fragment, late ones included: they had their turn.
            let begun = event + late_by;
            let before = order[..index].iter().filter(|other| !is_late(**other)).max();
            if is_late(*event) && begun + 20 < EVENTS {
                let next_regular = order[index..].iter().find(|other| !is_late(**other)).unwrap();
                prop_assert!(before.is_none_or(|before| *before <= begun), "{event} came too late");
                prop_assert!(*next_regular > begun, "{event} came too early");
            } else if !is_late(*event) {
                prop_assert!(before.is_none_or(|before| before < event), "regular events are in order");
            }
        }
    }

    #[test]
    fn defects_do_not_change_the_fragments_that_they_do_not_hit(seed: u64) {
        let plain = source(&EmulatorConfig { seed, ..config() });
        let defects = Defects { silent: 0.3, duplicate: 0.3, late: 0.3, late_by: 5, ..Defects::default() };
        let defective = source(&EmulatorConfig { seed, defects, ..config() });
        for event in (0..200).map(EventId) {
            let Act::Fragment { size: plain_size, .. } = plain.script().act(event) else {
                panic!("no defects");
            };
            if let Act::Fragment { size, .. } = defective.script().act(event) {
                prop_assert_eq!(size, plain_size);
            }
        }
    }

    #[test]
    fn memory_in_use_holds_the_source_back_and_costs_no_event(
        keep in prop::collection::vec(0..100_usize, 1..40), max_blocks in 1..5_usize,
    ) {
        let config = EmulatorConfig { max_blocks, block_size: ByteCount(4_000), ..config() };
        let mut source = source(&config);
        let mut living: VecDeque<Fragment<Bytes>> = VecDeque::new();
        let mut seen = 0;
        let mut refusals = 0;
        let mut keep = keep.into_iter().cycle();
        loop {
            match source.poll(Timestamp::ZERO) {
                SourcePoll::Fragment(fragment) => {
                    prop_assert_eq!(fragment.event.0, seen);
                    seen += 1;
                    living.push_back(fragment);
                }
                SourcePoll::OutOfMemory => {
                    prop_assert!(!living.is_empty(), "memory that nobody uses is free");
                    prop_assert_eq!(source.poll(Timestamp::ZERO), SourcePoll::OutOfMemory);
                    refusals += 1;
                    let keep = keep.next().unwrap_or(0).min(living.len() - 1);
                    for fragment in living.drain(..living.len() - keep) {
                        prop_assert_eq!(content::check(SOURCE, fragment.event, &fragment.payload), Ok(()));
                    }
                }
                SourcePoll::NotBefore(_) | SourcePoll::Idle => prop_assert!(false, "full speed never waits"),
                SourcePoll::Ended => break,
            }
        }
        prop_assert_eq!(seen, EVENTS);
        let counted = source.stats().out_of_memory;
        prop_assert!(0 < counted && counted <= refusals);
    }
}

/// A readout unit that joins a run in progress needs nothing of the events before.
#[test]
fn a_source_that_joins_late_begins_at_an_event_and_keeps_its_pace_from_there() {
    let whole = drain(&mut source(&config()));
    let mut late = source(&config());
    late.skip_to(EventId(EVENTS - 20));
    let from =
        whole.iter().position(|fragment| fragment.event >= EventId(EVENTS - 20)).expect("it has a fragment");
    let strip_time = |fragment: &Fragment<()>| (fragment.event, fragment.checksum);
    let rest: Vec<_> = drain(&mut late).iter().map(strip_time).collect();
    assert_eq!(rest, whole[from..].iter().map(strip_time).collect::<Vec<_>>());
    let pace = Pace { schedule: Schedule::FixedRate { events_per_second: 10.0 }, ..Pace::default() };
    let mut late = source(&EmulatorConfig { pace, ..config() });
    late.skip_to(EventId(400));
    assert!(
        matches!(late.poll(Timestamp(1)), SourcePoll::Fragment(fragment) if fragment.event == EventId(400))
    );
    assert_eq!(late.poll(Timestamp(1)), SourcePoll::NotBefore(Timestamp(100_000_001)));
}
