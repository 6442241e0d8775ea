//! The reference page of all knobs, made from their definitions.

use crate::Config;
use crate::knob::{Section, paragraph};
use crate::settings::Node;
use std::fmt::Write;

const HEAD: &str = "\
# Configuration

<!-- Generated from crates/sheaf-config. Change the definitions there, then run
     UPDATE_DOCS=1 cargo test -p sheaf-config -->

A run is configured by one TOML file. Every key may be left out; without a file, or with an empty one, the defaults of
this page hold. The same file serves `sheaf run CONFIG.toml`, where all nodes are started together on one machine, and
`sheaf node CONFIG.toml NAME`, where each is started by its name on its own host.

Units are in the names of the keys: `_bytes`, `_s`, `_ms`, `_us`, `_hz`. Sizes are integers; times may have decimal
places. The whole file is checked before anything starts: a key that does not exist, a value out of its limits and two
values that cannot go together are errors with line, key, and what would be right.
";

/// The page `docs/reference/configuration.md`: one section per table, one row per key.
#[must_use]
pub fn reference_page() -> String {
    let mut page = HEAD.to_owned();
    let config = Config::default();
    for section in config.sections() {
        table(&mut page, section, &format!("[{}]", section.path()), &[]);
    }
    table(&mut page, &Node::default(), "[[node]]", &["name", "role"]);
    page
}

fn table(page: &mut String, section: &dyn Section, header: &str, required: &[&str]) {
    let about = paragraph(section.meaning());
    let head = "| key | type | default | limits | meaning |\n|---|---|---|---|---|";
    // Writing to a string cannot fail.
    let _ = writeln!(page, "\n## `{header}`\n\n{about}\n\n{head}");
    for knob in section.knobs() {
        let default = match section.write(knob.key) {
            _ if required.contains(&knob.key) => "required".into(),
            Some(value) => shown_default(knob.key, &value),
            None => "not set".into(),
        };
        let flag = knob.flag.map(|flag| format!(" Flag: `{flag}`.")).unwrap_or_default();
        let limits = cell(&(knob.limits)());
        let (key, type_name, meaning) = (knob.key, (knob.type_name)(), cell(&knob.paragraph()));
        let _ = writeln!(page, "| `{key}` | {type_name} | {default} | {limits} | {meaning}{flag} |");
    }
}

/// A default as it is written in the file, sizes also as people say them.
fn shown_default(key: &str, value: &str) -> String {
    let human = value.parse().ok().filter(|_| key.ends_with("_bytes")).map(crate::codec::show_bytes);
    match human.as_deref().and_then(|text| text.split_once(' ')) {
        Some((number, human)) => format!("`{number}` {human}"),
        None => format!("`{value}`"),
    }
}

/// Text that does not end the cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
