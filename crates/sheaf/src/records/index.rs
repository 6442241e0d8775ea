//! Records out of the database of runs, and the database out of directories.

use super::rows::{IndexedRecord, row};
use super::{Record, read_each};
use crate::console::{Console, plural};
use crate::database::Access;
use crate::print::print;
use crate::{Verdict, next, signals};
use anyhow::{Context as _, bail};
use clap::Args;
use sheaf_database::{Database, DatabaseError, RunRow};
use sheaf_store::run::runs_in;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

#[derive(Debug, Args)]
pub(super) struct RebuildArguments {
    /// Directories of runs. The database forgets what it knew of them, and keeps the runs of others.
    #[arg(default_value = "runs", value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Database: `sqlite:FILE` or `postgres://USER@HOST/DATABASE` [default: `runs.db` in the first directory].
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

/// Makes the database anew from directories, in one transaction.
pub(super) fn rebuild(arguments: &RebuildArguments, console: &Console) -> anyhow::Result<Verdict> {
    let begin = Instant::now();
    let stop = signals::stop_flag()?;
    let access = match (&arguments.database, arguments.directories.first()) {
        (Some(url), _) => Access::named(url)?,
        (None, Some(first)) => Access::beside(first),
        (None, None) => bail!("no directory is given"),
    };
    let (mut directories, mut paths) = (Vec::new(), Vec::new());
    for directory in &arguments.directories {
        if !directory.is_dir() {
            bail!("{} is not a directory; name directories of runs (`run.output`)", directory.display());
        }
        paths.extend(runs_in(directory)?);
        directories.push(std::path::absolute(directory)?.to_string_lossy().into_owned());
    }
    let host = next::host();
    let (rows, failed) = read(&paths, &host, &stop, console)?;
    // A run that was copied is in two directories.
    let runs = rows.iter().map(|row| (row.run, row.created_ns)).collect::<BTreeSet<_>>().len();
    let mut bar = console.counted(rows.len(), "runs written");
    let write = move |database: &mut Database, step: &dyn Fn(usize)| {
        let mut tell = |written| {
            step(written);
            if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        Ok(database.rebuild(&host, &directories, &rows, &mut tell)?)
    };
    access.in_steps(write, |written| bar.set(written))?;
    drop(bar);
    let (runs, seconds) = (plural(runs as u64, "run"), begin.elapsed().as_secs_f64());
    print(&format!("{} has {runs} of these directories, in {seconds:.1} s\n", access.url()))?;
    if failed > 0 {
        let all = paths.len();
        bail!("{failed} of {all} runs could not be read, and the database does not have them");
    }
    Ok(Verdict::Good)
}

/// Reads runs from their directories. Returns their rows, and the number of those that cannot be read.
fn read(
    paths: &[PathBuf],
    host: &str,
    stop: &AtomicBool,
    console: &Console,
) -> anyhow::Result<(Vec<RunRow>, usize)> {
    let mut bar = console.counted(paths.len(), "runs read");
    let mut begun = 0;
    let (records, failed) = read_each(paths, || {
        bar.set(begun);
        begun += 1;
        if stop.load(Ordering::Relaxed) {
            return Err(DatabaseError::Interrupted.into());
        }
        Ok(())
    })?;
    let rows = records.iter().map(|record| row(record, host)).collect::<anyhow::Result<_>>()?;
    Ok((rows, failed))
}

/// Returns the records of a database, and the number of those that another version wrote.
pub(super) fn records(url: &str, run: Option<u64>) -> anyhow::Result<(Vec<Record>, usize)> {
    let access = Access::named(url)?;
    access.must_exist()?;
    let found = access.within_limit(move |database| Ok(database.records(run)?))?;
    let (mut records, mut failed) = (Vec::new(), 0);
    for (host, text) in found {
        match IndexedRecord::parse(&text).with_context(|| format!("a run of {host}")) {
            Ok(record) => records.push(record),
            Err(error) => {
                log::error!("{}", crate::describe(&error));
                failed += 1;
            }
        }
    }
    Ok((records, failed))
}

/// Returns the newest run of a database with a number.
pub(super) fn record(url: &str, run: &str) -> anyhow::Result<Record> {
    let number: u32 = run.parse().ok().with_context(|| {
        format!("{run} is not the number of a run; a database has no directories to look into")
    })?;
    let found = records(url, Some(number.into()))?.0.pop();
    found.with_context(|| format!("there is no run {number} in the database"))
}
