//! Names of public types: compounds of terms of the glossary and plain English words.
//!
//! A new word in the name of a type is a decision. A term belongs on the glossary page; a word that every reader knows belongs in
//! `words.txt` beside this file.

use crate::problem::Problem;
use crate::rust_source::{code_only, find_word, line_of, without_tests};
use std::collections::BTreeSet;

/// The page with the terms.
pub(super) const GLOSSARY: &str = "docs/reference/glossary.md";

/// Words of plain English, of operating systems and of file formats.
const PLAIN_WORDS: &str = include_str!("words.txt");

/// Words of which names of types may consist.
#[derive(Debug)]
pub(super) struct Vocabulary(BTreeSet<String>);

impl Vocabulary {
    /// Reads the terms of a glossary, which are set in bold.
    pub(super) fn new(glossary: &str) -> Self {
        let terms = glossary.split("**").skip(1).step_by(2).flat_map(|term| term.split([' ', '-']));
        let plain = PLAIN_WORDS.split_whitespace();
        Self(terms.chain(plain).map(str::to_lowercase).collect())
    }

    /// Returns a problem for each public type of a library's file whose name contains other words.
    pub(super) fn check(&self, path: &str, source: &str) -> Vec<Problem> {
        if !path.starts_with("crates/") || path.contains("/tests") || path.contains("/benches/") {
            return Vec::new();
        }
        let code = without_tests(&code_only(source));
        let mut problems = Vec::new();
        for at in find_word(&code, "pub") {
            let Some(name) = type_name(&code[at + "pub".len()..]) else {
                continue;
            };
            for word in words(name).into_iter().filter(|word| !self.knows(word)) {
                let text = format!(
                    "{name}: `{word}` is neither a term of {GLOSSARY} nor a word of xtask/src/tidy/words.txt; use one, or add it"
                );
                problems.push(Problem::at_line(path, line_of(&code, at), text));
            }
        }
        problems
    }

    fn knows(&self, word: &str) -> bool {
        self.0.contains(word) || word.strip_suffix('s').is_some_and(|singular| self.0.contains(singular))
    }
}

/// Returns the name of the type that is declared after `pub`, if any.
fn type_name(behind: &str) -> Option<&str> {
    let mut words = behind.split_whitespace();
    let is_type = matches!(words.next()?, "struct" | "enum" | "trait" | "type" | "union");
    let name = words.next().filter(|_| is_type)?;
    Some(name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default())
}

/// Returns the words of a name in camel case, in lower case and without digits.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter.is_uppercase() || letter.is_ascii_digit() {
            words.push(String::new());
        }
        if let (Some(word), false) = (words.last_mut(), letter.is_ascii_digit()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
