//! The lines of everything that can be dumped.

use super::*;
use crate::event_file::{EventFileWriter, WriterOptions};
use crate::fragment_stream::{StreamHeader, StreamWriter, file_name};
use crate::testing::event;
use sheaf_wire::{
    EventId, NodeId, NumberMark, RunNumber, SessionId, SourceId, Tags, TimeBase, TimeUnit, Timestamp, Verdict,
};

fn lines(path: &Path) -> (String, DumpSummary) {
    let mut out = Vec::new();
    let summary = dump(path, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), summary)
}

#[test]
fn events_are_dumped_in_file_order_and_damage_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions::new(RunNumber(1), NodeId::builder(0), SessionId(5), Timestamp(1));
    let mut writer = EventFileWriter::create(directory.path(), options).unwrap();
    let mut first = event(8, &[0, 9]);
    first.fragments[1].payload = Bytes::from_static(b"123456789");
    writer.write(&first, &Verdict::accept()).unwrap();
    writer.write(&event(2, &[0]), &Verdict::accept()).unwrap();
    writer.finish().unwrap();
    // cbf43926 is the published check value of the IEEE CRC-32.
    let whole = "event,source,time_ns,bytes,crc32\n\
                 8,0,8000,0,00000000\n8,1,8001,9,cbf43926\n2,0,2000,0,00000000\n";
    for path in [directory.path(), writer.path()] {
        let (text, summary) = lines(path);
        assert_eq!(text, whole);
        assert_eq!((summary.lines, summary.damaged), (3, 0));
    }
    let mut bytes = std::fs::read(writer.path()).unwrap();
    bytes[66 + 72 + 2 * 24] ^= 1;
    std::fs::write(writer.path(), bytes).unwrap();
    let (text, summary) = lines(writer.path());
    assert_eq!(text, "event,source,time_ns,bytes,crc32\n2,0,2000,0,00000000\n");
    assert_eq!((summary.lines, summary.damaged), (1, 1));
    assert!(summary.first_damage.unwrap().contains("event 8, source 1"));
}

#[test]
fn what_was_said_of_events_is_dumped_with_the_names_of_tags() {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        metadata: r#"{"tags":["muon","laser"]}"#.to_owned(),
        ..WriterOptions::new(RunNumber(1), NodeId::builder(0), SessionId(5), Timestamp(1))
    };
    let mut writer = EventFileWriter::create(directory.path(), options).unwrap();
    let said = Verdict::accept().with_tags(Tags(0b1010)).with_payload(vec![0x0f, 0xa0]);
    let mut one_is_processed = event(8, &[5, 9]);
    one_is_processed.fragments[1].processed = true;
    one_is_processed.fragments[0].mark = NumberMark::NONE.disagreeing(1);
    one_is_processed.fragments[1].mark = NumberMark::renumbered(3).disagreeing(-2);
    writer.write(&one_is_processed, &said).unwrap();
    writer.write(&event(9, &[1]), &Verdict::quarantine()).unwrap();
    writer.finish().unwrap();
    let mut out = Vec::new();
    let summary = dump_verdicts(directory.path(), &mut out).unwrap();
    let expected = "event,time_ns,type,incomplete,fragments,missing,bytes,tags,verdict,processed,disagreeing\n\
                    8,8000,1,0,2,0,14,laser+bit3,0fa0,1,0:+1;1:-2\n9,9000,1,0,1,0,1,quarantined,,0,\n";
    assert_eq!((String::from_utf8(out).unwrap().as_str(), summary.lines), (expected, 2));
    let stream = directory.path().join("streams");
    std::fs::create_dir(&stream).unwrap();
    let header = StreamHeader {
        source: SourceId(1),
        run: RunNumber(1),
        has_events: true,
        has_times: true,
        time_base: None,
    };
    StreamWriter::create(&stream.join(file_name(SourceId(1))), header, "{}").unwrap().finish().unwrap();
    assert!(matches!(dump_verdicts(&stream, &mut Vec::new()), Err(DumpError::NoEvents { .. })));
}

#[test]
fn streams_are_dumped_by_source() {
    let directory = tempfile::tempdir().unwrap();
    for source in [10, 9] {
        let path = directory.path().join(file_name(SourceId(source)));
        let header = StreamHeader {
            source: SourceId(source),
            run: RunNumber(1),
            has_events: true,
            has_times: true,
            time_base: None,
        };
        let mut writer = StreamWriter::create(&path, header, "{}").unwrap();
        let fragment = Fragment {
            event: EventId(5),
            source: SourceId(source),
            time: Timestamp(77),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: b"123456789",
        };
        writer.append(&fragment).unwrap();
        writer.finish().unwrap();
    }
    let (text, summary) = lines(directory.path());
    assert_eq!(text, "event,source,time_ns,bytes,crc32\n5,9,77,9,cbf43926\n5,10,77,9,cbf43926\n");
    assert_eq!(summary.lines, 2);
    let (text, _) = lines(&directory.path().join("source-10.sfrag"));
    assert_eq!(text, "event,source,time_ns,bytes,crc32\n5,10,77,9,cbf43926\n");
}

#[test]
fn times_that_are_no_nanoseconds_are_not_called_nanoseconds() {
    let directory = tempfile::tempdir().unwrap();
    let unit = TimeUnit::from_fraction(25, 16).unwrap();
    let time_base = Some(TimeBase { unit, epoch: "2026-01-01T00:00:00Z".parse().ok() });
    let options = WriterOptions {
        time_base,
        ..WriterOptions::new(RunNumber(1), NodeId::builder(0), SessionId(5), Timestamp(1))
    };
    let mut writer = EventFileWriter::create(directory.path(), options.clone()).unwrap();
    writer.write(&event(2, &[0]), &Verdict::accept()).unwrap();
    writer.finish().unwrap();
    assert_eq!(lines(directory.path()).0, "event,source,time,bytes,crc32\n2,0,2000,0,00000000\n");
    let found = crate::inspect::inspect(directory.path()).unwrap();
    assert_eq!(
        (found.times_ns, found.times.map(|times| times.first), found.first[0].time_ns),
        (None, Some(2_000), None)
    );
    let json = serde_json::to_value(&found).unwrap();
    let expected = serde_json::json!({
        "unit": "1.5625 ns", "unit_ns": [25, 16], "epoch": "2026-01-01T00:00:00Z", "epoch_ns": 1_767_225_600_000_000_000_u64,
    });
    assert_eq!(json["files"][0]["header"]["time_base"], expected);
    // A second file of the run whose times have another meaning.
    let other = WriterOptions { time_base: None, session: SessionId(6), ..options };
    let mut writer = EventFileWriter::create(directory.path(), other).unwrap();
    writer.write(&event(3, &[0]), &Verdict::accept()).unwrap();
    writer.finish().unwrap();
    let error = dump(directory.path(), &mut Vec::new()).unwrap_err().to_string();
    assert!(
        error.contains("1.5625 ns since 2026-01-01T00:00:00Z")
            && error.contains("1 ns since an unknown time"),
        "{error}"
    );
}

#[test]
fn streams_of_different_units_are_not_dumped_into_one_column() {
    let directory = tempfile::tempdir().unwrap();
    let unit = TimeUnit::from_fraction(1, 10).unwrap();
    for (source, time_base) in [(1, None), (2, Some(TimeBase { unit, epoch: None }))] {
        let source = SourceId(source);
        let header = StreamHeader { source, run: RunNumber(1), has_events: true, has_times: true, time_base };
        StreamWriter::create(&directory.path().join(file_name(source)), header, "{}")
            .unwrap()
            .finish()
            .unwrap();
    }
    let error = dump(directory.path(), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, DumpError::TimeBases { .. }), "{error}");
    let one = directory.path().join(file_name(SourceId(2)));
    assert_eq!(lines(&one).0, "event,source,time,bytes,crc32\n");
}
