//! Rules that neither the compiler nor clippy checks. Each rule is a function from a file's path and text to problems.
//!
//! | module | checks |
//! |---|---|
//! | `rust` | sizes of Rust files and functions, module documentation, leftovers |
//! | `links` | links between pages |
//! | `decisions` | number, status and date of decision records |
//! | `names` | names in ARCHITECTURE.md |
//! | `types` | names of public types |
//! | `openings` | openings of documentation lines |
//! | `parameters` | number of parameters of functions |
//! | `machine` | traces of one machine: absolute paths, package registries |
//!
//! Planted bugs whose text has been removed by a change are found here too, with the code of `mutants`.

mod decisions;
mod links;
mod machine;
mod names;
mod openings;
mod parameters;
mod rust;
mod types;

use crate::mutants;
use crate::problem::{Problem, report};
use crate::workspace;
use anyhow::{Context as _, Result};

/// `cargo xtask tidy`.
pub(crate) fn command() -> Result<()> {
    let machine = machine::Traces::of_this_machine();
    let mut problems = Vec::new();
    let mut declared = names::Declared::default();
    let mut records = decisions::Records::default();
    let mut architecture = String::new();
    let glossary = workspace::root().join(types::GLOSSARY);
    let vocabulary = types::Vocabulary::new(&std::fs::read_to_string(glossary).context(types::GLOSSARY)?);
    for path in workspace::files()? {
        let bytes = std::fs::read(workspace::root().join(&path)).context(path.clone())?;
        // Fuzz inputs and other binary data are not checked.
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        if is_data(&path) {
            continue;
        }
        problems.extend(white_space(&path, &text));
        problems.extend(machine.check(&path, &text));
        if path.ends_with(".rs") {
            problems.extend(rust::check(&path, &text));
            problems.extend(parameters::check(&path, &text));
            declared.add(&text);
            problems.extend(openings::check(&path, &text));
            problems.extend(vocabulary.check(&path, &text));
        }
        if path.ends_with(".md") {
            problems.extend(links::check(workspace::root(), &path, &text));
            records.add(&path, &text);
        }
        if path == "ARCHITECTURE.md" {
            architecture = text;
        }
    }
    problems.extend(declared.check(&architecture));
    problems.extend(records.check());
    problems.extend(rust::idle_exceptions());
    problems.extend(mutants::problems()?);
    report("tidy", problems)
}

/// Returns whether a file is data that must not be reformatted: inputs of tests, and regressions recorded by proptest.
fn is_data(path: &str) -> bool {
    path.starts_with("fuzz/corpus/") || path.contains("/proptest-regressions/")
}

/// Finds tabs, trailing white space, foreign line ends, and a missing line end at the end of the file.
fn white_space(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let may_have_tabs = path.ends_with("Makefile") || path.ends_with(".mk") || path.starts_with("LICENSE");
    for (index, line) in text.split('\n').enumerate() {
        let found = match line {
            line if line.ends_with('\r') => "ends with a carriage return",
            line if line.ends_with([' ', '\t']) => "ends with white space",
            line if line.contains('\t') && !may_have_tabs => "has a tab",
            _ => continue,
        };
        problems.push(Problem::at_line(path, index + 1, found));
    }
    if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        problems.push(Problem::new(path, "does not end with one line end"));
    }
    problems
}

#[cfg(test)]
mod tests;
