//! Code that a run loads from outside of this program: its filter, step filter and preprocessor, as they were when it
//! began.
//!
//! They are copied into the run's directory, and the copies are loaded. So a new version can be installed at any moment, also
//! over the old one: it is in the next run, whole, and workers that are started again in this run get what the others have.
//! A loader that has a library in memory gives that to whoever asks for the same path; each run has its own.

use crate::describe;
use crate::filters;
use crate::steps::step_filter;
use crate::{Verdict, active, files};
use anyhow::{Context, bail};
use sheaf_config::{Config, FilterKind, StepFilterKind};
use sheaf_store::regular;
use sheaf_store::run::CodeRecord;
use sheaf_wire::RunNumber;
use sheaf_wire::checksum::crc32c;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The copies, from the directory of the run on.
const DIRECTORY: &str = "code";

/// Time that loading everything once may take. Files may come from a cold disk or over a network.
const REHEARSAL_TIMEOUT: Duration = Duration::from_secs(60);

/// The tables of the configuration that name code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Filter,
    Building,
    Preprocessing,
}

impl Table {
    const ALL: [Self; 3] = [Self::Filter, Self::Building, Self::Preprocessing];

    fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Building => "building",
            Self::Preprocessing => "preprocessing",
        }
    }

    /// The file that it loads, if it does. A Python module that is found by its name is none.
    fn file(self, config: &Config) -> Option<&Path> {
        let Config { filter, building, preprocessing, .. } = config;
        match self {
            Self::Filter => match filter.kind {
                FilterKind::Library => filter.path.as_deref(),
                FilterKind::Python => filter.path.as_deref().filter(|path| filters::is_script(path)),
                FilterKind::AcceptAll | FilterKind::Prescale | FilterKind::Coincidence | FilterKind::Busy => {
                    None
                }
            },
            Self::Building => {
                let is_used = building.filter == StepFilterKind::Library && !building.first_step.is_empty();
                building.path.as_deref().filter(|_| is_used)
            }
            Self::Preprocessing => preprocessing.path.as_deref(),
        }
    }

    fn set_file(self, config: &mut Config, path: PathBuf) {
        let Config { filter, building, preprocessing, .. } = config;
        *match self {
            Self::Filter => &mut filter.path,
            Self::Building => &mut building.path,
            Self::Preprocessing => &mut preprocessing.path,
        } = Some(path);
    }

    /// Where its copy is.
    fn copy(self, file: &Path) -> PathBuf {
        Path::new(DIRECTORY).join(self.name()).join(file.file_name().unwrap_or_default())
    }
}

/// The copies that a run loads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code(BTreeMap<Table, PathBuf>);

impl Code {
    /// Copies what `config` loads into `directory`, and says what that is.
    ///
    /// # Errors
    /// If something is not there or cannot be copied.
    pub(crate) fn take(config: &Config, directory: &Path) -> anyhow::Result<(Self, Vec<CodeRecord>)> {
        let (mut code, mut records) = (Self::default(), Vec::new());
        for table in Table::ALL {
            let Some(file) = table.file(config) else { continue };
            let (name, shown) = (table.name(), file.display());
            // What is read here is written and loaded: nothing can come between the checksum and the code.
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

    /// Copies the filter alone, for who does nothing but judge.
    ///
    /// # Errors
    /// As [`Code::take`].
    pub(crate) fn take_filter(config: &Config, directory: &Path) -> anyhow::Result<Self> {
        let mut only = Config { filter: config.filter.clone(), ..Config::default() };
        only.run.copy_code = config.run.copy_code;
        let (code, records) = Self::take(&only, directory)?;
        tell(&records);
        Ok(code)
    }

    /// The copies that the process has made which started this one: beside the configuration that it was given.
    pub(crate) fn beside(config: &Config, file: &Path) -> Self {
        let directory = file.parent().unwrap_or(Path::new(""));
        let copy = |table: Table| {
            let copy = directory.join(table.copy(table.file(config)?)).canonicalize().ok()?;
            Some((table, copy))
        };
        Self(Table::ALL.into_iter().filter_map(copy).collect())
    }

    /// The configuration with the copies in place of what they are copies of.
    pub(crate) fn in_place(&self, config: &Config) -> Config {
        let mut config = config.clone();
        for (table, copy) in &self.0 {
            table.set_file(&mut config, copy.clone());
        }
        config
    }
}

/// Says in the log what is loaded.
pub(crate) fn tell(records: &[CodeRecord]) {
    for record in records {
        log::info!("{}: {}, CRC-32C {:08x}", record.table, record.path.display(), record.crc32c);
    }
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, bytes)
}

/// Loads all that the run loads once, in a process of its own, so that what is wrong with it is found before the run begins and
/// harms nobody, however wrong it is.
///
/// # Errors
/// Returns the first filter, step filter or preprocessor that cannot be loaded, with the reason.
pub(crate) fn rehearse(config: &Config, run: RunNumber) -> anyhow::Result<()> {
    filters::rehearse_python(config)?;
    if !Table::ALL.into_iter().any(|table| loads_library(table, config)) {
        return Ok(());
    }
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(["rehearsal", "--quiet", "--run", &run.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let command = sheaf_machine::ignoring_next_run_signal(&mut command);
    let mut child =
        command.spawn().context("cannot start the process that loads the filter for a rehearsal")?;
    if let Some(mut input) = child.stdin.take() {
        // It says itself what it lacks.
        let _ = input.write_all(config.to_toml().as_bytes());
    }
    let status = wait(&mut child, "what the run loads")?;
    let mut said = String::new();
    if let Some(output) = &mut child.stdout {
        output.read_to_string(&mut said).context("cannot read the output of the rehearsal")?;
    }
    if status.success() {
        return Ok(());
    }
    match said.trim() {
        "" => bail!(
            "the process that loaded the run's code for a rehearsal ended: {status}; {}",
            loaded(config)
        ),
        why => bail!("{why}"),
    }
}

fn loads_library(table: Table, config: &Config) -> bool {
    table.file(config).is_some() && !(table == Table::Filter && config.filter.kind == FilterKind::Python)
}

/// Whose fault it may be.
fn loaded(config: &Config) -> String {
    let named = |table: Table| Some(format!("`{}.path` is {}", table.name(), table.file(config)?.display()));
    Table::ALL.into_iter().filter_map(named).collect::<Vec<_>>().join(", ")
}

/// Waits for a process that may hang.
///
/// # Errors
/// That it does: then it is killed.
pub(crate) fn wait(child: &mut Child, what: &str) -> anyhow::Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a process")? {
            return Ok(status);
        }
        if start.elapsed() > REHEARSAL_TIMEOUT {
            // Fails where it has ended at last.
            let _ = child.kill();
            let _ = child.wait();
            bail!("the process that loads {what} for a rehearsal does not end; is something in it waiting?");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// `sheaf rehearsal`: loads what the configuration on standard input loads. Prints what is wrong, if something is.
pub(crate) fn rehearsal(run: u32) -> anyhow::Result<Verdict> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the configuration")?;
    let config = Config::parse(&text, "the run's configuration")?;
    match load(&config, RunNumber(run)) {
        Ok(()) => Ok(Verdict::Good),
        Err(error) => {
            // The parent tells it. An error of this process would be told a second time.
            files::print(&describe(&error))?;
            Ok(Verdict::NotGood)
        }
    }
}

fn load(config: &Config, run: RunNumber) -> anyhow::Result<()> {
    if loads_library(Table::Filter, config) {
        drop(filters::open(config, run)?);
    }
    drop(step_filter(config, run)?);
    drop(active::preprocessor(config, run)?);
    Ok(())
}

#[cfg(test)]
mod tests;
