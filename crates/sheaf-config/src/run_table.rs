//! Tables of runs: CSV files whose columns are keys of the configuration, and each row is a run.

use crate::Config;
use crate::csv::{QUOTES, begin_of, cells, lines};
use crate::error::{ConfigError, ConfigErrors, ErrorKind, Origin};
use crate::files::Files;
use crate::row_settings::{Base, Setting, Wrong, check_key, read_base};
use crate::text::{Text, shorten};
use std::ops::Range;
use std::path::Path;

/// The column with comments for the records of runs.
const COMMENT: &str = "comment";

/// After this many errors, others are not helpful.
const MAX_ERRORS: usize = 20;

/// Explains the first line.
const FIRST_LINE: &str =
    "begin the table with a line of keys of the configuration, such as `filter.busy_us,run.events,comment`";

/// A table of runs, whose values are not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTable {
    text: String,
    file: String,
    /// Keys, and where they are.
    columns: Vec<(String, Range<usize>)>,
    rows: Vec<RowText>,
}

/// A row as it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RowText {
    line: Range<usize>,
    /// In the order of the columns.
    cells: Vec<(String, Range<usize>)>,
    comment: Option<String>,
}

impl RunTable {
    /// Largest size of a table, in bytes.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Reads the text of a table that messages call `file`, of at most `most` rows.
    ///
    /// # Errors
    /// All that is wrong with its shape, at most 20 problems.
    pub fn parse(text: &str, file: &str, most: usize) -> Result<Self, ConfigErrors> {
        let mut reader =
            Reader { places: Text::new(file, text), columns: None, rows: Vec::new(), errors: Vec::new() };
        if text.len() > Self::MAX_BYTES {
            reader.fail(
                &(0..0),
                "the table has more than 1 MiB".to_owned(),
                "divide it into several sequences",
            );
        } else {
            reader.read(text, most);
        }
        let Reader { columns, rows, errors, .. } = reader;
        let columns = columns.unwrap_or_default().keys;
        ConfigErrors::or(errors, Self { text: text.to_owned(), file: file.to_owned(), columns, rows })
    }

    /// Returns the keys of the columns. The comment is not among them.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(key, _)| key.as_str())
    }

    /// Returns the rows: values in the order of the columns, where an empty one sets nothing, and the comment.
    pub fn rows(&self) -> impl Iterator<Item = (Vec<&str>, Option<&str>)> {
        self.rows
            .iter()
            .map(|row| (row.cells.iter().map(|(text, _)| text.as_str()).collect(), row.comment.as_deref()))
    }

    /// Checks every row on top of a configuration: of a file, or the defaults. `change` makes the changes that every run has, given the
    /// settings of its row, and `judge` says what else is wrong with a result: what was found, and the remedy.
    ///
    /// # Errors
    /// All that is wrong, with row and column; at most 20 problems.
    pub fn check(
        &self,
        base: Option<&Path>,
        change: impl Fn(&mut Config, &[Setting]),
        judge: impl Fn(&Config) -> Option<(String, String)>,
    ) -> Result<(), ConfigErrors> {
        let (text, file) = read_base(base)?;
        let base = Base::read(&text, (&file, Files::Read))?;
        let places = Text::new(&self.file, &self.text);
        let mut errors = Vec::new();
        for (key, span) in &self.columns {
            if let Err(Wrong { kind, found, right }) = check_key(&base.config, key) {
                errors.push(ConfigError {
                    kind,
                    key: key.clone(),
                    found,
                    right,
                    origin: places.origin(span),
                });
            }
        }
        // A wrong column is wrong in every row.
        let rows = if errors.is_empty() { &self.rows[..] } else { &[] };
        for (index, row) in rows.iter().enumerate() {
            let settings = self.settings(row);
            let wrong = match base.with(&settings, |config| change(config, &settings)) {
                Ok(config) => judge(&config).map(|(found, right)| ConfigError {
                    kind: ErrorKind::Missing,
                    key: String::new(),
                    found,
                    right,
                    origin: Origin::Flag(Setting::FLAG),
                }),
                Err(wrong) => {
                    errors
                        .extend(wrong.errors().iter().map(|error| self.placed(error, (index, row), &places)));
                    None
                }
            };
            errors.extend(wrong.map(|error| self.placed(&error, (index, row), &places)));
            if errors.len() >= MAX_ERRORS {
                break;
            }
        }
        errors.truncate(MAX_ERRORS);
        ConfigErrors::or(errors, ())
    }

    fn settings(&self, row: &RowText) -> Vec<Setting> {
        let pairs = self.columns.iter().zip(&row.cells).filter(|(_, (value, _))| !value.is_empty());
        pairs.map(|((key, _), (value, _))| Setting { key: key.clone(), value: value.clone() }).collect()
    }

    /// Returns an error of a row with its place in the table, unless it is in the file of the configuration.
    fn placed(&self, error: &ConfigError, (index, row): (usize, &RowText), places: &Text<'_>) -> ConfigError {
        let column = self.columns.iter().position(|(key, _)| *key == error.key);
        let cell = column.and_then(|column| row.cells.get(column)).filter(|(value, _)| !value.is_empty());
        let origin = match (&error.origin, cell) {
            (_, Some((_, span))) => places.origin(span),
            (Origin::Text(_), None) => error.origin.clone(),
            _ => places.origin(&row.line),
        };
        ConfigError { found: format!("row {}: {}", index + 1, error.found), origin, ..error.clone() }
    }
}

/// Keys of a table, and the place of the comment.
#[derive(Default)]
struct Columns {
    keys: Vec<(String, Range<usize>)>,
    comment: Option<usize>,
}

struct Reader<'a> {
    places: Text<'a>,
    columns: Option<Columns>,
    rows: Vec<RowText>,
    errors: Vec<ConfigError>,
}

impl Reader<'_> {
    fn fail(&mut self, span: &Range<usize>, found: String, right: &str) {
        let origin = self.places.origin(span);
        let (kind, key) = (ErrorKind::Syntax, String::new());
        self.errors.push(ConfigError { kind, key, found, right: right.to_owned(), origin });
    }

    fn read(&mut self, text: &str, most: usize) {
        let begin = begin_of(text);
        for (number, line) in lines(text, begin) {
            let (row, start) = (line.trim_end_matches(['\r', '\n']), number.offset);
            if row.trim().is_empty() || row.starts_with('#') {
                continue;
            }
            let span = start..start + row.len();
            let cells = match cells(row) {
                Ok(cells) => cells.into_iter().map(|cell| cell.moved(start)),
                Err((at, found)) => {
                    self.fail(&(start + at..span.end), found.to_owned(), QUOTES);
                    continue;
                }
            };
            let cells = cells.map(|cell| (cell.text.into_owned(), cell.span)).collect();
            if self.columns.is_some() {
                self.row(cells, span);
            } else if !self.first_line(cells) {
                return;
            }
            if self.rows.len() > most {
                let found = format!("the table has more than {most} rows");
                return self.fail(&(start..start + row.len()), found, "divide it into several sequences");
            }
            if self.errors.len() >= MAX_ERRORS {
                return;
            }
        }
        if self.errors.is_empty() && self.rows.is_empty() {
            self.fail(&(begin..begin), "the table has no row".to_owned(), FIRST_LINE);
        }
    }

    /// Reads the names of the columns. Returns whether rows can be read.
    fn first_line(&mut self, cells: Vec<(String, Range<usize>)>) -> bool {
        let mut columns = Columns::default();
        for (index, (key, span)) in cells.into_iter().enumerate() {
            if key.eq_ignore_ascii_case(COMMENT) && columns.comment.is_none() {
                columns.comment = Some(index);
                continue;
            }
            if key.is_empty() || key.contains([';', '\t']) {
                self.fail(&span, format!("a column has the name {key:?}"), FIRST_LINE);
            } else if columns.keys.iter().any(|(known, _)| *known == key) {
                let found = format!("there are two columns `{}`", shorten(&key));
                self.fail(&span, found, "remove one of them");
            }
            columns.keys.push((key, span));
        }
        self.columns = Some(columns);
        self.errors.is_empty()
    }

    fn row(&mut self, mut cells: Vec<(String, Range<usize>)>, line: Range<usize>) {
        let columns = self.columns.as_ref().map_or((0, None), |columns| {
            (columns.keys.len() + usize::from(columns.comment.is_some()), columns.comment)
        });
        let number = self.rows.len() + 1;
        if cells.len() != columns.0 {
            let found = format!("row {number} has {} cells, and the first line {}", cells.len(), columns.0);
            return self.fail(
                &line,
                found,
                "write all columns, empty ones too, and commas within a cell in quotes",
            );
        }
        let comment = columns.1.map(|column| cells.remove(column).0).filter(|text| !text.is_empty());
        self.rows.push(RowText { line, cells, comment });
    }
}

/// Reads any bytes as a table of runs, and checks its rows; for fuzzing. Panics if reading breaks a promise.
#[doc(hidden)]
pub fn fuzz_run_table(bytes: &[u8]) {
    const MOST: usize = 8;
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let table = RunTable::parse(text, "table.csv", MOST);
    let checked = table.and_then(|table| {
        assert!((1..=MOST).contains(&table.rows.len()));
        assert!(table.rows().all(|(values, _)| values.len() == table.columns.len()));
        table.check(None, |_, _| {}, |_| None)
    });
    if let Err(errors) = checked {
        assert!((1..=MAX_ERRORS).contains(&errors.errors().len()));
        for error in errors.errors() {
            assert!(error.line().is_some_and(|line| (1..=lines).contains(&line)), "{error}");
            assert!(!error.right.is_empty() && !error.found.is_empty());
        }
    }
}

#[cfg(test)]
mod tests;
