//! Helpers of the tests on real data.

use flate2::read::GzDecoder;
use sheaf_import::{Format, ImportError, ImportOptions, ImportReport, import};
use sheaf_store::fragment_stream::{Ending, StreamReader};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Returns the folder of a data set. If it is absent, prints the reason and returns `None`.
pub(crate) fn data(set: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SHEAF_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let folder = root.join(set);
    if !folder.is_dir() {
        println!("skipped: no detector data in {}", folder.display());
        return None;
    }
    Some(folder)
}

/// True values of a fragment; CRC-32 is that of IEEE 802.3.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Truth {
    pub(crate) event: u64,
    pub(crate) source: u32,
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// An imported fragment, the payload reduced to its size and CRC-32.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) event: u64,
    pub(crate) time_ns: u64,
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// An import, read back.
pub(crate) struct Imported {
    pub(crate) report: ImportReport,
    /// The fragments of each source, in the order of its stream.
    pub(crate) sources: BTreeMap<u32, Vec<Found>>,
}

impl Imported {
    fn read(directory: &Path, report: ImportReport) -> Self {
        let mut sources = BTreeMap::new();
        for entry in fs::read_dir(directory).unwrap() {
            let mut stream = StreamReader::open(&entry.unwrap().path()).unwrap();
            assert_eq!(stream.header().run.0, report.run);
            let source = stream.header().source.0;
            let fragments: Vec<Found> = stream
                .by_ref()
                .map(Result::unwrap)
                .map(|fragment| Found {
                    event: fragment.event.0,
                    time_ns: fragment.time.0,
                    bytes: fragment.payload.len() as u64,
                    crc32: crc32fast::hash(&fragment.payload),
                })
                .collect();
            assert_eq!(stream.ending(), Some(Ending::Trailer));
            assert!(sources.insert(source, fragments).is_none(), "two streams of source {source}");
        }
        let imported = Self { report, sources };
        imported.assert_report_counts_what_is_there();
        imported
    }

    pub(crate) fn fragment(&self, source: u32, event: u64) -> &Found {
        self.sources[&source].iter().find(|fragment| fragment.event == event).expect("the fragment is there")
    }

    /// Checks that every fragment of the reference occurs exactly once, and no other.
    pub(crate) fn assert_is_exactly(&self, truth: impl Iterator<Item = Truth>) {
        let found = self.sources.iter().flat_map(|(&source, fragments)| {
            fragments.iter().map(move |fragment| Truth {
                event: fragment.event,
                source,
                bytes: fragment.bytes,
                crc32: fragment.crc32,
            })
        });
        assert_same(found.collect(), truth.collect());
    }

    /// Checks that every (event, size, CRC-32) occurs as often as in the reference, and no other. For a reference without sources.
    pub(crate) fn assert_has_exactly_the_payloads(&self, truth: impl Iterator<Item = (u64, u64, u32)>) {
        let found = self.sources.values().flatten();
        let found = found.map(|fragment| (fragment.event, fragment.bytes, fragment.crc32));
        assert_same(found.collect(), truth.collect());
    }

    fn assert_report_counts_what_is_there(&self) {
        let fragments = || self.sources.values().flatten();
        assert_eq!(self.report.sources, self.sources.len() as u64);
        assert_eq!(self.report.fragments, fragments().count() as u64);
        assert_eq!(self.report.bytes, fragments().map(|fragment| fragment.bytes).sum::<u64>());
    }
}

fn assert_same<T: Ord + Debug>(mut found: Vec<T>, mut expected: Vec<T>) {
    assert!(!expected.is_empty(), "the truth is empty");
    found.sort();
    expected.sort();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

/// Imports into a directory of its own. If Python or a package is absent, prints the reason and returns `None`. Any other failure
/// fails the test.
pub(crate) fn import_or_skip(format: Format, files: &[PathBuf]) -> Option<Imported> {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("out");
    match import(format, files, &directory, &quiet()) {
        Ok(report) => {
            assert_eq!(report.output, directory);
            Some(Imported::read(&directory, report))
        }
        Err(error) => {
            skip_or_fail(error);
            None
        }
    }
}

/// The error of an import that must fail, or `None` and a printed reason where Python or a package is absent.
pub(crate) fn refused_or_skip(format: Format, files: &[PathBuf]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("out");
    let error = import(format, files, &directory, &quiet()).expect_err("the import must be refused");
    assert!(!directory.exists(), "something was left behind");
    match error {
        ImportError::MissingPackage { .. } | ImportError::NoPython { .. } => {
            skip_or_fail(error);
            None
        }
        error => Some(error.to_string()),
    }
}

fn skip_or_fail(error: ImportError) {
    match error {
        ImportError::MissingPackage { .. } | ImportError::NoPython { .. } => println!("skipped: {error}"),
        error => panic!("{error}"),
    }
}

fn quiet() -> ImportOptions {
    ImportOptions { progress: |_| {}, ..ImportOptions::default() }
}

/// A row of a truth file.
pub(crate) struct Row(BTreeMap<String, String>);

impl Row {
    pub(crate) fn text(&self, column: &str) -> &str {
        &self.0[column]
    }

    pub(crate) fn number<T: FromStr<Err: Debug>>(&self, column: &str) -> T {
        self.text(column).parse().unwrap()
    }

    pub(crate) fn hex(&self, column: &str) -> u32 {
        u32::from_str_radix(self.text(column), 16).unwrap()
    }
}

/// The rows of a gzipped truth file. Its values have no quotes and no commas.
pub(crate) fn truth(path: &Path) -> Vec<Row> {
    let mut text = String::new();
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().expect("a head line").split(',').collect();
    let row = |line: &str| {
        let values: Vec<&str> = line.split(',').collect();
        assert_eq!(values.len(), columns.len(), "{line}");
        Row(columns
            .iter()
            .zip(values)
            .map(|(column, value)| ((*column).to_owned(), value.to_owned()))
            .collect())
    };
    lines.map(row).collect()
}
