//! Errors in a configuration, rendered like a compiler's message.

use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Kind of an error in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The file cannot be read.
    Unreadable,
    /// The file is larger than any configuration.
    TooLarge,
    /// The file is not text in UTF-8.
    NotUtf8,
    /// The text is not TOML.
    Syntax,
    /// A table or key that does not exist.
    Unknown,
    /// A value of another type than the key has.
    WrongType,
    /// A value of the right type that is not accepted.
    BadValue,
    /// A key that is needed and not there.
    Missing,
    /// Two values that cannot go together.
    Conflict,
    /// A key that has no effect with the other values.
    NoEffect,
    /// A bound in bytes that cannot hold what it must hold.
    TooSmall,
    /// Sources that are nowhere, or in two places, or do not exist.
    Sources,
    /// Something in the source map.
    SourceMap,
    /// Nodes that do not make a system.
    Nodes,
}

/// A place in the text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    /// The file's name as it was given.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// Number of characters that are marked; at least 1.
    pub width: usize,
    /// The text of the line, shortened where it is very long.
    pub text: String,
    /// Number of characters of the line that are left out in front of `text`.
    pub skipped: usize,
}

/// Where the value that is wrong comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From a place in a file.
    Text(TextPlace),
    /// From a file, no place in particular.
    File(Arc<str>),
    /// From this command-line flag.
    Flag(&'static str),
    /// From neither: a default, or a program that set the field.
    Program {
        /// The command-line flag that would set it, if there is one.
        flag: Option<&'static str>,
    },
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// The key, with its table: `readout.count`, `node[2].name`. Empty where it is about a file as a whole.
    pub key: String,
    /// Text that was found.
    pub found: String,
    /// Correction; never empty.
    pub right: String,
    /// Where it comes from.
    pub origin: Origin,
}

impl ConfigError {
    /// The line in the file, counted from 1, where the error has one.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match &self.origin {
            Origin::Text(place) => Some(place.line),
            _ => None,
        }
    }

    /// Errors in the order of the file, then the rest.
    fn order(&self) -> (usize, usize) {
        match &self.origin {
            Origin::Text(place) => (place.line, place.column),
            _ => (usize::MAX, 0),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.found)?;
        match &self.origin {
            Origin::Text(place) => place.fmt(f)?,
            Origin::File(file) => writeln!(f, "  --> {file}")?,
            Origin::Flag(flag) => writeln!(f, "  --> {flag} on the command line")?,
            Origin::Program { flag: Some(flag) } => writeln!(f, "  --> {} (flag {flag})", self.key)?,
            Origin::Program { flag: None } => writeln!(f, "  --> {}", self.key)?,
        }
        write!(f, "   = help: {}", self.right)
    }
}

impl fmt::Display for TextPlace {
    /// Writes the position of the error, and the line with the relevant part underlined.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, width, text, skipped } = self;
        let margin = line.to_string().len().max(2);
        let indent = column - 1 - skipped;
        let shown = text.chars().count().saturating_sub(indent).max(1);
        writeln!(f, "{:margin$}--> {file}:{line}:{column}", "")?;
        writeln!(f, "{:margin$} |", "")?;
        writeln!(f, "{line:margin$} | {text}")?;
        writeln!(f, "{:margin$} | {:indent$}{:^<underlined$}", "", "", "", underlined = (*width).min(shown))
    }
}

/// All that is wrong with a configuration, in the order of the file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
    /// Number of errors beyond those that are kept.
    more: usize,
}

/// More errors at a time are not helpful.
const MAX_ERRORS: usize = 50;

impl ConfigErrors {
    /// Returns `Err` with all `errors`, or `Ok(value)` if there are none.
    ///
    /// # Errors
    /// `errors`, in the order of the file.
    pub fn or<T>(errors: Vec<ConfigError>, value: T) -> Result<T, Self> {
        Self::or_more(errors, 0, value)
    }

    /// As [`ConfigErrors::or`], where `more` errors were found and not kept.
    ///
    /// # Errors
    /// `errors`, in the order of the file.
    pub fn or_more<T>(mut errors: Vec<ConfigError>, more: usize, value: T) -> Result<T, Self> {
        if errors.is_empty() {
            return Ok(value);
        }
        errors.sort_by_key(ConfigError::order);
        errors.dedup();
        let more = more + errors.len().saturating_sub(MAX_ERRORS);
        errors.truncate(MAX_ERRORS);
        Err(Self { errors, more })
    }

    /// The errors, in the order of the file; at most 50.
    #[must_use]
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }
}

impl fmt::Display for ConfigErrors {
    /// One message after the other, with an empty line between them. No newline at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            error.fmt(f)?;
        }
        if self.more > 0 {
            write!(f, "\n\nerror: {} more errors are not shown", self.more)?;
        }
        Ok(())
    }
}
