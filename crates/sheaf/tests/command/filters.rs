//! Filters from shared libraries that are named in the configuration.

use crate::child::{Ended, ScratchDirectory};
use crate::output::number;
use std::path::Path;
use std::process::Command;

/// Compiles a filter in C, by its path in the repository.
pub(crate) fn compile(source: &str, to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-I"])
        .arg(root.join("crates/sheaf-capi/include"))
        .arg("-o")
        .arg(to)
        .arg(root.join(source))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs 2,000 events with a `[filter]` table of the example's library and `more`.
fn run(scratch: &ScratchDirectory, more: &str) -> Ended {
    let library = scratch.join("libenergy_sum.so");
    if !library.exists() {
        compile("examples/filters/c/energy_sum.c", &library);
    }
    let text = format!(
        "[run]\nevents = 2000\n[readout]\ncount = 2\n[builder]\ncount = 2\n[source]\ncount = 4\n\
         [source.emulated]\nmean_bytes = 256\nrms_bytes = 128\n\
         [filter]\nkind = \"library\"\npath = \"libenergy_sum.so\"\n{more}"
    );
    std::fs::write(scratch.join("run.toml"), text).unwrap();
    scratch.sheaf("run run.toml --json")
}

const GOOD: &str = "parameters = \"sum=17000000 source=6000000\"\ntags = [\"sum\", \"pair\"]\n";

#[test]
fn a_library_decides_alike_on_the_builders_thread_on_threads_and_in_processes() {
    let mut stored = Vec::new();
    for workers in ["", "workers = 2\n", "workers = 2\nprocesses = true\n"] {
        let scratch = ScratchDirectory::new();
        let summary = run(&scratch, &format!("{GOOD}{workers}")).exits(0).json();
        let (kept, rejected) = (number(&summary, "ledger.stored"), number(&summary, "ledger.rejected"));
        assert_eq!(kept + rejected, 2000, "{workers}");
        stored.push(kept);
        let report = scratch.sheaf("verify runs/run000001 --json").exits(0).json();
        assert_eq!(number(&report, "events"), stored[0], "{workers}");
    }
    assert!(stored[0] > 100 && stored[0] < 1900, "the filter takes some and leaves some: {stored:?}");
    assert!(stored.iter().all(|count| *count == stored[0]), "{stored:?}");
}

#[test]
fn a_filter_that_refuses_its_parameters_keeps_the_run_from_starting() {
    for (more, right) in [
        ("tags = [\"sum\", \"pair\"]\n", "`filter.parameters` should be like"),
        ("parameters = \"sum=1 source=1\"\n", "the filter uses the tags `sum` and `pair`"),
        ("symbol = \"other\"\n", "has no function `other`"),
    ] {
        let scratch = ScratchDirectory::new();
        let ended = run(&scratch, more).exits(1);
        assert!(ended.stderr.contains(right), "{}", ended.stderr);
    }
}

#[test]
fn a_filter_in_python_without_worker_processes_is_refused_with_a_remedy() {
    let scratch = ScratchDirectory::new();
    std::fs::write(scratch.join("run.toml"), "[filter]\nkind = \"python\"\npath = \"mine.py\"\n").unwrap();
    let ended = scratch.sheaf("run run.toml").exits(1);
    assert!(ended.stderr.contains("`processes = true`"), "{}", ended.stderr);
}

#[test]
fn a_problem_with_a_library_is_reported_once_with_the_loaders_message() {
    let scratch = ScratchDirectory::new();
    let library = scratch.file("bad.so", "no library");
    let text = format!("[filter]\nkind = \"library\"\npath = \"{}\"\n", library.display());
    let config = scratch.file("bad.toml", &text);
    let said = scratch.sheaf(&format!("run {} --events 10", config.display())).exits(1).stderr;
    assert_eq!(said.matches("cannot load the filter library").count(), 1, "{said}");
    assert!(said.contains("bad.so: "), "the loader's reason: {said}");
}
