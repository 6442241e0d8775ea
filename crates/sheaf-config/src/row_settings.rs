//! Settings on top of a file, given one by one as key and text: those of a row of a table of runs, and of `--set`.

use crate::error::{ConfigError, ConfigErrors, ErrorKind, Origin};
use crate::files::Files;
use crate::knob::Section;
use crate::origins::Origins;
use crate::source_lists::Resolver;
use crate::suggest::nearest;
use crate::text::shorten;
use crate::{Config, Purpose, check, codec, document, read_file, usage};
use std::borrow::Cow;
use std::path::Path;
use toml::de::DeValue;

/// A value of a key, as text: as in a file, where quotes around a text may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Full key: `filter.busy_us`, `programs.tlu.command`.
    pub key: String,
    /// The value.
    pub value: String,
}

impl Setting {
    /// The flag by which a run gets its settings.
    pub(crate) const FLAG: &str = "--set";
}

/// Keys and tables that a single run of a controller cannot change, and why.
const FIXED: &[(&str, &str)] = &[
    ("run.output", "the controller keeps its runs in one directory"),
    ("run.number", "runs get consecutive numbers"),
    ("run.partition", "a controller has one partition"),
    ("run.runs", "each row is one run"),
    ("run.overwrite", "the runs of a sequence stay"),
    ("control.", "it is about the controller, which is running"),
    ("monitor.", "the page is that of the controller, which is running"),
    ("partition.", "a controller has one partition"),
    ("source.map", "names of sources are read with the file"),
];

/// A setting that is wrong.
pub(crate) struct Wrong {
    pub(crate) kind: ErrorKind,
    pub(crate) found: String,
    pub(crate) right: String,
}

/// Checks that there is a key, and that a row may set it.
pub(crate) fn check_key(config: &Config, key: &str) -> Result<(), Wrong> {
    if let Some((_, why)) = FIXED.iter().find(|(fixed, _)| match fixed.ends_with('.') {
        true => key.starts_with(fixed),
        false => key == *fixed,
    }) {
        let found = format!("`{}` cannot differ between the runs of a table: {why}", shorten(key));
        return Err(Wrong { kind: ErrorKind::Conflict, found, right: "set it in the configuration".into() });
    }
    Setting::check_known(config, key)
}

impl Setting {
    /// Checks that there is a key.
    pub(crate) fn check_known(config: &Config, key: &str) -> Result<(), Wrong> {
        let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
        let is_known = |section: &dyn Section| section.knobs().iter().any(|knob| knob.key == name);
        if config.table(path).is_some_and(is_known) {
            return Ok(());
        }
        let keys = config.every_table().into_iter().flat_map(|(path, section)| {
            section.knobs().iter().map(move |knob| format!("{path}.{}", knob.key))
        });
        let keys: Vec<String> = keys.collect();
        let meant = nearest(key, keys.iter().map(String::as_str));
        let right = meant.map_or_else(
        || {
            "write a key with its table, such as `filter.busy_us`; `docs/reference/configuration.md` lists all"
                .to_owned()
        },
        |meant| format!("did you mean `{meant}`?"),
    );
        Err(Wrong { kind: ErrorKind::Unknown, found: format!("there is no key `{}`", shorten(key)), right })
    }
}

/// A configuration that is read once, for rows on top of it.
pub(crate) struct Base<'a> {
    pub(crate) config: Config,
    origins: Origins<'a>,
    files: Files,
}

impl<'a> Base<'a> {
    /// Reads a text.
    ///
    /// # Errors
    /// All values and keys of it that are wrong in themselves.
    pub(crate) fn read(text: &'a str, (file, files): (&str, Files)) -> Result<Self, ConfigErrors> {
        let document = document::read(text, file, files);
        let base = Self { config: document.config, origins: document.origins, files };
        ConfigErrors::or_more(document.errors, document.more, base)
    }

    /// Returns the configuration with these settings.
    ///
    /// # Errors
    /// All that is wrong with the result. What a setting makes wrong has the origin [`Setting::FLAG`].
    pub(crate) fn with(
        &self,
        settings: &[Setting],
        change: impl Fn(&mut Config),
    ) -> Result<Config, ConfigErrors> {
        let draft = Draft { config: self.config.clone(), origins: self.origins.clone(), files: self.files };
        let (config, mut errors) = draft.settle(settings, &change, Some(Purpose::Run));
        for error in &mut errors {
            error.found = config.names.annotate(&error.found).into_owned();
        }
        ConfigErrors::or(errors, config)
    }
}

/// A change that the command line makes.
type Change<'a> = &'a dyn Fn(&mut Config);

/// The values of a file, before settings and changes are added and the whole is checked.
pub(crate) struct Draft<'a> {
    pub(crate) config: Config,
    pub(crate) origins: Origins<'a>,
    pub(crate) files: Files,
}

impl Draft<'_> {
    /// Returns the configuration with settings and changes, or that of the partition that is chosen, and all that is wrong with it.
    /// Nothing is checked without a purpose.
    pub(crate) fn settle(
        self,
        settings: &[Setting],
        change: Change<'_>,
        purpose: Option<Purpose<'_>>,
    ) -> (Config, Vec<ConfigError>) {
        let Self { config: file, origins: of_file, files } = self;
        let (mut config, mut origins) = (file.clone(), of_file.clone());
        let mut errors = config.add(&mut origins, files, (settings, change));
        let Some(purpose) = purpose else { return (config, errors) };
        let chosen = config.run.partition.clone();
        // The configuration of a partition, as it is in a record, says so itself, and has no tables of partitions.
        let is_part = config.partitions.is_empty() && chosen == file.run.partition;
        let Some(partition) = chosen.filter(|_| !is_part) else {
            errors.extend(check::check(&config, &origins, purpose));
            if errors.is_empty() {
                errors = usage::check((file, &of_file), (&config, &origins));
            }
            return (config, errors);
        };
        if let Some(error) = config.unknown_partition(&partition, (file.run.partition.as_deref(), &origins)) {
            errors.push(error);
            return (config, errors);
        }
        let (mut whole, mut origins) = (file.clone(), of_file.clone());
        let mut errors = whole.apply_partition(&partition, &mut origins, files);
        errors.extend(whole.add(&mut origins, files, (settings, change)));
        if errors.is_empty() {
            (whole, errors) = whole.part(&partition, &origins, purpose);
        }
        if errors.is_empty() {
            errors = usage::check((file, &of_file), (&whole, &origins));
            return (whole, errors);
        }
        // What is wrong with the whole is said best without the part, with its place in the file.
        if !errors.is_empty() {
            let (mut plain, origins) = (file, of_file);
            plain.run.partition = None;
            plain.follow(&origins);
            let of_whole = check::check(&plain, &origins, Purpose::Run);
            errors = if of_whole.is_empty() { errors } else { of_whole };
        }
        (whole, errors)
    }
}

impl Config {
    /// As [`Config::load_with`], with settings on top of the file. Without a file, on top of the defaults.
    ///
    /// # Errors
    /// All that is wrong with the result.
    pub fn load_with_settings(
        path: Option<&Path>,
        settings: &[Setting],
        change: impl Fn(&mut Self),
    ) -> Result<Self, ConfigErrors> {
        let (text, file) = read_base(path)?;
        Base::read(&text, (&file, Files::Read))?.with(settings, change)
    }

    /// Adds settings, what follows from the knobs that are set, and changes.
    fn add(
        &mut self,
        origins: &mut Origins<'_>,
        files: Files,
        (settings, change): (&[Setting], Change<'_>),
    ) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        for Setting { key, value } in settings {
            let set = check_key(self, key).and_then(|()| self.set(key, value, files));
            match set {
                Ok(()) => origins.set_by_program(key.clone(), Some(Setting::FLAG)),
                Err(Wrong { kind, found, right }) => {
                    origins.set_broken(key.clone());
                    let origin = Origin::Flag(Setting::FLAG);
                    errors.push(ConfigError { kind, key: key.clone(), found, right, origin });
                }
            }
        }
        self.follow(origins);
        let before = self.clone();
        change(self);
        before.find_changes(self, origins);
        errors
    }

    /// The table with this name, also one such as `programs.tlu`.
    fn table(&self, path: &str) -> Option<&dyn Section> {
        let named = path.split_once('.').and_then(|(kind, name)| self.named_table(kind, name));
        named.or_else(|| self.section(path))
    }

    /// The table with this name, to be changed.
    fn table_mut(&mut self, path: &str) -> Option<&mut dyn Section> {
        match path.split_once('.') {
            Some((kind, name)) if self.named_table(kind, name).is_some() => self.named_table_mut(kind, name),
            _ => self.section_mut(path),
        }
    }

    /// Sets a known key from a text.
    pub(crate) fn set(&mut self, key: &str, text: &str, files: Files) -> Result<(), Wrong> {
        let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
        let knob = self.table(path).and_then(|table| table.knobs().iter().find(|knob| knob.key == name));
        let Some(knob) = knob else { return Ok(()) };
        let as_text = DeValue::String(Cow::Borrowed(text));
        let parsed = DeValue::parse(text).ok();
        let mut values: Vec<DeValue<'_>> = parsed.into_iter().map(toml::Spanned::into_inner).collect();
        // A text needs no quotes: `poisson`, or a name that looks like a number.
        values.push(as_text);
        let mut last = codec::Refusal::Type;
        for value in values {
            let resolved = if (knob.names_sources)() {
                let resolver = Resolver { names: &self.names, files };
                resolver.resolve(&value).map_err(|error| Wrong {
                    kind: ErrorKind::BadValue,
                    found: error.found,
                    right: error.right,
                })?
            } else {
                None
            };
            let value = resolved.map_or(value, |text| DeValue::String(text.into()));
            match self.table_mut(path).map_or(Ok(()), |table| table.read(name, &value)) {
                Ok(()) => return Ok(()),
                // The value is of the right type and says best what is wrong.
                Err(codec::Refusal::Value) => {
                    last = codec::Refusal::Value;
                    break;
                }
                Err(refusal) => last = refusal,
            }
        }
        let kind = match last {
            codec::Refusal::Type => ErrorKind::WrongType,
            codec::Refusal::Value => ErrorKind::BadValue,
        };
        let found = format!("`{}` is {}", shorten(key), shorten(text));
        Err(Wrong { kind, found, right: format!("it must be {}", (knob.expected)()) })
    }
}

/// Returns the text of a file and its name in messages; without a file, an empty text.
pub(crate) fn read_base(path: Option<&Path>) -> Result<(String, String), ConfigErrors> {
    let Some(path) = path else { return Ok((String::new(), "configuration".to_owned())) };
    let (bytes, file) = (read_file(path)?, path.display().to_string());
    match String::from_utf8(bytes) {
        Ok(text) => Ok((text, file)),
        // The reader of configurations has the message for it.
        Err(_) => Config::load(path).map(|config| (config.to_toml(), file)),
    }
}

#[cfg(test)]
mod tests;
