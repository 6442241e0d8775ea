//! Openings of documentation lines: a verb or a noun phrase, not "What" or "How".

use crate::problem::Problem;

const RIGHT: &str =
    "documentation begins with a verb or a noun phrase, not with \"What\" or \"How\" (STYLE.md)";

pub(super) fn check(path: &str, source: &str) -> Vec<Problem> {
    let lines = (1..).zip(source.lines());
    lines
        .filter(|(_, line)| is_question(line))
        .map(|(number, _)| Problem::at_line(path, number, RIGHT))
        .collect()
}

fn is_question(line: &str) -> bool {
    let line = line.trim_start();
    let said = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
    said.is_some_and(|said| said.starts_with("What ") || said.starts_with("How "))
}
