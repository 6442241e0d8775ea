//! The example libraries in both languages give the same triggers.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

use sheaf_filter::{ByteCount, EventId, LibraryTrigger, OpenError, PollEnd, RunNumber, TriggerSetup};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts this package's shared library: beside its tests.
fn rust_library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libpulser.so")
}

fn c_library(directory: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = directory.join("libpulser.so");
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-shared", "-fPIC", "-o"])
        .arg(&path)
        .arg("-I")
        .arg(folder.join("../../../crates/sheaf-capi/include"))
        .arg(folder.join("c/pulser.c"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

fn open(path: &Path, parameters: &str) -> Result<LibraryTrigger, OpenError> {
    let setup = TriggerSetup {
        run: RunNumber(1),
        parameters: parameters.into(),
        max_payload: ByteCount::ZERO,
        batch_triggers: 7,
    };
    LibraryTrigger::open(path, "sheaf_trigger", &setup)
}

/// Id, time, type, bits and size of the payload of a trigger.
type Copied = (u64, u64, u16, u64, usize);

fn triggers_of(library: &LibraryTrigger) -> Vec<Copied> {
    let triggers = (0..).map_while(|place| library.trigger(place));
    triggers.map(|it| (it.id.0, it.time.0, it.kind.0, it.bits, it.payload.unwrap().len())).collect()
}

/// Everything that a library gives from id 40 on, in batches. Its first polls are while the run is busy.
fn triggers(mut library: LibraryTrigger) -> (u64, Vec<Vec<Copied>>) {
    assert!(library.has_veto());
    library.start(EventId(40));
    library.busy(Some(c"output"));
    let mut vetoed = 0;
    for _ in 0..5 {
        assert!(matches!(library.poll().unwrap(), PollEnd::After(_)));
        assert_eq!(triggers_of(&library), []);
        vetoed += library.vetoed();
    }
    library.busy(None);
    let mut batches = Vec::new();
    loop {
        let end = library.poll().unwrap();
        assert_eq!(library.vetoed(), 0);
        batches.push(triggers_of(&library));
        if end == PollEnd::Ended {
            library.stop();
            return (vetoed, batches);
        }
        assert_eq!(end, PollEnd::More);
    }
}

#[test]
fn both_languages_give_the_same_triggers() {
    let directory = tempfile::tempdir().unwrap();
    for (count, batches) in [(20, vec![7, 7, 6]), (14, vec![7, 7, 0]), (0, vec![])] {
        let parameters = format!("period_us=0 triggers={count}");
        let both = [rust_library(), c_library(directory.path())];
        if count == 0 {
            for path in both {
                let mut library = open(&path, &parameters).unwrap();
                library.start(EventId(40));
                assert_eq!((library.poll(), triggers_of(&library)), (Ok(PollEnd::Ended), vec![]));
            }
            continue;
        }
        let [rust, c] = both.map(|path| triggers(open(&path, &parameters).unwrap()));
        assert_eq!(rust, c);
        assert_eq!(rust.0, 5, "a pulse in each poll was held back");
        assert_eq!(rust.1.iter().map(Vec::len).collect::<Vec<_>>(), batches);
        assert_eq!(rust.1[0][0], (40, 0, 7, 1, 0));
    }
}

#[test]
fn a_pulse_that_is_not_due_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    for path in [rust_library(), c_library(directory.path())] {
        let mut library = open(&path, "period_us=600000000 triggers=9").unwrap();
        library.start(EventId(0));
        let end = library.poll().unwrap();
        assert_eq!(triggers_of(&library), [(0, 0, 7, 1, 0)]);
        assert!(matches!(end, PollEnd::After(_)), "{end:?}");
    }
}

#[test]
fn wrong_parameters_are_refused_in_the_same_words() {
    let directory = tempfile::tempdir().unwrap();
    for parameters in ["", "period_us=1", "period_us=1 triggers=", "period_us=1 triggers=3 more"] {
        for library in [rust_library(), c_library(directory.path())] {
            let error = open(&library, parameters).unwrap_err().to_string();
            let right = "`trigger.library.parameters` should be like \"period_us=1000 triggers=2000\"";
            assert!(error.ends_with(right), "{parameters:?}: {error}");
        }
    }
}
