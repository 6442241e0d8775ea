//! Shifts of sources: what the manifest and the files say about them.

use super::*;
use crate::dump::{RECORDS_HEADER, dump_records};
use crate::inspect::inspect;
use serde_json::json;
use sheaf_wire::shift_record::ShiftRecord;
use sheaf_wire::testing::shift_record;

/// A run whose only file has these records of shifts.
fn run_with(shifts: &[ShiftRecord]) -> (TempDir, Manifest) {
    let (directory, mut manifest) = run();
    let options = WriterOptions {
        records: shifts.iter().zip(7..).map(|(shift, time)| shift.to_run_record(Timestamp(time))).collect(),
        ..WriterOptions::new(RunNumber(1), NodeId::builder(2), SessionId(5), Timestamp(1))
    };
    EventFileWriter::create(directory.path(), options).unwrap().finish().unwrap();
    manifest.sessions.push(SessionRecord {
        node: NodeId::builder(2),
        session: SessionId(5),
        committed: 0,
        void: Vec::new(),
        sealed: true,
    });
    manifest.ledger["shifts"] = json!([{
        "source": 2, "quantity": "trigger", "first_event": 5_000, "shift": -1, "repaired_from_event": 5_116,
    }]);
    manifest.write(directory.path()).unwrap();
    (directory, manifest)
}

#[test]
fn the_shifts_of_the_manifest_are_in_the_files_with_what_became_known_last() {
    let (directory, mut manifest) = run_with(&[shift_record(0, None), shift_record(0, Some(5_116))]);
    assert_eq!(problems(directory.path()), [""; 0]);
    for (key, value) in [
        ("source", json!(3)),
        ("quantity", json!("time")),
        ("first_event", json!(4_999)),
        ("shift", json!(1)),
        ("repaired_from_event", json!(null)),
    ] {
        let good = manifest.ledger.clone();
        manifest.ledger["shifts"][0][key] = value;
        manifest.write(directory.path()).unwrap();
        let told = problems(directory.path());
        assert_eq!(told.len(), 2, "{key}: {told:?}");
        assert!(told[0].starts_with("no file has a record of the shift"), "{told:?}");
        assert!(told[1].starts_with("files have a record of the shift"), "{told:?}");
        manifest.ledger = good;
    }
    manifest.ledger["shifts"] = json!([]);
    manifest.write(directory.path()).unwrap();
    assert_eq!(problems(directory.path()).len(), 1);
}

#[test]
fn a_shift_that_no_file_has_is_told() {
    let (directory, _) = run_with(&[]);
    assert!(problems(directory.path())[0].starts_with("no file has a record of the shift"));
}

#[test]
fn a_record_that_is_no_shift_is_told_with_its_number() {
    let mut record = shift_record(0, None).to_run_record(Timestamp(7));
    record.content = bytes::Bytes::from_static(b"short");
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        records: [record.clone()].into(),
        ..WriterOptions::new(RunNumber(1), NodeId::builder(2), SessionId(5), Timestamp(1))
    };
    let mut writer = EventFileWriter::create(directory.path(), options).unwrap();
    writer.finish().unwrap();
    let told = problems(writer.path());
    assert!(told[0].starts_with(&format!("run record {}: ", record.number)), "{told:?}");
}

#[test]
fn one_file_says_from_where_on_and_by_how_much_a_source_was_off() {
    let (directory, _) = run_with(&[shift_record(0, None), shift_record(0, Some(5_116))]);
    let inspection = inspect(directory.path()).unwrap();
    let [found] = &inspection.shifts[..] else { panic!("one shift: {:?}", inspection.shifts) };
    assert_eq!((found.source, found.first_event, found.shift), (2, 5_000, -1));
    assert_eq!((found.repaired_from_event, found.policy), (Some(5_116), "repair"));
    let mut out = Vec::new();
    assert_eq!(dump_records(directory.path(), &mut out).unwrap().lines, 2);
    let content =
        |repaired: &str, flag: u8| format!("8813000000000000ffffffffffffffff{repaired}00000000010{flag}0000");
    let expected = format!(
        "{RECORDS_HEADER}\n\
         shift,2,7,\"trigger\",32,{},5000,-1,\n\
         shift,2,8,\"trigger\",32,{},5000,-1,5116\n",
        content("0000000000000000", 0),
        content("fc13000000000000", 1),
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
