//! Decision records: consecutive numbers, a status with a date, and a row in the index.

use crate::problem::Problem;
use std::collections::BTreeMap;

const FOLDER: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";

/// Records and their index, collected as they are read.
#[derive(Debug, Default)]
pub(super) struct Records {
    records: BTreeMap<String, String>,
    index: String,
}

impl Records {
    pub(super) fn add(&mut self, path: &str, text: &str) {
        if path == INDEX {
            text.clone_into(&mut self.index);
        } else if let Some(name) = path.strip_prefix(FOLDER) {
            self.records.insert(name.to_owned(), text.to_owned());
        }
    }

    pub(super) fn check(&self) -> Vec<Problem> {
        (1..).zip(&self.records).flat_map(|(number, (name, text))| self.record(number, name, text)).collect()
    }

    fn record(&self, number: u32, name: &str, text: &str) -> Vec<Problem> {
        let path = format!("{FOLDER}{name}");
        let mut problems = Vec::new();
        if !name.starts_with(&format!("{number:04}-")) {
            problems.push(Problem::new(&path, format!("should have the next number, {number:04}")));
        }
        let mut lines = text.lines();
        let title = format!("# {number:04}: ");
        if !lines.next().is_some_and(|line| line.starts_with(&title)) {
            problems.push(Problem::at_line(&path, 1, format!("should begin with `{title}` and a title")));
        }
        if !lines.nth(1).is_some_and(is_status) {
            let right = "should be `**Status.** Accepted, YYYY-MM-DD.`, or `**Status.** Superseded by [NNNN](FILE), YYYY-MM-DD.`";
            problems.push(Problem::at_line(&path, 3, right));
        }
        if !self.index.contains(&format!("\n| [{number:04}]({name}) |")) {
            problems.push(Problem::new(INDEX, format!("has no row for {name}")));
        }
        problems
    }
}

fn is_status(line: &str) -> bool {
    let status = line.strip_prefix("**Status.** ").and_then(|line| line.strip_suffix('.'));
    status.and_then(|status| status.rsplit_once(", ")).is_some_and(|(status, date)| {
        (status == "Accepted" || status.starts_with("Superseded by [")) && is_date(date)
    })
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([4, 2, 2])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}
