//! Written records are read unchanged, and invalid ones are refused.

use super::*;
use crate::{MissingReason, MissingSource, NumberMark};
use proptest::prelude::*;

fn event() -> impl Strategy<Value = Event<Bytes>> {
    let fragment = (any::<u32>(), any::<u64>(), any::<Option<u32>>(), 0..50_usize);
    let fragments = prop::collection::vec(fragment, 0..9);
    let missing = prop::collection::vec(any::<u32>(), 0..4);
    let head = (any::<u64>(), any::<u64>(), any::<u16>(), any::<u16>(), any::<bool>());
    (head, fragments, missing).prop_map(|((id, time, kind, attempt, incomplete), fragments, missing)| Event {
        id: EventId(id),
        time: Timestamp(time),
        trigger_type: TriggerType(kind),
        attempt,
        incomplete,
        fragments: fragments
            .into_iter()
            .map(|(source, time, checksum, length)| Fragment {
                event: EventId(id),
                source: SourceId(source),
                time: Timestamp(time),
                checksum,
                processed: time % 3 == 1,
                mark: NumberMark::renumbered(time as i64 % 5),
                payload: Bytes::from(vec![7; length]),
            })
            .collect(),
        missing: missing
            .into_iter()
            .map(|source| MissingSource { source: SourceId(source), reason: MissingReason::SourceSilent })
            .collect(),
    })
}

fn word() -> impl Strategy<Value = FromProcessor> {
    let payload = prop_oneof![0..100_usize, Just(MAX_PART_BYTES), 1..3 * MAX_PART_BYTES];
    let verdict =
        (any::<u64>(), any::<bool>(), any::<u64>(), payload).prop_map(|(ticket, accepted, tags, length)| {
            let payload = Bytes::from((0..length).map(|at| at as u8).collect::<Vec<_>>());
            FromProcessor::Verdict(ticket, Verdict { accepted, tags: Tags(tags), payload })
        });
    prop_oneof![
        any::<u32>().prop_map(FromProcessor::Ask),
        verdict,
        (any::<u64>(), "\\PC{0,300}").prop_map(|(ticket, why)| FromProcessor::Failed(ticket, why)),
        Just(FromProcessor::Leave),
        any::<[u64; 4]>().prop_map(|[judged, filter, worker, idle]| {
            let (filter, worker, idle) = (Nanos(filter), Nanos(worker), Nanos(idle));
            FromProcessor::Times(Times { judged, filter, worker, idle })
        }),
    ]
}

fn records(word: &FromProcessor) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    word.emit(|head, content| records.push([head, content].concat()));
    records
}

/// Reads a record whose payloads lie one behind the other in `memory`.
fn read(record: &[u8], memory: &[u8]) -> Result<FromDispatcher<Bytes>, RecordError<&'static str>> {
    decode_from_dispatcher(record, Vec::new(), |place, length| {
        let start = usize::try_from(place.offset).map_err(|_| "far")?;
        let end = start.checked_add(length as usize).ok_or("far")?;
        memory.get(start..end).map(Bytes::copy_from_slice).ok_or("outside")
    })
}

proptest! {
    #[test]
    fn an_event_comes_out_as_it_went_in(event in event(), ticket in any::<u64>(), cut in any::<prop::sample::Index>()) {
        let (mut record, mut memory) = (Vec::new(), Vec::new());
        encode_event::<_, ()>(&mut record, ticket, &event, |payload: &Bytes| {
            let place = PayloadPlace { segment: 3, offset: memory.len() as u64 };
            memory.extend_from_slice(payload);
            Ok(place)
        }).unwrap();
        prop_assert_eq!(record.len(), event_record_bytes(event.fragments.len(), event.missing.len()));
        prop_assert_eq!(read(&record, &memory), Ok(FromDispatcher::Event(ticket, event)));
        let cut = cut.index(record.len());
        prop_assert!(read(&record[..cut], &memory).is_err(), "a part of a record is none");
    }

    #[test]
    fn a_word_comes_out_as_it_went_in(words in prop::collection::vec(word(), 1..5)) {
        let mut reader = WordReader::default();
        for word in words {
            let mut records = records(&word);
            let last = records.pop().expect("a word has a record");
            for part in &records {
                prop_assert_eq!(reader.read(part), Ok(None));
            }
            prop_assert_eq!(reader.read(&last), Ok(Some(word)));
            prop_assert!(reader.read(&last[..last.len().min(23)]).is_err());
        }
    }

    #[test]
    fn words_of_one_frame_are_told_apart(words in prop::collection::vec(word(), 0..6)) {
        let frame: Vec<u8> = words.iter().flat_map(records).flatten().collect();
        let (mut reader, mut rest, mut read) = (WordReader::default(), &frame[..], Vec::new());
        while !rest.is_empty() {
            let (record, behind) = split_words(rest).unwrap();
            read.extend(reader.read(record).unwrap());
            rest = behind;
        }
        prop_assert_eq!(read, words);
        prop_assert!(split_words(&frame[..frame.len().min(23)]).is_err());
    }

    #[test]
    fn a_greeting_comes_out_as_it_went_in(process in any::<u32>(), host in "\\PC{0,80}") {
        let read = Hello::read(&Hello { process, host: host.clone() }.emit()).unwrap();
        prop_assert_eq!(read.process, process);
        prop_assert!(host.starts_with(&read.host) && (read.host == host || read.host.len() > MAX_HOST_BYTES - 4));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, &bytes);
        let _ = WordReader::default().read(&bytes);
        fuzz::fuzz_farm(&bytes);
    }
}

#[test]
fn a_welcome_comes_out_as_it_went_in_and_other_versions_are_refused() {
    let welcome = Welcome {
        run: RunNumber(7),
        node: NodeId::builder(3),
        tags: vec!["muon".into(), "jet".into()],
        configuration: "[run]\n".into(),
    };
    let mut bytes = welcome.emit();
    assert_eq!(Welcome::read(&bytes), Ok(welcome.clone()));
    assert_eq!(
        Welcome::read(&Welcome { tags: Vec::new(), ..welcome.clone() }.emit()).map(|it| it.tags.len()),
        Ok(0)
    );
    assert!(Welcome::read(&bytes[..bytes.len() - 1]).is_err());
    bytes[0] += 1;
    assert_eq!(
        Welcome::read(&bytes),
        Err(DecodeError::BadValue { field: "version", value: u64::from(VERSION) + 1 })
    );
    let words = explain(&Welcome::read(&bytes).unwrap_err());
    assert!(
        words.starts_with("it speaks version 3 of") && words.contains("this side version 2; install"),
        "{words}"
    );
}

#[test]
fn a_verdict_with_too_much_payload_is_refused() {
    let payload = Bytes::from(vec![0; MAX_VERDICT_PAYLOAD_BYTES]);
    let word = FromProcessor::Verdict(1, Verdict::accept().with_payload(payload));
    let mut reader = WordReader::default();
    let records = records(&word);
    assert!(records.iter().all(|record| reader.read(record).is_ok()), "this is the most");
    let mut reader = WordReader::default();
    assert_eq!(reader.read(&records[0]), Ok(None));
    let results: Vec<_> = records.iter().map(|record| reader.read(record)).collect();
    assert!(results.iter().any(Result::is_err), "one part more is too much");
}

#[test]
fn a_reason_that_is_too_long_is_cut_between_two_letters() {
    let word = FromProcessor::Failed(1, "é".repeat(MAX_FAILURE_BYTES));
    let read = WordReader::default().read(&records(&word)[0]);
    assert_eq!(read, Ok(Some(FromProcessor::Failed(1, "é".repeat(MAX_FAILURE_BYTES / 2)))));
}

#[test]
fn a_greeting_of_another_release_is_refused() {
    let mut bytes = Hello { process: 1, host: "farm17".into() }.emit();
    bytes[0] += 1;
    assert_eq!(
        Hello::read(&bytes),
        Err(DecodeError::BadValue { field: "version", value: u64::from(VERSION) + 1 })
    );
}

#[test]
fn the_seeds_of_the_fuzzer_are_understood() {
    for (_, seed) in fuzz::seeds() {
        fuzz::fuzz_farm(&seed);
    }
}
