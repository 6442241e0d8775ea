//! `sheaf runs`: the runs that there are, out of their directories.
//!
//! The directory of a run is its record: the manifest has its times, end, ledger, files, code and settings, and comments lie beside it. So
//! nothing has to be kept in agreement with it, and a run that was copied to another place is known there.

mod code;
mod commands;
pub(crate) mod comments;
mod compare;
mod configuration;
mod index;
mod like;
mod named;
mod noting;
mod record;
mod rows;
mod table;
mod values;

use crate::Verdict;
use crate::console::Console;
use crate::print::{print, print_json};
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
pub(crate) use commands::record_commands;
use comments::{Comment, Quality};
use compare::{Comparison, Differences};
pub(crate) use configuration::configuration_name;
pub(crate) use like::Like;
use named::NamedConfiguration;
pub(crate) use named::check_name;
pub(crate) use noting::{note, note_addition_later};
pub(crate) use record::Record;
use record::State;
use sheaf_store::run::{MANIFEST_NAME, RunLock, newest_of, runs_in};
use std::path::{Path, PathBuf};
pub(crate) use table::utc;

#[derive(Debug, Args)]
pub(crate) struct RunsArguments {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List the runs in a directory, the newest last.
    List(ListArguments),
    /// Show the record of a run: times, end, ledger, dead time, files, code and comments.
    Show(ShowArguments),
    /// Compare two runs: settings that differ, code that differs, and numbers side by side.
    Compare(CompareArguments),
    /// Make the database of runs anew from the directories.
    Rebuild(index::RebuildArguments),
    /// Print the configuration of a run, or one with a name, for other runs.
    Configuration(ConfigurationArguments),
    /// Give the configuration of a run a name, for other runs. The same name again makes a new version.
    Name(NameArguments),
    /// List the configurations that have names, with their versions.
    Configurations(ConfigurationsArguments),
    /// Add a comment to a run, or a judgement of its quality.
    Comment(CommentArguments),
}

/// A database to read instead of directories.
#[derive(Debug, Args)]
struct OfDatabase {
    /// Read the records from a database, of runs on all hosts: `sqlite:FILE` or `postgres://USER@HOST/DATABASE`.
    #[arg(long, value_name = "URL", conflicts_with = "directory")]
    database: Option<String>,
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Directory of runs.
    #[arg(default_value = "runs", value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    of: OfDatabase,
    /// Only the last N runs.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Only runs with this configuration: its name, or its id.
    #[arg(long, value_name = "NAME|ID")]
    configuration: Option<String>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// Directory in which numbers of runs are looked up.
#[derive(Debug, Args)]
struct Place {
    /// Directory of runs in which a number is looked up.
    #[arg(long = "in", value_name = "DIR", default_value = "runs")]
    directory: PathBuf,
}

#[derive(Debug, Args)]
struct ShowArguments {
    /// Run: its number or its directory; a directory of runs stands for its newest.
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    of: OfDatabase,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct NameArguments {
    /// Run: its number, or its directory with a `/`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Name: letters, digits, `.`, `-` and `_`.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct ConfigurationsArguments {
    #[command(flatten)]
    place: Place,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ConfigurationArguments {
    /// Run: its number, or its directory with a `/`. Or the name of a configuration: NAME, NAME@VERSION.
    #[arg(value_name = "RUN|NAME")]
    run: String,
    #[command(flatten)]
    place: Place,
    /// Leave out settings that have their default.
    #[arg(long)]
    short: bool,
}

#[derive(Debug, Args)]
struct CompareArguments {
    /// Earlier run: its number or its directory. Or the name of a configuration: NAME, NAME@VERSION; then settings and code are compared.
    #[arg(value_name = "RUN|NAME")]
    before: String,
    /// Later run, or the name of a configuration.
    #[arg(value_name = "OTHER-RUN|NAME")]
    after: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    of: OfDatabase,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CommentArguments {
    /// Run: its number or its directory; a directory of runs stands for its newest.
    #[arg(value_name = "RUN")]
    run: String,
    /// Comment.
    #[arg(required_unless_present = "quality")]
    text: Option<String>,
    /// Judgement of the data. The last one counts.
    #[arg(long, value_name = "good|bad|unknown")]
    quality: Option<Quality>,
    /// Author [default: the name of the user].
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn command(arguments: &RunsArguments, console: &Console) -> anyhow::Result<Verdict> {
    match &arguments.command {
        RunsCommand::List(arguments) => list(arguments),
        RunsCommand::Show(arguments) => show(arguments),
        RunsCommand::Compare(arguments) => compare(arguments),
        RunsCommand::Rebuild(arguments) => index::rebuild(arguments, console),
        RunsCommand::Configuration(arguments) => {
            let like = Like::find(&arguments.run, &arguments.place.directory)?;
            print(&like.file(arguments.short)?)?;
            Ok(Verdict::Good)
        }
        RunsCommand::Configurations(arguments) => configurations(arguments),
        RunsCommand::Name(NameArguments { run, name, place }) => {
            let (named, was_there) = Like::find(run, &place.directory)?.give_name(name, None)?;
            let word = if was_there { "is already" } else { "is now" };
            let NamedConfiguration { name, version, id, .. } = named;
            print(&format!("the configuration of {run} {word} {name} version {version} ({id})\n"))?;
            Ok(Verdict::Good)
        }
        RunsCommand::Comment(arguments) => comment(arguments),
    }
}

fn list(arguments: &ListArguments) -> anyhow::Result<Verdict> {
    let directory = &arguments.directory;
    if arguments.of.database.is_none() && !directory.is_dir() {
        bail!("{} is not a directory; name the directory of runs (`run.output`)", directory.display());
    }
    let wanted = arguments.configuration.as_deref();
    // Of those with one configuration, the last may be far back.
    let (mut records, failed) = match &arguments.of.database {
        Some(url) => index::records(url, None)?,
        None => read_all(directory, arguments.last.filter(|_| wanted.is_none()))?,
    };
    records.retain(|record| wanted.is_none_or(|wanted| record.configuration.is(wanted)));
    keep_last(&mut records, arguments.last);
    if arguments.json {
        print_json(&serde_json::json!({ "runs": records }))?;
    } else {
        print(&table::list(&records))?;
    }
    if failed > 0 {
        bail!("{failed} of {} runs could not be read", records.len() + failed);
    }
    Ok(Verdict::Good)
}

/// Reads the last runs in a directory. Returns their records, and the number of runs that could not be read.
pub(crate) fn read_all(directory: &Path, last: Option<usize>) -> anyhow::Result<(Vec<Record>, usize)> {
    let mut paths = runs_in(directory)?;
    keep_last(&mut paths, last);
    read_each(&paths, || Ok(()))
}

/// Reads runs, each after `next`, which may end it with an error.
fn read_each(
    paths: &[PathBuf],
    mut next: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(Vec<Record>, usize)> {
    let mut records = Vec::new();
    let mut failed = 0;
    for path in paths {
        next()?;
        match Record::read(path) {
            Ok(record) => records.push(record),
            Err(_) if is_yet_to_begin(path) => {}
            // One broken run must not hide the others.
            Err(error) => {
                log::error!("{}", crate::describe(&error));
                failed += 1;
            }
        }
    }
    Ok((records, failed))
}

/// Removes all but the last `last`, if that is given.
fn keep_last<T>(list: &mut Vec<T>, last: Option<usize>) {
    let surplus = last.map_or(0, |last| list.len().saturating_sub(last));
    list.drain(..surplus);
}

/// Returns whether the run in a directory is about to begin, or could not begin: then its directory is removed at this moment.
fn is_yet_to_begin(directory: &Path) -> bool {
    let is_empty = || std::fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none());
    let is_written = || RunLock::holder(directory).is_ok_and(|holder| holder.is_some());
    !directory.join(MANIFEST_NAME).exists() && (is_empty() || is_written())
}

/// Returns whether the run in a directory is a reference for others: it is good, and nobody has judged its data to be bad.
pub(crate) fn is_good(directory: &Path) -> bool {
    let is_good = |record: Record| record.state == State::Good && record.quality() != Some(Quality::Bad);
    Record::read(directory).is_ok_and(is_good)
}

/// Returns the record of a run, with the settings that have changed since the run before it in the same directory.
pub(crate) fn with_changes(number: u32, directory: &Path) -> anyhow::Result<serde_json::Value> {
    let path = find_number(number, directory)?;
    let record = Record::read(&path)?.with_histograms()?;
    let runs = runs_in(directory)?;
    let before = runs.iter().take_while(|other| **other != path).last();
    // A run before that cannot be read is no reason to withhold this one.
    let before = before.and_then(|before| Record::read(before).ok());
    let changed = before.map(|before| Comparison::of(&before, &record).differences.settings);
    let mut value = serde_json::to_value(&record)?;
    value["changed"] = serde_json::to_value(changed)?;
    Ok(value)
}

/// Reads the record of a run.
fn read(run: &str, place: &Place, of: &OfDatabase) -> anyhow::Result<Record> {
    match &of.database {
        Some(url) => index::record(url, run),
        None => Record::read(&find(run, place)?),
    }
}

fn show(arguments: &ShowArguments) -> anyhow::Result<Verdict> {
    let mut record = read(&arguments.run, &arguments.place, &arguments.of)?;
    // Histograms are in the directories only.
    if arguments.of.database.is_none() {
        record = record.with_histograms()?;
    }
    if arguments.json {
        print_json(&record)?
    } else {
        print(&table::record(&record))?
    }
    Ok(Verdict::Good)
}

/// Returns the versions of configurations with names beside the runs, and the number of those that cannot be read.
pub(crate) fn named_configurations(runs: &Path) -> anyhow::Result<serde_json::Value> {
    let (list, problems) = named::list(runs)?;
    Ok(serde_json::json!({ "configurations": list, "unreadable": problems.len() }))
}

fn configurations(arguments: &ConfigurationsArguments) -> anyhow::Result<Verdict> {
    let (list, problems) = named::list(&arguments.place.directory)?;
    if arguments.json {
        print_json(&serde_json::json!({ "configurations": list }))?;
    } else {
        print(&named::table(&list))?;
    }
    problems.iter().for_each(|problem| log::error!("{}", crate::describe(problem)));
    if !problems.is_empty() {
        bail!("{} of {} configurations could not be read", problems.len(), list.len() + problems.len());
    }
    Ok(Verdict::Good)
}

/// Returns whether a text is meant as the name of a configuration: it is neither a number nor a directory.
fn is_name(text: &str) -> bool {
    text.parse::<u32>().is_err() && !text.contains('/') && !Path::new(text).is_dir()
}

/// Compares two configurations, at least one of which is given by its name.
fn compare_configurations(arguments: &CompareArguments) -> anyhow::Result<Verdict> {
    if arguments.of.database.is_some() {
        bail!("configurations with names are beside the runs, and not in the database; leave out --database");
    }
    let find = |text: &str| -> anyhow::Result<_> {
        let like = Like::find(text, &arguments.place.directory)?;
        let values = like.settings()?.0.values();
        Ok((like.what().to_owned(), values, like.code))
    };
    let (one, other) = (find(&arguments.before)?, find(&arguments.after)?);
    let differences = Differences::of([(&one.1, &one.2), (&other.1, &other.2)]);
    let names = [one.0, other.0];
    if arguments.json {
        print_json(
            &serde_json::json!({ "configurations": names, "settings": differences.settings, "code": differences.code }),
        )?
    } else {
        print(&table::configurations(&names, &differences))?
    }
    Ok(Verdict::Good)
}

fn compare(arguments: &CompareArguments) -> anyhow::Result<Verdict> {
    if is_name(&arguments.before) || is_name(&arguments.after) {
        return compare_configurations(arguments);
    }
    let read = |run: &str| read(run, &arguments.place, &arguments.of);
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let mut comparison = Comparison::of(&before, &after);
    if arguments.of.database.is_none() {
        comparison = comparison.with_histograms([&before, &after])?;
    }
    if arguments.json {
        print_json(&comparison)?
    } else {
        print(&table::comparison(&comparison))?
    }
    Ok(Verdict::Good)
}

fn comment(arguments: &CommentArguments) -> anyhow::Result<Verdict> {
    let path = find(&arguments.run, &arguments.place)?;
    let comment = Comment::new(arguments.author.as_deref(), arguments.text.as_deref(), arguments.quality);
    comments::add(&path, &comment)?;
    noting::note_addition(&path);
    Ok(Verdict::Good)
}

/// Returns the directory of a run that is given by its number or its directory. A directory of runs stands for its newest run.
fn find(run: &str, place: &Place) -> anyhow::Result<PathBuf> {
    let path = Path::new(run);
    if path.is_dir() {
        let newest = newest_of(path).with_context(|| format!("cannot look for runs in {run}"))?;
        if newest == path && !path.join(MANIFEST_NAME).exists() {
            bail!(
                "{run} is neither the directory of a run, because it has no {MANIFEST_NAME}, nor one with runs"
            );
        }
        return Ok(newest);
    }
    let number: u32 =
        run.parse().ok().with_context(|| format!("{run} is neither a directory nor the number of a run"))?;
    find_number(number, &place.directory)
}

/// Returns the directory of a run that is given as the commands take it; without one, of the newest.
pub(crate) fn find_run(run: Option<&str>, directory: &Path) -> anyhow::Result<PathBuf> {
    if let Some(run) = run {
        return find(run, &Place { directory: directory.to_owned() });
    }
    let newest =
        runs_in(directory).with_context(|| format!("cannot look for runs in {}", directory.display()))?.pop();
    newest.with_context(|| format!("there are no runs in {}", directory.display()))
}

/// Returns the directory of a run that is given by its number.
pub(crate) fn find_number(number: u32, directory: &Path) -> anyhow::Result<PathBuf> {
    let runs = runs_in(directory)
        .with_context(|| format!("cannot look for run {number} in {}", directory.display()))?;
    let is_it = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.strip_prefix("run")?.parse().ok()) == Some(number)
    };
    let known = runs.len();
    let found = runs.into_iter().find(is_it);
    found.with_context(|| {
        format!("there is no run {number} among the {known} runs in {}", directory.display())
    })
}
