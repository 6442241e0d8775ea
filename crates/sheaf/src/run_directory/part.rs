//! The part of a run on a host whose agent starts nodes of it.

use super::closing::Closing;
use super::reserve::Reserve;
use super::{RunDirectory, Scratch, is_empty, lock, remains};
use crate::objects;
use crate::{console, hdf5, run_paths};
use anyhow::{Context as _, bail};
use sheaf_config::{Config, OutputKind};
use sheaf_store::run::{Holder, HostRecord, LOCK_NAME, Manifest, RunLock};
use sheaf_wire::{NodeId, RunNumber, Timestamp};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time in which the process ends that has looked after the nodes before.
const LAST_HOLDER: Duration = Duration::from_secs(20);

/// Time between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(50);

/// See the [module](self).
pub(crate) enum HostPart {
    /// The run writes nothing.
    Nothing,
    /// The directory of the run itself, on a disk that several hosts share: whoever makes the run closes it.
    Shared(PathBuf),
    /// A directory of this host.
    Own(Box<OwnPart>),
}

/// Marks that tell a run from all others.
pub(crate) struct RunMark {
    pub(crate) created: Timestamp,
    /// Host and number of the process that makes it.
    pub(crate) host: String,
    pub(crate) process: u32,
    /// Whether it is in progress, and this host comes back to it.
    pub(crate) is_back: bool,
}

/// A directory of this host for its part of a run.
pub(crate) struct OwnPart {
    path: PathBuf,
    config: Config,
    here: BTreeSet<NodeId>,
    /// Marks the run as in progress.
    _lock: RunLock,
    reserve: Option<Reserve>,
}

impl HostPart {
    /// Makes the directory of a run on this host, or comes back to it.
    pub(crate) fn create(config: &Config, here: &BTreeSet<NodeId>, run: &RunMark) -> anyhow::Result<Self> {
        if config.output.kind == OutputKind::None {
            return Ok(Self::Nothing);
        }
        let path = run_paths::path_of(config);
        let &RunMark { created, is_back, .. } = run;
        let known = Manifest::read(&path).ok().flatten();
        let is_this = known.is_some_and(|known| (known.run, known.created) == (config.run.number, created));
        let makes_run = |holder: &Holder| (&holder.host, holder.process) == (&run.host, run.process);
        match (holder(&path, |holder| is_back && !makes_run(holder))?, is_this) {
            (Some(holder), true) if makes_run(&holder) => return Ok(Self::Shared(path)),
            (Some(holder), _) => {
                bail!("{} is written by process {} of host {}", path.display(), holder.process, holder.host)
            }
            (None, true) if is_back => {
                // Without its process it means nothing.
                let _ = fs::remove_file(path.join(LOCK_NAME));
                return Self::own(path, config, here);
            }
            (None, _) if !is_empty(&path)? => {
                if !config.run.overwrite {
                    bail!(
                        "{} already has files on this host; choose another run.number or run.output, or set run.overwrite",
                        path.display()
                    );
                }
                fs::remove_dir_all(&path).with_context(|| format!("cannot empty {}", path.display()))?;
            }
            (None, _) => {}
        }
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Manifest::new(config.run.number, crate::SOFTWARE, created, &config.to_toml()).write(&path)?;
        hdf5::check(config)?;
        objects::of(config)?;
        Self::own(path, config, here)
    }

    fn own(path: PathBuf, config: &Config, here: &BTreeSet<NodeId>) -> anyhow::Result<Self> {
        let lock = lock(&path, false)?;
        let reserve = Some(Reserve::create(&path)?);
        let (config, here) = (config.clone(), here.clone());
        Ok(Self::Own(Box::new(OwnPart { path, config, here, _lock: lock, reserve })))
    }

    /// Notes that the run begins: a process that exits at once tidies up in its directory.
    pub(crate) fn begin(&self) {
        if let Self::Own(part) = self {
            remains::expect(&part.path);
        }
    }

    /// Returns the directory, if anything is written.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Nothing => None,
            Self::Shared(path) => Some(path),
            Self::Own(part) => Some(&part.path),
        }
    }

    /// Returns whether it is the directory of the run itself.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Returns the directory for temporary files of this host.
    pub(crate) fn scratch(&self, run: RunNumber) -> anyhow::Result<Scratch> {
        match self {
            Self::Own(part) => Ok(Scratch::in_directory(part.path.clone())),
            Self::Nothing | Self::Shared(_) => Scratch::of_run(run),
        }
    }

    /// Closes the part; `manifest` is that of the run, as JSON. Returns the manifest of the part, if there is one.
    pub(crate) fn close(self, manifest: &str) -> anyhow::Result<Option<String>> {
        let Self::Own(mut part) = self else { return Ok(None) };
        drop(part.reserve.take());
        remains::forget(&part.path);
        let mut manifest: Manifest =
            serde_json::from_str(manifest).context("the manifest of the run cannot be read")?;
        let is_this = |host: &HostRecord| part.here.iter().all(|node| host.nodes.contains(node));
        manifest.part = manifest.hosts.iter().position(is_this);
        let objects = objects::of(&part.config)?;
        let here = |node: NodeId| part.here.contains(&node);
        let closing = Closing {
            path: &part.path,
            manifest: &mut manifest,
            objects: objects.as_deref(),
            config: &part.config,
            here: &here,
        };
        closing.close()?;
        serde_json::to_string(&manifest).map(Some).context("a manifest is JSON")
    }

    /// Removes the directory of a run that cannot begin.
    pub(crate) fn abandon(self) {
        if let Self::Own(mut part) = self {
            drop(part.reserve.take());
            console::close_log();
            RunDirectory::remove(&part.path);
        }
    }

    /// Leaves the files of a run that is gone as they are.
    pub(crate) fn leave(self) {
        if let Self::Own(mut part) = self {
            drop(part.reserve.take());
            remains::forget(&part.path);
        }
    }
}

/// Returns the process that writes a run, if there is one; waits a while for the end of one that `is_ending`.
fn holder(path: &Path, is_ending: impl Fn(&Holder) -> bool) -> anyhow::Result<Option<Holder>> {
    let until = Instant::now() + LAST_HOLDER;
    loop {
        let holder = RunLock::holder(path);
        let holder =
            holder.with_context(|| format!("cannot tell which process writes {}", path.display()))?;
        match holder {
            Some(holder) if is_ending(&holder) && Instant::now() < until => std::thread::sleep(PAUSE),
            holder => return Ok(holder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_store::run::MANIFEST_NAME;

    #[test]
    fn a_directory_with_files_of_somebody_is_refused_and_one_of_a_killed_process_is_used() {
        let place = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        (config.run.output, config.run.number) = (place.path().to_owned(), RunNumber(5));
        let mark = RunMark { created: Timestamp(1), host: "daq0".into(), process: 1, is_back: true };
        let path = run_paths::path_of(&config);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(format!("{MANIFEST_NAME}.draft")), "{").unwrap();
        fs::write(path.join("notes"), "").unwrap();
        let create = || HostPart::create(&config, &BTreeSet::new(), &mark);
        let refused = create().map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("already has files on this host"), "{refused}");
        fs::remove_file(path.join("notes")).unwrap();
        let part = create().unwrap();
        drop(part);
        let again = create().unwrap();
        assert!(!again.is_shared(), "it is that of the same run");
        again.abandon();
        assert!(!path.exists());
    }
}
