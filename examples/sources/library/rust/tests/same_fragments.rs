//! The example libraries in both languages give the same fragments.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

use sheaf_filter::{ByteCount, LibrarySource, OpenError, PollEnd, PollSetup, RunNumber, SourceId};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts this package's shared library: beside its tests.
fn rust_library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libramp.so")
}

fn c_library(directory: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = directory.join("libramp.so");
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-shared", "-fPIC", "-o"])
        .arg(&path)
        .arg("-I")
        .arg(folder.join("../../../crates/sheaf-capi/include"))
        .arg(folder.join("c/ramp.c"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

fn open(path: &Path, parameters: &str) -> Result<LibrarySource, OpenError> {
    let setup = PollSetup {
        run: RunNumber(1),
        parameters: parameters.into(),
        sources: vec![SourceId(3), SourceId(9)],
        max_fragment: ByteCount(20_000),
        batch_fragments: 7,
    };
    LibrarySource::open(path, "sheaf_source", &setup)
}

/// Event, time, source and payload of a fragment.
type Copied = (u64, u64, u32, Vec<u8>);

/// Everything that a library gives, batch by batch.
fn fragments(mut library: LibrarySource) -> Vec<Vec<Copied>> {
    let mut batches = Vec::new();
    library.start();
    loop {
        let end = library.poll().unwrap();
        let fragments = (0..).map_while(|at| library.fragment(at));
        let copy = |it: sheaf_filter::PolledFragment<'_>| {
            (it.event.0, it.time.0, it.source.0, it.payload.unwrap().to_vec())
        };
        batches.push(fragments.map(copy).collect());
        if end == PollEnd::Ended {
            library.stop();
            return batches;
        }
        assert_eq!(end, PollEnd::More);
    }
}

#[test]
fn both_languages_give_the_same_fragments() {
    let directory = tempfile::tempdir().unwrap();
    for parameters in ["events=100 samples=64", "events=4 samples=9999", "events=5 samples=0"] {
        let both = [rust_library(), c_library(directory.path())];
        let [rust, c] = both.map(|path| fragments(open(&path, parameters).unwrap()));
        assert_eq!(rust, c);
        let first = &rust[0][1];
        assert_eq!((first.0, first.2), (0, 9));
        assert!(first.3.is_empty() || first.3[..4] == [9, 0, 10, 0]);
        assert_eq!(rust.iter().map(Vec::len).max(), Some(6), "three events of two sources fit");
    }
}

#[test]
fn wrong_parameters_are_refused_in_the_same_words() {
    let directory = tempfile::tempdir().unwrap();
    for parameters in ["", "events=1", "events=1 samples=", "events=1 samples=3 more"] {
        for library in [rust_library(), c_library(directory.path())] {
            let error = open(&library, parameters).unwrap_err().to_string();
            let right = "`source.library.parameters` should be like \"events=1000 samples=64\"";
            assert!(error.ends_with(right), "{parameters:?}: {error}");
        }
    }
}
