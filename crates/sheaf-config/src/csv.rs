//! Files of comma-separated values: lines and cells, with their places.

use std::borrow::Cow;
use std::ops::Range;

/// Remedy for a line that [`cells`] refuses.
pub(crate) const QUOTES: &str = "end a quoted cell with `\"`, and write `\"\"` for a quote in it";

/// Returns the number of bytes of the byte order mark with which spreadsheets begin a file.
pub(crate) fn begin_of(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// Place of a line.
pub(crate) struct Number {
    pub(crate) line: usize,
    pub(crate) offset: usize,
}

/// Returns the lines of a text from an offset on, each with its end.
pub(crate) fn lines(text: &str, begin: usize) -> impl Iterator<Item = (Number, &str)> {
    let mut offset = begin;
    text[begin..].split_inclusive('\n').enumerate().map(move |(index, line)| {
        let number = Number { line: index + 1, offset };
        offset += line.len();
        (number, line)
    })
}

/// A cell of a line, without quotes, and where it is.
pub(crate) struct Cell<'t> {
    pub(crate) text: Cow<'t, str>,
    pub(crate) span: Range<usize>,
}

impl Cell<'_> {
    pub(crate) fn moved(self, by: usize) -> Self {
        let Range { start, end } = self.span;
        Self { span: start + by..end + by, ..self }
    }
}

/// Divides a line at commas that are not in quotes. The error is a position and what is there.
pub(crate) fn cells(line: &str) -> Result<Vec<Cell<'_>>, (usize, &'static str)> {
    let (mut cells, mut at) = (Vec::new(), 0);
    loop {
        let rest = &line[at..];
        let blank = rest.len() - rest.trim_start().len();
        let (text, end) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => {
                let open = at + blank;
                let length = end_of_quoted(quoted).ok_or((open, "a quoted cell has no end in this line"))?;
                let behind = open + 1 + length + 1;
                let end = behind + line[behind..].find(',').unwrap_or(line.len() - behind);
                if !line[behind..end].trim().is_empty() {
                    return Err((behind, "text follows a quoted cell"));
                }
                (Cow::Owned(quoted[..length].replace("\"\"", "\"")), end)
            }
            None => {
                let end = at + rest.find(',').unwrap_or(rest.len());
                (Cow::Borrowed(line[at..end].trim()), end)
            }
        };
        let shown = &line[at..end];
        let begin = at + (shown.len() - shown.trim_start().len());
        cells.push(Cell { text, span: begin..begin + shown.trim().len() });
        if end == line.len() {
            return Ok(cells);
        }
        at = end + 1;
    }
}

/// Returns the number of bytes before the quote that ends a quoted text.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].find('"')?;
        match text[at + 1..].starts_with('"') {
            true => at += 2,
            false => return Some(at),
        }
    }
}
