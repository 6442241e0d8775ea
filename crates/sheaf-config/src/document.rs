//! From the text of a file to a [`Config`]: every key known, every value of the right type and within its limits.
//!
//! The TOML parser recovers from errors, so that one mistake does not hide the others. Entries before the first syntax
//! error are trusted.

mod sources;

use crate::error::{ConfigError, ErrorKind};
use crate::files::Files;
use crate::knob::{Knob, Section};
use crate::lab_tables::{LabTables, Sweep};
use crate::origins::Origins;
use crate::settings::{MAX_NODES, Node};
use crate::suggest::{nearest, other_unit};
use crate::tables::{NAMED, NODE, Named, PATHS, SOURCE_NAMES};
use crate::text::{Text, shorten};
use crate::{Config, codec::Refusal};
use sheaf_wire::SourceId;
use sources::Refused;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Content of a file as far as it can be understood, and the errors in the rest.
pub(crate) struct Document<'a> {
    pub(crate) config: Config,
    pub(crate) origins: Origins<'a>,
    pub(crate) errors: Vec<ConfigError>,
    /// Number of further errors.
    pub(crate) more: usize,
    /// Whether the text is TOML. If not, the configuration is incomplete.
    pub(crate) is_toml: bool,
    /// Tables beside the configuration, where the file is a scenario of the lab.
    pub(crate) lab: Option<LabTables>,
}

/// After this many errors the others are only counted: finding the position and the probable meaning of each takes
/// time, and a file of 1 MiB can have half a million of them, all in one line.
const MAX_ERRORS: usize = 200;

/// Reads the text of a configuration, and the files with lists and names of sources, if there may be any.
pub(crate) fn read<'a>(text: &'a str, file: &str, files: Files) -> Document<'a> {
    read_with(text, file, files, None)
}

/// Reads the text of a scenario of the lab: the tables of `lab` beside those of a configuration, and lists in place of
/// values, of which each is given the one that `lab` has chosen.
pub(crate) fn read_lab<'a>(text: &'a str, file: &str, lab: LabTables) -> Document<'a> {
    read_with(text, file, Files::Refuse, Some(lab))
}

fn read_with<'a>(text: &'a str, file: &str, files: Files, lab: Option<LabTables>) -> Document<'a> {
    let (root, syntax_errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        config: Config::default(),
        lab,
        files,
        has_wrong_names: false,
        groups_of_map: BTreeMap::new(),
        origins: Origins::of(Text::new(file, text)),
        errors: Vec::new(),
        more: 0,
        trusted: syntax_errors
            .iter()
            .filter(|error| !is_duplicate(error))
            .map(|error| error.span().map_or(0, |span| span.start))
            .min(),
    };
    for error in &syntax_errors {
        let span = error.span().unwrap_or(0..0);
        let found = format!("this is not TOML: {}", error.message());
        let right = match is_duplicate(error) {
            true => "keep one of them",
            false => "a table is `[name]`, a value is `key = value`, text is in double quotes",
        };
        reader.push(ErrorKind::Syntax, "", &span, found, right.into());
    }
    reader.name_sources(root.get_ref());
    reader.table("", root.get_ref());
    reader.settle_map();
    Document {
        config: reader.config,
        origins: reader.origins,
        errors: reader.errors,
        more: reader.more,
        is_toml: syntax_errors.is_empty(),
        lab: reader.lab,
    }
}

/// Returns whether the text is well-formed apart from a duplicate key. Entries after a duplicate key are still valid.
fn is_duplicate(error: &toml::de::Error) -> bool {
    error.message().starts_with("duplicate key")
}

struct Reader<'a> {
    config: Config,
    /// The tables of a scenario of the lab, where this is one.
    lab: Option<LabTables>,
    /// Whether other files are read.
    files: Files,
    /// Whether names of sources were wrong. Then nothing is said of names that are not known.
    has_wrong_names: bool,
    /// Groups of the source map, until the others are known.
    groups_of_map: BTreeMap<String, Vec<SourceId>>,
    origins: Origins<'a>,
    errors: Vec<ConfigError>,
    /// Errors beyond [`MAX_ERRORS`].
    more: usize,
    /// Position of the first syntax error. Entries that end before it are trusted.
    trusted: Option<usize>,
}

type Entry<'i, 'a> = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

impl Reader<'_> {
    fn push(&mut self, kind: ErrorKind, key: &str, span: &Range<usize>, found: String, right: String) {
        if self.errors.len() >= MAX_ERRORS {
            self.more += 1;
        } else if let Some(text) = self.origins.text() {
            let origin = text.origin(span);
            self.errors.push(ConfigError { kind, key: shorten(key), found, right, origin });
        }
    }

    /// Returns whether an entry can be trusted: it ends before the first syntax error.
    fn is_trusted(&self, (key, value): Entry<'_, '_>) -> bool {
        let end = key.span().end.max(value.span().end);
        self.trusted.is_none_or(|start| end < start)
    }

    /// The table with this name, of the configuration or of the lab.
    fn section(&self, path: &str) -> Option<&dyn Section> {
        let of_lab = self.lab.as_ref().and_then(|lab| lab.section(path));
        of_lab.or_else(|| self.config.section(path))
    }

    fn section_mut(&mut self, path: &str) -> Option<&mut dyn Section> {
        match &mut self.lab {
            Some(lab) if lab.section(path).is_some() => lab.section_mut(path),
            _ => self.config.section_mut(path),
        }
    }

    fn is_knob(&self, key: &str) -> bool {
        let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
        self.section(path).is_some_and(|section| section.knobs().iter().any(|knob| knob.key == name))
    }

    /// Reads the table `path`; empty for the whole file.
    fn table(&mut self, path: &str, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            if !self.is_trusted((key, value)) {
                continue;
            }
            let name = key.get_ref().as_ref();
            let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            if self.is_knob(&full) {
                self.value(&full, value);
            } else if self.section(&full).is_some_and(|section| !section.path().is_empty()) {
                self.sub_table(&full, (key, value));
            } else if full == SOURCE_NAMES {
                // Its names were read before the values that use them.
            } else if full == NODE {
                self.nodes((key, value));
            } else if let Some(named) = Named::find(&full) {
                self.named(named, (key, value));
            } else {
                self.unknown(path, (key, value));
            }
        }
    }

    fn sub_table(&mut self, path: &str, (key, value): Entry<'_, '_>) {
        if let Some(table) = value.get_ref().as_table() {
            self.table(path, table);
            return;
        }
        let found = format!("`{path}` is {}, not a table", article(value.get_ref()));
        let right = format!("write a line `[{path}]` and its keys below it");
        self.push(ErrorKind::WrongType, path, &key.span(), found, right);
        for knob in self.section(path).map(Section::knobs).unwrap_or_default() {
            self.origins.set_broken(format!("{path}.{}", knob.key));
        }
    }

    /// Reads the value of the knob with this full key.
    fn value(&mut self, key: &str, value: &Spanned<DeValue<'_>>) {
        let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
        let Some(knobs) = self.section(path).map(Section::knobs) else { return };
        let Some(knob) = knobs.iter().find(|knob| knob.key == name) else { return };
        let read = self.resolved((key, knob), value).and_then(|value| {
            Ok(self.section_mut(path).map_or(Ok(()), |section| section.read(name, &value))?)
        });
        match (read, value.get_ref().as_array()) {
            (Ok(()), _) => self.origins.set_in_file(key.to_owned(), value.span()),
            (Err(Refused::Codec(Refusal::Type)), Some(list)) if self.lab.is_some() => {
                self.sweep(key, knobs, value, &list.iter().collect::<Vec<_>>());
            }
            (Err(Refused::Codec(refusal)), _) => self.refused(refusal, key, knobs, value),
            (Err(Refused::Reported), _) => {}
        }
    }

    /// Reads a list in place of a value: all must be right, and the one that was chosen is taken.
    fn sweep(
        &mut self,
        key: &str,
        knobs: &[Knob],
        value: &Spanned<DeValue<'_>>,
        list: &[&Spanned<DeValue<'_>>],
    ) {
        let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
        let mut sweep = Sweep { key: key.to_owned(), at: value.span(), values: Vec::new() };
        for item in list {
            if let Some(Err(refusal)) =
                self.section_mut(path).map(|section| section.read(name, item.get_ref()))
            {
                self.refused(refusal, key, knobs, item);
                return;
            }
            let piece = self.origins.text().map(|text| text.piece(&item.span())).unwrap_or_default();
            let shown = piece.trim_matches('"').to_owned();
            if sweep.values.contains(&shown) {
                let found = format!("`{key}` has {shown} twice");
                self.push(ErrorKind::Conflict, key, &item.span(), found, "each value of a sweep once".into());
                return;
            }
            sweep.values.push(shown);
        }
        let chosen = self.lab.as_ref().map_or(0, |lab| lab.chosen(key));
        let Some(item) = list.get(chosen) else {
            let found = format!("`{key}` is an empty list");
            let right = "a value, or a list of some to try one after the other".to_owned();
            self.push(ErrorKind::BadValue, key, &value.span(), found, right);
            return;
        };
        // It was read before, as all of them.
        let _ = self.section_mut(path).map(|section| section.read(name, item.get_ref()));
        self.origins.set_in_file(key.to_owned(), item.span());
        if let Some(lab) = &mut self.lab {
            lab.sweeps.push(sweep);
        }
    }

    fn refused(&mut self, refusal: Refusal, key: &str, knobs: &[Knob], value: &Spanned<DeValue<'_>>) {
        self.origins.set_broken(key.to_owned());
        let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
        let Some(knob) = knobs.iter().find(|knob| knob.key == name) else {
            return;
        };
        let (kind, found) = match refusal {
            Refusal::Type => (ErrorKind::WrongType, format!("`{key}` is {}", article(value.get_ref()))),
            Refusal::Value => {
                let piece = self.origins.text().map(|text| text.piece(&value.span())).unwrap_or_default();
                (ErrorKind::BadValue, format!("`{key}` is {piece}"))
            }
        };
        let right = format!("it must be {}", (knob.expected)());
        self.push(kind, key, &value.span(), found, right);
    }

    /// Reads tables such as `[streams.NAME]`.
    fn named(&mut self, named: Named, (key, value): Entry<'_, '_>) {
        let Named { path: kind, one, header } = named;
        let right = || format!("write a line `[{header}]` for each {one} and its keys below it");
        let Some(tables) = value.get_ref().as_table() else {
            self.origins.set_broken(kind.to_owned());
            let found = format!("`{kind}` is {}, not a table of tables", article(value.get_ref()));
            self.push(ErrorKind::WrongType, kind, &key.span(), found, right());
            return;
        };
        for (key, value) in tables.iter() {
            if !self.is_trusted((key, value)) {
                continue;
            }
            let name = key.get_ref().as_ref();
            let path = format!("{kind}.{name}");
            let Some(table) = value.get_ref().as_table() else {
                self.origins.set_broken(kind.to_owned());
                let found = format!("`{}` is {}, not a table", shorten(&path), article(value.get_ref()));
                self.push(ErrorKind::WrongType, &path, &key.span(), found, right());
                continue;
            };
            self.origins.set_in_file(path.clone(), key.span());
            self.config.add_named_table(kind, name);
            self.named_table((kind, name), named.table().knobs(), table);
        }
    }

    /// Reads one table such as `[streams.physics]`.
    fn named_table(&mut self, (kind, name): (&str, &str), knobs: &'static [Knob], table: &DeTable<'_>) {
        let path = format!("{kind}.{name}");
        for (key, value) in table.iter() {
            if !self.is_trusted((key, value)) {
                continue;
            }
            let knob = key.get_ref().as_ref();
            let Some(known) = knobs.iter().find(|known| known.key == knob) else {
                self.unknown(&path, (key, value));
                continue;
            };
            let full = format!("{path}.{knob}");
            let read = self.resolved((&full, known), value).and_then(|value| {
                let table = self.config.named_table_mut(kind, name);
                Ok(table.map_or(Ok(()), |table| table.read(knob, &value))?)
            });
            match read {
                Ok(()) => self.origins.set_in_file(full, value.span()),
                Err(Refused::Codec(refusal)) => self.refused(refusal, &full, knobs, value),
                Err(Refused::Reported) => {}
            }
        }
    }

    fn nodes(&mut self, (key, value): Entry<'_, '_>) {
        let tables = value.get_ref().as_array().map(|array| array.iter().collect::<Vec<_>>());
        let limit = usize::try_from(2 * MAX_NODES + 1).unwrap_or(usize::MAX);
        match tables {
            Some(tables) if tables.len() <= limit => {
                for (index, table) in tables.into_iter().enumerate() {
                    self.node(index, table);
                }
            }
            Some(tables) => {
                self.origins.set_broken(NODE.to_owned());
                let found = format!("there are {} nodes", tables.len());
                let right = format!("a system has at most {limit} nodes");
                self.push(ErrorKind::Nodes, NODE, &key.span(), found, right);
            }
            None => {
                self.origins.set_broken(NODE.to_owned());
                let found = format!("`node` is {}, not a list of tables", article(value.get_ref()));
                let right = "write a line `[[node]]` for each node and its keys below it".to_owned();
                self.push(ErrorKind::WrongType, NODE, &key.span(), found, right);
            }
        }
    }

    /// Reads one `[[node]]` table.
    fn node(&mut self, index: usize, value: &Spanned<DeValue<'_>>) {
        let mut node = Node::default();
        let path = format!("{NODE}[{index}]");
        let Some(table) = value.get_ref().as_table() else {
            self.origins.set_broken(NODE.to_owned());
            let found = format!("`{path}` is {}, not a table", article(value.get_ref()));
            let right = "write a line `[[node]]` for each node and its keys below it".to_owned();
            self.push(ErrorKind::WrongType, &path, &value.span(), found, right);
            return;
        };
        self.origins.set_in_file(path.clone(), value.span());
        for (key, value) in table.iter() {
            if !self.is_trusted((key, value)) {
                continue;
            }
            let name = key.get_ref().as_ref();
            let Some(knob) = node.knobs().iter().find(|knob| knob.key == name) else {
                self.unknown(NODE, (key, value));
                continue;
            };
            let full = format!("{path}.{name}");
            let read = self.resolved((&full, knob), value).and_then(|value| Ok(node.read(name, &value)?));
            match read {
                Ok(()) => self.origins.set_in_file(full, value.span()),
                Err(refused) => {
                    self.origins.set_broken(NODE.to_owned());
                    if let Refused::Codec(refusal) = refused {
                        self.refused(refusal, &full, node.knobs(), value);
                    }
                }
            }
        }
        for required in ["name", "role"] {
            let full = format!("{path}.{required}");
            if self.trusted.is_none() && !self.origins.is_in_file(&full) {
                self.origins.set_broken(NODE.to_owned());
                let found = format!("`{path}` has no `{required}`");
                let right = "each [[node]] needs a `name` and a `role`".to_owned();
                self.push(ErrorKind::Missing, &full, &value.span(), found, right);
            }
        }
        self.config.node.push(node);
    }

    /// Reports a key that does not exist, with the most probable meaning.
    fn unknown(&mut self, path: &str, (key, value): Entry<'_, '_>) {
        if self.errors.len() >= MAX_ERRORS {
            self.more += 1;
            return;
        }
        let name = key.get_ref().as_ref();
        let shown = shorten(name);
        let is_table = value.get_ref().is_table();
        let found = match path {
            "" if is_table => format!("there is no table [{shown}]"),
            "" => format!("there is no key `{shown}` outside of tables"),
            _ if is_table => format!("there is no table [{path}.{shown}]"),
            NODE => format!("there is no key `{shown}` in [[{NODE}]]"),
            _ => format!("there is no key `{shown}` in [{path}]"),
        };
        let (right, meant) = self.meaning(path, name);
        if let Some(meant) = meant {
            // The intended value of this knob is unknown; its default must not cause further errors.
            self.origins.set_broken(if path == NODE { NODE.to_owned() } else { meant });
        }
        let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        self.push(ErrorKind::Unknown, &full, &key.span(), found, right);
    }

    /// Returns the probable correction of an unknown key or table of the table `path`, and the full key of the knob if
    /// it is one.
    fn meaning(&self, path: &str, name: &str) -> (String, Option<String>) {
        let node = Node::default();
        let named: Vec<_> = NAMED.iter().map(|named| (named.path, named.table())).collect();
        let of_name = path.split_once('.').and_then(|(kind, _)| named.iter().find(|(path, _)| *path == kind));
        let section = match of_name {
            _ if path == NODE => Some(&node as &dyn Section),
            Some((_, table)) => Some(&**table),
            None => self.section(path),
        };
        let knobs = section.map(Section::knobs).unwrap_or_default();
        let keys = knobs.iter().map(|knob| knob.key);
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let of_lab = if self.lab.is_some() { LabTables::PATHS } else { &[] };
        let tables = of_lab
            .iter()
            .chain(PATHS)
            .chain([&NODE])
            .chain(NAMED.iter().map(|named| &named.path))
            .filter_map(|table| table.strip_prefix(&prefix));
        if let Some(key) = other_unit(name, keys.clone()) {
            let knob = knobs.iter().find(|knob| knob.key == key);
            let expected = knob.map(|knob| (knob.expected)()).unwrap_or_default();
            return (format!("write `{key}`; it must be {expected}"), Some(format!("{prefix}{key}")));
        }
        if let Some(key) = nearest(name, keys.clone()) {
            return (format!("did you mean `{key}`?"), Some(format!("{prefix}{key}")));
        }
        if let Some(table) = nearest(name, tables) {
            let (open, close) = match table {
                NODE => ("[[", "]]"),
                _ if Named::find(table).is_some() => ("[", ".NAME]"),
                _ => ("[", "]"),
            };
            return (format!("did you mean {open}{prefix}{table}{close}?"), None);
        }
        let of_lab = LabTables::PATHS.iter().filter_map(|path| self.lab.as_ref()?.section(path));
        let elsewhere = of_lab
            .chain(self.config.sections())
            .chain(named.iter().map(|(_, table)| &**table))
            .chain([&node as &dyn Section]);
        let elsewhere = elsewhere.filter(|section| section.knobs().iter().any(|knob| knob.key == name));
        let elsewhere: Vec<String> = elsewhere.map(|section| format!("[{}]", section.path())).collect();
        if !elsewhere.is_empty() {
            return (format!("`{name}` is a key of {}", elsewhere.join(", ")), None);
        }
        let known: Vec<String> = match section {
            Some(_) if !path.is_empty() => keys.map(|key| format!("`{key}`")).collect(),
            _ => {
                let of_lab = if self.lab.is_some() { LabTables::PATHS } else { &[] };
                let tables =
                    of_lab.iter().chain(PATHS).chain([&NODE]).chain(NAMED.iter().map(|named| &named.header));
                tables.map(|table| format!("[{table}]")).collect()
            }
        };
        (format!("known are {}", known.join(", ")), None)
    }
}

/// The type of a value with its article: "an integer".
fn article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
