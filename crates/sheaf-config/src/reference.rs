//! The reference page of all knobs, made from their definitions.

use crate::Config;
use crate::choice::paragraph;
use crate::knob::Section;
use crate::lab_tables::LabTables;
use crate::settings::Node;
use crate::tables::NAMED;
use std::fmt::Write;

const HEAD: &str = "\
# Configuration

<!-- Generated from crates/sheaf-config. Change the definitions there, then run
     cargo xtask docs -->

A run is configured by one TOML file. All keys are optional; without a file, or with an empty one, the defaults of this page apply. The same file serves `sheaf run CONFIG.toml`, which starts all nodes on one machine, and `sheaf node CONFIG.toml NAME`, which starts one node by name on its host.

Units are in the names of the keys: `_bytes`, `_s`, `_ms`, `_us`, `_hz`. Sizes are integers; times may have decimal
places. The whole file is checked before anything starts: unknown keys, values outside their limits and conflicting values are reported with line, key and valid values. So are keys that have no effect with the other ones.
";

/// The page `docs/reference/configuration.md`: one section per table, one row per key.
#[must_use]
pub fn reference_page() -> String {
    let mut page = HEAD.to_owned();
    let config = Config::default();
    for section in config.sections() {
        table(&mut page, section, &format!("[{}]", section.path()), &[]);
    }
    for named in NAMED {
        table(&mut page, &*named.table(), &format!("[{}]", named.header), &[]);
    }
    table(&mut page, &Node::default(), "[[node]]", &["name", "role"]);
    page
}

const LAB_HEAD: &str = "\
# Scenarios of the lab

<!-- Generated from crates/sheaf-config. Change the definitions there, then run
     cargo xtask docs -->

A scenario for `sheaf lab` is one TOML file: the network (`[lab]`), disturbances and measurements (`[measure]`), and the configuration of the run with its usual tables and keys, see [configuration](configuration.md). Unless the file sets them, `transport.kind` is `\"tcp\"`, `transport.rails`
is `lab.rails`, `transport.mtu_bytes` is `lab.mtu_bytes`, `shaping.line_rate_bits` is `lab.rate_mbps` for datagram transports, `output.kind` is `\"none\"` and `run.number` is 1.

Any value may be a list of values: a sweep. Several lists give all combinations; the last list in the file changes fastest. The whole file is checked before anything is created.
";

/// Returns the page `docs/reference/lab-scenario.md`: the keys of a lab scenario that a configuration does not have.
#[must_use]
pub fn lab_reference_page() -> String {
    let mut page = LAB_HEAD.to_owned();
    let tables = LabTables::default();
    for path in LabTables::PATHS_WITH_HEAD {
        let Some(section) = tables.section(path) else { continue };
        let header = if path.is_empty() { "above all tables".to_owned() } else { format!("[{path}]") };
        table(&mut page, section, &header, &[]);
    }
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

/// Formats a default as it is written in the file; sizes also with binary units.
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
