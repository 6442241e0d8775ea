//! Wrong arguments, configurations and places: a message that says what is wrong and where, and no trace left.

use crate::child::Place;
use crate::streams;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_mistake_in_a_configuration_is_named_with_file_line_and_key() {
    let place = Place::new();
    let config = place.file("bad.toml", "[run]\nduration_s = 1\n\n[builder]\nslotz = 3\ncount = \"two\"\n");
    let ended = place.sheaf(&format!("run {}", config.display())).exits(1);
    let ended = ended.says(&["bad.toml", "`slotz` in [builder]", "`slots`", "`builder.count`"]);
    for line in ["bad.toml:5", "bad.toml:6"] {
        assert!(ended.stderr.contains(line), "{line} is not in:\n{}", ended.stderr);
    }
    assert_eq!(ended.stdout, "");
    assert!(!place.join("runs").exists(), "nothing is made before the configuration is right");
}

#[test]
fn values_that_cannot_go_together_are_refused_from_flags_too() {
    let place = Place::new();
    place.sheaf("run --readouts 0").exits(1).says(&["readout.count"]);
    place.sheaf("run --fragment-size 2000000000").exits(1).says(&["source.emulated.mean_bytes"]);
    place.sheaf("run --duration minus").exits(2).says(&["--duration", "seconds"]);
    for duration in ["-1", "nan", "1e300"] {
        place
            .sheaf(&format!("run --duration {duration}"))
            .exits(2)
            .says(&[duration, "must be a number of seconds >= 0"]);
    }
    place.sheaf("run --transport pigeon").exits(2).says(&["pigeon", "memory", "tcp"]);
    place.sheaf("run --transport memory --processes").exits(1).says(&["--processes", "tcp"]);
    assert!(!place.join("runs").exists());
}

#[test]
fn unknown_commands_and_flags_are_refused() {
    let place = Place::new();
    place.sheaf("rum").exits(2).says(&["rum", "run"]);
    place.sheaf("run --fragments 3").exits(2).says(&["--fragments"]);
    place.sheaf("run --loops 3 --rate 7").exits(1).says(&["--loops, --rate", "--replay"]);
    place.sheaf("import sdhcal file").exits(1).says(&["directory for the streams"]);
    place.sheaf("import root file dir").exits(1).says(&["root", "km3net", "lst1", "sdhcal"]);
}

#[test]
fn a_missing_configuration_or_replay_is_named() {
    let place = Place::new();
    place.sheaf("run nowhere.toml").exits(1).says(&["nowhere.toml", "No such file"]);
    place.sheaf("run --replay nowhere").exits(1).says(&["nowhere", "No such file"]);
    std::fs::create_dir(place.join("empty")).unwrap();
    place.sheaf("run --replay empty").exits(1).says(&["empty", "no fragment streams"]);
    for command in ["inspect", "verify", "dump"] {
        place.sheaf(&format!("{command} nowhere")).exits(1).says(&["nowhere", "No such file"]);
    }
    assert!(!place.join("runs").exists());
}

#[test]
fn a_run_directory_is_used_once() {
    let place = Place::new();
    let config = place.file("seven.toml", "[run]\nnumber = 7\nevents = 100\n");
    let again = format!("run {}", config.display());
    place.sheaf(&again).exits(0);
    place.sheaf(&again).exits(1).says(&["run000007", "run.overwrite"]);
    let config = place.file("again.toml", "[run]\nnumber = 7\nevents = 50\noverwrite = true\n");
    place.sheaf(&format!("run {}", config.display())).exits(0);
    crate::output::verify(&place.join("runs/run000007"), 0);
    // Without a number, the next one that is free.
    place.sheaf("run --events 10").exits(0);
    assert!(place.join("runs/run000008/run.json").exists());
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let place = Place::new();
    place.file("file", "");
    place.sheaf("run --events 10 --output file").exits(1).says(&["file"]);
    if rustix::process::geteuid().is_root() {
        println!("skipped: nothing is forbidden to root");
        return;
    }
    let locked = place.join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o500)).unwrap();
    place.sheaf("run --events 10 --output locked").exits(1).says(&["locked", "Permission denied"]);
}

/// `sheaf dump | head`: the reader goes away in the middle.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    streams::make(&place.join("streams"), 8, 4000);
    let mut dump = std::process::Command::new(env!("CARGO_BIN_EXE_sheaf"));
    dump.args(["dump", "streams", "--csv"]).current_dir(place.path());
    dump.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut dump = dump.spawn().unwrap();
    // More lines than a pipe holds are to come; after the first few nobody reads.
    let mut line = [0; 100];
    std::io::Read::read_exact(dump.stdout.as_mut().unwrap(), &mut line).unwrap();
    drop(dump.stdout.take());
    let ended = dump.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    assert!(ended.status.success(), "{}", ended.status);
}
