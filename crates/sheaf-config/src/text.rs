//! The text of a file: from byte offsets to lines and columns, and how much of a line is shown.

use crate::error::{Origin, TextPlace};
use crate::secrets::without_passwords;
use std::ops::Range;
use std::sync::Arc;

/// The most characters of a line that a message shows.
const SHOWN: usize = 110;
/// The most characters in front of the place that a message shows.
const SHOWN_BEFORE: usize = 60;

/// A file's name and text.
#[derive(Clone)]
pub struct Text<'a> {
    file: Arc<str>,
    text: &'a str,
    /// Where each line starts.
    lines: Vec<usize>,
}

impl<'a> Text<'a> {
    /// The text of the file that messages call `file`.
    #[must_use]
    pub fn new(file: &str, text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(index, _)| index + 1);
        Self { file: file.into(), text, lines: std::iter::once(0).chain(ends).collect() }
    }

    /// Where the bytes `span` of the text are.
    #[must_use]
    pub fn origin(&self, span: &Range<usize>) -> Origin {
        let start = self.boundary(span.start);
        let mut index = self.lines.partition_point(|line| *line <= start) - 1;
        let is_past_the_last_line = index > 0 && self.lines[index] == self.text.len();
        if is_past_the_last_line {
            // The text ends with a newline; errors at its end are shown after the last line.
            index -= 1;
        }
        let line_start = self.lines[index];
        let line_end = self.lines.get(index + 1).map_or(self.text.len(), |next| next - 1);
        let line = self.text[line_start..line_end].trim_end_matches('\r');
        let before = self.text[line_start..start.min(line_start + line.len())].chars().count();
        let end = self.boundary(span.end).clamp(start, line_end.max(start));
        let width = self.text[start..end].trim_end().chars().count().max(1);
        let skipped = before.saturating_sub(SHOWN_BEFORE);
        Origin::Text(TextPlace {
            file: Arc::clone(&self.file),
            line: index + 1,
            column: before + 1,
            width,
            text: printable(without_passwords(line).chars().skip(skipped).take(SHOWN)),
            skipped,
        })
    }

    /// The file as a whole.
    #[must_use]
    pub fn whole(&self) -> Origin {
        Origin::File(Arc::clone(&self.file))
    }

    /// The piece of the text at `span`, shortened, on one line.
    #[must_use]
    pub fn piece(&self, span: &Range<usize>) -> String {
        let start = self.boundary(span.start);
        let end = self.boundary(span.end).max(start);
        shorten(self.text[start..end].trim())
    }

    /// The nearest character boundary at or before `offset`.
    fn boundary(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset)
    }
}

/// Characters that do not move the cursor: one column each.
fn printable(characters: impl Iterator<Item = char>) -> String {
    let show = |character: char| match character {
        '\t' => ' ',
        character if character.is_control() => '\u{fffd}',
        character => character,
    };
    characters.map(show).collect()
}

/// At most the first 60 characters of a text, on one line and without passwords.
#[must_use]
pub fn shorten(text: &str) -> String {
    let text = without_passwords(text);
    let mut short = printable(text.chars().take(60));
    if text.chars().nth(60).is_some() {
        short.push_str("...");
    }
    short
}
