//! Rust files: sizes, module documentation, leftovers.

use crate::problem::Problem;
use crate::rust_source::{block_end, code_only, find_word, line_of, without_tests};
use crate::workspace;

/// Maximum length of a file: longer files usually contain more than one idea.
const FILE_LINES_MAX: usize = 600;

/// Maximum length of a function, which should fit on a screen. Does not apply to tests.
const FUNCTION_LINES_MAX: usize = 100;

/// Exceptions with their permitted length, which may only decrease. An entry is `path` or `path#function`.
const LONGER: &[(&str, usize)] = &[];

/// Words that must not be committed. Split in halves, so that this file does not match itself.
const LEFT_OVERS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

pub(super) fn check(path: &str, source: &str) -> Vec<Problem> {
    let mut problems = left_overs(path, source);
    problems.extend(module_documentation(path, source));
    problems.extend(file_length(path, source, LONGER));
    if !is_test_code(path) {
        problems.extend(function_lengths(path, source, LONGER));
    }
    problems
}

pub(super) fn is_test_code(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.contains("/benches/")
}

fn left_overs(path: &str, source: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for word in LEFT_OVERS {
        for at in find_word(source, word) {
            let text = format!("{word}: do it, or describe it in an issue");
            problems.push(Problem::at_line(path, line_of(source, at), text));
        }
    }
    // Clippy's lint does not see code that is disabled on this platform or by the features.
    let code = code_only(source);
    for at in find_word(&code, "dbg") {
        if code[at + "dbg".len()..].starts_with('!') {
            problems.push(Problem::at_line(path, line_of(&code, at), "remove dbg!"));
        }
    }
    problems
}

/// Checks that a file begins with its purpose. Test files are exempt: the names of their tests explain them.
fn module_documentation(path: &str, source: &str) -> Option<Problem> {
    let first = source.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    let is_documented = first.is_some_and(|line| line.starts_with("//!"));
    (!is_documented && !is_test_code(path))
        .then(|| Problem::new(path, "does not begin with module documentation (`//!`)"))
}

fn file_length(path: &str, source: &str, longer: &[(&str, usize)]) -> Option<Problem> {
    let most = allowance(longer, path).unwrap_or(FILE_LINES_MAX);
    let lines = source.lines().count();
    (lines > most).then(|| Problem::new(path, format!("has {lines} lines, more than {most}: divide it")))
}

fn function_lengths(path: &str, source: &str, longer: &[(&str, usize)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, line, lines) in functions(source) {
        let most = allowance(longer, &format!("{path}#{name}")).unwrap_or(FUNCTION_LINES_MAX);
        if lines > most {
            let text = format!("function {name} has {lines} lines, more than {most}: divide it");
            problems.push(Problem::at_line(path, line, text));
        }
    }
    problems
}

/// Returns name, line and number of lines of every function with a body outside test modules.
pub(super) fn functions(source: &str) -> Vec<(String, usize, usize)> {
    let code = without_tests(&code_only(source));
    let mut found = Vec::new();
    for at in find_word(&code, "fn") {
        let after = code[at + "fn".len()..].trim_start();
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // `fn(u8)` is a type.
        if let (false, Some(end)) = (name.is_empty(), block_end(&code, at)) {
            let first = line_of(&code, at);
            found.push((name, first, line_of(&code, end) + 1 - first));
        }
    }
    found
}

fn allowance(longer: &[(&str, usize)], entry: &str) -> Option<usize> {
    longer.iter().find(|(name, _)| *name == entry).map(|(_, lines)| *lines)
}

/// Returns a problem for each exception that is no longer needed or could be tighter.
pub(super) fn idle_exceptions() -> Vec<Problem> {
    let read = |path: &str| std::fs::read_to_string(workspace::root().join(path)).unwrap_or_default();
    LONGER.iter().filter_map(|(entry, allowed)| idle_exception(entry, *allowed, read)).collect()
}

pub(super) fn idle_exception(
    entry: &str,
    allowed: usize,
    read: impl FnOnce(&str) -> String,
) -> Option<Problem> {
    let (path, function) = entry.split_once('#').map_or((entry, None), |(path, name)| (path, Some(name)));
    let source = read(path);
    let (lines, enough) = match function {
        None => (source.lines().count(), FILE_LINES_MAX),
        Some(name) => {
            let all = functions(&source);
            let longest = all.iter().filter(|(found, ..)| found == name).map(|(.., lines)| *lines).max();
            (longest.unwrap_or(0), FUNCTION_LINES_MAX)
        }
    };
    let text = if lines <= enough {
        format!("no longer needs an exception; remove {entry} from the list in xtask/src/tidy/rust.rs")
    } else if lines < allowed {
        format!("has {lines} lines now; update {entry} in the list in xtask/src/tidy/rust.rs")
    } else {
        return None;
    };
    Some(Problem::new(path, text))
}
