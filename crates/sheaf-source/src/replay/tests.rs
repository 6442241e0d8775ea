use super::*;
use crate::stream_set::{OpenDirectoryError, StreamSet, open_directory};
use proptest::prelude::*;
use sheaf_store::fragment_stream::{StreamHeader, StreamWriter, file_name};
use sheaf_wire::{Nanos, NumberMark, RunNumber, TimeBase, TimeUnit};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Event ids of each source in the order of its file. Source `i` has id `10 i`.
type Recording = Vec<Vec<u64>>;

/// A recorded fragment's time and payload follow from event and source.
fn time_of(event: u64) -> Timestamp {
    Timestamp(5_000_u64.saturating_add(event.saturating_mul(700)))
}

fn payload_of(source: SourceId, event: u64) -> Vec<u8> {
    format!("event {event} of source {source}").into_bytes()
}

fn header(source: u32) -> StreamHeader {
    StreamHeader {
        source: SourceId(source),
        run: RunNumber(3),
        has_events: true,
        has_times: true,
        time_base: None,
    }
}

fn write_stream(directory: &Path, name: &str, header: StreamHeader, events: &[u64]) {
    let mut writer = StreamWriter::create(&directory.join(name), header, "{}").unwrap();
    for event in events {
        let fragment = Fragment {
            event: EventId(*event),
            source: header.source,
            time: time_of(*event),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: payload_of(header.source, *event),
        };
        writer.append(&fragment).unwrap();
    }
    writer.finish().unwrap();
}

fn record(recording: &Recording) -> (TempDir, StreamSet) {
    let directory = tempfile::tempdir().unwrap();
    for (index, events) in recording.iter().enumerate() {
        let header = header(index as u32 * 10);
        write_stream(directory.path(), &file_name(header.source), header, events);
    }
    let set = open_directory(directory.path()).unwrap();
    (directory, set)
}

/// Any recording: sources with gaps of their own, ids with common gaps, some out of order, some sources empty.
fn recordings() -> impl Strategy<Value = Recording> {
    let ids = (0..1_000_u64, prop::collection::vec(1..6_u64, 1..40)).prop_map(|(first, gaps)| {
        let next = |id: &mut u64, gap| {
            *id += gap;
            Some(*id)
        };
        gaps.into_iter().scan(first, next).collect::<Vec<u64>>()
    });
    (ids, 1..4_usize).prop_flat_map(|(ids, sources)| {
        let source = prop::sample::subsequence(ids.clone(), 0..=ids.len()).prop_shuffle();
        prop::collection::vec(source, sources)
    })
}

fn sorted_ids(recording: &Recording) -> Vec<u64> {
    let ids: BTreeSet<u64> = recording.iter().flatten().copied().collect();
    ids.into_iter().collect()
}

fn times(value: u64) -> NonZeroU64 {
    NonZeroU64::new(value).unwrap()
}

/// Polls until the source ends, at the times it asks for; fragments with the time of their departure.
fn play(
    set: &StreamSet,
    source: u32,
    config: &ReplayConfig,
) -> (Vec<(Timestamp, Fragment<Bytes>)>, SourceStats) {
    let mut source = set.source(SourceId(source), config).unwrap();
    let mut now = START;
    let mut played = Vec::new();
    for _ in 0..MOST_POLLS {
        match source.poll(now) {
            SourcePoll::Fragment(fragment) => played.push((now, fragment)),
            SourcePoll::NotBefore(ready) => now = ready,
            SourcePoll::OutOfMemory | SourcePoll::Idle => panic!("a replay is bounded by its consumer"),
            SourcePoll::Ended => return (played, source.stats()),
        }
    }
    panic!("the source does not end");
}

const START: Timestamp = Timestamp(1 << 40);
/// More than any recording here needs: a source that does not end must fail its test instead of hanging it.
const MOST_POLLS: u32 = 100_000;

fn ids(played: &[(Timestamp, Fragment<Bytes>)]) -> Vec<u64> {
    played.iter().map(|(_, fragment)| fragment.event.0).collect()
}

fn paced(schedule: Schedule) -> ReplayConfig {
    let pace = Pace { schedule, pause: Nanos::ZERO };
    ReplayConfig { pace, ..ReplayConfig::default() }
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]

    #[test]
    fn one_pass_hands_out_what_was_recorded(recording in recordings()) {
        let (_directory, set) = record(&recording);
        prop_assert_eq!(set.run(), RunNumber(3));
        prop_assert_eq!(set.events(), sorted_ids(&recording).len() as u64);
        for (index, events) in recording.iter().enumerate() {
            let source = SourceId(index as u32 * 10);
            prop_assert_eq!(set.streams()[index].source, source);
            prop_assert_eq!(set.streams()[index].counts.records, events.len() as u64);
            let (played, stats) = play(&set, source.0, &ReplayConfig::default());
            prop_assert_eq!(&ids(&played), events);
            for (_, fragment) in &played {
                prop_assert_eq!(&fragment.payload[..], payload_of(source, fragment.event.0));
                prop_assert_eq!(fragment.time, time_of(fragment.event.0));
                prop_assert_eq!(fragment.checksum, Some(sheaf_wire::checksum::crc32c(&fragment.payload)));
            }
            prop_assert_eq!(stats.fragments, events.len() as u64);
            prop_assert_eq!(stats.last_error, None);
        }
    }

    #[test]
    fn further_passes_continue_the_ids_and_times_of_all_sources_alike(recording in recordings(), passes in 1..4_u64) {
        let (_directory, set) = record(&recording);
        let all = sorted_ids(&recording);
        prop_assume!(!all.is_empty());
        let (first, last) = (all[0], all[all.len() - 1]);
        prop_assert_eq!(set.event_ids(), Some(EventId(first)..=EventId(last)));
        let config = ReplayConfig { passes: Some(times(passes)), ..ReplayConfig::default() };
        let mut time_shifts = BTreeSet::new();
        for (index, events) in recording.iter().enumerate() {
            let (played, _) = play(&set, index as u32 * 10, &config);
            let span = last - first + 1;
            let expected: Vec<u64> =
                (0..passes).flat_map(|pass| events.iter().map(move |event| event + pass * span)).collect();
            prop_assert_eq!(ids(&played), expected);
            for (number, (_, fragment)) in played.iter().enumerate() {
                let pass = (number / events.len()) as u64;
                let recorded = time_of(fragment.event.0 - pass * span);
                prop_assert!(pass == 0 || fragment.time > time_of(last), "a pass starts after the one before");
                if let Some(shift) = fragment.time.since(recorded).0.checked_div(pass) {
                    time_shifts.insert(shift);
                }
            }
        }
        prop_assert!(time_shifts.len() <= 1, "{time_shifts:?}");
    }

    #[test]
    fn rate_division_keeps_every_nth_event_of_all_sources(
        recording in recordings(), division in 1..7_u64, passes in 1..4_u64,
    ) {
        let (_directory, set) = record(&recording);
        let all = sorted_ids(&recording);
        prop_assume!(!all.is_empty());
        let span = all[all.len() - 1] - all[0] + 1;
        let kept: BTreeSet<u64> = (0..passes)
            .flat_map(|pass| all.iter().map(move |event| event + pass * span))
            .step_by(division as usize)
            .collect();
        let config = ReplayConfig { passes: Some(times(passes)), division: times(division), ..ReplayConfig::default() };
        for (index, events) in recording.iter().enumerate() {
            let (played, stats) = play(&set, index as u32 * 10, &config);
            let expected: Vec<u64> = (0..passes)
                .flat_map(|pass| events.iter().map(move |event| event + pass * span))
                .filter(|event| kept.contains(event))
                .collect();
            prop_assert_eq!(ids(&played), expected);
            for (_, fragment) in &played {
                let recorded = all[0] + (fragment.event.0 - all[0]) % span;
                let payload = payload_of(SourceId(index as u32 * 10), recorded);
                prop_assert_eq!(&fragment.payload[..], payload);
                prop_assert!(division == 1 || fragment.payload.is_unique(), "it holds the memory of what was skipped");
            }
            prop_assert_eq!(stats.fragments + stats.divided, events.len() as u64 * passes);
        }
    }

    #[test]
    fn at_a_fixed_rate_all_sources_deliver_an_event_at_the_same_time(
        recording in recordings(), division in 1..4_u64,
    ) {
        let (_directory, set) = record(&recording);
        let all = sorted_ids(&recording);
        let config = ReplayConfig {
            division: times(division), ..paced(Schedule::FixedRate { events_per_second: 1e6 })
        };
        for index in 0..recording.len() {
            let (played, stats) = play(&set, index as u32 * 10, &config);
            let mut latest = START;
            for (left, fragment) in played {
                let position = all.binary_search(&fragment.event.0).unwrap() as u64 / division;
                // One that was recorded out of order goes right after the one that it follows.
                latest = latest.max(START + Nanos(position * 1_000));
                prop_assert_eq!(left, latest);
            }
            prop_assert!(stats.max_lag <= Nanos(all.len() as u64 * 1_000));
        }
    }

    #[test]
    fn at_the_recorded_times_all_sources_start_with_the_first_event_of_all(recording in recordings()) {
        let (_directory, set) = record(&recording);
        let all = sorted_ids(&recording);
        for index in 0..recording.len() {
            let (played, _) = play(&set, index as u32 * 10, &paced(Schedule::Recorded { speed: 0.5 }));
            let mut latest = START;
            for (left, fragment) in played {
                let elapsed = fragment.time.since(time_of(all[0])).0;
                latest = latest.max(START + Nanos(elapsed * 2));
                prop_assert_eq!(left, latest);
            }
        }
    }

    #[test]
    fn a_source_that_joins_late_plays_what_is_left(
        recording in recordings(), passes in 1..4_u64, skipped in 0..200_u64,
    ) {
        let (_directory, set) = record(&recording);
        let config = ReplayConfig { passes: Some(times(passes)), ..ReplayConfig::default() };
        let (whole, _) = play(&set, 0, &config);
        let mut late = set.source(SourceId(0), &config).unwrap();
        late.skip_to(EventId(skipped));
        let mut rest = Vec::new();
        for _ in 0..MOST_POLLS {
            match late.poll(START) {
                SourcePoll::Fragment(fragment) => rest.push(fragment.event.0),
                SourcePoll::Ended => break,
                _ => {}
            }
        }
        let expected: Vec<u64> = ids(&whole).into_iter().filter(|event| *event >= skipped).collect();
        prop_assert_eq!(rest, expected);
    }

    #[test]
    fn a_damaged_payload_costs_its_record_in_each_pass_and_no_other(
        recording in recordings(), victim: prop::sample::Index, byte: prop::sample::Index,
    ) {
        let events = &recording[0];
        prop_assume!(events.len() >= 2);
        let (directory, set) = record(&recording);
        let victim = events[victim.index(events.len())];
        let path = directory.path().join(file_name(SourceId(0)));
        let mut bytes = fs::read(&path).unwrap();
        let payload = payload_of(SourceId(0), victim);
        let at = bytes.windows(payload.len()).position(|window| window == payload).unwrap();
        bytes[at + byte.index(payload.len())] ^= 0x10;
        fs::write(&path, bytes).unwrap();

        let config = ReplayConfig { passes: Some(times(2)), ..ReplayConfig::default() };
        let (played, stats) = play(&set, 0, &config);
        let (first_pass, _) = played.split_at(events.len() - 1);
        let expected: Vec<u64> = events.iter().copied().filter(|event| *event != victim).collect();
        prop_assert_eq!(ids(first_pass), expected);
        prop_assert_eq!(stats.corrupt_payloads, 2);
        let named = format!("event {victim}:");
        prop_assert!(stats.last_error.unwrap().contains(&named));
    }

    #[test]
    fn whatever_is_cut_off_or_flipped_the_rest_is_played_in_order(
        recording in recordings(), cut: prop::sample::Index, flip: prop::sample::Index, bit in 0..8_u32,
    ) {
        let (directory, set) = record(&recording);
        let path = directory.path().join(file_name(SourceId(0)));
        let mut bytes = fs::read(&path).unwrap();
        // The file header and the metadata, "{}": a stream without them is refused.
        let header_bytes = 42;
        let at = flip.index(bytes.len() - header_bytes) + header_bytes;
        bytes[at] ^= 1 << bit;
        bytes.truncate(cut.index(bytes.len() - header_bytes) + header_bytes);
        fs::write(&path, bytes).unwrap();

        let (played, _) = play(&set, 0, &ReplayConfig::default());
        let mut events = recording[0].iter();
        for event in ids(&played) {
            prop_assert!(events.any(|other| *other == event), "{event} was not recorded there");
        }
        // The directory as it is now opens, too, or returns an error.
        let reopened = open_directory(directory.path());
        prop_assert!(reopened.is_ok(), "{reopened:?}");
    }
}

#[test]
fn a_stopped_replay_ends_at_once() {
    let (_directory, set) = record(&vec![vec![1, 2, 3]]);
    let config = ReplayConfig { passes: None, ..ReplayConfig::default() };
    let mut source = set.source(SourceId(0), &config).unwrap();
    for event in 1..=7 {
        assert!(matches!(source.poll(START), SourcePoll::Fragment(fragment) if fragment.event.0 == event));
    }
    source.stop();
    assert_eq!(source.poll(START), SourcePoll::Ended);
    assert_eq!(source.stats().fragments, 7);
}

#[test]
fn an_empty_stream_played_for_ever_ends() {
    let (_directory, set) = record(&vec![vec![1, 2], vec![]]);
    let config = ReplayConfig { passes: None, ..ReplayConfig::default() };
    assert_eq!(play(&set, 10, &config).0, []);
    let (_directory, set) = record(&vec![vec![]]);
    assert_eq!(set.event_ids(), None);
    assert_eq!(play(&set, 0, &config).0, []);
}

#[test]
fn a_poll_that_skips_much_gives_the_thread_back() {
    let (_directory, set) = record(&vec![(0..1_000).collect()]);
    let config = ReplayConfig { division: times(500), ..ReplayConfig::default() };
    let mut source = set.source(SourceId(0), &config).unwrap();
    assert!(matches!(source.poll(START), SourcePoll::Fragment(_)));
    assert_eq!(source.poll(START), SourcePoll::NotBefore(START));
    assert_eq!(ids(&play(&set, 0, &config).0), [0, 500]);
}

#[test]
fn event_ids_that_run_out_end_the_replay_and_never_wrap() {
    let (_directory, set) = record(&vec![vec![u64::MAX / 2, u64::MAX - 1]]);
    let config = ReplayConfig { passes: Some(times(5)), ..ReplayConfig::default() };
    let (played, _) = play(&set, 0, &config);
    // The second pass has room for its first event only.
    assert_eq!(ids(&played), [u64::MAX / 2, u64::MAX - 1, u64::MAX]);
}

#[test]
fn a_directory_without_streams_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("notes.txt"), "no stream").unwrap();
    let error = open_directory(directory.path()).unwrap_err();
    assert!(matches!(error, OpenDirectoryError::NoStreams { .. }), "{error}");
    let error = open_directory(&directory.path().join("absent")).unwrap_err();
    assert!(matches!(error, OpenDirectoryError::List { .. }), "{error}");
}

#[test]
fn streams_that_do_not_belong_together_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    write_stream(directory.path(), "a.sfrag", header(1), &[1]);
    write_stream(directory.path(), "b.sfrag", header(1), &[1]);
    let error = open_directory(directory.path()).unwrap_err();
    assert!(matches!(&error, OpenDirectoryError::DuplicateSource { .. }), "{error}");
    assert!(error.to_string().contains("a.sfrag") && error.to_string().contains("b.sfrag"));

    let other_run = StreamHeader { run: RunNumber(4), ..header(2) };
    write_stream(directory.path(), "b.sfrag", other_run, &[1]);
    let error = open_directory(directory.path()).unwrap_err();
    assert!(matches!(&error, OpenDirectoryError::DifferentRuns { .. }), "{error}");

    let unit = TimeUnit::from_fraction(1, 10).unwrap();
    let other_unit = StreamHeader { time_base: Some(TimeBase { unit, epoch: None }), ..header(2) };
    write_stream(directory.path(), "b.sfrag", other_unit, &[1]);
    let error = open_directory(directory.path()).unwrap_err();
    assert!(matches!(&error, OpenDirectoryError::DifferentTimeBases { .. }), "{error}");
    assert!(error.to_string().contains("b.sfrag are 100 ps since an unknown time"), "{error}");
    let same = StreamHeader { time_base: Some(TimeBase::NANOSECONDS), ..header(2) };
    write_stream(directory.path(), "b.sfrag", same, &[1]);
    let set = open_directory(directory.path()).expect("what is not stated is nanoseconds");
    assert_eq!(set.time_base(), Some(TimeBase::NANOSECONDS));

    fs::write(directory.path().join("b.sfrag"), "not a stream").unwrap();
    let error = open_directory(directory.path()).unwrap_err();
    assert!(matches!(&error, OpenDirectoryError::Open(_)), "{error}");
}

#[test]
fn streams_without_event_ids_can_only_be_built_by_time() {
    let directory = tempfile::tempdir().unwrap();
    let by_time = StreamHeader { has_events: false, ..header(1) };
    write_stream(directory.path(), "a.sfrag", by_time, &[0]);
    let set = open_directory(directory.path()).unwrap();
    let error = set.require_event_ids().unwrap_err();
    assert!(matches!(&error, OpenDirectoryError::NoEventIds { .. }));
    assert!(error.to_string().contains("`source.build_by = \"time\"`"), "{error}");
    set.require_times().unwrap();
    assert!(set.earliest().is_some());
    write_stream(directory.path(), "b.sfrag", StreamHeader { has_times: false, ..header(2) }, &[0]);
    let error = open_directory(directory.path()).unwrap().require_times().unwrap_err();
    assert!(error.to_string().contains("b.sfrag"), "{error}");
}

#[test]
fn a_replay_that_lacks_what_it_needs_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let without_times = StreamHeader { has_times: false, ..header(1) };
    write_stream(directory.path(), "a.sfrag", without_times, &[1]);
    let set = open_directory(directory.path()).unwrap();
    let refuse = |source, config: &ReplayConfig| set.source(SourceId(source), config).unwrap_err();
    let recorded = paced(Schedule::Recorded { speed: 1.0 });
    assert!(matches!(refuse(1, &recorded), ReplayError::NoTimes { .. }));
    assert!(matches!(refuse(2, &recorded), ReplayError::UnknownSource { .. }));
    let standing = paced(Schedule::FixedRate { events_per_second: 0.0 });
    assert!(matches!(refuse(1, &standing), ReplayError::Pace(_)));
}

#[test]
fn recorded_times_of_any_unit_are_paced_as_nanoseconds_and_given_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let unit = TimeUnit::from_fraction(25, 16).unwrap();
    let in_units = StreamHeader { time_base: Some(TimeBase { unit, epoch: None }), ..header(1) };
    write_stream(directory.path(), "a.sfrag", in_units, &[0, 10, 25]);
    let set = open_directory(directory.path()).unwrap();
    let mut source = set.source(SourceId(1), &paced(Schedule::Recorded { speed: 1.0 })).unwrap();
    let mut now = Timestamp(1_000_000);
    let begin = now;
    let mut taken = Vec::new();
    loop {
        match source.poll(now) {
            SourcePoll::Fragment(fragment) => taken.push((fragment.time, now.since(begin))),
            SourcePoll::NotBefore(at) => now = at,
            SourcePoll::Ended => break,
            other => panic!("{other:?}"),
        }
    }
    // 7,000 and 17,500 units of 25/16 ns after the first, rounded down.
    let expected = [(0, 0), (10, 10_937), (25, 27_343)].map(|(event, nanos)| (time_of(event), Nanos(nanos)));
    assert_eq!(taken, expected);
}
