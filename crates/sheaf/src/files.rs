//! `sheaf inspect`, `verify`, `dump` and `import`.

use crate::arguments::{DumpArguments, ImportArguments, PathArguments};
use crate::console::{Console, Counted, count, plural};
use crate::print::{print, print_json, print_json_line};
use crate::summary::ExclusionSummary;
use crate::{Verdict, verify_spool};
use anyhow::{Context, bail};
use serde::Serialize;
use sheaf_config::Access;
use sheaf_import::{Format, ImportOptions, ImportReport};
use sheaf_store::dump::{dump as dump_fragments, dump_records, dump_verdicts, dump_with_names};
use sheaf_store::inspect::{HeaderInfo, Inspection, TimeBaseInfo, inspect as inspect_path};
use sheaf_store::kind::Kind;
use sheaf_store::run::runs_in;
use sheaf_store::verify::{Reading, RunState, VerifyReport, verify_with_progress};
use sheaf_wire::{ByteCount, RunNumber, SourceId};
use std::fmt::Write as _;
use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

/// Maximum number of sources, gaps and problems in a table; `--json` shows all.
const ROWS: usize = 20;

/// Sets the access rights of files that this process and its children write from now on.
pub(crate) fn give_access(access: Access) {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(access.mask()));
}

pub(crate) fn inspect(arguments: &PathArguments) -> anyhow::Result<Verdict> {
    each(arguments, |path| Ok((inspect_path(path)?, Verdict::Good)), describe)
}

pub(crate) fn verify(arguments: &PathArguments, console: &Console) -> anyhow::Result<Verdict> {
    let verify = |path: &Path| {
        let mut bar: Option<Counted> = None;
        let tell = &mut |reading: Reading| {
            let megabytes = |bytes: ByteCount| usize::try_from(bytes.0 / 1_000_000).unwrap_or(usize::MAX);
            let bar = bar.get_or_insert_with(|| console.counted(megabytes(reading.total), "MB"));
            bar.set(megabytes(reading.done));
        };
        let report = verify_with_progress(path, tell)?;
        drop(bar);
        let verdict = match report.state {
            _ if report.ok => Verdict::Good,
            Some(RunState::InProgress) if report.problems_total == 0 => Verdict::InProgress,
            _ => Verdict::NotGood,
        };
        Ok((report, verdict))
    };
    let (spools, others): (Vec<_>, Vec<_>) =
        arguments.paths.iter().cloned().partition(|path| verify_spool::is_spool(path));
    let with = |paths| PathArguments { paths, ..*arguments };
    let of_spools = match spools.is_empty() {
        true => Verdict::Good,
        false => each(&with(spools), verify_spool::verify, verify_spool::describe)?,
    };
    if others.is_empty() {
        return Ok(of_spools);
    }
    Ok(of_spools.max(each(&with(others), verify, describe_verification)?))
}

/// Processes everything that the paths refer to and prints the results. The returned verdict is the worst.
///
/// # Errors
/// For one path, its error. For several, that some could not be read; their errors have been printed, and so have the
/// results of the others.
fn each<T: Serialize>(
    arguments: &PathArguments,
    look: impl Fn(&Path) -> anyhow::Result<(T, Verdict)>,
    describe: impl Fn(&T) -> String,
) -> anyhow::Result<Verdict> {
    let paths = targets(&arguments.paths, arguments.all);
    let (mut verdict, mut failed) = (Verdict::Good, 0);
    for path in &paths {
        let (found, of_path) = match look(path) {
            Ok(found) => found,
            Err(error) if paths.len() == 1 => return Err(error),
            Err(error) => {
                log::error!("{}", crate::describe(&error));
                failed += 1;
                continue;
            }
        };
        match (arguments.json, paths.len()) {
            (true, 1) => print_json(&found)?,
            (true, _) => print_json_line(&found)?,
            (false, _) => print(&describe(&found))?,
        }
        verdict = verdict.max(of_path);
    }
    if failed > 0 {
        bail!("{failed} of {} paths could not be read", paths.len());
    }
    Ok(verdict)
}

/// Resolves paths: a directory of runs is replaced by its newest run, or by all of its runs.
fn targets(paths: &[PathBuf], all: bool) -> Vec<PathBuf> {
    let mut targets = Vec::new();
    for path in paths {
        // A path that does not exist is reported with the others, when it is read.
        match runs_in(path).unwrap_or_default() {
            runs if runs.is_empty() => targets.push(path.clone()),
            runs if all => targets.extend(runs),
            mut runs => targets.extend(runs.pop()),
        }
    }
    targets
}

pub(crate) fn dump(arguments: &DumpArguments) -> anyhow::Result<Verdict> {
    if !arguments.csv {
        log::debug!("--csv is the only format, and the default");
    }
    let mut out = BufWriter::with_capacity(1 << 16, stdout().lock());
    let mut verdict = Verdict::Good;
    for (index, path) in targets(&arguments.paths, arguments.all).iter().enumerate() {
        // The names of the columns are printed once.
        let mut lines = Lines { out: &mut out, skips: index > 0 };
        let summary = if arguments.verdicts {
            dump_verdicts(path, &mut lines)?
        } else if arguments.records {
            dump_records(path, &mut lines)?
        } else if arguments.names {
            dump_with_names(path, &mut lines)?
        } else {
            dump_fragments(path, &mut lines)?
        };
        if let Some(damage) = summary.first_damage {
            let (path, damaged) = (path.display(), summary.damaged);
            let damaged = plural(damaged, "damaged record");
            log::warn!("{path}: {damaged}, the first: {damage}; `sheaf verify` lists them");
            verdict = Verdict::NotGood;
        }
    }
    out.flush().context("cannot write to standard output")?;
    Ok(verdict)
}

/// Lines, without the first where that is left out.
struct Lines<'a, W> {
    out: &'a mut W,
    skips: bool,
}

impl<W: Write> Write for Lines<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if !self.skips {
            return self.out.write(bytes);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        self.skips = end.is_none();
        Ok(end.map_or(bytes.len(), |end| end + 1))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

pub(crate) fn import(arguments: &ImportArguments) -> anyhow::Result<Verdict> {
    let format: Format = arguments.format.parse()?;
    let Some((directory, files)) = arguments.paths.split_last().filter(|(_, files)| !files.is_empty()) else {
        bail!("import needs the files of a run, and then the directory for the streams");
    };
    let options = ImportOptions {
        run: arguments.run.map(RunNumber),
        force: arguments.force,
        stream: arguments.stream.clone(),
        with_counters: arguments.with_counters,
        python: arguments.python.clone(),
        progress: |line| log::info!("{line}"),
    };
    let report = sheaf_import::import(format, files, directory, &options)?;
    if arguments.json {
        print_json(&report)?
    } else {
        print(&describe_import(&report))?
    }
    Ok(Verdict::Good)
}

fn describe_import(report: &ImportReport) -> String {
    let mut text = format!(
        "{} sources, {} events, {} fragments, {} bytes of run {} are in {}\n",
        count(report.sources),
        count(report.events),
        count(report.fragments),
        count(report.bytes),
        report.run,
        report.output.display()
    );
    if report.events_incomplete > 0 {
        let _ = writeln!(text, "{} events lack a source", count(report.events_incomplete));
    }
    if report.fragments_repeated > 0 {
        let _ = writeln!(
            text,
            "{} fragments repeat an event id of their source",
            count(report.fragments_repeated)
        );
    }
    let _ = writeln!(text, "build events from them with: sheaf run --replay {}", report.output.display());
    text
}

/// Describes the run records, and the shifts and exclusions that they report.
fn describe_records(inspection: &Inspection) -> String {
    let mut text = String::new();
    // Those of shifts and exclusions follow.
    let records: Vec<_> =
        inspection.records.iter().filter(|record| !["shift", "exclusion"].contains(&record.kind)).collect();
    if !records.is_empty() {
        let _ = writeln!(text, "run records      {:>16}", records.len());
        for record in records.iter().take(ROWS) {
            let _ = writeln!(
                text,
                "  source {}, {}, {:?}: {} bytes",
                record.source,
                record.kind,
                record.name,
                count(record.bytes)
            );
        }
        more(&mut text, records.len(), "run records");
    }
    if !inspection.shifts.is_empty() {
        let _ = writeln!(text, "shifts           {:>16}", inspection.shifts.len());
        for shift in inspection.shifts.iter().take(ROWS) {
            let repaired = shift.repaired_from_event.map_or_else(
                || "not repaired".to_owned(),
                |event| format!("repaired from event {} on", count(event)),
            );
            let (source, number, first) = (shift.source, shift.shift, count(shift.first_event));
            let _ = writeln!(
                text,
                "  source {source}: off by {number:+} in {:?} from event {first} on, {repaired}",
                shift.quantity
            );
        }
        more(&mut text, inspection.shifts.len(), "shifts");
    }
    if !inspection.exclusions.is_empty() {
        let _ = writeln!(text, "exclusions       {:>16}", inspection.exclusions.len());
        for exclusion in inspection.exclusions.iter().take(ROWS) {
            let sheaf_store::inspect::ExclusionInfo { source, first_event, included_from_event } = *exclusion;
            let _ = writeln!(text, "  {}", ExclusionSummary { source, first_event, included_from_event });
        }
        more(&mut text, inspection.exclusions.len(), "exclusions");
    }
    text
}

fn describe(inspection: &Inspection) -> String {
    let mut text = format!("{}: {}\n", inspection.path.display(), inspection.kind);
    for file in inspection.files.iter().take(ROWS) {
        let finished = if file.finished { "" } else { ", not finished" };
        let header = file.header.as_ref().map_or_else(|| "header damaged".to_owned(), describe_header);
        let _ = writeln!(text, "  {}: {header}, {} bytes{finished}", file.path.display(), count(file.bytes));
    }
    more(&mut text, inspection.files.len(), "files");
    let has_events = matches!(inspection.kind, Kind::EventFile | Kind::Run);
    if has_events {
        let _ = writeln!(text, "events           {:>16}", count(inspection.events));
        let _ = writeln!(text, "  incomplete     {:>16}", count(inspection.events_incomplete));
    }
    text.push_str(&describe_records(inspection));
    let _ = writeln!(text, "fragments        {:>16}", count(inspection.fragments));
    let _ = writeln!(text, "payload bytes    {:>16}", count(inspection.payload_bytes));
    for (name, sizes) in
        [("event bytes", inspection.event_bytes), ("fragment bytes", inspection.fragment_bytes)]
    {
        if let Some(sizes) = sizes {
            let (min, max) = (count(sizes.min), count(sizes.max));
            let _ = writeln!(text, "{name:<17}{:>16.1}  mean, {min} to {max}", sizes.mean);
        }
    }
    if let Some(ids) = inspection.ids {
        let _ = writeln!(text, "event ids        {} to {}", ids.first, ids.last);
    }
    match (inspection.times_ns, inspection.times) {
        (Some(times), _) => {
            let _ = writeln!(text, "times (ns)       {} to {}", times.first, times.last);
        }
        (None, Some(times)) => {
            let _ = writeln!(text, "times (units)    {} to {}", times.first, times.last);
        }
        (None, None) => {}
    }
    let mut bases: Vec<String> = inspection
        .files
        .iter()
        .filter_map(|file| Some(meaning(file.header.as_ref()?.time_base()?)))
        .collect();
    bases.dedup();
    for base in &bases {
        let _ = writeln!(text, "time base        {base}");
    }
    for tag in &inspection.tags {
        let _ = writeln!(text, "tag {:<12} {:>16} events", tag.tag, count(tag.events));
    }
    if inspection.verdict_bytes > 0 {
        let _ = writeln!(text, "verdict bytes    {:>16}", count(inspection.verdict_bytes));
    }
    let _ = writeln!(text, "sources          {:>16}", inspection.sources.len());
    let names = &inspection.source_names;
    let shown = inspection.sources.iter().take(ROWS);
    let width = shown.clone().map(|source| names.show(SourceId(source.source)).chars().count()).max();
    let width = width.unwrap_or_default().max(12);
    for source in shown {
        let (fragments, bytes) = (count(source.fragments), count(source.bytes));
        let id = names.show(SourceId(source.source));
        let _ = write!(text, "  {id:<width$} {fragments:>12} fragments {bytes:>16} bytes");
        let missing = format!(", missing in {} events", count(source.missing));
        text.push_str(if has_events { &missing } else { "" });
        if source.missing > 0
            && let Some(ids) = source.ids
        {
            let _ = write!(text, ", there in events {} to {}", ids.first, ids.last);
        }
        if source.processed > 0 {
            let _ = write!(text, ", {} processed", count(source.processed));
        }
        if let Some(first) = source.first_disagreeing {
            let _ = write!(text, ", {} disagree, the first in event {first}", count(source.disagreeing));
        }
        if let Some(first) = source.first_renumbered {
            let _ = write!(text, ", {} renumbered, the first in event {first}", count(source.renumbered));
        }
        text.push('\n');
    }
    more(&mut text, inspection.sources.len(), "sources");
    if inspection.defects > 0 {
        let _ = writeln!(text, "{} defects; `sheaf verify` lists them", count(inspection.defects));
    }
    names.annotate(&text).into_owned()
}

/// Returns the meaning of times.
fn meaning(base: &TimeBaseInfo) -> String {
    let epoch = base.epoch.as_deref().unwrap_or("an unknown time");
    format!("units of {} since {epoch}", base.unit)
}

fn describe_header(header: &HeaderInfo) -> String {
    match header {
        HeaderInfo::EventFile { run, node, session, part, .. } => {
            format!("run {run}, {node}, session {session}, part {part}")
        }
        HeaderInfo::FragmentStream { run, source, has_events, has_times, .. } => {
            let ids = if *has_events { "with event ids" } else { "without event ids" };
            let times = if *has_times { "with times" } else { "without times" };
            format!("run {run}, source {source}, {ids}, {times}")
        }
    }
}

fn describe_verification(report: &VerifyReport) -> String {
    let mut text = format!(
        "{}: {}, {}, {} ({} incomplete), {}, {}\n",
        report.path.display(),
        report.kind,
        plural(report.files.len() as u64, "file"),
        plural(report.events, "event"),
        count(report.events_incomplete),
        plural(report.fragments, "fragment"),
        plural(report.payload_bytes, "payload byte")
    );
    if report.records > 0 {
        let _ = writeln!(text, "  {} of the run", plural(report.records, "record"));
    }
    for (value, what) in [
        (
            report.events_disagreeing,
            "events have fragments whose event numbers disagree; `sheaf inspect` has the sources",
        ),
        (report.duplicates, "events repeat the id of an earlier event"),
        (report.copies, "additional copies of events, in other streams"),
        (
            report.files_open,
            "files are not closed: the run is in progress, or their writers died; events that count are intact",
        ),
        (report.events_void, "void events of builder units that died; they were built again elsewhere"),
        (
            report.ids_absent,
            "ids absent between the first and the last (such as those that the filter rejected)",
        ),
    ] {
        if value > 0 {
            let _ = writeln!(text, "  {} {what}", count(value));
        }
    }
    if report.streams.len() > 1 {
        for stream in &report.streams {
            let (events, bytes) = (count(stream.events), count(stream.payload_bytes));
            let _ = writeln!(text, "  stream {}: {events} events, {bytes} payload bytes", stream.stream);
        }
    }
    for part in &report.elsewhere {
        let (events, nodes, place) =
            (plural(part.events, "event"), part.nodes.join(", "), part.directory.display());
        let _ = writeln!(text, "  {events} of {nodes} are on {}, in {place}", part.host);
    }
    for missing in report.missing_sources.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "  source {} is missing in {}: {}",
            missing.source,
            plural(missing.events, "event"),
            missing.reason
        );
    }
    more(&mut text, report.missing_sources.len(), "missing sources");
    for problem in report.problems.iter().take(ROWS) {
        let offset = problem.offset.map_or_else(String::new, |offset| format!(" at byte {offset}"));
        let _ = writeln!(text, "  PROBLEM {}{offset}: {}", problem.file.display(), problem.what);
    }
    let in_progress = report.state == Some(RunState::InProgress);
    if in_progress {
        text.push_str("in progress: the run has not ended, and its books are not closed\n");
    }
    if in_progress && report.problems_total == 0 {
        text.push_str("no problems so far; verify the run again after it has ended\n");
    } else if report.ok {
        let _ = writeln!(text, "good: every checksum is right{}", what_the_data_lack(report));
        if !report.elsewhere.is_empty() {
            text.push_str(
                "this is a part of the run: copy the files of all parts into the directory with the run's log, and verify that\n",
            );
        }
    } else {
        let _ = writeln!(text, "NOT GOOD: {}", plural(report.problems_total, "problem"));
    }
    report.source_names.annotate(&text).into_owned()
}

/// Returns the end of a sentence about intact data: gaps that are recorded in the data are not problems, but must be said.
fn what_the_data_lack(report: &VerifyReport) -> String {
    let lacks = [
        (report.events_incomplete, "incomplete"),
        (report.events_disagreeing, "with disagreeing event numbers"),
    ];
    let lacks = lacks.iter().filter(|(events, _)| *events > 0);
    let lacks: Vec<String> =
        lacks.map(|(events, what)| format!("{} {what}", plural(*events, "event"))).collect();
    match (lacks.is_empty(), report.missing_sources.is_empty()) {
        (true, true) => ", and nothing is missing".to_owned(),
        (true, false) => "; events lack only optional or excluded sources".to_owned(),
        (false, _) => format!("; {}", lacks.join(", ")),
    }
}

fn more(text: &mut String, rows: usize, what: &str) {
    if rows > ROWS {
        let _ = writeln!(text, "  ... and {} more {what}; --json shows all", rows - ROWS);
    }
}
