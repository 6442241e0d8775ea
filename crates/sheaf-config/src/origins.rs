//! Where each value of a configuration comes from, so that a message can point there.

use crate::error::Origin;
use crate::text::Text;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Where keys are set. A key is named with its table: `readout.count`, `node[2].name`.
#[derive(Clone)]
pub(crate) struct Origins<'a> {
    text: Option<Text<'a>>,
    spans: BTreeMap<String, Range<usize>>,
    flags: BTreeMap<String, Origin>,
    /// Keys whose value was refused. Their intended value is unknown, so no further errors are reported for them.
    broken: BTreeSet<String>,
}

impl<'a> Origins<'a> {
    /// No file: all values are defaults or set by a program.
    pub(crate) fn none() -> Self {
        Self { text: None, spans: BTreeMap::new(), flags: BTreeMap::new(), broken: BTreeSet::new() }
    }

    pub(crate) fn of(text: Text<'a>) -> Self {
        Self { text: Some(text), ..Self::none() }
    }

    pub(crate) fn text(&self) -> Option<&Text<'a>> {
        self.text.as_ref()
    }

    /// Remembers that the file sets `key` at `span`.
    pub(crate) fn set_in_file(&mut self, key: String, span: Range<usize>) {
        self.spans.insert(key, span);
    }

    /// Remembers that the file sets `key` where it sets `other`.
    pub(crate) fn set_like(&mut self, key: &str, other: &str) {
        if let Some(span) = self.spans.get(other).cloned() {
            self.spans.insert(key.to_owned(), span);
        }
    }

    /// Remembers that `key` was set after the file was read, by `flag` if it has one.
    pub(crate) fn set_by_program(&mut self, key: String, flag: Option<&'static str>) {
        self.flags.insert(key, flag.map_or(Origin::Program { flag: None }, Origin::Flag));
    }

    pub(crate) fn set_broken(&mut self, key: String) {
        self.broken.insert(key);
    }

    pub(crate) fn is_broken(&self, key: &str) -> bool {
        self.broken.contains(key)
    }

    /// Whether the file sets `key`, be it to something wrong.
    pub(crate) fn is_in_file(&self, key: &str) -> bool {
        self.spans.contains_key(key) || self.is_broken(key)
    }

    /// All keys and named tables that the file sets.
    pub(crate) fn keys_in_file(&self) -> impl Iterator<Item = &str> {
        self.spans.keys().map(String::as_str)
    }

    /// All keys that a flag of the command line sets.
    pub(crate) fn keys_by_flag(&self) -> impl Iterator<Item = &str> {
        self.flags.keys().map(String::as_str).filter(|key| self.is_by_flag(key))
    }

    /// Whether a flag of the command line sets `key`.
    pub(crate) fn is_by_flag(&self, key: &str) -> bool {
        matches!(self.flags.get(key), Some(Origin::Flag(_)))
    }

    /// The first key of the table `path` that the file sets.
    pub(crate) fn first_of(&self, path: &str) -> Option<&str> {
        let is_of = |key: &&String| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        let first = self.spans.iter().filter(|(key, _)| is_of(key)).min_by_key(|(_, span)| span.start);
        first.map(|(key, _)| key.as_str())
    }

    /// The place to point at for a problem with these keys: the first that was set on the command line, else the first
    /// that is in the file, else the file.
    pub(crate) fn find(&self, keys: &[&str]) -> Origin {
        if let Some(origin) = keys.iter().find_map(|key| self.flags.get(*key)) {
            return origin.clone();
        }
        match (&self.text, keys.iter().find_map(|key| self.spans.get(*key))) {
            (Some(text), Some(span)) => text.origin(span),
            (Some(text), None) => text.whole(),
            (None, _) => Origin::Program { flag: keys.iter().find_map(|key| crate::tables::flag(key)) },
        }
    }
}
