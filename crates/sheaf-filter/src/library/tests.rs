use super::*;
use crate::testing::event;
use sheaf_wire::{NumberMark, RunNumber};
use std::path::PathBuf;
use std::process::Command;
use std::ptr;
use tempfile::TempDir;

/// Compiles the C library of the tests with this version number.
fn compile(to: &Path, version: u8) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"])
        .arg(format!("-DVERSION={version}"))
        .arg("-I")
        .arg(folder.join("../sheaf-capi/include"))
        .arg("-o")
        .arg(to)
        .arg(folder.join("tests/plugins/obedient.c"))
        .output()
        .expect("a C compiler is there: Rust's linker is one");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn library() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("libobedient.so");
    compile(&path, 1);
    (directory, path)
}

fn setup(parameters: &str) -> Setup {
    Setup { run: RunNumber(7), tags: vec!["muon".into()], parameters: parameters.into() }
}

fn open(path: &Path) -> LibraryFilter {
    LibraryFilter::open(path, abi::FILTER_SYMBOL, &setup("")).unwrap()
}

fn judge(filter: &mut LibraryFilter, order: u8) -> Result<Verdict, FilterFailure> {
    filter.judge(&event(1, &[vec![order]]))
}

#[test]
fn verdicts_of_a_library_are_those_that_it_gave() {
    let (_directory, path) = library();
    let mut filter = open(&path);
    assert_eq!(judge(&mut filter, 0), Ok(Verdict::accept()));
    assert_eq!(judge(&mut filter, b't'), Ok(Verdict::accept().with_tags(Tags(1))));
    assert_eq!(judge(&mut filter, b'r'), Ok(Verdict::reject()), "what is rejected keeps no payload");
    assert_eq!(judge(&mut filter, b'v'), Ok(Verdict::accept().with_payload(vec![1, 1])));
    assert_eq!(judge(&mut filter, b'm').unwrap().payload.len(), MAX_VERDICT_PAYLOAD_BYTES);
    assert_eq!(filter.judge(&event(1, &[])), Ok(Verdict::accept()), "an event without fragments is an event");
}

#[test]
fn a_library_sees_the_marks_of_fragments() {
    let (_directory, path) = library();
    let mut filter = open(&path);
    let mut marked = event(1, &[vec![b'd']]);
    for (mark, expected) in [
        (NumberMark::NONE, [0, 0]),
        (NumberMark::renumbered(3), [2, 3]),
        (NumberMark::NONE.disagreeing(-2), [1, 254]),
        (NumberMark::renumbered(3).disagreeing(5), [3, 5]),
    ] {
        marked.fragments[0].mark = mark;
        assert_eq!(filter.judge(&marked), Ok(Verdict::accept().with_payload(expected.to_vec())), "{mark:?}");
    }
}

#[test]
fn nonsense_is_a_failure_of_its_event_and_the_next_is_judged() {
    let (_directory, path) = library();
    let mut filter = open(&path);
    let cases = [
        (b'n', "its payload is null and has 5 bytes"),
        (b'l', "its payload has 1048577 bytes, but at most 1048576 are allowed"),
        (b'w', "but at most 1048576 are allowed"),
        (b'2', "`accepted` is 2, not 0 or 1"),
        (b'q', "`tags` has bit 63, and `filter.tags` names 1"),
        (b'f', "the chamber is off"),
        (b's', "the filter returned -3"),
    ];
    for (order, text) in cases {
        let failure = judge(&mut filter, order).unwrap_err().to_string();
        assert!(failure.contains(text), "{failure}");
        assert_eq!(judge(&mut filter, 0), Ok(Verdict::accept()));
    }
}

#[test]
fn what_cannot_be_opened_is_told_with_what_would_be_right() {
    let (directory, path) = library();
    let error = |path: &Path, symbol: &str, setup: &Setup| {
        LibraryFilter::open(path, symbol, setup).expect_err("it cannot be opened").to_string()
    };
    let text_file = directory.path().join("notes.so");
    std::fs::write(&text_file, "no library").unwrap();
    let cases = [
        (directory.path().join("absent.so"), "sheaf_filter", "cannot find the filter library"),
        (directory.path().to_owned(), "sheaf_filter", "it is not a regular file"),
        (text_file.clone(), "sheaf_filter", "cannot load the filter library"),
        // The loader's reason, in any words: it names the file.
        (text_file, "sheaf_filter", "notes.so: "),
        (path.clone(), "other_filter", "has no function `other_filter`; a filter exports one"),
        (path.clone(), "null_table", "it is null"),
        (path.clone(), "crooked_table", "it is not aligned"),
        (
            path.clone(),
            "future_table",
            "has version 99 of the interface, and this is version 3; compile it again",
        ),
        (
            path.clone(),
            "old_table",
            "has version 2 of the interface, and this is version 3; compile it again",
        ),
        (path.clone(), "short_table", "less than the size of a SheafFilterTable"),
        (path.clone(), "empty_table", "`create` is null"),
    ];
    for (path, symbol, text) in cases {
        let said = error(&path, symbol, &setup(""));
        assert!(said.contains(text), "{symbol}: {said}");
    }
    let refused = error(&path, "sheaf_filter", &setup("refuse"));
    assert!(refused.ends_with("rejects its configuration: run 7 has 1 tags"), "{refused}");
    assert!(error(&path, "sheaf_filter", &setup("silent")).ends_with("it gave no reason"));
    assert!(error(&path, "sheaf_filter", &setup("a\0b")).contains("`filter.parameters` has a NUL"));
}

#[test]
fn filters_of_one_library_are_each_their_own_and_are_unmade() {
    let (_directory, path) = library();
    let (mut first, second) = (open(&path), open(&path));
    assert_eq!(judge(&mut first, b'v').unwrap().payload[1], 2, "two are alive");
    drop(second);
    assert_eq!(judge(&mut first, b'v').unwrap().payload[1], 1);
    let mut elsewhere = first;
    let verdict = std::thread::spawn(move || judge(&mut elsewhere, b't').unwrap()).join().unwrap();
    assert_eq!(verdict.tags, Tags(1), "another thread may have it");
}

#[test]
fn the_next_run_has_the_version_that_is_on_disk_when_it_starts() {
    let (directory, path) = library();
    let mut running = open(&path);
    // A new version is installed next to the old one and renamed while a run uses the old one.
    let new = directory.path().join("new.so");
    compile(&new, 2);
    std::fs::rename(&new, &path).unwrap();
    assert_eq!(judge(&mut running, b'v').unwrap().payload[0], 1, "a run keeps what it began with");
    drop(running);
    assert_eq!(judge(&mut open(&path), b'v').unwrap().payload[0], 2);
}

#[test]
fn a_table_of_the_program_makes_a_filter_without_a_library() {
    // SAFETY: null is allowed, and refused.
    let error = unsafe { LibraryFilter::of_table(ptr::null(), &setup("")) }.unwrap_err().to_string();
    assert_eq!(error, "the filter of this program has an invalid table: it is null");
    let table = crate::plugin::table::<Everything>();
    // SAFETY: the table of a plugin is constant.
    let mut filter = unsafe { LibraryFilter::of_table(table, &setup("")) }.unwrap();
    assert_eq!(filter.judge(&event(1, &[])), Ok(Verdict::accept().with_tags(Tags(1))));
}

/// Accepts everything.
struct Everything(Tags);

impl crate::Plugin for Everything {
    fn create(setup: &crate::PluginSetup<'_>) -> Result<Self, FilterFailure> {
        Ok(Self(setup.tag("muon")?))
    }

    fn judge(&mut self, _event: &crate::EventView<'_>) -> Result<Verdict, FilterFailure> {
        Ok(Verdict::accept().with_tags(self.0))
    }
}
