//! Written files can be read: by libhdf5 through this crate, and by h5py where Python has it.

mod records;
mod replacing;

use super::*;
use crate::event_file::{EventFileWriter, WriterOptions};
use crate::hdf5_file::Reader;
use crate::testing::{bare, event, small_events, verdict};
use bytes::Bytes;
use hdf5_metno::File;
use proptest::prelude::*;
use sheaf_wire::{Event, NodeId, RunNumber, SessionId, TimeBase, TimeUnit, Timestamp, UtcTime};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: libhdf5 locks its files, and a process that another test starts inherits the lock for a moment.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(events: &[Event<Bytes>]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        metadata: r#"{"software":"sheaf test","tags":["muon","laser"],"stream":"default"}"#.to_owned(),
        ..WriterOptions::new(RunNumber(9), NodeId::builder(0), SessionId(5), Timestamp(1))
    };
    write(directory.path(), events, options);
    directory
}

fn write(directory: &Path, events: &[Event<Bytes>], options: WriterOptions) {
    let mut writer = EventFileWriter::create(directory, options).unwrap();
    for event in events {
        writer.write(event, &verdict(event)).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn unit_and_epoch_of_times_are_attributes_and_come_back() {
    let _alone = alone();
    let events = [crate::testing::event(3, &[2])];
    let unit = TimeUnit::from_fraction(25, 16).unwrap();
    for epoch in [None, "1969-12-31T23:59:59Z".parse().ok()] {
        let time_base = Some(TimeBase { unit, epoch });
        let directory = tempfile::tempdir().unwrap();
        let options = WriterOptions::new(RunNumber(9), NodeId::builder(0), SessionId(5), Timestamp(1));
        write(directory.path(), &events, WriterOptions { time_base, ..options });
        let target = directory.path().join("run.h5");
        export(directory.path(), None, &target, Compression::None).unwrap();
        {
            let file = File::open(&target).unwrap();
            assert_eq!(column::<u64>(&file, "events/time"), [3_000]);
            assert_eq!(column::<u64>(&file, "fragments/time"), [events[0].fragments[0].time.0]);
            let number = |name: &str| file.attr(name).unwrap().read_scalar::<u64>().unwrap();
            assert_eq!((number("time_unit_numerator"), number("time_unit_denominator")), (25, 16));
            let found = file.attr("epoch_ns").ok().map(|epoch| epoch.read_scalar::<i64>().unwrap());
            assert_eq!(found, epoch.map(UtcTime::nanos));
        }
        let reader = Reader::open(&target).unwrap();
        assert_eq!(reader.header().and_then(|header| header.time_base), time_base);
    }
}

/// Returns the events as a reader returns them, with the checksums of the writer.
fn with_checksums(events: &[Event<Bytes>]) -> Vec<Event<Bytes>> {
    let mut events = events.to_vec();
    for event in &mut events {
        for fragment in &mut event.fragments {
            fragment.event = event.id;
            fragment.checksum = Some(sheaf_wire::checksum::crc32c(&fragment.payload));
        }
    }
    events
}

fn column<T: hdf5_metno::H5Type>(file: &File, name: &str) -> Vec<T> {
    file.dataset(name).unwrap().read_raw().unwrap()
}

/// The pieces of a ragged column.
fn pieces(file: &File, offsets: &str, bytes: &str) -> Vec<Vec<u8>> {
    let (offsets, bytes) = (column::<u64>(file, offsets), column::<u8>(file, bytes));
    offsets.windows(2).map(|pair| bytes[pair[0] as usize..pair[1] as usize].to_vec()).collect()
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(24))]
    #[test]
    fn every_event_is_in_the_columns_as_it_was_stored(
        events in crate::testing::events(8).prop_map(|mut events| {
            // Of several with the same id a run without a manifest has the first.
            events.iter_mut().zip(0..).for_each(|(event, id)| event.id = sheaf_wire::EventId(id));
            events
        }),
        compressed in any::<bool>(),
    ) {
        let _alone = alone();
        let directory = run(&events);
        let target = directory.path().join("run.h5");
        let compression = if compressed { Compression::Deflate(1) } else { Compression::None };
        let summary = export(directory.path(), None, &target, compression).unwrap();
        prop_assert_eq!((summary.events, summary.damaged), (events.len() as u64, 0));
        let again: Vec<_> = Reader::open(&target).unwrap().map(|stored| bare(stored.unwrap())).collect();
        prop_assert_eq!(again, with_checksums(&events));
        let file = File::open(&target).unwrap();
        let of = |take: fn(&Event<Bytes>) -> u64| events.iter().map(take).collect::<Vec<_>>();
        prop_assert_eq!(column::<u64>(&file, "events/id"), of(|event| event.id.0));
        prop_assert_eq!(column::<u64>(&file, "events/time_ns"), of(|event| event.time.0));
        prop_assert_eq!(column::<u64>(&file, "events/tags"), of(|event| verdict(event).tags.0));
        prop_assert_eq!(column::<u64>(&file, "events/sequence"), (0..events.len() as u64).collect::<Vec<_>>());
        let narrow: Vec<u16> = events.iter().map(|event| event.trigger_type.0).collect();
        prop_assert_eq!(column::<u16>(&file, "events/trigger_type"), narrow);
        let verdicts: Vec<_> = events.iter().map(|event| verdict(event).payload.to_vec()).collect();
        prop_assert_eq!(pieces(&file, "events/verdict_offsets", "events/verdicts"), verdicts);
        let fragments = || events.iter().flat_map(|event| &event.fragments);
        let sources: Vec<u32> = fragments().map(|fragment| fragment.source.0).collect();
        prop_assert_eq!(column::<u32>(&file, "fragments/source"), sources);
        let payloads: Vec<_> = fragments().map(|fragment| fragment.payload.to_vec()).collect();
        prop_assert_eq!(pieces(&file, "fragments/payload_offsets", "fragments/payloads"), payloads);
        let offsets = column::<u64>(&file, "events/fragment_offsets");
        let counts: Vec<_> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect();
        prop_assert_eq!(counts, events.iter().map(|event| event.fragments.len()).collect::<Vec<_>>());
        let processed: Vec<u8> = fragments().map(|fragment| u8::from(fragment.processed)).collect();
        prop_assert_eq!(column::<u8>(&file, "fragments/processed"), processed);
        let marks: Vec<u32> = fragments().map(|fragment| fragment.mark.to_flags()).collect();
        prop_assert_eq!(column::<u32>(&file, "fragments/number_mark"), marks);
        let reasons: Vec<u8> =
            events.iter().flat_map(|event| &event.missing).map(|missing| missing.reason.code()).collect();
        prop_assert_eq!(column::<u8>(&file, "missing/reason"), reasons);
    }
}

#[test]
fn columns_longer_than_a_chunk_are_whole() {
    let _alone = alone();
    let events: Vec<_> = (0..40).map(|id| event(id, &[20_000, 1])).collect();
    let directory = run(&events);
    let target = directory.path().join("run.h5");
    let summary = export(directory.path(), None, &target, Compression::Deflate(1)).unwrap();
    assert_eq!((summary.fragments, summary.payload_bytes), (80, 40 * 20_001));
    let file = File::open(&target).unwrap();
    let payloads: Vec<_> =
        events.iter().flat_map(|event| &event.fragments).map(|fragment| fragment.payload.to_vec()).collect();
    assert!(pieces(&file, "fragments/payload_offsets", "fragments/payloads") == payloads);
    assert!(target.metadata().unwrap().len() < 40 * 20_001, "it is compressed");
}

#[test]
fn a_file_that_is_there_is_not_overwritten_and_none_is_left_half() {
    let _alone = alone();
    let directory = run(&small_events());
    let target = directory.path().join("run.h5");
    fs::write(&target, "precious").unwrap();
    let refused = export(directory.path(), None, &target, Compression::None);
    assert!(matches!(refused, Err(ExportError::Exists { .. })));
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    let nowhere = directory.path().join("no/such/run.h5");
    assert!(matches!(
        export(directory.path(), None, &nowhere, Compression::None),
        Err(ExportError::Hdf5 { .. })
    ));
    let drafts = fs::read_dir(directory.path()).unwrap().filter_map(Result::ok);
    assert!(drafts.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains("draft")));
}

/// With h5py and nothing else: the example of the page.
#[test]
fn h5py_reads_it_as_the_page_says() {
    let _alone = alone();
    let python = std::env::var("SHEAF_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let probe = Command::new(&python).args(["-c", "import h5py"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {python} has no h5py; name another with SHEAF_PYTHON");
        return;
    }
    let directory = run(&small_events());
    let target = directory.path().join("run.h5");
    export(directory.path(), None, &target, Compression::Deflate(4)).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/hdf5.md");
    let page = fs::read_to_string(page).unwrap();
    let scripts: Vec<&str> =
        page.split("```python\n").skip(1).map(|rest| &rest[..rest.find("```").unwrap()]).collect();
    let run = |script: &str, target: &Path| {
        let output = Command::new(&python).arg("-c").arg(script).arg(target).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8(output.stdout).unwrap(), errors)
    };
    let (printed, errors) = run(scripts[0], &target);
    let lines: Vec<String> = small_events()
        .iter()
        .map(|event| {
            let said = verdict(event);
            format!(
                "{} {} tags {} verdict {}\n",
                event.id,
                event.payload_bytes(),
                said.tags.0,
                said.payload.len()
            )
        })
        .collect();
    assert_eq!(printed, lines.concat(), "{errors}");
    let (printed, errors) = run(scripts[1], &target);
    assert_eq!(printed, "", "{errors}");
    let with_records = records::run_with_records(&records::records());
    let target = with_records.path().join("run.h5");
    export(with_records.path(), None, &target, Compression::Deflate(4)).unwrap();
    let (printed, errors) = run(scripts[1], &target);
    let expected = "end of source 1 7.cfg 15\nslow_control of source 2  2\nbegin of source 0 nul\0 \u{e9} 0\nend of source 1 large 307200\n";
    assert_eq!(printed, expected, "{errors}");
}
