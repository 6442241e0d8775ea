//! Where a run is written: its directory, its manifest, and the last tidying.

use anyhow::{Context, bail};
use sheaf_config::{Config, OutputKind};
use sheaf_node::report::RunReport;
use sheaf_store::run::{Manifest, SessionRecord, seal_session};
use sheaf_wire::{NodeId, RunNumber, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The software's name and version, as files give it.
pub(crate) const SOFTWARE: &str = concat!("sheaf ", env!("CARGO_PKG_VERSION"));

/// The directory of a run, made and empty.
#[derive(Clone, Debug)]
pub(crate) struct RunDirectory {
    pub(crate) path: PathBuf,
    manifest: Manifest,
}

impl RunDirectory {
    /// Gives the run a number if it has none, and makes its directory. `None` where nothing is written.
    pub(crate) fn create(config: &mut Config, now: Timestamp) -> anyhow::Result<Option<Self>> {
        if config.run.number == RunNumber(0) {
            config.run.number = next_number(&config.run.output)?;
        }
        if config.output.kind == OutputKind::None {
            return Ok(None);
        }
        let path = path_of(config);
        if !is_empty(&path)? {
            if !config.run.overwrite {
                bail!(
                    "{} already has files; choose another run.number or --output, or set run.overwrite",
                    path.display()
                );
            }
            fs::remove_dir_all(&path).with_context(|| format!("cannot empty {}", path.display()))?;
        }
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Some(Self::begin(path, config, now)?))
    }

    fn begin(path: PathBuf, config: &Config, now: Timestamp) -> anyhow::Result<Self> {
        let manifest = Manifest::new(config.run.number, SOFTWARE, now, &config.to_toml());
        manifest.write(&path)?;
        Ok(Self { path, manifest })
    }

    /// Closes the run: cuts off what builders that died had written and not reported, and writes the manifest.
    /// All builders must have ended.
    pub(crate) fn close(
        mut self,
        committed: &BTreeMap<(NodeId, SessionId), u64>,
        ledger: serde_json::Value,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        let run = self.manifest.run;
        for ((node, session), committed) in committed {
            let sealed = seal_session(&self.path, run, *node, *session, *committed)?;
            if sealed.void > 0 {
                log::info!("{node}: {} events that were built again elsewhere are cut off", sealed.void);
            }
            if sealed.missing > 0 {
                log::error!(
                    "{node}: {} events that it reported as stored are not in its files",
                    sealed.missing
                );
            }
            let record =
                SessionRecord { node: *node, session: *session, committed: *committed, sealed: true };
            self.manifest.sessions.push(record);
        }
        self.manifest.ended = Some(now);
        self.manifest.ledger = ledger;
        self.manifest.write(&self.path)?;
        Ok(())
    }
}

/// Writes the manifest of a run whose builders write elsewhere, or are still closing: nothing is cut.
pub(crate) fn write_manifest(
    config: &Config,
    report: &RunReport,
    ledger: serde_json::Value,
    created: Timestamp,
    now: Timestamp,
) -> anyhow::Result<()> {
    let path = path_of(config);
    fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut manifest = Manifest::new(config.run.number, SOFTWARE, created, &config.to_toml());
    let record = |((node, session), committed): (&(NodeId, SessionId), &u64)| SessionRecord {
        node: *node,
        session: *session,
        committed: *committed,
        sealed: false,
    };
    manifest.sessions = report.committed.iter().map(record).collect();
    manifest.ledger = ledger;
    manifest.ended = Some(now);
    manifest.write(&path)?;
    Ok(())
}

/// The directory of a run.
pub(crate) fn path_of(config: &Config) -> PathBuf {
    config.run.output.join(format!("run{:06}", config.run.number.0))
}

fn is_empty(path: &Path) -> anyhow::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("cannot look into {}", path.display())),
    }
}

/// One more than the highest run that has a directory in `output`.
fn next_number(output: &Path) -> anyhow::Result<RunNumber> {
    let entries = match fs::read_dir(output) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(RunNumber(1)),
        Err(error) => return Err(error).with_context(|| format!("cannot look into {}", output.display())),
    };
    let number = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        name.to_str()?.strip_prefix("run")?.parse::<u32>().ok()
    };
    let highest = entries.filter_map(number).max().unwrap_or(0);
    highest.checked_add(1).map(RunNumber).context("all run numbers are taken; set run.number")
}
