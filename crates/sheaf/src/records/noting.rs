//! Writing runs into the database, from their directories.

use super::record::Record;
use super::rows::row;
use crate::database::{Access, Waiting};
use crate::next;
use anyhow::Context as _;
use sheaf_config::Config;
use sheaf_database::Database;
use sheaf_store::run::Manifest;
use sheaf_telemetry::log_as;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Writes the run in a directory into the database as it is now, and runs that the database lacks. Failure is a warning: the run goes on, and
/// a later one writes it.
pub(crate) fn note(config: &Config, directory: &Path) {
    let noted = Access::of(config).and_then(|access| {
        let Some(access) = access else { return Ok(()) };
        let directory = std::path::absolute(directory)?;
        let waiting = Waiting::beside(&config.run.output);
        let written = access.within_limit({
            let (waiting, directory) = (waiting.clone(), directory.clone());
            move |database| write(database, &waiting, directory)
        });
        written.or_else(|error| {
            // The first error is the one to report, unless the directory is not noted either.
            waiting.add(&directory).with_context(|| crate::describe(&error))?;
            Err(error)
        })
    });
    if let Err(error) = noted {
        log_as!(DATABASE_BEHIND; "the database of runs is behind, and a later run writes what it lacks: {}", crate::describe(&error));
    }
}

/// Writes the run in a directory, to which somebody has added something, into the database of its configuration.
pub(crate) fn note_addition(directory: &Path) {
    let text = Manifest::read(directory).ok().flatten().map(|manifest| manifest.configuration);
    // One of another version may have had no database.
    let Some(mut config) = text.and_then(|text| Config::parse(&text, "configuration").ok()) else { return };
    if let Some(runs) = directory.parent() {
        config.run.output = runs.to_owned();
    }
    note(&config, directory);
}

/// As [`note_addition`], on a thread.
pub(crate) fn note_addition_later(directory: PathBuf) {
    let noted = std::thread::Builder::new().name("addition".into());
    if let Err(problem) = noted.spawn(move || note_addition(&directory)) {
        log_as!(DATABASE_BEHIND; "cannot start a thread: {problem}");
    }
}

/// Writes a run, those that wait, and those of this host whose end the database does not know.
fn write(database: &mut Database, waiting: &Waiting, directory: PathBuf) -> anyhow::Result<()> {
    let host = next::host();
    let taken = waiting.read()?;
    let mut directories: BTreeSet<PathBuf> =
        taken.iter().filter_map(|line| Waiting::directory(line)).collect();
    directories.extend(database.in_progress(&host)?.into_iter().map(PathBuf::from));
    directories.insert(directory);
    let mut rows = Vec::new();
    for directory in &directories {
        match Record::read(directory) {
            Ok(record) => rows.push(row(&record, &host)?),
            // It was removed, or never began.
            Err(_) if !directory.exists() => database.forget(&host, &directory.to_string_lossy())?,
            // One that cannot be read must not hold up the others; `sheaf runs list` and `rebuild` name it.
            Err(_) => {}
        }
    }
    database.write(&rows)?;
    waiting.remove(&taken)
}
