//! Problems found by a check.

use anyhow::{Result, bail};
use std::fmt;

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Where: a path from the root of the repository, with a line if there is one, or a package.
    pub(crate) place: String,
    /// Description of the problem, with a remedy.
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.into(), text: text.into() }
    }

    pub(crate) fn at_line(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), text)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Prints the problems. Returns an error if there are any.
pub(crate) fn report(check: &str, mut problems: Vec<Problem>) -> Result<()> {
    problems.sort();
    for problem in &problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => {
            println!("{check}: good");
            Ok(())
        }
        1 => bail!("{check}: 1 problem"),
        count => bail!("{check}: {count} problems"),
    }
}
