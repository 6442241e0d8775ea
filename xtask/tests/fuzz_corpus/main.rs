//! The committed fuzz inputs, on any toolchain: each is given to its parser, and the seeds among them are what
//! `seeds` makes today.

mod seeds;

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "a library there, a module here")]
mod targets;

use std::collections::BTreeMap;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// All corpora together stay small enough to be cloned without a thought.
const CORPORA_BYTES_MAX: u64 = 1 << 20;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The inputs of a target by file name.
fn corpus(target: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = fuzz_folder().join("corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let read = |path: PathBuf| {
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        (name, fs::read(path).expect("a committed file can be read"))
    };
    entries.map(|entry| read(entry.expect("a committed folder can be listed").path())).collect()
}

#[test]
fn every_committed_input_is_read_without_a_panic() {
    let mut broken = Vec::new();
    for (target, body) in targets::TARGETS {
        let inputs = corpus(target);
        assert!(inputs.len() >= 16, "{target} has {} inputs", inputs.len());
        for (name, bytes) in &inputs {
            if catch_unwind(|| body(bytes)).is_err() {
                broken.push(format!("fuzz/corpus/{target}/{name}"));
            }
        }
        println!("{target}: {} inputs", inputs.len());
    }
    assert!(broken.is_empty(), "these inputs break their parser: {}", broken.join(", "));
}

/// Every target has its libFuzzer program, and no program is without a target.
#[test]
fn targets_and_programs_and_corpora_are_the_same_list() {
    let list = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(fuzz_folder().join(folder)).expect("a committed folder can be listed");
        let stem =
            |path: PathBuf| path.file_stem().expect("an entry has a name").to_string_lossy().into_owned();
        let mut names: Vec<_> = entries.map(|entry| stem(entry.expect("as above").path())).collect();
        names.sort();
        names
    };
    let names: Vec<_> = targets::TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(list("fuzz_targets"), names);
    assert_eq!(list("corpus"), names);
}

/// Seeds whose format has changed are no longer valid inputs, and a corpus of invalid inputs tries little.
#[test]
fn seeds_are_what_the_formats_are_today() {
    for (target, _) in targets::TARGETS {
        let expected = seeds::of(target);
        if std::env::var_os("UPDATE_SEEDS").is_some() {
            write_seeds(target, &expected);
        }
        let committed = corpus(target);
        let committed: BTreeMap<_, _> =
            committed.into_iter().filter(|(name, _)| name.starts_with(seeds::PREFIX)).collect();
        let is_same = committed == expected;
        assert!(is_same, "the seeds of {target} are out of date: cargo xtask fuzz-seeds");
    }
}

fn write_seeds(target: &str, seeds: &BTreeMap<String, Vec<u8>>) {
    let folder = fuzz_folder().join("corpus").join(target);
    fs::create_dir_all(&folder).expect("the corpus can be written");
    for name in corpus(target).into_keys().filter(|name| name.starts_with(seeds::PREFIX)) {
        fs::remove_file(folder.join(name)).expect("an old seed can be removed");
    }
    for (name, bytes) in seeds {
        fs::write(folder.join(name), bytes).expect("the corpus can be written");
    }
}

#[test]
fn the_corpora_are_small() {
    let bytes: usize =
        targets::TARGETS.iter().flat_map(|(target, _)| corpus(target).into_values()).map(|b| b.len()).sum();
    assert!(bytes as u64 <= CORPORA_BYTES_MAX, "{bytes} bytes: cargo xtask fuzz-shrink");
}
