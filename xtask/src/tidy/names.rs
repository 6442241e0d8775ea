//! Names in ARCHITECTURE.md: every function and type in the life of an event must exist.

use crate::problem::Problem;
use crate::rust_source::find_word;
use std::collections::BTreeSet;

/// The page, and the heading under which every name is that of a function or type.
const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## The life of an event";

/// Collects the declarations of Rust files, and compares the page with them.
#[derive(Debug, Default)]
pub(super) struct Declared(BTreeSet<String>);

impl Declared {
    pub(super) fn add(&mut self, source: &str) {
        for keyword in ["fn", "struct", "enum", "trait", "type"] {
            for at in find_word(source, keyword) {
                let name = source[at + keyword.len()..].trim_start();
                let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
                self.0.insert(name[..end].to_owned());
            }
        }
        self.0.extend(source.lines().filter_map(variant).map(str::to_owned));
    }

    /// Returns a problem for each name in the page's table that is not declared anywhere.
    pub(super) fn check(&self, page: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let lines = page.lines().enumerate().skip_while(|(_, line)| *line != HEADING);
        for (index, line) in lines.skip(1).take_while(|(_, line)| !line.starts_with("## ")) {
            let quoted = line.split('`').skip(1).step_by(2);
            for name in quoted.filter(|_| line.starts_with("| ")).filter(|name| is_code(name)) {
                for part in name.split("::").filter(|part| !self.0.contains(*part)) {
                    let text = format!("names `{name}`, but {part} is not declared anywhere");
                    problems.push(Problem::at_line(PAGE, index + 1, text));
                }
            }
        }
        problems
    }
}

/// Returns the variant of an enum that a line declares, if any.
fn variant(line: &str) -> Option<&str> {
    let (name, behind) = line.trim_start().split_at_checked(line.trim_start().find(['(', ',', ' '])?)?;
    let is_variant = behind.starts_with(['(', ',']) || behind.starts_with(" {");
    (is_variant && name.starts_with(char::is_uppercase) && is_code(name)).then_some(name)
}

/// Returns whether a quoted text is a path of Rust names, and not a key of the configuration.
fn is_code(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':')
        && !name.ends_with("_bytes")
}
