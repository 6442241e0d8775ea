//! Inspection of known files.

use super::*;
use crate::event_file::{EventFileWriter, WriterOptions};
use crate::fragment_stream::{StreamHeader, StreamWriter};
use crate::testing::small_events;
use sheaf_wire::{EventId, NodeId, NumberMark, RunNumber, SessionId, SourceId, Tags, Timestamp, Verdict};

#[test]
fn an_event_file_is_summed_up() {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        metadata: r#"{"software":"sheaf test","tags":["muon"]}"#.to_owned(),
        ..WriterOptions::new(RunNumber(4), NodeId::builder(1), SessionId(0xfe), Timestamp(1))
    };
    let mut writer = EventFileWriter::create(directory.path(), options).unwrap();
    for event in small_events() {
        let tags = Tags(1 | ((event.id.0 % 2) << 63));
        writer.write(&event, &Verdict::accept().with_tags(tags).with_payload(vec![7; 3])).unwrap();
    }
    writer.finish().unwrap();
    for path in [writer.path(), directory.path()] {
        let found = inspect(path).unwrap();
        assert_eq!((found.events, found.events_incomplete, found.fragments, found.defects), (4, 1, 5, 0));
        assert_eq!(found.event_bytes, Some(Sizes { min: 0, mean: 5.25, max: 12 }));
        assert_eq!(found.fragment_bytes, Some(Sizes { min: 0, mean: 4.2, max: 12 }));
        let tag = |tag: &str, events| TagInfo { tag: tag.to_owned(), events };
        assert_eq!(
            (&found.tags[..], found.verdict_bytes),
            (&[tag("muon", 4), tag("quarantined", 2)][..], 12)
        );
        assert_eq!(found.ids, Some(IdRange { first: 10, last: 13 }));
        assert_eq!(found.times_ns, Some(TimeRange { first: 10_000, last: 13_000 }));
        let sources: Vec<_> =
            found.sources.iter().map(|s| (s.source, s.fragments, s.bytes, s.missing)).collect();
        assert_eq!(sources, [(0, 3, 20, 1), (1, 2, 1, 1), (9, 0, 0, 1)]);
        let ids: Vec<_> = found.sources.iter().map(|s| s.ids.map(|ids| (ids.first, ids.last))).collect();
        assert_eq!(ids, [Some((10, 13)), Some((10, 12)), None]);
        let shown: Vec<_> = found.first.iter().map(|shown| (shown.event, shown.missing)).collect();
        assert_eq!(shown, [(10, 0), (11, 2), (13, 0), (12, 1)]);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["files"][0]["metadata"]["software"], "sheaf test");
        assert_eq!(json["files"][0]["header"]["session"], "00000000000000fe");
    }
}

#[test]
fn a_stream_without_ids_has_no_id_range() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("source-3.sfrag");
    let header = StreamHeader {
        source: SourceId(3),
        run: RunNumber(4),
        has_events: false,
        has_times: true,
        time_base: None,
    };
    let mut writer = StreamWriter::create(&path, header, "not JSON").unwrap();
    for time in [20, 10] {
        let fragment = Fragment {
            event: EventId(0),
            source: SourceId(3),
            time: Timestamp(time),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: [1, 2],
        };
        writer.append(&fragment).unwrap();
    }
    drop(writer);
    let found = inspect(directory.path()).unwrap();
    assert_eq!((found.kind, found.events, found.fragments), (Kind::StreamDirectory, 0, 2));
    assert_eq!((found.ids, found.times_ns), (None, Some(TimeRange { first: 10, last: 20 })));
    assert_eq!((found.files[0].finished, found.defects), (false, 1));
    assert_eq!(found.files[0].metadata, "not JSON");
}
