//! The source map: a CSV file with the names of sources, and the groups to which they belong.

use crate::codec::id_range;
use crate::csv::{Cell, QUOTES, begin_of, cells, lines};
use crate::error::{ConfigError, ErrorKind};
use crate::settings::MAX_SOURCES;
use crate::text::{Text, shorten};
use sheaf_wire::source_names::check_source_name;
use sheaf_wire::{SourceId, SourceNames};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Contents of a source map.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceMap {
    pub(crate) names: SourceNames,
    /// Sources of each group, in the order of the file.
    pub(crate) groups: BTreeMap<String, Vec<SourceId>>,
}

/// After this many errors, others are not helpful.
const MAX_ERRORS: usize = 20;

/// The key that messages name.
pub(crate) const KEY: &str = "source.map";

/// Explains the first line.
const FIRST_LINE: &str = "begin the file with the names of its columns, such as `source,name,group`; other columns are passed over";

/// Reads the text of a map that messages call `file`.
///
/// # Errors
/// All problems of the map, at most 20.
pub(crate) fn parse(text: &str, file: &str) -> Result<SourceMap, Vec<ConfigError>> {
    let places = Text::new(file, text);
    let mut reader = Reader { places, map: SourceMap::default(), lines: BTreeMap::new(), errors: Vec::new() };
    let begin = begin_of(text);
    let mut columns = None;
    for (number, line) in lines(text, begin) {
        let row = line.trim_end_matches(['\r', '\n']);
        let start = number.offset;
        if row.trim().is_empty() || row.starts_with('#') {
            continue;
        }
        let cells = match cells(row) {
            Ok(cells) => cells,
            Err((at, found)) => {
                reader.fail(&(start + at..start + row.len()), found.to_owned(), QUOTES);
                continue;
            }
        };
        let cells: Vec<Cell<'_>> = cells.into_iter().map(|cell| cell.moved(start)).collect();
        match &columns {
            None => match reader.columns(&cells, &(start..start + row.len())) {
                Some(found) => columns = Some(found),
                None => break,
            },
            Some(columns) => reader.row(columns, &cells, number.line, &(start..start + row.len())),
        }
        if reader.errors.len() >= MAX_ERRORS {
            break;
        }
    }
    if columns.is_none() && reader.errors.is_empty() {
        reader.fail(&(begin..begin), "the source map has no line".to_owned(), FIRST_LINE);
    }
    if reader.errors.is_empty() { Ok(reader.map) } else { Err(reader.errors) }
}

/// Places of the columns that are read.
struct Columns {
    source: usize,
    name: Option<usize>,
    groups: Vec<usize>,
}

struct Reader<'a> {
    places: Text<'a>,
    map: SourceMap,
    /// The line of each source.
    lines: BTreeMap<SourceId, usize>,
    errors: Vec<ConfigError>,
}

impl Reader<'_> {
    fn fail(&mut self, span: &Range<usize>, found: String, right: impl Into<String>) {
        let (key, right, origin) = (KEY.to_owned(), right.into(), self.places.origin(span));
        self.errors.push(ConfigError { kind: ErrorKind::SourceMap, key, found, right, origin });
    }

    /// Reads the line with the names of columns.
    fn columns(&mut self, cells: &[Cell<'_>], line: &Range<usize>) -> Option<Columns> {
        let places = |name: &str| -> Vec<usize> {
            let is_named = |cell: &Cell<'_>| cell.text.eq_ignore_ascii_case(name);
            cells.iter().enumerate().filter(|(_, cell)| is_named(cell)).map(|(at, _)| at).collect()
        };
        let (sources, names, groups) = (places("source"), places("name"), places("group"));
        for (what, places) in [("source", &sources), ("name", &names)] {
            if let [_, second, ..] = places[..] {
                self.fail(
                    &cells[second].span,
                    format!("there are two columns `{what}`"),
                    "rename one of them",
                );
                return None;
            }
        }
        let Some(source) = sources.first().copied() else {
            let other =
                [';', '\t'].into_iter().find(|other| cells.iter().any(|cell| cell.text.contains(*other)));
            let right = match other {
                Some(_) => "separate columns by commas, and begin with a line such as `source,name,group`",
                None => FIRST_LINE,
            };
            self.fail(line, "there is no column `source`".to_owned(), right);
            return None;
        };
        if names.is_empty() && groups.is_empty() {
            self.fail(line, "there is no column `name` and no column `group`".to_owned(), FIRST_LINE);
            return None;
        }
        Some(Columns { source, name: names.first().copied(), groups })
    }

    /// Reads the line of a source.
    fn row(&mut self, columns: &Columns, cells: &[Cell<'_>], number: usize, line: &Range<usize>) {
        let Some(cell) = cells.get(columns.source) else {
            let found = format!("this line has no column {}, which is `source`", columns.source + 1);
            self.fail(line, found, "write all columns, empty ones too");
            return;
        };
        let id = id_range(&cell.text).filter(|(first, last)| first == last);
        let Some(source) = id.and_then(|(id, _)| u32::try_from(id).ok()).map(SourceId) else {
            let found = format!("\"{}\" is not the id of a source", shorten(&cell.text));
            self.fail(
                &cell.span,
                found,
                format!("write a number from 0 to {}, such as 17 or 0x2100", u32::MAX),
            );
            return;
        };
        if let Some(other) = self.lines.insert(source, number) {
            self.fail(
                &cell.span,
                format!("source {source} is also in line {other}"),
                "write each source once",
            );
            return;
        }
        if self.lines.len() as u64 > MAX_SOURCES {
            let found = format!("the source map has more than {MAX_SOURCES} sources");
            self.fail(&cell.span, found, format!("a run has at most {MAX_SOURCES} sources"));
            return;
        }
        if let Some(cell) = columns.name.and_then(|at| cells.get(at)).filter(|cell| !cell.text.is_empty())
            && let Err(error) = self.map.names.insert(source, &cell.text)
        {
            self.fail(
                &cell.span,
                error.to_string(),
                "write a name that no other source has, of 1 to 64 bytes that can be printed",
            );
        }
        for cell in columns.groups.iter().filter_map(|at| cells.get(*at)) {
            self.join(source, cell);
        }
    }

    /// Adds a source to the groups in a cell.
    fn join(&mut self, source: SourceId, cell: &Cell<'_>) {
        let mut joined = BTreeSet::new();
        for group in cell.text.split(';').map(str::trim).filter(|group| !group.is_empty()) {
            if let Err(error) = check_source_name(group) {
                let found = format!("\"{}\" is not the name of a group: {error}", shorten(group));
                self.fail(&cell.span, found, "write 1 to 64 bytes that can be printed; `;` separates groups");
                return;
            }
            // A group in two columns is one group.
            if joined.insert(group)
                && self.map.groups.get(group).is_none_or(|sources| sources.last() != Some(&source))
            {
                self.map.groups.entry(group.to_owned()).or_default().push(source);
            }
        }
    }
}

#[cfg(test)]
mod tests;
