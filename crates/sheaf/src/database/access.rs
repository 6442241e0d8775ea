//! Where the database is, with its password and time limit.

use anyhow::{Context as _, bail};
use sheaf_config::Config;
use sheaf_database::{Credentials, Database, Url};
use sheaf_wire::Nanos;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Name of the SQLite file beside runs.
const FILE_NAME: &str = "runs.db";

/// Whether a thread of this process uses a database: there is one at a time, so that a server that hangs does not collect threads.
static IN_USE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// See the [module](self).
#[derive(Clone)]
pub(crate) struct Access {
    url: Url,
    credentials: Credentials,
    limit: Duration,
}

impl Access {
    /// Returns the database of a configuration; `None` if it has none.
    pub(crate) fn of(config: &Config) -> anyhow::Result<Option<Self>> {
        let settings = &config.database;
        let url = match settings.url.as_deref() {
            Some("none") => return Ok(None),
            // Never the text itself: it may have a password.
            Some(url) => url.parse().context("database.url")?,
            // A build without SQLite has no database unless one is named.
            None if cfg!(feature = "sqlite") => Url::Sqlite(config.run.output.join(FILE_NAME)),
            None => return Ok(None),
        };
        let password = settings.password_file.as_deref().map(first_line).transpose()?;
        let credentials =
            Credentials { password: password.or_else(from_environment), ca_file: settings.ca_file.clone() };
        Ok(Some(Self { url, credentials, limit: settings.timeout.to_std() }))
    }

    /// Returns the database that is named on the command line.
    pub(crate) fn named(url: &str) -> anyhow::Result<Self> {
        // Never the text itself: it may have a password.
        let url = url.parse().context("--database")?;
        let credentials = Credentials { password: from_environment(), ca_file: None };
        Ok(Self { url, credentials, limit: Duration::from_secs(60) })
    }

    /// Returns the SQLite file beside runs.
    pub(crate) fn beside(runs: &Path) -> Self {
        let url = Url::Sqlite(runs.join(FILE_NAME));
        Self { url, credentials: Credentials::default(), limit: Duration::from_secs(60) }
    }

    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    /// Refuses a SQLite file that is not there: to read one must not make it.
    pub(crate) fn must_exist(&self) -> anyhow::Result<()> {
        match &self.url {
            Url::Sqlite(file) if !file.exists() => {
                bail!("there is no {}; `sheaf runs rebuild` makes it from directories", file.display())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether run numbers come from the database.
    pub(crate) const fn gives_numbers(&self) -> bool {
        matches!(self.url, Url::Postgres(_))
    }

    /// Opens the database and uses it, on a thread that is left behind when the time is over: neither a server that accepts and never answers
    /// nor a disk that hangs keeps the caller.
    pub(crate) fn within_limit<T: Send + 'static>(
        &self,
        body: impl FnOnce(&mut Database) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        self.on_thread(|access, _| body(&mut access.open()?), |_| {})
    }

    /// As [`within_limit`](Self::within_limit), with the limit for each step: `body` says how many it has done, and `tell` gets to know it.
    pub(crate) fn in_steps<T: Send + 'static>(
        &self,
        body: impl FnOnce(&mut Database, &dyn Fn(usize)) -> anyhow::Result<T> + Send + 'static,
        tell: impl FnMut(usize),
    ) -> anyhow::Result<T> {
        self.on_thread(|access, step| body(&mut access.open()?, step), tell)
    }

    /// Returns what a database is, without making its tables.
    pub(crate) fn look(&self) -> anyhow::Result<String> {
        let look = |access: &Self, _: &dyn Fn(usize)| {
            Ok(Database::look(&access.url, &access.credentials, access.limit)?)
        };
        self.on_thread(look, |_| {})
    }

    fn open(&self) -> anyhow::Result<Database> {
        Ok(Database::open(&self.url, &self.credentials, self.limit)?)
    }

    fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self, &dyn Fn(usize)) -> anyhow::Result<T> + Send + 'static,
        mut tell: impl FnMut(usize),
    ) -> anyhow::Result<T> {
        let mut until = Instant::now() + self.limit;
        let Some(claim) = Claim::wait(self.limit) else {
            bail!("{} has not answered an earlier request", self.url);
        };
        let (sender, result) = sync_channel(1);
        let access = self.clone();
        let body = move || {
            let done = work(&access, &|done| step(&sender, done));
            drop(claim);
            // Nobody waits any more if the time is over.
            let _ = sender.send(Told::Done(done));
        };
        std::thread::Builder::new().name("database".into()).spawn(body).context("cannot start a thread")?;
        loop {
            match result.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Told::Step(done)) => {
                    until = Instant::now() + self.limit;
                    tell(done);
                }
                Ok(Told::Done(done)) => return done,
                Err(RecvTimeoutError::Timeout) => bail!(
                    "{} did not answer within {} (database.timeout_ms)",
                    self.url,
                    Nanos::from_millis(u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX))
                ),
                Err(RecvTimeoutError::Disconnected) => bail!("the thread that uses {} has ended", self.url),
            }
        }
    }
}

/// A message of the thread that uses a database.
enum Told<T> {
    /// So many steps are done.
    Step(usize),
    Done(anyhow::Result<T>),
}

/// Tells of a step, unless the one before was not read yet: that one keeps the limit away as well.
fn step<T>(sender: &SyncSender<Told<T>>, done: usize) {
    let _ = sender.try_send(Told::Step(done));
}

/// Right of one thread to use a database, until it is dropped.
struct Claim(());

impl Claim {
    /// Waits until no other thread uses a database, at most for `limit`.
    fn wait(limit: Duration) -> Option<Self> {
        let (lock, freed) = &IN_USE;
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = freed.wait_timeout_while(guard, limit, |in_use| *in_use);
        let (mut in_use, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // No claim is made before it is known to be right: to drop it needs the lock that is held here.
        (!std::mem::replace(&mut *in_use, true)).then(|| Self(()))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let (lock, freed) = &IN_USE;
        *lock.lock().unwrap_or_else(PoisonError::into_inner) = false;
        freed.notify_one();
    }
}

fn from_environment() -> Option<String> {
    std::env::var("PGPASSWORD").ok().filter(|password| !password.is_empty())
}

fn first_line(file: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read database.password_file = \"{}\"", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_uses_a_database_and_others_are_sent_away() {
        let minutes = Duration::from_secs(300);
        let claim = Claim::wait(minutes).unwrap();
        assert!(Claim::wait(Duration::from_millis(1)).is_none());
        drop(claim);
        assert!(Claim::wait(minutes).is_some());
    }
}
