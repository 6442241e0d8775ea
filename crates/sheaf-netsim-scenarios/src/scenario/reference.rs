//! The reference page of all keys, made from their definitions.

use super::keys::TABLES;
use super::keys::keys_of;
use super::schema::{Key, Standard};
use super::value::Shape;
use std::fmt::Write;

const HEAD: &str = "\
# Scenario files

<!-- Generated from crates/sheaf-netsim-scenarios. Change the definitions there, then run
     cargo xtask docs -->

A scenario is one TOML file for `sheaf sim`. Any value may be a list of values: a sweep. Several lists make every
combination, the last of the file changing fastest. A swept key that does not matter for a combination (the radix of a
crossbar) does not multiply it. A list of seeds is a repetition: tables and plots show its mean and spread.

Units are in the names of the keys: `_bytes`, `_ns`, `_us`, `_hz`, `_gbps` (Gbit/s). The whole file is checked before
anything runs: a key that does not exist or has no effect, a value out of its limits and two values that cannot go
together are errors with line, key, and what would be right.
";

const TAIL: &str = "
## Wirings

The file that `topology.file` names has one cable or link on each line; `#` starts a comment.

| line | means |
|---|---|
| `e3 -- s0` | a cable, which is two links, between endpoint 3 and switch 0 |
| `s0 -> s1` | a link that goes one way |
| `s0 -- s1 400` | a cable whose links have 400 Gbit/s |

Endpoints and switches are numbered from 0. Every endpoint needs a link to a switch and one from a switch.
";

/// The page `docs/reference/scenario.md`: one section per table, one row per key.
#[must_use]
pub fn reference_page() -> String {
    let mut page = HEAD.to_owned();
    for table in TABLES {
        let title = match table.name {
            "" => "Top of the file".to_owned(),
            "fault" => "`[[fault]]`".to_owned(),
            name => format!("`[{name}]`"),
        };
        let head = "| key | type | default | limits | meaning |\n|---|---|---|---|---|";
        // Writing to a string cannot fail.
        let _ = writeln!(page, "\n## {title}\n\n{}\n\n{head}", table.meaning);
        for key in keys_of(table.name) {
            row(&mut page, key);
        }
    }
    page.push_str(TAIL);
    page
}

fn row(page: &mut String, key: &Key) {
    let standard = match &key.standard {
        Standard::Required => "required".to_owned(),
        Standard::Unset => "not set".to_owned(),
        Standard::Is(value) => format!("`{value}`"),
    };
    let limits = match key.shape {
        Shape::Whole(least, most) => format!("{least} to {most}"),
        Shape::Number(least, most) => format!("{least} to {most}"),
        Shape::Word(words) => {
            words.iter().map(|(word, meaning)| format!("`{word}`: {meaning}")).collect::<Vec<_>>().join("; ")
        }
        Shape::Wholes(below) => format!("below {below}"),
        Shape::Text | Shape::Switch => String::new(),
    };
    let only = match key.only {
        [] => String::new(),
        only => format!(" For `{}`.", only.join("`, `")),
    };
    let (name, type_name, meaning) = (key.name, key.shape.type_name(), key.meaning);
    let _ = writeln!(page, "| `{name}` | {type_name} | {standard} | {limits} | {meaning}{only} |");
}
