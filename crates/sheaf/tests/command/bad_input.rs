//! Wrong arguments, configurations and paths: the message states the problem and its place, and nothing is left behind.

use crate::child::ScratchDirectory;
use crate::streams;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_mistake_in_a_configuration_is_named_with_file_line_and_key() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("bad.toml", "[run]\nduration_s = 1\n\n[builder]\nslotz = 3\ncount = \"two\"\n");
    let ended = scratch.sheaf(&format!("run {}", config.display())).exits(1);
    let ended = ended.says(&["bad.toml", "`slotz` in [builder]", "`slots`", "`builder.count`"]);
    for line in ["bad.toml:5", "bad.toml:6"] {
        assert!(ended.stderr.contains(line), "{line} is not in:\n{}", ended.stderr);
    }
    assert_eq!(ended.stdout, "");
    assert!(!scratch.join("runs").exists(), "nothing is made before the configuration is right");
}

#[test]
fn values_that_cannot_go_together_are_refused_from_flags_too() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("run --readouts 0").exits(1).says(&["readout.count"]);
    scratch.sheaf("run --fragment-size 2000000000").exits(1).says(&["source.emulated.mean_bytes"]);
    scratch.sheaf("run --duration minus").exits(2).says(&["--duration", "seconds"]);
    for duration in ["-1", "nan", "1e300"] {
        scratch
            .sheaf(&format!("run --duration {duration}"))
            .exits(2)
            .says(&[duration, "must be a number of seconds >= 0"]);
    }
    scratch.sheaf("run --transport pigeon").exits(2).says(&["pigeon", "memory", "tcp"]);
    scratch.sheaf("run --transport memory --processes").exits(1).says(&["--processes", "tcp"]);
    assert!(!scratch.join("runs").exists());
}

#[test]
fn an_address_of_an_event_manager_without_a_port_is_refused_at_once() {
    let scratch = ScratchDirectory::new();
    for address in ["nowhere", ":7300", "daq0:http", "daq0:0"] {
        // A supervisor waits for an hour for an event manager that may start there.
        let ended = scratch.sheaf(&format!("emulate-trigger {address} --wait 3600")).exits(2);
        ended.says(&[address, "must be HOST:PORT, such as daq0:7300"]);
    }
}

#[test]
fn unknown_commands_and_flags_are_refused() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("rum").exits(2).says(&["rum", "run"]);
    scratch.sheaf("run --fragments 3").exits(2).says(&["--fragments"]);
    scratch.sheaf("run --loops 3 --rate 7").exits(1).says(&["--loops, --rate", "--replay"]);
    scratch.sheaf("import sdhcal file").exits(1).says(&["directory for the streams"]);
    scratch.sheaf("import root file dir").exits(1).says(&["root", "km3net", "lst1", "sdhcal"]);
}

#[test]
fn a_missing_configuration_or_replay_is_named() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("run nowhere.toml").exits(1).says(&["nowhere.toml", "No such file"]);
    scratch.sheaf("run --replay nowhere").exits(1).says(&["nowhere", "No such file"]);
    std::fs::create_dir(scratch.join("empty")).unwrap();
    scratch.sheaf("run --replay empty").exits(1).says(&["empty", "no fragment streams"]);
    for command in ["inspect", "verify", "dump", "upload", "next", "import sdhcal"] {
        let streams = if command.starts_with("import") { "streams" } else { "" };
        scratch.sheaf(&format!("{command} nowhere {streams}")).exits(1).says(&["nowhere", "No such file"]);
    }
    assert!(!scratch.join("runs").exists());
}

#[test]
fn a_run_directory_is_used_once() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("seven.toml", "[run]\nnumber = 7\nevents = 100\n");
    let again = format!("run {}", config.display());
    scratch.sheaf(&again).exits(0);
    scratch.sheaf(&again).exits(1).says(&["run000007", "run.overwrite"]);
    let config = scratch.file("again.toml", "[run]\nnumber = 7\nevents = 50\noverwrite = true\n");
    scratch.sheaf(&format!("run {}", config.display())).exits(0);
    crate::output::verify(&scratch.join("runs/run000007"), 0);
    // Without a number, the next free one is used.
    scratch.sheaf("run --events 10").exits(0);
    assert!(scratch.join("runs/run000008/run.json").exists());
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let scratch = ScratchDirectory::new();
    scratch.file("file", "");
    scratch.sheaf("run --events 10 --output file").exits(1).says(&["file"]);
    if rustix::process::geteuid().is_root() {
        println!("skipped: nothing is forbidden to root");
        return;
    }
    let locked = scratch.join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o500)).unwrap();
    scratch.sheaf("run --events 10 --output locked").exits(1).says(&["locked", "Permission denied"]);
}

/// A file where a directory belongs, the other way round, and files without or with foreign content.
#[test]
fn a_path_of_the_wrong_kind_is_named_with_what_is_expected() {
    let scratch = ScratchDirectory::new();
    scratch.file("file", "neither one nor the other");
    scratch.file("nothing", "");
    std::fs::create_dir(scratch.join("directory")).unwrap();
    for command in ["inspect", "verify", "dump"] {
        scratch.sheaf(&format!("{command} file")).exits(1).says(&["neither an event file nor", "*.sfrag"]);
        scratch.sheaf(&format!("{command} nothing")).exits(1).says(&["nothing is empty"]);
        scratch.sheaf(&format!("{command} directory")).exits(1).says(&["directory directory has neither"]);
    }
    scratch
        .sheaf("run directory")
        .exits(1)
        .says(&["directory, not a regular file", "configuration file (TOML)"]);
    scratch.sheaf("run --replay directory").exits(1).says(&["no fragment streams", "sheaf import"]);
    scratch.sheaf("run --events 10 --output file").exits(1).says(&["not a directory", "--output"]);
    scratch.sheaf("upload file").exits(1).says(&["file is a file", "run directory"]);
    scratch.sheaf("upload directory").exits(1).says(&["not a run directory", "run.json"]);
    scratch.sheaf("next directory").exits(1).says(&["no run in directory is in progress"]);
    scratch.sheaf("next file").exits(1).says(&["cannot read directory file"]);
    scratch.sheaf("import sdhcal directory streams").exits(1).says(&["directory, not a regular file"]);
    scratch.sheaf("import sdhcal nothing streams").exits(1).says(&["nothing: contains no event"]);
    scratch.sheaf("processor --join directory").exits(1).says(&["no socket for processors", "filter.door"]);
    scratch.sheaf("processor --join file").exits(1).says(&["cannot connect to file", "in progress"]);
    scratch.sheaf("tap directory --wait 0").exits(1).says(&["not accepting consumers", "consumers.open"]);
    scratch.sheaf("tap file --wait 0").exits(1).says(&["cannot join file", "consumers.open"]);
    for command in ["sim", "model", "lab run", "doctor --config", "sim calibrate"] {
        scratch.sheaf(&format!("{command} directory")).exits(1).says(&["directory", "cannot"]);
    }
    assert!(!scratch.join("runs").exists() && !scratch.join("streams").exists());
}

/// Messages of Rust's parsers do not name the flag.
#[test]
fn an_invalid_number_is_refused_with_the_values_of_its_flag() {
    let scratch = ScratchDirectory::new();
    for (flags, says) in [
        ("run --readouts many", "'many' for '--readouts <N>': must be an integer >= 0"),
        ("run --builders -1", "'-1' for '--builders <M>': must be an integer from 0 to 65535"),
        ("run --fragment-size -1", "'-1' for '--fragment-size <BYTES>': must be an integer >= 0"),
        ("run --events 99999999999999999999", "for '--events <K>': too large"),
        ("run --rate fast", "'fast' for '--rate <HZ>': must be a number"),
        ("processor --join x --ahead 0", "'0' for '--ahead <EVENTS>': must be an integer from 1 to"),
        ("tap x --rate 0", "'0' for '--rate <HZ>': must be a number of events per second > 0"),
        ("bench mstream --senders -2", "'-2' for '--senders <N>': must be an integer from 1 to 256"),
    ] {
        scratch.sheaf(flags).exits(2).says(&["error: invalid value ", says]);
    }
    // Values that only the configuration can check.
    scratch.sheaf("run --trigger-rate -3").exits(1).says(&["`trigger.rate_hz` is -3", "from 0.001"]);
    for command in ["lab", "bench"] {
        scratch.sheaf(command).exits(2).says(&["error: a command is missing", "Usage: sheaf", "Examples:"]);
    }
    assert!(!scratch.join("runs").exists());
}

/// `sheaf dump | head`: the reader closes the pipe in the middle.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scratch = ScratchDirectory::new();
    streams::make(&scratch.join("streams"), 8, 4000);
    let mut dump = std::process::Command::new(env!("CARGO_BIN_EXE_sheaf"));
    dump.args(["dump", "streams", "--csv"]).current_dir(scratch.path());
    dump.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut dump = dump.spawn().unwrap();
    // More lines follow than a pipe holds, but only the first few are read.
    let mut line = [0; 100];
    std::io::Read::read_exact(dump.stdout.as_mut().unwrap(), &mut line).unwrap();
    drop(dump.stdout.take());
    let ended = dump.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    assert!(ended.status.success(), "{}", ended.status);
}
