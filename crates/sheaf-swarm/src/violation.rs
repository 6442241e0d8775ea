//! Violated rules.

use std::fmt;

/// A rule that a run has violated, with the values that violate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(String);

impl Violation {
    /// Returns the rule: the text without the numbers that are specific to a run. Two runs that break the same rule for the
    /// same reason have the same.
    #[must_use]
    pub fn rule(&self) -> String {
        const LETTERS: usize = 60;
        let line = self.0.lines().next().unwrap_or_default();
        let mut rule = String::new();
        for letter in line.chars() {
            match letter {
                '0'..='9' | '.' if rule.ends_with('#') => {}
                '0'..='9' => rule.push('#'),
                _ => rule.push(letter),
            }
        }
        rule.chars().take(LETTERS).collect()
    }
}

/// The first line of the text begins with the rule.
impl From<String> for Violation {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Violation {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the violations as a list with one line or more for each.
#[must_use]
pub fn list(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("- {violation}\n")).collect()
}

/// Makes a [`Violation`] as [`format!`] makes a text.
macro_rules! violation {
    ($($text:tt)*) => { $crate::violation::Violation::from(format!($($text)*)) };
}
pub(crate) use violation;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_apart_by_their_words_not_by_their_numbers() {
        let rule = |text: &str| Violation::from(text).rule();
        let (one, two) = ("12 events were dropped as late", "7 events were dropped as late\n  bu0: builds 3");
        assert_eq!(rule(one), rule(two));
        assert_ne!(rule(one), rule("12 events were dropped as duplicate"));
    }
}
