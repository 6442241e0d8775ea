//! Programs in C that feed a run with libsheaf.

use crate::active::root;
use crate::child::{ScratchDirectory, sheaf};
use crate::nodes::free_ports;
use crate::output::{dump, field, number};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Compiles a program of the repository and links it with libsheaf, which cargo puts beside the tests.
pub(crate) fn compile(source: &str, scratch: &ScratchDirectory) -> PathBuf {
    let source = root().join(source);
    let program = scratch.join(source.file_stem().expect("a file").to_str().expect("UTF-8"));
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-I"])
        .arg(root().join("crates/sheaf-capi/include"))
        .arg("-o")
        .args([&program, &source])
        .arg("-L")
        .arg(library_directory())
        .arg("-lsheaf")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn library_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Runs a program to its end in the directory of a run.
pub(crate) fn run(scratch: &ScratchDirectory, program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(scratch.path()).env("LD_LIBRARY_PATH", library_directory());
    command.output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const CONFIG: &str = "examples/sources/boards.toml";

#[test]
fn the_example_boards_in_c_feed_a_run() {
    let scratch = ScratchDirectory::new();
    let board = compile("examples/sources/c/board.c", &scratch);
    let shortest = compile("examples/sources/c/shortest.c", &scratch);
    std::fs::copy(root().join(CONFIG), scratch.join("boards.toml")).unwrap();
    let sheaf = scratch.start("run boards.toml --json");
    std::thread::scope(|scope| {
        for (program, arguments) in
            [(&board, ["boards.toml", "0", "1000"].as_slice()), (&shortest, &["boards.toml", "1"])]
        {
            let scratch = &scratch;
            scope.spawn(move || {
                let output = run(scratch, program, arguments);
                assert!(output.status.success(), "{}", text(&output.stderr));
            });
        }
    });
    let summary = sheaf.end().exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), 1000);
    assert_eq!(field(&summary, "ledger.balanced"), true);
    let lines = dump(&scratch.join("runs/run000001"));
    assert_eq!(lines.len(), 2000);
    assert!(lines.iter().all(|line| line.bytes == 128));
}

#[test]
fn a_program_in_c_is_measured() {
    let scratch = ScratchDirectory::new();
    compile("benches/feed/feeder.c", &scratch);
    let client = format!("env LD_LIBRARY_PATH={} ./feeder", library_directory().display());
    let flags = "--part link,builder --transport shm --size 256 --batch 1,64 --seconds 0.1 --repeat 1 --json";
    let mut arguments = vec!["bench", "feed", "--client", &client];
    arguments.extend(flags.split(' '));
    let report = sheaf(scratch.path(), &arguments).exits(0).json();
    for curve in field(&report, "curves").as_array().unwrap() {
        let rate = field(&curve["points"][0], "fragments_per_second").as_f64().unwrap();
        assert!(rate > 0.0, "{curve}");
    }
}

#[test]
fn a_run_starts_the_example_board_in_c() {
    let scratch = ScratchDirectory::new();
    compile("examples/sources/c/board.c", &scratch);
    let example = std::fs::read_to_string(root().join("examples/sources/started.toml")).unwrap();
    // The other program of the example is in Python.
    let (first, _) = example.split_once("[programs.python-boards]").unwrap();
    let library = format!("environment = [\"LD_LIBRARY_PATH={}\"]\n", library_directory().display());
    scratch.file(
        "started.toml",
        &format!("{}{library}[readout]\ncount = 1\n", first.replace("count = 3", "count = 1")),
    );
    let summary = scratch.sheaf("run started.toml --json").exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), 1000);
    let program = &field(&summary, "programs")[0];
    assert_eq!((field(program, "name").as_str(), number(program, "failures")), (Some("c-board"), 0));
}

#[test]
fn a_program_in_c_feeds_a_run_in_every_way_of_the_library() {
    let scratch = ScratchDirectory::new();
    let program = compile("crates/sheaf-capi/tests/programs/feed.c", &scratch);
    std::fs::copy(root().join(CONFIG), scratch.join("boards.toml")).unwrap();
    let sheaf = scratch.start("run boards.toml --json");
    let output = run(&scratch, &program, &["runs/ru0.feed"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "7 sent, 7 accepted\n");
    let summary = sheaf.end().exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), 7);
    let mut sizes: Vec<_> = dump(&scratch.join("runs/run000001"))
        .iter()
        .map(|line| (line.source, line.event, line.bytes))
        .collect();
    sizes.sort_unstable();
    for (source, first) in [(0, [1, 2, 3, 0]), (1, [0, 2, 0, 3])] {
        let expected = first.into_iter().chain([40, 50, 60]).enumerate();
        let expected: Vec<_> = expected.map(|(event, bytes)| (source, event as u64, bytes)).collect();
        let at = 7 * source as usize;
        assert_eq!(sizes[at..at + 7], expected);
    }
}

#[test]
fn a_program_in_c_declines_a_start_and_is_told_why_it_cannot_connect() {
    let scratch = ScratchDirectory::new();
    let program = compile("crates/sheaf-capi/tests/programs/feed.c", &scratch);
    std::fs::copy(root().join(CONFIG), scratch.join("boards.toml")).unwrap();
    let sheaf = scratch.start("run boards.toml");
    assert!(run(&scratch, &program, &["boards.toml", "no gas"]).status.success());
    sheaf.end().exits(1).says(&["feed.c declines the start of the run: no gas"]);
    scratch.file("other.toml", "[readout]\ncount = 2\n");
    let output = run(&scratch, &program, &["other.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("of the kind `emulated`"), "{}", text(&output.stderr));
}

#[test]
fn a_program_in_c_sends_records_before_during_and_after_a_run() {
    for over_tcp in [false, true] {
        let scratch = ScratchDirectory::new();
        let program = compile("crates/sheaf-capi/tests/programs/record.c", &scratch);
        let [port] = free_ports();
        let address = format!("127.0.0.1:{port}");
        let listen =
            if over_tcp { format!("[source.feed]\nlisten = \"{address}\"\n") } else { String::new() };
        let nodes = "[readout]\ncount = 1\n[builder]\ncount = 2\n";
        scratch.file("run.toml", &format!("[source]\nkind = \"feed\"\ncount = 1\n{listen}{nodes}"));
        let sheaf = scratch.start("run run.toml --json --processes");
        let target = if over_tcp { &address } else { "runs/ru0.feed" };
        let output = run(&scratch, &program, &[target]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let summary = sheaf.end().exits(0).json();
        assert_eq!(number(&summary, "ledger.stored"), 100);
        let verified = scratch.sheaf("verify runs/run000001 --json").exits(0).json();
        assert_eq!(number(&verified, "records"), 3, "each once, whatever the number of files");
        let inspected = scratch.sheaf("inspect runs/run000001").exits(0).stdout;
        for line in [
            "begin, \"config.toml\": 8 bytes",
            "slow_control, \"empty\": 0 bytes",
            "\"counters\": 1,048,576 bytes",
        ] {
            assert!(inspected.contains(line), "{inspected}");
        }
    }
}
