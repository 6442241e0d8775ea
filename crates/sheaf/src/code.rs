//! External code that a run loads: its filter, step filter, preprocessor, sources and triggers, as they were when the run began.
//!
//! The files are copied into the run's directory, and the copies are loaded. So a new version can be installed at any
//! time, even over the old one: the next run loads it as a whole, and workers that are restarted in this run load the
//! same version as the others. The dynamic loader returns an already loaded library for the same path; each run has
//! paths of its own.

use anyhow::Context;
use sheaf_config::{Config, FilterKind, FrontEnd, SourceKind, StepFilterKind, TriggerMode};
use sheaf_store::regular;
use sheaf_store::run::CodeRecord;
use sheaf_telemetry::log_as;
use sheaf_wire::Role;
use sheaf_wire::checksum::crc32c;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The copies, from the directory of the run on.
const DIRECTORY: &str = "code";

/// The tables of the configuration that name code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Filter,
    Building,
    Preprocessing,
    Source,
    Decoder,
    Trigger,
}

impl Table {
    const ALL: [Self; 6] =
        [Self::Filter, Self::Building, Self::Preprocessing, Self::Source, Self::Decoder, Self::Trigger];

    fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Building => "building",
            Self::Preprocessing => "preprocessing",
            Self::Source => "source.library",
            Self::Decoder => "source.decoder",
            Self::Trigger => "trigger.library",
        }
    }

    /// Returns the file that it loads, if any. A Python module that is found by its name is not a file.
    fn file(self, config: &Config) -> Option<&Path> {
        let Config { filter, building, preprocessing, source, trigger, .. } = config;
        match self {
            Self::Filter => match filter.kind {
                FilterKind::Library => filter.path.as_deref(),
                FilterKind::Python => filter.path.as_deref().filter(|path| is_script(path)),
                FilterKind::AcceptAll | FilterKind::Prescale | FilterKind::Coincidence | FilterKind::Busy => {
                    None
                }
            },
            Self::Building => {
                let is_used = building.filter == StepFilterKind::Library && !building.first_step.is_empty();
                building.path.as_deref().filter(|_| is_used)
            }
            Self::Preprocessing => preprocessing.path.as_deref(),
            Self::Source => source.library.path.as_deref().filter(|_| source.kind == SourceKind::Library),
            Self::Decoder => {
                let path = source.decoder.path.as_deref().filter(|_| source.is_timed());
                match source.timed.front_end {
                    FrontEnd::Library => path,
                    FrontEnd::Python => path.filter(|path| is_script(path)),
                    FrontEnd::Vmm3a | FrontEnd::Described | FrontEnd::Hits => None,
                }
            }
            Self::Trigger => trigger.library.path.as_deref().filter(|_| trigger.mode == TriggerMode::Library),
        }
    }

    fn is_library(self, config: &Config) -> bool {
        let is_python = match self {
            Self::Filter => config.filter.kind == FilterKind::Python,
            Self::Decoder => config.source.timed.front_end == FrontEnd::Python,
            _ => false,
        };
        self.file(config).is_some() && !is_python
    }

    fn set_file(self, config: &mut Config, path: PathBuf) {
        let Config { filter, building, preprocessing, source, trigger, .. } = config;
        *match self {
            Self::Filter => &mut filter.path,
            Self::Building => &mut building.path,
            Self::Preprocessing => &mut preprocessing.path,
            Self::Source => &mut source.library.path,
            Self::Decoder => &mut source.decoder.path,
            Self::Trigger => &mut trigger.library.path,
        } = Some(path);
    }

    /// Returns the path of its copy.
    fn copy(self, file: &Path) -> PathBuf {
        Path::new(DIRECTORY).join(self.name()).join(file.file_name().unwrap_or_default())
    }
}

/// Returns whether `filter.path` names a Python file, instead of a module on the interpreter's search path.
fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// The copies that a run loads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code(BTreeMap<Table, PathBuf>);

impl Code {
    /// Copies the files that `config` loads into `directory`, and returns records of them.
    ///
    /// # Errors
    /// If a file does not exist or cannot be copied.
    pub(crate) fn take(config: &Config, directory: &Path) -> anyhow::Result<(Self, Vec<CodeRecord>)> {
        let (mut code, mut records) = (Self::default(), Vec::new());
        for table in Table::ALL {
            let Some(file) = table.file(config) else { continue };
            let (name, shown) = (table.name(), file.display());
            // The bytes read here are written and loaded, so the checksum is of the code that runs.
            let bytes =
                regular::read(file).with_context(|| format!("cannot read {shown} (`{name}.path`)"))?;
            let found =
                file.canonicalize().with_context(|| format!("cannot find {shown} (`{name}.path`)"))?;
            let copy = config.run.copy_code.then(|| table.copy(file));
            if let Some(copy) = &copy {
                let to = directory.join(copy);
                write(&to, &bytes).with_context(|| format!("cannot copy {shown} to {}", to.display()))?;
                // Workers may have another working directory.
                code.0.insert(table, to.canonicalize().with_context(|| format!("{} is gone", to.display()))?);
            }
            let (table, crc32c) = (name.to_owned(), crc32c(&bytes));
            records.push(CodeRecord { table, path: found, copy, bytes: bytes.len() as u64, crc32c });
        }
        Ok((code, records))
    }

    /// Copies only the filter, for processes that only run filters.
    ///
    /// # Errors
    /// As [`Code::take`].
    pub(crate) fn take_filter(config: &Config, directory: &Path) -> anyhow::Result<Self> {
        let mut only = Config { filter: config.filter.clone(), ..Config::default() };
        only.run.copy_code = config.run.copy_code;
        let (code, records) = Self::take(&only, directory)?;
        report(&records);
        Ok(code)
    }

    /// Returns the copies made by the process that started this one; they are next to the configuration `file`.
    pub(crate) fn beside(config: &Config, file: &Path) -> Self {
        let directory = file.parent().unwrap_or(Path::new(""));
        let copy = |table: Table| {
            let copy = directory.join(table.copy(table.file(config)?)).canonicalize().ok()?;
            Some((table, copy))
        };
        Self(Table::ALL.into_iter().filter_map(copy).collect())
    }

    /// Returns the configuration with the copies in place of the originals.
    pub(crate) fn in_place(&self, config: &Config) -> Config {
        let mut config = config.clone();
        for (table, copy) in &self.0 {
            table.set_file(&mut config, copy.clone());
        }
        config
    }
}

/// Returns the configuration without the code that nodes of these roles do not load.
pub(crate) fn of_roles(config: &Config, has: impl Fn(Role) -> bool) -> Config {
    let mut config = config.clone();
    if !has(Role::Builder) {
        (config.filter.kind, config.filter.processes) = (FilterKind::AcceptAll, false);
        config.building.first_step.clear();
    }
    if !has(Role::Readout) {
        (config.source.kind, config.preprocessing.path) = (SourceKind::Emulated, None);
    }
    if !has(Role::Manager) {
        config.trigger.mode = TriggerMode::Free;
    }
    config
}

/// Code that has changed: its table, its file, and its checksum now and then.
pub(crate) type ChangedCode = (&'static str, PathBuf, [String; 2]);

/// Compares the files that a configuration loads with the checksums that `was` has by table. Returns those that differ.
///
/// # Errors
/// A file is not there.
pub(crate) fn compare_code(
    config: &Config,
    was: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<ChangedCode>> {
    let mut changed = Vec::new();
    for table in Table::ALL {
        let Some(file) = table.file(config) else { continue };
        let name = table.name();
        let bytes =
            regular::read(file).with_context(|| format!("cannot read {} (`{name}.path`)", file.display()))?;
        let now = format!("{:08x}", crc32c(&bytes));
        if let Some(then) = was(name).filter(|then| *then != now) {
            changed.push((name, file.to_owned(), [now, then]));
        }
    }
    Ok(changed)
}

/// Logs what is loaded.
pub(crate) fn report(records: &[CodeRecord]) {
    for record in records {
        log_as!(CODE_LOADED; "{}: {}, CRC-32C {:08x}", record.table, record.path.display(), record.crc32c);
    }
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, bytes)
}

/// Returns whether `config` loads libraries.
pub(crate) fn loads_libraries(config: &Config) -> bool {
    Table::ALL.into_iter().any(|table| table.is_library(config))
}

/// Returns whether its decoder of hits is a library.
pub(crate) fn loads_decoder(config: &Config) -> bool {
    Table::Decoder.is_library(config)
}

/// Returns whether its filter is a library.
pub(crate) fn loads_filter_library(config: &Config) -> bool {
    Table::Filter.is_library(config)
}

/// The settings that name code, and the files, for messages.
pub(crate) fn named_files(config: &Config) -> String {
    let named = |table: Table| Some(format!("`{}.path` is {}", table.name(), table.file(config)?.display()));
    Table::ALL.into_iter().filter_map(named).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
