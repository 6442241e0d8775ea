//! From the text of a file to values with their places: every key known, every value of the right type and range.
//!
//! The TOML parser recovers from errors, so that one mistake does not hide the others; of a text that is not TOML only
//! what is before the first error of syntax is looked at.

use super::keys::{find, is_table, keys_of};
use super::schema::{FAULT, Key};
use super::value::{Value, article};
use crate::scenario::keys::{KEYS, TABLES};
use sheaf_config::diagnose::{Text, nearest, shorten};
use sheaf_config::{ConfigError, ErrorKind};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// More faults than this are a mistake.
const MAX_FAULTS: usize = 1000;

/// After so many errors the others are only counted.
const MAX_ERRORS: usize = 200;

/// Value that a file gives for one key.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The value, or the values of a sweep, each with its place. Never empty.
    pub(super) values: Vec<(Value, Range<usize>)>,
    /// Whether it is a sweep, be it of one value.
    pub(super) swept: bool,
    /// Where the key is.
    pub(super) key: Range<usize>,
}

/// Content of a file.
pub(super) struct Draft<'a> {
    pub(super) text: Text<'a>,
    /// By path: `topology.radix`, `fault[0].kind`.
    pub(super) entries: BTreeMap<String, Entry>,
    /// Where tables are.
    pub(super) tables: BTreeMap<String, Range<usize>>,
    /// Number of `[[fault]]` tables.
    pub(super) faults: usize,
    pub(super) errors: Vec<ConfigError>,
    pub(super) more: usize,
}

/// Reads a file's text.
pub(super) fn read<'a>(text: &'a str, file: &str) -> Draft<'a> {
    let (root, syntax_errors) = DeTable::parse_recoverable(text);
    let mut draft = Draft {
        text: Text::new(file, text),
        entries: BTreeMap::new(),
        tables: BTreeMap::new(),
        faults: 0,
        errors: Vec::new(),
        more: 0,
    };
    for error in &syntax_errors {
        let span = error.span().unwrap_or(0..0);
        let is_duplicate = error.message().starts_with("duplicate key");
        let right = match is_duplicate {
            true => "keep one of them",
            false => "a table is `[name]`, a value is `key = value`, text is in double quotes",
        };
        let found = format!("this is not TOML: {}", error.message());
        draft.push(ErrorKind::Syntax, "", &span, found, right.into());
    }
    if syntax_errors.is_empty() {
        draft.root(root.get_ref());
    }
    draft
}

type Entries<'i, 'a> = (&'a Spanned<Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

impl Draft<'_> {
    /// Remembers something that is wrong.
    pub(super) fn push(
        &mut self,
        kind: ErrorKind,
        key: &str,
        span: &Range<usize>,
        found: String,
        right: String,
    ) {
        if self.errors.len() >= MAX_ERRORS {
            self.more += 1;
            return;
        }
        let origin = self.text.origin(span);
        self.errors.push(ConfigError { kind, key: shorten(key), found, right, origin });
    }

    fn root(&mut self, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            if name == FAULT {
                self.fault_list(key, value);
            } else if is_table(name) {
                match value.get_ref().as_table() {
                    Some(table) => {
                        self.tables.insert(name.to_owned(), key.span());
                        self.table(name, name, table);
                    }
                    None => {
                        let found = format!("`{name}` is {}, not a table", article(value.get_ref()));
                        let right = format!("write a line `[{name}]` and its keys below it");
                        self.push(ErrorKind::WrongType, name, &key.span(), found, right);
                    }
                }
            } else if let Some(known) = find(name) {
                self.value(name, known, (key, value));
            } else {
                self.unknown("", (key, value));
            }
        }
    }

    fn fault_list(&mut self, key: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let right = || "write a line `[[fault]]` for each fault and its keys below it".to_owned();
        let Some(list) = value.get_ref().as_array() else {
            let found = format!("`fault` is {}, not a list of tables", article(value.get_ref()));
            self.push(ErrorKind::WrongType, FAULT, &key.span(), found, right());
            return;
        };
        if list.len() > MAX_FAULTS {
            let found = format!("there are {} faults", list.len());
            self.push(ErrorKind::BadValue, FAULT, &key.span(), found, format!("at most {MAX_FAULTS}"));
            return;
        }
        for (index, item) in list.iter().enumerate() {
            let path = format!("{FAULT}[{index}]");
            match item.get_ref().as_table() {
                Some(table) => {
                    self.tables.insert(path.clone(), item.span());
                    self.table(FAULT, &path, table);
                }
                None => {
                    let found = format!("`{path}` is {}, not a table", article(item.get_ref()));
                    self.push(ErrorKind::WrongType, &path, &item.span(), found, right());
                }
            }
        }
        self.faults = list.len();
    }

    /// Reads the table that the schema calls `name` and the file `path`.
    fn table(&mut self, name: &str, path: &str, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            let full = format!("{path}.{}", key.get_ref());
            match keys_of(name).find(|known| known.name == key.get_ref().as_ref()) {
                Some(known) => self.value(&full, known, (key, value)),
                None => self.unknown(name, (key, value)),
            }
        }
    }

    fn value(&mut self, path: &str, known: &'static Key, (key, value): Entries<'_, '_>) {
        let sweep = value.get_ref().as_array().filter(|_| !known.shape.is_list(value.get_ref()));
        let Some(list) = sweep else {
            if let Some(read) = self.one(path, known, value) {
                let entry = Entry { values: vec![(read, value.span())], swept: false, key: key.span() };
                self.entries.insert(path.to_owned(), entry);
            }
            return;
        };
        if list.is_empty() {
            let right = format!("{}, or a list of some to try one after the other", known.shape.expected());
            self.push(ErrorKind::BadValue, path, &value.span(), format!("`{path}` is an empty list"), right);
            return;
        }
        let mut values: Vec<(Value, Range<usize>)> = Vec::with_capacity(list.len().min(MAX_ERRORS));
        for item in list.iter() {
            let Some(read) = self.one(path, known, item) else {
                continue;
            };
            if values.iter().any(|(before, _)| *before == read) {
                let found = format!("`{path}` has {read} twice");
                self.push(
                    ErrorKind::Conflict,
                    path,
                    &item.span(),
                    found,
                    "each value of a sweep once".into(),
                );
            } else {
                values.push((read, item.span()));
            }
        }
        if !values.is_empty() {
            self.entries.insert(path.to_owned(), Entry { values, swept: true, key: key.span() });
        }
    }

    fn one(&mut self, path: &str, known: &Key, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        let read = known.shape.read(value.get_ref());
        if read.is_none() {
            let found = format!("`{path}` is {}", article(value.get_ref()));
            let right = format!("it must be {}", known.shape.expected());
            self.push(ErrorKind::BadValue, path, &value.span(), found, right);
        }
        read
    }

    /// Reports a key that does not exist, with the most probable meaning.
    fn unknown(&mut self, table: &str, (key, value): Entries<'_, '_>) {
        if self.errors.len() >= MAX_ERRORS {
            self.more += 1;
            return;
        }
        let name = key.get_ref().as_ref();
        let shown = shorten(name);
        let found = match table {
            "" if value.get_ref().is_table() => format!("there is no table [{shown}]"),
            "" => format!("there is no key `{shown}` outside of tables"),
            FAULT => format!("there is no key `{shown}` in [[{FAULT}]]"),
            _ => format!("there is no key `{shown}` in [{table}]"),
        };
        let full = if table.is_empty() { shown.clone() } else { format!("{table}.{shown}") };
        self.push(ErrorKind::Unknown, &full, &key.span(), found, meaning(table, name));
    }
}

/// Returns the probable correction of an unknown key or table of `table`.
fn meaning(table: &str, name: &str) -> String {
    let keys = keys_of(table).map(|key| key.name);
    if let Some(key) = nearest(name, keys.clone()) {
        return format!("did you mean `{key}`?");
    }
    let tables = TABLES.iter().map(|table| table.name).filter(|name| !name.is_empty());
    if let Some(other) = nearest(name, tables.clone()).filter(|_| table.is_empty()) {
        return format!("did you mean [{other}]?");
    }
    let elsewhere: Vec<String> = KEYS
        .iter()
        .filter(|key| key.name == name)
        .map(
            |key| {
                if key.table.is_empty() { "the top of the file".into() } else { format!("[{}]", key.table) }
            },
        )
        .collect();
    if !elsewhere.is_empty() {
        return format!("`{name}` is a key of {}", elsewhere.join(", "));
    }
    let known: Vec<String> = match table {
        "" => tables.map(|table| format!("[{table}]")).collect(),
        _ => keys.map(|key| format!("`{key}`")).collect(),
    };
    format!("known are {}", known.join(", "))
}
