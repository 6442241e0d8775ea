//! Names of sources, for people.

use crate::ids::SourceId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use thiserror::Error;

/// The longest name of a source.
pub const MAX_SOURCE_NAME_BYTES: usize = 64;

/// Names of sources. Messages between nodes and files have ids; names are added where text is shown to people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceNames {
    names: BTreeMap<SourceId, String>,
    sources: BTreeMap<String, SourceId>,
}

/// Reason why a source cannot have a name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceNameError {
    /// It has no characters.
    #[error("the name is empty")]
    Empty,
    /// It exceeds [`MAX_SOURCE_NAME_BYTES`].
    #[error("the name has {0} bytes, more than {MAX_SOURCE_NAME_BYTES}")]
    TooLong(usize),
    /// It has a character that would change how a line looks: a control character, or one that turns the direction of writing.
    #[error("the name has the control character {0:?}")]
    Control(char),
    /// It begins or ends with white space.
    #[error("the name {0:?} begins or ends with white space")]
    Blank(String),
    /// Another source has this name.
    #[error("source {other} is also named {name:?}")]
    Taken {
        /// The name.
        name: String,
        /// The source that has it.
        other: SourceId,
    },
    /// The source has a name.
    #[error("source {of} is already named {name:?}")]
    Named {
        /// The source.
        of: SourceId,
        /// Its name.
        name: String,
    },
}

/// Checks that a name, of a source or a group of sources, can be part of a line of text.
///
/// # Errors
/// [`SourceNameError::Empty`], [`SourceNameError::TooLong`], [`SourceNameError::Control`], [`SourceNameError::Blank`]
pub fn check_source_name(name: &str) -> Result<(), SourceNameError> {
    if name.is_empty() {
        return Err(SourceNameError::Empty);
    }
    if name.len() > MAX_SOURCE_NAME_BYTES {
        return Err(SourceNameError::TooLong(name.len()));
    }
    if let Some(character) = name.chars().find(|character| is_control(*character)) {
        return Err(SourceNameError::Control(character));
    }
    if name.trim() != name {
        return Err(SourceNameError::Blank(name.to_owned()));
    }
    Ok(())
}

fn is_control(character: char) -> bool {
    let separates_or_turns =
        matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || separates_or_turns
}

impl SourceNames {
    /// Names a source.
    ///
    /// # Errors
    /// A [`SourceNameError`]; the source is then not named.
    pub fn insert(&mut self, source: SourceId, name: &str) -> Result<(), SourceNameError> {
        check_source_name(name)?;
        if let Some(known) = self.names.get(&source) {
            return Err(SourceNameError::Named { of: source, name: known.clone() });
        }
        if let Some(other) = self.sources.get(name) {
            return Err(SourceNameError::Taken { name: name.to_owned(), other: *other });
        }
        self.names.insert(source, name.to_owned());
        self.sources.insert(name.to_owned(), source);
        Ok(())
    }

    /// Returns the name of a source, if it has one.
    #[must_use]
    pub fn get(&self, source: SourceId) -> Option<&str> {
        self.names.get(&source).map(String::as_str)
    }

    /// Returns the source with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<SourceId> {
        self.sources.get(name).copied()
    }

    /// Returns whether no source has a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the sources that have a name, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, &str)> {
        self.names.iter().map(|(source, name)| (*source, name.as_str()))
    }

    /// Returns the names of these sources alone.
    #[must_use]
    pub fn of(&self, sources: impl IntoIterator<Item = SourceId>) -> Self {
        let mut some = Self::default();
        for source in sources {
            if let Some(name) = self.get(source) {
                some.names.insert(source, name.to_owned());
                some.sources.insert(name.to_owned(), source);
            }
        }
        some
    }

    /// Returns the text for a source: its id, and its name in parentheses if it has one.
    #[must_use]
    pub fn show(&self, source: SourceId) -> String {
        self.get(source).map_or_else(|| source.to_string(), |name| format!("{source} ({name})"))
    }

    /// Adds names to a text for people: behind each id that follows the word `source` or `card`, and behind those of a list that
    /// follows `sources` or `cards`. Ranges stay as they are.
    #[must_use]
    pub fn annotate<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut named, mut copied, mut at) = (String::new(), 0, 0);
        while let Some((start, is_list)) = next_ids(text, at) {
            at = start;
            while let Some((source, end)) = id_at(text, at) {
                at = end;
                if let Some(name) = self.get(source).filter(|name| !is_named(&text[end..], name)) {
                    named.push_str(&text[copied..end]);
                    named.push_str(&format!(" ({name})"));
                    copied = end;
                }
                let separator = [", and ", ", ", " and "].iter().find(|it| text[end..].starts_with(**it));
                match separator.filter(|_| is_list) {
                    Some(separator) => at = end + separator.len(),
                    None => break,
                }
            }
        }
        match copied {
            0 => Cow::Borrowed(text),
            _ => Cow::Owned(named + &text[copied..]),
        }
    }
}

/// Words that ids of sources follow.
const WORDS: [&str; 2] = ["source", "card"];

/// Finds the next place where ids follow one of [`WORDS`], and whether the word is plural.
fn next_ids(text: &str, from: usize) -> Option<(usize, bool)> {
    let begins_word =
        |at: &usize| !text[..*at].ends_with(|last: char| last.is_alphanumeric() || "_-.`".contains(last));
    let places = text[from..].match_indices(['s', 'S', 'c', 'C']).map(|(at, _)| from + at);
    places.filter(begins_word).find_map(|at| {
        let word = WORDS.iter().find(|word| {
            text.get(at..at + word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word))
        })?;
        let rest = &text[at + word.len()..];
        let (rest, is_list) = rest.strip_prefix('s').map_or((rest, false), |rest| (rest, true));
        let ids = rest.strip_prefix(' ')?;
        Some((text.len() - ids.len(), is_list))
    })
}

/// Reads the id that begins at `at`, and returns where it ends. Ranges, decimal numbers and the like are no ids.
fn id_at(text: &str, at: usize) -> Option<(SourceId, usize)> {
    let rest = &text[at..];
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let source = rest[..digits].parse().ok()?;
    let mut behind = rest[digits..].chars();
    let is_part_of_more = match behind.next() {
        Some('-' | '.') => behind.next().is_some_and(|next| next.is_ascii_digit()),
        Some(next) => next.is_alphanumeric() || next == '_',
        None => false,
    };
    (!is_part_of_more).then_some((SourceId(source), at + digits))
}

/// Returns whether the text behind an id begins with its name.
fn is_named(rest: &str, name: &str) -> bool {
    rest.strip_prefix(" (").and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with(')'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> SourceNames {
        let mut names = SourceNames::default();
        for (source, name) in [(7, "left"), (8, "right"), (808_432_835, "DU3-DOM7"), (9, "end")] {
            names.insert(SourceId(source), name).unwrap();
        }
        names
    }

    #[test]
    fn ids_behind_the_word_source_get_names() {
        let names = names();
        for (text, right) in [
            ("source 808432835: gone", "source 808432835 (DU3-DOM7): gone"),
            ("Source 7.", "Source 7 (left)."),
            ("cards 7 and 8; card 9", "cards 7 (left) and 8 (right); card 9 (end)"),
            ("source 7, 8 bytes", "source 7 (left), 8 bytes"),
            ("source 7 (left), source 8", "source 7 (left), source 8 (right)"),
            ("sources 7, 1, 8 and 9 wait", "sources 7 (left), 1, 8 (right) and 9 (end) wait"),
            ("(source 7) and source 8", "(source 7 (left)) and source 8 (right)"),
            ("sources 7, and 8", "sources 7 (left), and 8 (right)"),
        ] {
            assert_eq!(names.annotate(text), right);
        }
    }

    #[test]
    fn other_numbers_get_no_names() {
        let names = names();
        for text in [
            "source 1",
            "sources 7-8",
            "source 7.5",
            "source 7x",
            "resource 7",
            "`source 7`",
            "source.7",
            "7 sources, 8 events",
            "a source, 7",
            "source 99999999999",
            "source ",
            "sources",
            "source 0x7",
        ] {
            assert_eq!(names.annotate(text), text);
        }
        assert_eq!(SourceNames::default().annotate("source 7"), "source 7");
    }

    #[test]
    fn names_are_unique_short_and_printable() {
        let mut names = names();
        let mut refused =
            |source: u32, name: &str| names.insert(SourceId(source), name).unwrap_err().to_string();
        assert_eq!(refused(1, ""), "the name is empty");
        assert_eq!(refused(1, "left"), "source 7 is also named \"left\"");
        assert_eq!(refused(7, "other"), "source 7 is already named \"left\"");
        assert_eq!(refused(1, " x"), "the name \" x\" begins or ends with white space");
        assert_eq!(refused(1, "a\u{1b}[31m"), "the name has the control character '\\u{1b}'");
        assert_eq!(refused(1, "a\u{202e}b"), "the name has the control character '\\u{202e}'");
        assert_eq!(refused(1, &"x".repeat(65)), "the name has 65 bytes, more than 64");
        assert_eq!(names.insert(SourceId(1), "STS-3/left µ"), Ok(()));
        assert_eq!(
            (names.find("STS-3/left µ"), names.get(SourceId(1))),
            (Some(SourceId(1)), Some("STS-3/left µ"))
        );
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_characters(text in "((s|S)ources? |[0-9]|, | and |[ -~]|µ)*") {
            let names = names();
            let named = names.annotate(&text).into_owned();
            prop_assert!(named.len() >= text.len());
            let mut rest = named.chars();
            prop_assert!(text.chars().all(|one| rest.any(|other| other == one)), "{named}");
        }
    }
}
