//! The configuration of an earlier run, or one with a name, for another run.

use super::code::Code;
use super::configuration::ConfigurationId;
use super::find_number;
use super::named::{self, NamedConfiguration};
use crate::code::compare_code;
use anyhow::{Context as _, bail};
use sheaf_config::{Config, ConfigErrors, Run};
use sheaf_store::run::{ConfigurationOrigin, MANIFEST_NAME, Manifest};
use std::path::{Path, PathBuf};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Like {
    /// Its text: all settings as they were in force, with names of sources, so that it needs no other file.
    text: String,
    /// The configuration in words: `run 12`, `cosmics-2026a version 3`.
    what: String,
    pub(crate) software: String,
    pub(crate) code: Vec<Code>,
    /// Name of the configuration, for records.
    pub(crate) name: Option<String>,
    pub(crate) origin: ConfigurationOrigin,
    /// Directory of runs beside which it is.
    runs: PathBuf,
}

impl Like {
    /// Finds the configuration of a run, given by its number or its directory (a text with `/`), or the one with a name: `NAME` or
    /// `NAME@VERSION`. Numbers and names are looked up in `runs`.
    ///
    /// # Errors
    /// There is none, and what to do.
    pub(crate) fn find(text: &str, runs: &Path) -> anyhow::Result<Self> {
        if let Ok(number) = text.parse() {
            return Self::of_run(&find_number(number, runs)?, runs);
        }
        let directory = Path::new(text);
        if text.contains('/') || directory.join(MANIFEST_NAME).is_file() {
            return Self::of_run(directory, directory.parent().unwrap_or(runs));
        }
        let (named, text) = named::find(text, runs)?;
        let origin = ConfigurationOrigin {
            run: named.run,
            name: Some(named.name.clone()),
            version: Some(named.version),
        };
        Ok(Self {
            text,
            what: format!("{} version {}", named.name, named.version),
            software: named.software,
            code: named.code,
            name: Some(named.name),
            origin,
            runs: runs.to_owned(),
        })
    }

    fn of_run(directory: &Path, runs: &Path) -> anyhow::Result<Self> {
        let shown = directory.join(MANIFEST_NAME);
        let manifest = Manifest::read(directory)?.with_context(|| {
            format!("{} is not there, and with it the configuration of the run", shown.display())
        })?;
        let run = manifest.run.0;
        if manifest.configuration.trim().is_empty() {
            bail!("{} has no configuration: its `configuration` is empty", shown.display());
        }
        Ok(Self {
            text: manifest.configuration,
            what: format!("run {run}"),
            software: manifest.software,
            code: manifest.code.into_iter().map(Code::of).collect(),
            name: manifest.configuration_name,
            origin: ConfigurationOrigin { run, name: None, version: None },
            runs: runs.to_owned(),
        })
    }

    /// Returns the configuration in words.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Returns the configuration for another run: without the number and the directory of that run, and with the changes that the command
    /// line asks for.
    ///
    /// # Errors
    /// It is one of another version, which this version does not take, or the changes do not fit.
    pub(crate) fn config(&self, change: impl Fn(&mut Config)) -> anyhow::Result<Config> {
        let begin = |config: &mut Config| {
            let Run { number, overwrite, runs, .. } = Run::default();
            config.run = Run { number, overwrite, runs, output: self.runs.clone(), ..config.run.clone() };
            change(config);
        };
        Config::parse_with(&self.text, &self.what, begin).map_err(|errors| self.explain(&errors))
    }

    fn explain(&self, errors: &ConfigErrors) -> anyhow::Error {
        let Self { what, software, .. } = self;
        if software == crate::SOFTWARE {
            return anyhow::anyhow!("the configuration of {what} cannot be used: {errors}");
        }
        anyhow::anyhow!(
            "the configuration of {what} is one of {software}, and {} does not take it; `sheaf runs configuration` needs that version, too; the text is in its record\n\n{errors}",
            crate::SOFTWARE
        )
    }

    /// Returns its settings as they were, and its id.
    pub(super) fn settings(&self) -> anyhow::Result<(Config, ConfigurationId)> {
        let config = Config::parse(&self.text, &self.what).map_err(|errors| self.explain(&errors))?;
        let id = ConfigurationId::of(self.name.clone(), Some(&config), &self.text, &self.code);
        Ok((config, id))
    }

    /// Returns it as a file for other runs: without its number, so that each gets the next one. `short` leaves out settings that have their
    /// default.
    pub(super) fn file(&self, short: bool) -> anyhow::Result<String> {
        Ok(self.file_of(self.settings()?.0, short))
    }

    fn file_of(&self, mut config: Config, short: bool) -> String {
        config.run.number = Run::default().number;
        let name = self.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
        let settings = if short { config.to_short_toml() } else { config.to_toml() };
        format!("# Configuration of run {}{name}, {}.\n\n{settings}", self.origin.run, self.software)
    }

    /// Gives it a name, by `person`, or else by the user of this process. Returns the name with its version, and whether it had it already.
    ///
    /// # Errors
    /// It is one of another version, which this version does not take, or the disk does not take the name: then an [`std::io::Error`] is among
    /// the causes.
    pub(crate) fn give_name(
        &self,
        name: &str,
        person: Option<&str>,
    ) -> anyhow::Result<(NamedConfiguration, bool)> {
        let (config, id) = self.settings()?;
        let origin = named::origin(name, person, (self.origin.run, &self.software), &id.id, &self.code);
        named::add(&self.runs, origin, &self.file_of(config, false))
    }

    /// Checks that the files are there that a configuration names. Returns warnings about code that is not the one of that run any more.
    ///
    /// # Errors
    /// Something is not there any more.
    pub(crate) fn check(&self, config: &Config) -> anyhow::Result<Vec<String>> {
        let was =
            |table: &str| self.code.iter().find(|code| code.table == table).map(|code| code.crc32c.clone());
        let context =
            || format!("the configuration of {} names something that is not there any more", self.what);
        let changed = compare_code(config, was).with_context(context)?;
        let missing = missing_files(config);
        if let Some((key, path)) = missing.first() {
            let more =
                if missing.len() > 1 { format!(", and {} others", missing.len() - 1) } else { String::new() };
            return Err(anyhow::anyhow!("there is no {} (`{key}`){more}", path.display()))
                .with_context(context);
        }
        let warning = |(table, path, [now, then]): (&str, PathBuf, [String; 2])| {
            format!(
                "{table}: {} has the CRC-32C {now}, and had {then} in run {}",
                path.display(),
                self.origin.run
            )
        };
        Ok(changed.into_iter().map(warning).collect())
    }
}

/// Returns files that a run needs from its beginning and that are not there, each with its key.
fn missing_files(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let replay = config.source.replay.directory.as_ref();
    let is_replay = config.source.kind == sheaf_config::SourceKind::Replay;
    let files = [
        ("source.replay.directory", replay.filter(|_| is_replay)),
        ("output.begin_records", config.output.begin_records.as_ref()),
        ("database.password_file", config.database.password_file.as_ref()),
        ("database.ca_file", config.database.ca_file.as_ref()),
        ("transport.key_file", config.transport.key_file.as_ref()),
    ];
    let named = files.into_iter().filter_map(|(key, path)| Some((key, path?.clone())));
    named.filter(|(_, path)| !path.exists()).collect()
}
