//! The values of one point of a sweep, as they are asked for: which are used, and what is wrong with them.

use super::draft::Draft;
use super::keys::find;
use super::schema::{Key, Standard};
use super::value::Value;
use sheaf_config::{ConfigError, ErrorKind};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One value for each key that the file gives.
pub(super) struct Given<'a> {
    draft: &'a Draft<'a>,
    values: BTreeMap<&'a str, &'a (Value, Range<usize>)>,
    used: RefCell<BTreeSet<String>>,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'a> Given<'a> {
    /// `choose` says which of several values of a sweep.
    pub(super) fn new(draft: &'a Draft<'a>, choose: impl Fn(&str) -> usize) -> Self {
        let values = draft.entries.iter().map(|(path, entry)| {
            let index = choose(path).min(entry.values.len() - 1);
            (path.as_str(), &entry.values[index])
        });
        Self {
            draft,
            values: values.collect(),
            used: RefCell::new(BTreeSet::new()),
            errors: RefCell::new(Vec::new()),
        }
    }

    /// The keys that were asked for, and what is wrong.
    pub(super) fn into_parts(self) -> (BTreeSet<String>, Vec<ConfigError>) {
        (self.used.into_inner(), self.errors.into_inner())
    }

    /// Whether nothing was found wrong so far.
    pub(super) fn is_good(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    pub(super) fn faults(&self) -> usize {
        self.draft.faults
    }

    /// Whether the file gives `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.values.contains_key(path)
    }

    /// Something is wrong with `path`. Points at its value, else at its table, else at the file.
    pub(super) fn wrong(&self, kind: ErrorKind, path: &str, found: String, right: String) {
        let table = path.rsplit_once('.').map_or("", |(table, _)| table);
        let span = self.values.get(path).map(|(_, span)| span.clone());
        let span = span.or_else(|| self.draft.tables.get(table).cloned());
        let origin = match span {
            Some(span) => self.draft.text.origin(&span),
            None => self.draft.text.whole(),
        };
        self.errors.borrow_mut().push(ConfigError { kind, key: path.to_owned(), found, right, origin });
    }

    /// Two values do not go together.
    pub(super) fn conflict(&self, path: &str, found: String, right: impl Into<String>) {
        self.wrong(ErrorKind::Conflict, path, found, right.into());
    }

    /// The value of `path`: of the file, else the default. `None` where neither is there; what is required and not
    /// there is an error.
    fn value(&self, path: &str) -> Option<Value> {
        self.used.borrow_mut().insert(path.to_owned());
        if let Some((value, _)) = self.values.get(path) {
            return Some(value.clone());
        }
        let key = find(path)?;
        match &key.standard {
            Standard::Is(value) => Some(value.clone()),
            Standard::Unset => None,
            Standard::Required => {
                self.missing(path, key);
                None
            }
        }
    }

    fn missing(&self, path: &str, key: &Key) {
        let table = path.rsplit_once('.').map_or("", |(table, _)| table);
        let kind_path = format!("{table}.kind");
        let kind = self.values.get(kind_path.as_str()).map(|(value, _)| value.to_string());
        let found = match kind.filter(|_| !key.only.is_empty()) {
            Some(kind) => format!("`{path}` is not set, and {table}.kind = \"{kind}\" needs it"),
            None => format!("`{path}` is not set"),
        };
        let at = if self.values.contains_key(kind_path.as_str()) { kind_path.as_str() } else { path };
        let table_name = table.split_once('[').map_or(table, |(name, _)| name);
        let where_to = match table_name {
            "fault" => "[[fault]]".to_owned(),
            name => format!("[{name}]"),
        };
        let right = format!("write `{} = ...` in {where_to}: {}", key.name, key.shape.expected());
        self.wrong(ErrorKind::Missing, at, found, right);
    }

    pub(super) fn maybe_whole(&self, path: &str) -> Option<u64> {
        match self.value(path) {
            Some(Value::Whole(number)) => Some(number),
            _ => None,
        }
    }

    /// An integer. 1 where it is missing, which is an error by then.
    pub(super) fn whole(&self, path: &str) -> u64 {
        self.maybe_whole(path).unwrap_or(1)
    }

    /// An integer whose limits are those of 32 bits.
    pub(super) fn small(&self, path: &str) -> u32 {
        u32::try_from(self.whole(path)).unwrap_or(u32::MAX)
    }

    pub(super) fn maybe_number(&self, path: &str) -> Option<f64> {
        match self.value(path) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// A number. 1 where it is missing, which is an error by then.
    pub(super) fn number(&self, path: &str) -> f64 {
        self.maybe_number(path).unwrap_or(1.0)
    }

    /// A word; empty where it is missing, which is an error by then.
    pub(super) fn word(&self, path: &str) -> &'static str {
        match self.value(path) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        match self.value(path) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn switch(&self, path: &str) -> bool {
        matches!(self.value(path), Some(Value::Switch(true)))
    }

    /// A list of integers; empty where it is missing, which is an error by then.
    pub(super) fn list(&self, path: &str) -> Vec<u32> {
        match self.value(path) {
            Some(Value::Wholes(numbers)) => {
                numbers.into_iter().map(|number| u32::try_from(number).unwrap_or(u32::MAX)).collect()
            }
            _ => Vec::new(),
        }
    }
}
