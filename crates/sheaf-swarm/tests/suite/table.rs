//! Every key of the configuration is drawn by the random swarm, or excused with a reason.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sheaf_swarm::table::{DRIVER_ROWS, EXCUSED, ROWS, draws, driver_draws, driver_markdown, markdown};

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
    let of_roles = ROWS.iter().flat_map(|row| row.knobs);
    let of_drivers = DRIVER_ROWS.iter().flat_map(|row| row.knobs);
    let drawn: BTreeSet<&str> = of_roles.chain(of_drivers).copied().collect();
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

#[test]
fn every_row_of_the_drivers_is_drawn_often_enough_to_matter() {
    for (row, families) in driver_draws(0..RUNS) {
        // Some faults are of one family.
        let is_drawn = families.iter().any(|draws| draws.others * 50 >= draws.runs);
        assert!(is_drawn, "{}: {families:?}", row.name);
    }
}

/// With `UPDATE_DOCS` set, the page is written anew.
#[test]
fn the_table_of_the_documentation_is_what_is_drawn() {
    let path = docs().join("concepts/simulation-testing.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let wanted = with_table(&page, "options of the swarm", &markdown(0..RUNS));
    let wanted = with_table(&wanted, "options of the drivers", &driver_markdown(0..RUNS));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).expect("the page can be written");
        return;
    }
    assert!(page == wanted, "run `cargo xtask docs`");
}

/// Returns the page with this table between its markers.
fn with_table(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- begin: {name} -->\n"), "<!-- end -->\n");
    let from =
        page.find(&begin).unwrap_or_else(|| panic!("the table of the {name} has a place")) + begin.len();
    let to = from + page[from..].find(end).expect("the table ends");
    format!("{}\n{table}\n{}", &page[..from], &page[to..])
}
