//! Keys that have no effect with the other settings of a configuration.
//!
//! Whoever sets a key believes that it acts, so a key that does not is an error. The [conditions] say for each table and key when
//! it acts. A key with its default value is never wrong: the record of a run lists all keys.
//!
//! A key of a file has to act in the file itself, or with the flags and settings on top of it, or in one of its partitions: `--replay` on top
//! of a file with emulated sources is meant. A flag or a setting on top has to act in the result.

mod conditions;

use crate::check::Checker;
use crate::error::{ConfigError, ErrorKind};
use crate::files::Files;
use crate::knob::Section;
use crate::origins::Origins;
use crate::settings::Node;
use crate::tables::{NODE, Named, PARTITIONS};
use crate::text::shorten;
use crate::{Config, NODE_PATH};
use conditions::CONDITIONS;
use std::collections::BTreeSet;

/// Condition on which keys of a table have an effect.
pub(crate) struct Condition {
    /// The table, as the reference page has it: `source.feed`, `programs.NAME`, `node`.
    table: &'static str,
    /// The keys. Empty stands for all.
    keys: &'static [&'static str],
    /// The keys and tables that decide, for the message. One without a table is a key of the same table.
    by: &'static [&'static str],
    acts: When,
    /// Change by which they would have an effect: "write ...".
    remedy: &'static str,
}

/// Place of the settings that decide whether keys have an effect.
#[derive(Clone, Copy)]
enum When {
    /// The configuration.
    All(fn(&Config) -> bool),
    /// The table that they are in.
    Own(fn(&dyn Section) -> bool),
}

impl When {
    fn holds(self, config: &Config, table: &dyn Section) -> bool {
        match self {
            Self::All(acts) => acts(config),
            Self::Own(acts) => acts(table),
        }
    }
}

/// A key as a configuration has it, such as `source.feed.listen`, `programs.tlu.command` and `node[2].cpu`, or a named table: `programs.tlu`.
struct Place<'a> {
    /// The table, as conditions have it.
    table: String,
    /// The key in it; `None` for a named table as a whole.
    key: Option<&'a str>,
    is_named: bool,
}

impl<'a> Place<'a> {
    fn of(full: &'a str) -> Self {
        let (path, key) = full.rsplit_once('.').unwrap_or((full, ""));
        if path.starts_with(NODE_PATH) {
            return Self { table: NODE.to_owned(), key: Some(key), is_named: false };
        }
        match named(full) {
            Some((kind, _, key)) => Self { table: format!("{}.NAME", kind.path), key, is_named: true },
            None => Self { table: path.to_owned(), key: Some(key), is_named: false },
        }
    }

    /// Returns the conditions that are about it. Those on a whole named table are not about its keys.
    fn conditions(&self) -> impl Iterator<Item = &'static Condition> {
        let is_of = |condition: &&Condition| match self.key {
            Some(key) if condition.keys.is_empty() => !self.is_named && !key.is_empty(),
            Some(key) => condition.keys.contains(&key),
            None => condition.keys.is_empty(),
        };
        let of_table = CONDITIONS.iter().copied().flatten().filter(|condition| condition.table == self.table);
        of_table.filter(is_of)
    }
}

/// Returns the kind, the name and the key of a key of a named table, or of a named table.
fn named(full: &str) -> Option<(Named, &str, Option<&str>)> {
    let (kind, rest) = full.split_once('.')?;
    let kind = Named::find(kind)?;
    let has = |key: &str| kind.table().knobs().iter().any(|knob| knob.key == key);
    // Names of tables may have points, keys do not.
    Some(match rest.rsplit_once('.').filter(|(_, key)| has(key)) {
        Some((name, key)) => (kind, name, Some(key)),
        None => (kind, rest, None),
    })
}

/// The configurations in one of which each key of a file must have an effect: the whole, and that with the settings of each partition.
pub(crate) struct Views(Vec<Config>);

impl Views {
    pub(crate) fn of(config: &Config) -> Self {
        let parts = config.partitions.iter().filter(|(_, table)| !table.set.is_empty());
        let parts = parts.map(|(name, _)| with_settings_of(config, name).0);
        Self(std::iter::once(config.clone()).chain(parts).collect())
    }

    /// Returns whether a key of this table has its default value or an effect.
    pub(crate) fn acts(&self, full: &str, table: &dyn Section) -> bool {
        let place = Place::of(full);
        place.conditions().all(|condition| self.0.iter().any(|config| condition.acts.holds(config, table)))
            || place.key.is_some_and(|key| is_default(&place, key, table))
    }

    /// Returns whether a table can have an effect. Only a named table has none without its keys.
    pub(crate) fn has_use_of(&self, path: &str, table: &dyn Section) -> bool {
        named(path).is_none() || self.acts(path, table)
    }
}

/// Returns a configuration with the settings of a partition, and whether all of them could be applied.
fn with_settings_of(config: &Config, partition: &str) -> (Config, bool) {
    let mut part = config.clone();
    // What is wrong with a setting is reported where the partition is checked.
    let errors = part.apply_partition(partition, &mut Origins::none(), Files::Refuse);
    (part, errors.is_empty())
}

/// Returns whether a key of this table has its default value.
fn is_default(place: &Place<'_>, key: &str, table: &dyn Section) -> bool {
    let value = table.write(key);
    let default = match place.table.strip_suffix(".NAME").and_then(Named::find) {
        Some(named) => named.table().write(key),
        None if place.table == NODE => Node::default().write(key),
        None => Config::default().section(&place.table).and_then(|table| table.write(key)),
    };
    value == default
}

/// Finds the keys without effect in `file`, which is the configuration before flags and settings, and among those of `end`, the one after
/// them.
pub(crate) fn check(
    (file, of_file): (Config, &Origins<'_>),
    (end, origins): (&Config, &Origins<'_>),
) -> Vec<ConfigError> {
    let mut plain = file;
    plain.run.partition = None;
    plain.follow(of_file);
    let mut views = Views::of(&plain);
    let mut checker = Checker { config: end, origins, errors: settings_of_partitions(&plain, of_file) };
    views.0.push(end.clone());
    // One key speaks for its table.
    let mut told = BTreeSet::new();
    for key in of_file.keys_in_file().filter(|key| !origins.is_by_flag(key)) {
        if plain.is_idle(key, &views) && told.insert(plain.idle_table(key).unwrap_or(key)) {
            checker.has_no_effect(key, &plain);
        }
    }
    let of_end = Views(vec![end.clone()]);
    for key in origins.keys_by_flag().filter(|key| end.is_idle(key, &of_end)) {
        checker.has_no_effect(key, end);
    }
    checker.errors
}

/// Finds settings of partitions that have no effect in their partition.
fn settings_of_partitions(file: &Config, origins: &Origins<'_>) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    for (name, table) in &file.partitions {
        let (part, is_whole) = with_settings_of(file, name);
        let views = Views(vec![part.clone()]);
        let place = format!("{PARTITIONS}.{name}.set");
        let keys = table.set.iter().filter_map(|setting| Some(setting.split_once('=')?.0.trim()));
        for key in keys.filter(|key| is_whole && part.is_idle(key, &views)) {
            let Some((found, right)) = part.reason(key) else { continue };
            let found = format!("partition `{name}`: {found}");
            let (kind, origin) = (ErrorKind::NoEffect, origins.find(&[&place]));
            errors.push(ConfigError { kind, key: place.clone(), found, right, origin });
        }
    }
    errors
}

impl Config {
    /// Returns whether a key or named table has neither its default value nor an effect.
    fn is_idle(&self, key: &str, views: &Views) -> bool {
        self.table_of(key).is_some_and(|table| !views.acts(key, table))
    }

    /// Returns the table of a key if none of its keys has an effect.
    fn idle_table<'a>(&self, key: &'a str) -> Option<&'a str> {
        let (condition, _) = self.unmet(key)?;
        condition.keys.is_empty().then(|| key.rsplit_once('.').map_or(key, |(path, _)| path))
    }

    /// Returns the table of a key, or the named table.
    fn table_of(&self, full: &str) -> Option<&dyn Section> {
        if let Some((kind, name, _)) = named(full) {
            return self.named_table(kind.path, name);
        }
        let (path, _) = full.rsplit_once('.')?;
        match path.strip_prefix(NODE_PATH).and_then(|rest| rest.strip_suffix(']')) {
            Some(index) => self.node.get(index.parse::<usize>().ok()?).map(|node| node as &dyn Section),
            None => self.section(path),
        }
    }

    /// Returns the first condition on a key that does not hold, and the table of the key.
    fn unmet(&self, key: &str) -> Option<(&'static Condition, &dyn Section)> {
        let table = self.table_of(key)?;
        let condition = Place::of(key).conditions().find(|condition| !condition.acts.holds(self, table))?;
        Some((condition, table))
    }

    /// Returns why a key has no effect, and the remedy.
    fn reason(&self, key: &str) -> Option<(String, String)> {
        let (condition, table) = self.unmet(key)?;
        let by: Vec<String> = condition.by.iter().map(|by| self.shown(by, table)).collect();
        let also = match key.rsplit_once('.') {
            Some((path, _)) if condition.keys.is_empty() && named(key).is_none() => {
                format!(", nor has any key of [{path}]")
            }
            _ => String::new(),
        };
        let found = format!("`{}` has no effect{also}: {}", shorten(key), by.join(", and "));
        Some((found, format!("remove it, or {}", condition.remedy)))
    }

    /// Returns in words the value of a key that decides, or whether there are such tables.
    fn shown(&self, by: &str, table: &dyn Section) -> String {
        let value = match by.contains('.') {
            true => self.knob(by).and_then(|(table, knob)| table.write(knob.key)),
            false => table.write_known(by),
        };
        match value {
            Some(value) => format!("`{by}` is {}", shorten(&value)),
            None if Named::find(by).is_some() => format!("there is no table [{by}.NAME]"),
            None => format!("`{by}` is not set"),
        }
    }
}

impl dyn Section + '_ {
    /// Returns the value of a key, if the table has that key and a value of it.
    fn write_known(&self, key: &str) -> Option<String> {
        self.knobs().iter().any(|knob| knob.key == key).then(|| self.write(key)).flatten()
    }
}

impl Checker<'_> {
    /// Reports a key without effect, with the reason that `config` has for it.
    fn has_no_effect(&mut self, key: &str, config: &Config) {
        let Some((found, right)) = config.reason(key) else { return };
        // Nothing follows from a key that is wrong in itself.
        let place = Place::of(key);
        let by = place.conditions().flat_map(|condition| condition.by.iter().copied());
        let keys: Vec<&str> = std::iter::once(key).chain(by).collect();
        self.fail(ErrorKind::NoEffect, &keys, found, right);
    }
}

#[cfg(test)]
mod tests;
