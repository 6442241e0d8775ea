//! Names and files with lists that stand for sources in a value.

use crate::codec::{id_range, integer};
use crate::error::Origin;
use crate::files::Files;
use crate::source_map;
use crate::suggest::nearest;
use crate::text::{Text, shorten};
use sheaf_wire::SourceNames;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use thiserror::Error;
use toml::de::DeValue;

/// Begins the path of a file with a list.
const FILE: char = '@';

/// Why a value cannot be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListError {
    /// The place in the file with the list; `None` if it is the value itself.
    pub(crate) origin: Option<Origin>,
    pub(crate) found: String,
    pub(crate) right: String,
}

impl ListError {
    fn of_value(found: String, right: impl Into<String>) -> Self {
        Self { origin: None, found, right: right.into() }
    }
}

/// A list of sources that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{found}; {right}")]
pub struct SourceListError {
    found: String,
    right: String,
}

/// Replaces files in a list of sources, such as `1-4,@more.txt`, by what they hold.
///
/// # Errors
/// A problem of a file, with its line.
pub fn expand_source_list(text: &str) -> Result<String, SourceListError> {
    let resolver = Resolver { names: &SourceNames::default(), files: Files::Read };
    let expanded = resolver.resolve(&DeValue::String(text.into()));
    expanded.map(|expanded| expanded.unwrap_or_else(|| text.to_owned())).map_err(|error| {
        let found = match error.origin {
            Some(Origin::Text(place)) => format!("{}:{}: {}", place.file, place.line, error.found),
            _ => error.found,
        };
        SourceListError { found, right: error.right }
    })
}

/// Reads a source, such as `17` or `0x2100`, or the first and the last of a range of sources, such as `10-19`.
#[must_use]
pub fn source_range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = id_range(text)?;
    Some(u32::try_from(first).ok()?..=u32::try_from(last).ok()?)
}

/// Replaces names by ids, and files by their lists.
pub(crate) struct Resolver<'a> {
    pub(crate) names: &'a SourceNames,
    pub(crate) files: Files,
}

impl Resolver<'_> {
    /// Returns the text that stands for a value, if the value has names or files: numbers, ranges, and `!` before those that are taken out.
    pub(crate) fn resolve(&self, value: &DeValue<'_>) -> Result<Option<String>, ListError> {
        let entries: Vec<&DeValue<'_>> = match value {
            DeValue::Array(entries) => entries.iter().map(toml::Spanned::get_ref).collect(),
            DeValue::String(_) => vec![value],
            _ => return Ok(None),
        };
        let (mut pieces, mut is_changed) = (Vec::new(), false);
        for entry in entries {
            match entry {
                DeValue::Integer(number) => {
                    // Another codec reports a number that is too large.
                    let Some(number) = integer(number) else { return Ok(None) };
                    pieces.push(number.to_string());
                }
                DeValue::String(text) => is_changed |= self.entry(text, &mut pieces)?,
                _ => return Ok(None),
            }
        }
        Ok(is_changed.then(|| pieces.join(", ")))
    }

    /// Adds the pieces of an entry, and returns whether one of them was replaced.
    fn entry(&self, text: &str, pieces: &mut Vec<String>) -> Result<bool, ListError> {
        // Names and paths may have commas.
        let whole = text.strip_prefix('!').unwrap_or(text);
        if whole.starts_with(FILE) || self.names.find(whole).is_some() {
            return self.piece(text, pieces);
        }
        let mut is_changed = false;
        for piece in text.split(',') {
            is_changed |= self.piece(piece.trim(), pieces)?;
        }
        Ok(is_changed)
    }

    fn piece(&self, text: &str, pieces: &mut Vec<String>) -> Result<bool, ListError> {
        let (name, taken_out) = text.strip_prefix('!').map_or((text, ""), |name| (name, "!"));
        if id_range(name).is_some() {
            pieces.push(text.to_owned());
            return Ok(false);
        }
        if let Some(path) = name.strip_prefix(FILE) {
            self.file(path, taken_out, pieces)?;
            return Ok(true);
        }
        match self.names.find(name) {
            Some(source) => pieces.push(format!("{taken_out}{source}")),
            // The codec describes what it accepts.
            None if !name.contains(char::is_alphabetic) => {
                pieces.push(text.to_owned());
                return Ok(false);
            }
            None => return Err(ListError::of_value(no_source(name), self.meaning(name))),
        }
        Ok(true)
    }

    /// Proposes another name.
    fn meaning(&self, name: &str) -> String {
        match nearest(name, self.names.iter().map(|(_, name)| name)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None if self.names.is_empty() => {
                "write ids and ranges such as `10-19`; names need a `source.map`, or [source.names]"
                    .to_owned()
            }
            None => "write an id, or a name of the source map".to_owned(),
        }
    }

    /// Adds the list in a file.
    fn file(&self, path: &str, taken_out: &str, pieces: &mut Vec<String>) -> Result<(), ListError> {
        let right = "write \"@FILE\" with the path of a text file that has one id, range or name a line; relative paths start at the \
                     working directory";
        let text = self.files.read(Path::new(path)).map_err(|error| {
            ListError::of_value(format!("cannot read {}, a list of sources: {error}", shorten(path)), right)
        })?;
        self.lines(&text, path, taken_out, pieces)
    }

    /// Adds the list in the text of a file.
    fn lines(
        &self,
        text: &str,
        path: &str,
        taken_out: &str,
        pieces: &mut Vec<String>,
    ) -> Result<(), ListError> {
        let places = Text::new(path, text);
        let (mut start, mut lines) = (0, Vec::new());
        for line in text.split_inclusive('\n') {
            let entry = self.words(line);
            let at = start + (line.len() - line.trim_start().len());
            start += line.len();
            if entry.is_empty() {
                continue;
            }
            let span = at..at + entry.len();
            let fail = |(found, right)| ListError { origin: Some(places.origin(&span)), found, right };
            let piece = self.line(entry).map_err(fail)?;
            lines.push((piece, span.clone()));
        }
        once(&lines, &places)?;
        let texts = lines.into_iter().map(|(Line { text, .. }, _)| format!("{taken_out}{text}"));
        pieces.extend(texts);
        Ok(())
    }

    /// Returns what a line has before its comment. Names may have a `#`.
    fn words<'l>(&self, line: &'l str) -> &'l str {
        let line = line.trim();
        if self.names.find(line).is_some() {
            return line;
        }
        let is_comment = |at: &usize| line[..*at].chars().last().is_none_or(char::is_whitespace);
        let comment = line.match_indices('#').map(|(at, _)| at).find(is_comment);
        line[..comment.unwrap_or(line.len())].trim()
    }

    fn line(&self, entry: &str) -> Result<Line, (String, String)> {
        if let Some((first, last)) = id_range(entry) {
            return Ok(Line { text: entry.to_owned(), first, last });
        }
        if let Some(source) = self.names.find(entry) {
            let id = u64::from(source.0);
            return Ok(Line { text: id.to_string(), first: id, last: id });
        }
        Err((no_source(entry), self.meaning(entry)))
    }
}

fn no_source(name: &str) -> String {
    format!("\"{}\" is no id, no range of ids and no name of a source", shorten(name))
}

/// A line of a list: a number or a range.
struct Line {
    text: String,
    first: u64,
    last: u64,
}

/// Checks that no source is in two lines.
fn once(lines: &[(Line, Range<usize>)], places: &Text<'_>) -> Result<(), ListError> {
    let mut known: BTreeMap<u64, (u64, &Range<usize>)> = BTreeMap::new();
    for (Line { first, last, .. }, span) in lines {
        // Of disjoint ranges, only the last that begins before the end of this one can overlap it.
        let overlapping = known.range(..=*last).next_back().filter(|(_, (end, _))| end >= first);
        if let Some((begin, (_, other))) = overlapping {
            let line = match places.origin(other) {
                Origin::Text(place) => place.line,
                _ => 0,
            };
            return Err(ListError {
                origin: Some(places.origin(span)),
                found: format!("source {} is also in line {line}", begin.max(first)),
                right: "list each source once".to_owned(),
            });
        }
        known.insert(*first, (*last, span));
    }
    Ok(())
}

/// Reads any bytes as a source map, and as a list of sources; for fuzzing. Panics if reading breaks a promise.
#[doc(hidden)]
pub fn fuzz_source_map(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let is_in_text =
        |origin: &Origin| matches!(origin, Origin::Text(place) if (1..=lines).contains(&place.line));
    let names = match source_map::parse(text, "map.csv") {
        Ok(map) => {
            assert!(
                map.names.iter().all(|(source, name)| map.names.find(name) == Some(source)),
                "names are unique"
            );
            map.names
        }
        Err(errors) => {
            assert!(!errors.is_empty() && errors.iter().all(|error| is_in_text(&error.origin)), "{errors:?}");
            SourceNames::default()
        }
    };
    let resolver = Resolver { names: &names, files: Files::Refuse };
    let mut pieces = Vec::new();
    match resolver.lines(text, "list.txt", "", &mut pieces) {
        Ok(()) => assert!(pieces.iter().all(|piece| id_range(piece).is_some()), "{pieces:?}"),
        Err(error) => assert!(error.origin.as_ref().is_some_and(is_in_text), "{error:?}"),
    }
}
