//! Names of sources: the tables that define them, and the values that they stand in.

use super::{Reader, article};
use crate::codec::{Refusal, id_range};
use crate::error::{ConfigError, ErrorKind, Origin};
use crate::knob::Knob;
use crate::settings::SourceGroup;
use crate::source_lists::Resolver;
use crate::source_map::{self, SourceMap};
use crate::tables::{GROUPS, SOURCE_NAMES};
use crate::text::shorten;
use sheaf_wire::SourceId;
use std::borrow::Cow;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why a value cannot be taken.
pub(super) enum Refused {
    /// The codec refuses it.
    Codec(Refusal),
    /// Names or lists in it are wrong; this was reported.
    Reported,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Codec(refusal)
    }
}

impl Reader<'_> {
    /// Reads the names of sources, before the values that use them.
    pub(super) fn name_sources(&mut self, root: &DeTable<'_>) {
        let Some(source) = root.get("source").and_then(|table| table.get_ref().as_table()) else { return };
        let before = self.errors.len();
        for (key, value) in source.iter() {
            if !self.is_trusted((key, value)) {
                continue;
            }
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("names", value) => match value.as_table() {
                    Some(table) => self.names_in_file(table),
                    None => {
                        let found = format!("`{SOURCE_NAMES}` is {}, not a table", article(value));
                        let right = format!(
                            "write a line `[{SOURCE_NAMES}]`, and below it ids and names such as `7 = \"left\"`"
                        );
                        self.push(ErrorKind::WrongType, SOURCE_NAMES, &key.span(), found, right);
                    }
                },
                ("map", DeValue::String(path)) => self.read_map(path, value),
                _ => {}
            }
        }
        self.has_wrong_names = self.errors.len() > before;
    }

    /// Reads `[source.names]`.
    fn names_in_file(&mut self, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            if !self.is_trusted((key, value)) {
                continue;
            }
            let id = id_range(key.get_ref()).filter(|(first, last)| first == last);
            let Some(source) = id.and_then(|(id, _)| u32::try_from(id).ok()).map(SourceId) else {
                let found = format!("`{}` is not the id of a source", shorten(key.get_ref()));
                let right = format!("write a number from 0 to {}, such as `17 = \"left\"`", u32::MAX);
                self.push(ErrorKind::BadValue, SOURCE_NAMES, &key.span(), found, right);
                continue;
            };
            let Some(name) = value.get_ref().as_str() else {
                let found = format!("the name of source {source} is {}", article(value.get_ref()));
                let right = format!("write it in quotes, such as `{source} = \"left\"`");
                self.push(ErrorKind::WrongType, SOURCE_NAMES, &value.span(), found, right);
                continue;
            };
            if let Err(error) = self.config.names.insert(source, name) {
                let right =
                    "write a name that no other source has, of 1 to 64 bytes that can be printed".to_owned();
                self.push(ErrorKind::BadValue, SOURCE_NAMES, &value.span(), error.to_string(), right);
            }
        }
    }

    fn read_map(&mut self, path: &str, value: &Spanned<DeValue<'_>>) {
        let text = match self.files.read(Path::new(path)) {
            Ok(text) => text,
            Err(error) => {
                let found = format!("cannot read {}, the source map: {error}", shorten(path));
                let right = "write the path of a CSV file with the columns `source` and `name`; relative paths start at the working directory";
                self.push(ErrorKind::Unreadable, source_map::KEY, &value.span(), found, right.to_owned());
                return;
            }
        };
        match source_map::parse(&text, path) {
            Ok(map) => self.take_map(map, path, value),
            Err(errors) => self.errors.extend(errors),
        }
    }

    fn take_map(&mut self, map: SourceMap, path: &str, value: &Spanned<DeValue<'_>>) {
        let SourceMap { names, groups } = map;
        self.groups_of_map = groups;
        for (source, name) in names.iter() {
            if let Err(error) = self.config.names.insert(source, name) {
                let found = format!("{} and [{SOURCE_NAMES}] do not go together: {error}", shorten(path));
                let right = "name each source in one of them".to_owned();
                self.push(ErrorKind::Conflict, source_map::KEY, &value.span(), found, right);
                return;
            }
        }
    }

    /// Adds the groups of the source map to those of the file. The configuration then stands for itself.
    pub(super) fn settle_map(&mut self) {
        self.config.source.map = None;
        for (name, sources) in std::mem::take(&mut self.groups_of_map) {
            if self.config.groups.contains_key(&name) {
                let key = format!("{GROUPS}.{name}");
                self.errors.push(ConfigError {
                    kind: ErrorKind::Conflict,
                    found: format!("the group {name:?} is in the source map, and in [{}]", shorten(&key)),
                    right: "rename one of them, or remove it".to_owned(),
                    origin: self.origins.find(&[&key]),
                    key,
                });
                continue;
            }
            self.config.groups.insert(name, SourceGroup { sources });
        }
    }

    /// Returns a value with ids in place of names and of files with lists.
    pub(super) fn resolved<'v, 'i>(
        &mut self,
        (key, knob): (&str, &Knob),
        value: &'v Spanned<DeValue<'i>>,
    ) -> Result<Cow<'v, DeValue<'i>>, Refused> {
        if !(knob.names_sources)() {
            return Ok(Cow::Borrowed(value.get_ref()));
        }
        let resolver = Resolver { names: &self.config.names, files: self.files };
        let error = match resolver.resolve(value.get_ref()) {
            Ok(None) => return Ok(Cow::Borrowed(value.get_ref())),
            Ok(Some(text)) => return Ok(Cow::Owned(DeValue::String(text.into()))),
            Err(error) => error,
        };
        let in_value = self.origins.text().map(|text| text.origin(&value.span()));
        let origin = error.origin.or(in_value).unwrap_or(Origin::Program { flag: None });
        let (kind, key) = (ErrorKind::BadValue, key.to_owned());
        self.origins.set_broken(key.clone());
        if self.has_wrong_names {
            return Err(Refused::Reported);
        }
        self.errors.push(ConfigError { kind, key, found: error.found, right: error.right, origin });
        Err(Refused::Reported)
    }
}
