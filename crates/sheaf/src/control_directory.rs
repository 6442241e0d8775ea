//! The directory of a controller, where it keeps its state and where `sheaf ctl` finds it.

use crate::controlled::LaunchDirectory;
use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sheaf_control::link::Launch;
use sheaf_store::write_whole;
use sheaf_telemetry::log_as;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Name of the directory below that of the runs.
pub(crate) const NAME: &str = "control";

/// Launches whose directories are kept, for their logs.
const KEPT: u64 = 20;

const LAUNCH: &str = "launch-";

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct ControlDirectory {
    path: PathBuf,
}

impl ControlDirectory {
    /// Names the directory; it need not exist.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()) }
    }

    /// Makes it, for this user only: it has tokens, and sockets over which runs are directed.
    pub(crate) fn create(&self) -> anyhow::Result<()> {
        let path = &self.path;
        if !path.is_dir() {
            let make = || {
                // Others may look at the runs beside it.
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                match DirBuilder::new().mode(0o700).create(path) {
                    // Another command has made it in this moment.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
                    made => made,
                }
            };
            make().with_context(|| {
                format!("cannot create the directory of the controller, {}", path.display())
            })?;
        }
        let mode =
            fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?.permissions();
        if mode.mode() & 0o077 != 0 {
            bail!(
                "{path} can be used by others than its owner, and has tokens and sockets of runs; run `chmod 700 {path}`",
                path = path.display()
            );
        }
        Ok(())
    }

    /// Locks it for this controller, until the file is dropped.
    pub(crate) fn lock(&self) -> anyhow::Result<File> {
        let path = self.path.join("lock");
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => bail!(
                "another controller uses {}; end it, or give this one a directory of its own with --directory",
                self.path.display()
            ),
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// Returns the directory beside this one that the controller of a partition has.
    pub(crate) fn of_partition(&self, partition: Option<&str>) -> Self {
        let Some(partition) = partition else { return self.clone() };
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!("-{partition}"));
        Self { path: self.path.with_file_name(name) }
    }

    /// Returns whether a controller has locked it.
    pub(crate) fn is_in_use(&self) -> bool {
        let lock = File::open(self.path.join("lock"));
        lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path.join("controller.json")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// File with the last values that programs have sent.
    pub(crate) fn values(&self) -> PathBuf {
        self.path.join("values.json")
    }

    /// Returns the directory of the controller that has this directory of a launch.
    pub(crate) fn of_launch(launch: &Path) -> Option<Self> {
        Some(Self::new(launch.parent()?))
    }

    /// Waits until no other process changes the list of people, and keeps others from it until the file is dropped.
    pub(crate) fn lock_tokens(&self) -> anyhow::Result<File> {
        let path = self.path.join("tokens.lock");
        let lock = || {
            let file = File::options().write(true).create(true).truncate(false).open(&path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok::<_, std::io::Error>(file)
        };
        lock().with_context(|| format!("cannot lock {}", path.display()))
    }

    pub(crate) fn tokens(&self) -> PathBuf {
        self.path.join("tokens.json")
    }

    /// The token of the user who has started the controller.
    pub(crate) fn own_token(&self) -> PathBuf {
        self.path.join("own.token")
    }

    /// Where the controller serves its page.
    pub(crate) fn address(&self) -> PathBuf {
        self.path.join("address")
    }

    /// Where the controller serves its page for other hosts.
    fn remote_address(&self) -> PathBuf {
        self.path.join("remote-address")
    }

    /// Notes where the controller serves its page for other hosts, if it does.
    pub(crate) fn note_remote_address(&self, address: Option<&str>) -> anyhow::Result<()> {
        Self::write(&self.remote_address(), format!("{}\n", address.unwrap_or_default()).as_bytes())
    }

    /// Reads where the controller serves its page for other hosts, if it does.
    pub(crate) fn read_remote_address(&self) -> Option<String> {
        let text = fs::read_to_string(self.remote_address()).ok()?;
        Some(text.trim().to_owned()).filter(|address| !address.is_empty())
    }

    /// Reads where the controller serves its page.
    ///
    /// # Errors
    /// That no controller has begun here.
    pub(crate) fn read_address(&self) -> anyhow::Result<String> {
        let text = fs::read_to_string(self.address()).with_context(|| {
            format!(
                "no controller has begun in {}; start one with `sheaf serve`, or name its directory with --directory",
                self.path.display()
            )
        })?;
        Ok(text.trim().to_owned())
    }

    /// Writes one of these files in place of the existing one.
    pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        write_whole(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn launch(&self, Launch(number): Launch) -> LaunchDirectory {
        LaunchDirectory::new(self.path.join(format!("{LAUNCH}{number}")))
    }

    /// Removes the directories of launches that are long over.
    pub(crate) fn remove_old_launches(&self, Launch(newest): Launch) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(LAUNCH)?.parse::<u64>().ok());
            if number.is_some_and(|number| number + KEPT < newest)
                && let Err(error) = fs::remove_dir_all(entry.path())
            {
                log_as!(FILE_NOT_REMOVED; "cannot remove {}: {error}", entry.path().display());
            }
        }
    }
}
