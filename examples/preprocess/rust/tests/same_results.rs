//! The example preprocessor makes the same in both languages, and nothing that reaches the threshold is lost.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop where it cannot go on; one that is skipped says why"
)]

use proptest::prelude::*;
use sheaf_filter::{
    EventId, LibraryPreprocessor, OpenError, Preprocessor, Processed, RawFragment, Setup, SourceId, Timestamp,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use zero_suppression::expand;

const THRESHOLD: u16 = 200;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo puts this package's shared library: beside its tests.
fn rust_library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libzero_suppression.so")
}

fn c_library() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BUILT.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libzero_suppression.so");
        let output = Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-shared", "-fPIC", "-o"])
            .arg(&path)
            .arg("-I")
            .arg(folder().join("../../crates/sheaf-capi/include"))
            .arg(folder().join("c/zero_suppression.c"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (directory, path)
    });
    path
}

fn open(path: &Path, parameters: &str) -> Result<LibraryPreprocessor, OpenError> {
    let setup = Setup { parameters: parameters.into(), ..Setup::default() };
    LibraryPreprocessor::open(path, "sheaf_preprocessor", &setup)
}

fn both() -> [LibraryPreprocessor; 2] {
    let parameters = format!("threshold={THRESHOLD}");
    [open(&rust_library(), &parameters).unwrap(), open(c_library(), &parameters).unwrap()]
}

/// The new payload; `None` where the fragment is kept.
fn process(preprocessor: &mut LibraryPreprocessor, payload: &[u8]) -> Option<Vec<u8>> {
    let raw = RawFragment { event: EventId(1), source: SourceId(2), time: Timestamp(3), payload };
    let mut room = vec![0; payload.len()];
    match preprocessor.process(&raw, &mut room).unwrap() {
        Processed::Kept => None,
        Processed::Written(bytes) => Some(room[..bytes].to_vec()),
    }
}

/// Processes a payload in both languages and says what became of it, which was checked.
fn check(preprocessors: &mut [LibraryPreprocessor; 2], payload: &[u8]) -> Option<Vec<u8>> {
    let [rust, c] = preprocessors;
    let made = process(rust, payload);
    assert_eq!(process(c, payload), made, "Rust and C make the same");
    if let Some(made) = &made {
        assert!(made.len() < payload.len(), "what is made is smaller");
        let high = |bytes: &[u8; 2]| Some(u16::from_le_bytes(*bytes)).filter(|it| *it >= THRESHOLD);
        let expected: Vec<u16> = payload.as_chunks().0.iter().map(|bytes| high(bytes).unwrap_or(0)).collect();
        assert_eq!(expand(made), Some(expected), "all that reaches the threshold is in its place");
    }
    made
}

proptest! {
    #[test]
    fn what_reaches_the_threshold_is_in_its_place_in_both_languages(
        quiet in prop::collection::vec((0_u16..THRESHOLD, 0_usize..40, 0_u16..400, 0_usize..6), 0..12),
        odd: bool,
    ) {
        let mut payload: Vec<u8> = Vec::new();
        for (low, lows, any, anys) in quiet {
            payload.extend(std::iter::repeat_n(low.to_le_bytes(), lows).flatten());
            payload.extend(std::iter::repeat_n(any.to_le_bytes(), anys).flatten());
        }
        if odd {
            payload.push(1);
        }
        let made = check(&mut both(), &payload);
        prop_assert!(!odd || made.is_none(), "what has no whole samples is kept");
    }
}

#[test]
fn a_quiet_waveform_with_one_pulse_shrinks_to_the_pulse() {
    let mut samples = [7_u16; 560];
    samples[100..110].fill(900);
    let payload: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let made = check(&mut both(), &payload).unwrap();
    assert_eq!(made.len(), 4 + 8 + 20);
}

#[test]
fn bytes_of_a_real_detector_come_out_alike() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/vmm3a_srs/example.pcapng");
    let Ok(bytes) = std::fs::read(&file) else {
        println!("skipped: {} is not there", file.display());
        return;
    };
    let mut preprocessors = both();
    let (mut processed, mut kept) = (0, 0);
    for payload in bytes.chunks(1_500).take(2_000) {
        match check(&mut preprocessors, payload) {
            Some(_) => processed += 1,
            None => kept += 1,
        }
    }
    println!("{processed} pieces of 1,500 bytes got smaller, {kept} did not");
    assert!(processed + kept > 100);
}

#[test]
fn a_wrong_threshold_is_refused_in_the_same_words() {
    for parameters in ["", "threshold=", "threshold=65536", "threshold=1 more", "level=3"] {
        for library in [&rust_library(), c_library()] {
            let error = open(library, parameters).unwrap_err().to_string();
            let right = "`preprocessing.parameters` should be like \"threshold=200\"";
            assert!(error.ends_with(right), "{parameters:?}: {error}");
        }
    }
}
