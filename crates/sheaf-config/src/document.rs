//! From the text of a file to a [`Config`]: every key known, every value of the right type and within its limits.
//!
//! The TOML parser recovers from errors, so that one mistake does not hide the others; what was read before the first
//! error of syntax is trusted.

use crate::error::{ConfigError, ErrorKind};
use crate::knob::{Knob, Section};
use crate::origins::Origins;
use crate::settings::{MAX_NODES, Node};
use crate::suggest::nearest;
use crate::tables::{NODE, PATHS};
use crate::text::{Text, shorten};
use crate::{Config, codec::Refusal};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a file says, as far as it can be understood, and what cannot.
pub(crate) struct Document<'a> {
    pub(crate) config: Config,
    pub(crate) origins: Origins<'a>,
    pub(crate) errors: Vec<ConfigError>,
    /// How many more errors there are.
    pub(crate) more: usize,
    /// Whether the text is TOML. If not, the configuration is only a part of what was meant.
    pub(crate) is_toml: bool,
}

/// After so many errors the others are only counted: to find the place and the probable meaning of each takes time, and
/// a file of 1 MiB can have half a million of them, all in one line.
const MAX_ERRORS: usize = 200;

/// Reads a file's text.
pub(crate) fn read<'a>(text: &'a str, file: &str) -> Document<'a> {
    let (root, syntax_errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        config: Config::default(),
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
    reader.table("", root.get_ref());
    Document {
        config: reader.config,
        origins: reader.origins,
        errors: reader.errors,
        more: reader.more,
        is_toml: syntax_errors.is_empty(),
    }
}

/// Whether the text is well-formed but says something twice. What follows is read as it was meant.
fn is_duplicate(error: &toml::de::Error) -> bool {
    error.message().starts_with("duplicate key")
}

struct Reader<'a> {
    config: Config,
    origins: Origins<'a>,
    errors: Vec<ConfigError>,
    /// Errors beyond [`MAX_ERRORS`].
    more: usize,
    /// Where the first error of syntax is. What ends before it is what was meant.
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

    /// Whether an entry is what was meant: it ends before the first error of syntax.
    fn is_trusted(&self, (key, value): Entry<'_, '_>) -> bool {
        let end = key.span().end.max(value.span().end);
        self.trusted.is_none_or(|start| end < start)
    }

    /// Reads the table `path`; empty for the whole file.
    fn table(&mut self, path: &str, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            if !self.is_trusted((key, value)) {
                continue;
            }
            let name = key.get_ref().as_ref();
            let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            if self.config.knob(&full).is_some() {
                self.value(&full, value);
            } else if self.config.section(&full).is_some() {
                self.sub_table(&full, (key, value));
            } else if full == NODE {
                self.nodes((key, value));
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
        for knob in self.config.section(path).map(Section::knobs).unwrap_or_default() {
            self.origins.set_broken(format!("{path}.{}", knob.key));
        }
    }

    /// Reads the value of the knob with this full key.
    fn value(&mut self, key: &str, value: &Spanned<DeValue<'_>>) {
        let Some((path, name)) = key.rsplit_once('.') else {
            return;
        };
        let Some(section) = self.config.section_mut(path) else {
            return;
        };
        let knobs = section.knobs();
        match section.read(name, value.get_ref()) {
            Ok(()) => self.origins.set_in_file(key.to_owned(), value.span()),
            Err(refusal) => self.refused(refusal, key, knobs, value),
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
        let right = format!("it should be {}", (knob.expected)());
        self.push(kind, key, &value.span(), found, right);
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
            if !node.knobs().iter().any(|knob| knob.key == name) {
                self.unknown(NODE, (key, value));
                continue;
            }
            let full = format!("{path}.{name}");
            match node.read(name, value.get_ref()) {
                Ok(()) => self.origins.set_in_file(full, value.span()),
                Err(refusal) => {
                    self.origins.set_broken(NODE.to_owned());
                    self.refused(refusal, &full, node.knobs(), value);
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
            // What was meant for this knob is not known; its default must not be held against the file.
            self.origins.set_broken(if path == NODE { NODE.to_owned() } else { meant });
        }
        let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        self.push(ErrorKind::Unknown, &full, &key.span(), found, right);
    }

    /// What an unknown key or table of the table `path` should probably be, and the knob's full key if it is one.
    fn meaning(&self, path: &str, name: &str) -> (String, Option<String>) {
        let node = Node::default();
        let section = if path == NODE { Some(&node as &dyn Section) } else { self.config.section(path) };
        let keys = section.map(Section::knobs).unwrap_or_default().iter().map(|knob| knob.key);
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let tables = PATHS.iter().chain([&NODE]).filter_map(|table| table.strip_prefix(&prefix));
        if let Some(key) = nearest(name, keys.clone()) {
            return (format!("did you mean `{key}`?"), Some(format!("{prefix}{key}")));
        }
        if let Some(table) = nearest(name, tables) {
            let (open, close) = if table == NODE { ("[[", "]]") } else { ("[", "]") };
            return (format!("did you mean {open}{prefix}{table}{close}?"), None);
        }
        let elsewhere = self.config.sections().chain([&node as &dyn Section]);
        let elsewhere = elsewhere.filter(|section| section.knobs().iter().any(|knob| knob.key == name));
        let elsewhere: Vec<String> = elsewhere.map(|section| format!("[{}]", section.path())).collect();
        if !elsewhere.is_empty() {
            return (format!("`{name}` is a key of {}", elsewhere.join(", ")), None);
        }
        let known: Vec<String> = match section {
            Some(_) => keys.map(|key| format!("`{key}`")).collect(),
            None => PATHS.iter().chain([&NODE]).map(|table| format!("[{table}]")).collect(),
        };
        (format!("known are {}", known.join(", ")), None)
    }
}

/// The type of a value with its article: "an integer".
fn article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
