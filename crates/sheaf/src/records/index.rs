//! Records out of the database of runs, and the database out of directories.

use super::rows::{IndexedRecord, row};
use super::{Record, read_all};
use crate::Verdict;
use crate::database::Access;
use crate::next;
use crate::print::print;
use anyhow::{Context as _, bail};
use clap::Args;
use std::path::PathBuf;

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
pub(super) fn rebuild(arguments: &RebuildArguments) -> anyhow::Result<Verdict> {
    let (mut directories, mut rows, mut failed) = (Vec::new(), Vec::new(), 0);
    let host = next::host();
    for directory in &arguments.directories {
        if !directory.is_dir() {
            bail!("{} is not a directory; name directories of runs (`run.output`)", directory.display());
        }
        let (records, unreadable) = read_all(directory, None)?;
        failed += unreadable;
        for record in &records {
            rows.push(row(record, &host)?);
        }
        directories.push(std::path::absolute(directory)?.to_string_lossy().into_owned());
    }
    let access = match (&arguments.database, arguments.directories.first()) {
        (Some(url), _) => Access::named(url)?,
        (None, Some(first)) => Access::beside(first),
        (None, None) => bail!("no directory is given"),
    };
    let runs = rows.len();
    access.within_limit(move |database| Ok(database.rebuild(&host, &directories, &rows)?))?;
    print(&format!("{} has {runs} runs of these directories\n", access.url()))?;
    if failed > 0 {
        bail!("{failed} of {} runs could not be read, and the database does not have them", runs + failed);
    }
    Ok(Verdict::Good)
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
