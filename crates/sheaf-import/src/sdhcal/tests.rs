//! From synthetic LCIO files to streams.

use super::testing::{Collection, EventFile, Object};
use super::*;
use crate::report::SourceGaps;
use crate::{Format, ImportOptions};
use sheaf_store::fragment_stream::StreamReader;
use std::fs;

/// A readout board's buffer as of 2014: six words and `data`.
fn buffer(readout: u32, dif: u32, data: &[u32]) -> Object {
    let bytes = 4 * (6 + data.len() as u32) - 1;
    Object::of_ints(&[&[0x6064_d498, readout, readout, readout, dif, bytes], data].concat())
}

/// An I2O message as of 2012.
fn message(readout: u32, super_fragment: u32, block: u32, last_word: u32) -> Object {
    let mut words = [0; 30];
    words[0] = 30 << 16;
    words[1] = 0xff03_301e;
    (words[8], words[10], words[15], words[23]) = (readout, block, super_fragment, last_word);
    Object::of_ints(&words)
}

fn file(events: &[(i32, i64, Vec<Object>)]) -> Vec<u8> {
    let mut file = EventFile::default();
    for (index, (run, time, objects)) in events.iter().enumerate() {
        let collection = Collection { objects: objects.clone(), ..Collection::default() };
        file.event(*run, index as i32, *time, &collection);
    }
    file.finish()
}

struct Trial {
    folder: tempfile::TempDir,
    files: Vec<PathBuf>,
}

impl Trial {
    fn new(contents: &[Vec<u8>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = contents.iter().enumerate().map(|(index, bytes)| {
            let path = folder.path().join(format!("{index}.slcio"));
            fs::write(&path, bytes).unwrap();
            path
        });
        let files = files.collect();
        Self { folder, files }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn import(&self, force: bool) -> Result<ImportReport, ImportError> {
        let options = ImportOptions { force, progress: |_| {}, ..ImportOptions::default() };
        crate::import(Format::Sdhcal, &self.files, &self.out(), &options)
    }

    fn fragments(&self, source: u32) -> Vec<(u64, u64, Vec<u8>)> {
        let stream = StreamReader::open(&self.out().join(format!("source-{source}.sfrag"))).unwrap();
        stream
            .map(Result::unwrap)
            .map(|fragment| (fragment.event.0, fragment.time.0, fragment.payload.to_vec()))
            .collect()
    }
}

fn little_endian(object: &Object) -> Vec<u8> {
    object.ints.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn each_source_gets_its_fragments_in_the_order_of_the_files() {
    let first = [buffer(2, 125, &[1, 2, 3]), buffer(2, 16, &[])];
    let second = [buffer(1, 125, &[9]), buffer(1, 16, &[8])];
    let trial = Trial::new(&[
        file(&[(5, 1_433_610_482, first.to_vec())]),
        file(&[(5, 1_433_610_483, second.to_vec())]),
    ]);
    let report = trial.import(false).unwrap();
    assert_eq!((report.run, report.sources, report.events, report.fragments), (5, 2, 2, 4));
    assert_eq!((report.events_incomplete, report.fragments_repeated), (0, 0));
    let expected = [
        (2, 1_433_610_482_000_000_000, little_endian(&first[0])),
        (1, 1_433_610_483_000_000_000, little_endian(&second[0])),
    ];
    assert_eq!(trial.fragments(125), expected);
}

#[test]
fn a_readout_without_a_source_is_reported_and_a_repeated_fragment_kept() {
    let events = [
        (5, 0, vec![buffer(1, 10, &[]), buffer(1, 11, &[])]),
        (5, 0, vec![buffer(2, 10, &[]), buffer(2, 10, &[7])]),
    ];
    let trial = Trial::new(&[file(&events)]);
    let report = trial.import(false).unwrap();
    assert_eq!((report.events, report.events_incomplete, report.fragments_repeated), (2, 1, 1));
    assert_eq!(report.missing, [SourceGaps { source: 11, events: 1 }]);
    assert_eq!(trial.fragments(10).len(), 3);
}

#[test]
fn the_layout_of_2012_gives_the_board_and_what_is_no_board_a_number_of_its_own() {
    let objects = vec![message(3, 0, 0, 0x5000_0003), message(3, 1, 2, 0x66b0_0000), message(3, 4, 5, 0)];
    let trial = Trial::new(&[file(&[(7, 0, objects)])]);
    trial.import(false).unwrap();
    for source in [65_536, 0x66, 5 * 65_536 + 5] {
        assert_eq!(trial.fragments(source)[0].0, 3, "source {source}");
    }
}

#[test]
fn files_of_two_runs_are_refused_before_anything_is_written() {
    let trial = Trial::new(&[5, 6].map(|run| file(&[(run, 0, vec![buffer(1, 1, &[])])])));
    let error = trial.import(false).unwrap_err();
    assert!(matches!(error, ImportError::DifferentRuns { first_run: 5, other_run: 6, .. }), "{error}");
    assert!(!trial.out().exists());
}

#[test]
fn an_import_that_fails_leaves_nothing() {
    let good = file(&[(5, 0, vec![buffer(1, 1, &[])])]);
    let odd = file(&[(5, 0, vec![buffer(1, 1, &[])]), (5, 0, vec![Object::of_ints(&[0; 40])])]);
    let trial = Trial::new(&[good.clone(), good[..good.len() - 60].to_vec()]);
    assert!(matches!(trial.import(false), Err(ImportError::Slcio { .. })));
    assert!(!trial.out().exists());

    let trial = Trial::new(&[odd]);
    fs::create_dir(trial.out()).unwrap();
    let error = trial.import(false).unwrap_err();
    assert!(matches!(error, ImportError::Object { event: 1, object: 0, .. }), "{error}");
    assert_eq!(fs::read_dir(trial.out()).unwrap().count(), 0);
}

#[test]
fn an_existing_import_is_replaced_only_by_force() {
    let trial = Trial::new(&[file(&[(5, 0, vec![buffer(1, 1, &[])])])]);
    fs::create_dir(trial.out()).unwrap();
    fs::write(trial.out().join("source-9.sfrag"), "of an older import").unwrap();
    fs::write(trial.out().join("notes.txt"), "kept").unwrap();
    assert!(matches!(trial.import(false), Err(ImportError::OutputNotEmpty { .. })));
    assert!(trial.out().join("source-9.sfrag").exists());
    trial.import(true).unwrap();
    let mut names: Vec<_> = fs::read_dir(trial.out())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["notes.txt", "source-1.sfrag"]);
}

#[test]
fn a_file_that_is_not_lcio_or_holds_no_raw_data_is_called_so() {
    let trial = Trial::new(&[b"SIMPLE  =                    T".to_vec()]);
    let error = trial.import(false).unwrap_err().to_string();
    assert!(error.contains("0.slcio") && error.contains("not an LCIO file"), "{error}");

    let trial = Trial::new(&[file(&[])]);
    assert!(matches!(trial.import(false), Err(ImportError::NoEvents { .. })));

    let mut trial = Trial::new(&[]);
    assert!(matches!(trial.import(false), Err(ImportError::NoFiles)));
    trial.files.push(trial.folder.path().join("absent"));
    let error = trial.import(false).unwrap_err().to_string();
    assert!(error.contains("absent"), "{error}");
}

#[test]
fn an_option_of_another_format_is_refused() {
    let options = ImportOptions { with_counters: true, ..ImportOptions::default() };
    let files = [PathBuf::from("f")];
    let error = crate::import(Format::Sdhcal, &files, Path::new("d"), &options).unwrap_err();
    assert_eq!(error.to_string(), "option with-counters is for format lst1 only, not for sdhcal");
}

#[test]
fn seconds_and_nanoseconds_are_told_apart() {
    assert_eq!(time_of(1_433_610_482), Timestamp(1_433_610_482_000_000_000));
    assert_eq!(time_of(1_433_610_482_000_000_001), Timestamp(1_433_610_482_000_000_001));
    assert_eq!(time_of(-1), Timestamp::ZERO);
}
