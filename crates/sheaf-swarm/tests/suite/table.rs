//! Every key of the configuration is drawn by the random swarm, or excused with a reason.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sheaf_swarm::table::{EXCUSED, ROWS, draws, markdown};

/// Number of runs whose options are counted, in the documentation and here.
const RUNS: u64 = 10_000;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns the keys of the reference page, which is generated from their definitions.
fn knobs() -> BTreeSet<String> {
    let page = std::fs::read_to_string(docs().join("reference/configuration.md")).expect("the page is there");
    let (mut section, mut knobs) = (String::new(), BTreeSet::new());
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## `[") {
            let name = heading.trim_start_matches('[').split([']', '`']).next().unwrap_or_default();
            section = name.trim_end_matches(".NAME").to_owned();
        } else if let Some(row) = line.strip_prefix("| `") {
            let key = row.split('`').next().unwrap_or_default();
            knobs.insert(format!("{section}.{key}"));
        }
    }
    assert!(knobs.len() > 200, "the format of the page has changed: {knobs:?}");
    knobs
}

fn covers(excuse: &str, knob: &str) -> bool {
    excuse.strip_suffix('*').map_or(excuse == knob, |table| knob.starts_with(table))
}

#[test]
fn every_knob_is_drawn_or_excused() {
    let knobs = knobs();
    let drawn: BTreeSet<&str> = ROWS.iter().flat_map(|row| row.knobs).copied().collect();
    let is_excused = |knob: &str| EXCUSED.iter().any(|excuse| covers(excuse.knob, knob));
    let forgotten: Vec<_> =
        knobs.iter().filter(|knob| !drawn.contains(knob.as_str()) && !is_excused(knob)).collect();
    assert!(forgotten.is_empty(), "draw these, or excuse them with a reason: {forgotten:?}");
    let unknown: Vec<_> = drawn.iter().filter(|knob| !knobs.contains(**knob)).collect();
    assert!(unknown.is_empty(), "these keys do not exist: {unknown:?}");
    let idle: Vec<_> = EXCUSED
        .iter()
        .map(|excuse| excuse.knob)
        .filter(|excuse| {
            drawn.iter().any(|knob| covers(excuse, knob)) || !knobs.iter().any(|knob| covers(excuse, knob))
        })
        .collect();
    assert!(idle.is_empty(), "these need no excuse: {idle:?}");
}

#[test]
fn every_row_is_drawn_often_enough_to_matter() {
    for (row, draws) in draws(0..RUNS) {
        assert!(draws.values > 1, "{} is the same in all runs", row.name);
        assert!(
            draws.others * 50 >= draws.runs,
            "{} differs in {} of {} runs",
            row.name,
            draws.others,
            draws.runs
        );
    }
}

/// With `UPDATE_DOCS` set, the page is written anew.
#[test]
fn the_table_of_the_documentation_is_what_is_drawn() {
    let path = docs().join("concepts/simulation-testing.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (begin, end) = ("<!-- begin: options of the swarm -->\n", "<!-- end -->\n");
    let from = page.find(begin).expect("the table has a place") + begin.len();
    let to = from + page[from..].find(end).expect("the table ends");
    let wanted = format!("{}\n{}{}", &page[..from], markdown(0..RUNS) + "\n", &page[to..]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).expect("the page can be written");
        return;
    }
    assert!(page == wanted, "run `cargo xtask docs`");
}
