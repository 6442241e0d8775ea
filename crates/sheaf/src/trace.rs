//! `sheaf trace`: which stage of an event took how long on which node.

use crate::Verdict;
use crate::console::count;
use crate::print::{print, print_json};
use crate::records;
use anyhow::{Context as _, bail};
use clap::Args;
use sheaf_monitor::traces::{
    LeftOut, TRACE_NAME, Trace, TraceHeader, TraceReader, merge, otlp, spans, waterfall,
};
use sheaf_node::traces::Sample;
use sheaf_store::run::{newest_of, runs_in};
use sheaf_wire::{EventId, Nanos, RunNumber};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that a collector of OpenTelemetry has for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Traces in one request to it.
const TOGETHER: usize = 256;

#[derive(Debug, Args)]
pub(crate) struct TraceArguments {
    /// Run: its number or its directory, a directory of runs (its newest), or a file of traces [default: the newest run].
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Event whose waterfall is shown. Without it, remarkable events are listed.
    #[arg(value_name = "EVENT")]
    event: Option<u64>,
    /// Directory of runs in which a number is looked up.
    #[arg(long = "in", value_name = "DIR", default_value = "runs")]
    directory: PathBuf,
    /// Further file of traces of the same run, or a directory with some, from another host (repeatable).
    #[arg(long, value_name = "PATH")]
    with: Vec<PathBuf>,
    /// List at most the last N events.
    #[arg(long, value_name = "N", default_value_t = 40)]
    last: usize,
    /// List events of the sample, too, with which nothing is wrong.
    #[arg(long)]
    all: bool,
    /// Send the traces to this collector of OpenTelemetry, such as http://127.0.0.1:4318.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

pub(crate) fn command(arguments: &TraceArguments) -> anyhow::Result<Verdict> {
    let place = place(arguments)?;
    let mut files = TraceFiles::read(&place)?;
    for more in &arguments.with {
        files.readers.append(&mut TraceFiles::read(more)?.readers);
    }
    let traces = match arguments.event {
        Some(event) => vec![files.find(event)?.with_context(|| files.why_not(event))?],
        None => files.list(arguments)?,
    };
    match (&arguments.otlp, arguments.event) {
        (Some(url), _) => {
            let whole = traces.iter().map(|trace| Ok(files.find(trace.event)?.unwrap_or_default()));
            export(&whole.collect::<anyhow::Result<Vec<_>>>()?, url)?;
        }
        (None, Some(_)) if arguments.json => {
            print_json(&serde_json::json!({ "trace": traces[0], "spans": spans(&traces[0]) }))?;
        }
        (None, None) if arguments.json => {
            print_json(&serde_json::json!({
                "header": files.header(), "events": traces.iter().map(listed).collect::<Vec<_>>(), "left_out": files.left_out(),
            }))?;
        }
        (None, Some(_)) => print(&waterfall(&traces[0]))?,
        (None, None) => print(&files.table(&traces, arguments))?,
    }
    Ok(Verdict::Good)
}

/// Returns the directory or the file of the run.
fn place(arguments: &TraceArguments) -> anyhow::Result<PathBuf> {
    let directory = &arguments.directory;
    let Some(run) = &arguments.run else {
        let runs =
            runs_in(directory).with_context(|| format!("cannot look for runs in {}", directory.display()))?;
        return runs.into_iter().last().with_context(|| {
            format!("there is no run in {}; name a run, or its place with --in", directory.display())
        });
    };
    if Path::new(run).exists() && run.parse::<u32>().is_err() {
        return newest_of(Path::new(run)).with_context(|| format!("cannot look for runs in {run}"));
    }
    let number: u32 = run
        .parse()
        .ok()
        .with_context(|| format!("{run} is neither a directory or file nor the number of a run"))?;
    records::find_number(number, directory)
}

/// An event in the list.
fn listed(trace: &Trace) -> serde_json::Value {
    serde_json::json!({
        "event": trace.event,
        "reasons": trace.reasons,
        "outcome": trace.outcome,
        "drop_reason": trace.drop_reason,
        "duration_ns": trace.duration_ns(),
        "missing": trace.missing,
    })
}

/// The files of traces of a run.
struct TraceFiles {
    place: PathBuf,
    readers: Vec<TraceReader>,
}

impl TraceFiles {
    /// Reads a file, or all in a directory.
    fn read(place: &Path) -> anyhow::Result<Self> {
        let paths = if place.is_dir() { in_directory(place)? } else { vec![place.to_owned()] };
        if paths.is_empty() {
            bail!(
                "{} has no traces ({TRACE_NAME}): none were wanted (`trace.file_bytes` is 0), or the run was made by a version of Sheaf \
                 without traces",
                place.display()
            );
        }
        let read = |path: PathBuf| {
            let mut reader = TraceReader::new(&path);
            reader.follow().with_context(|| format!("cannot read {}", path.display()))?;
            Ok(reader)
        };
        let readers = paths.into_iter().map(read).collect::<anyhow::Result<_>>()?;
        Ok(Self { place: place.to_owned(), readers })
    }

    fn header(&self) -> TraceHeader {
        self.readers.first().map(|reader| reader.header().clone()).unwrap_or_default()
    }

    /// Returns what the files lack, together.
    fn left_out(&self) -> LeftOut {
        let mut sum = LeftOut::default();
        for end in self.readers.iter().filter_map(TraceReader::end) {
            sum.add(&end.left_out);
        }
        sum
    }

    /// Returns the trace of an event, joined from all files.
    fn find(&self, event: u64) -> anyhow::Result<Option<Trace>> {
        let mut parts = Vec::new();
        for reader in &self.readers {
            let found = reader.find(event);
            let found = found.with_context(|| format!("cannot read {}", reader.path().display()))?;
            parts.extend(found.map(|trace| (reader.header().host.clone(), trace)));
        }
        Ok(merge(parts))
    }

    /// Returns the traces to list, without stamps, in the order of their events' ends.
    fn list(&self, arguments: &TraceArguments) -> anyhow::Result<Vec<Trace>> {
        let mut known: BTreeMap<u64, usize> = BTreeMap::new();
        let mut traces: Vec<Trace> = Vec::new();
        for trace in self.readers.iter().flat_map(TraceReader::all) {
            match known.get(&trace.event) {
                Some(place) => {
                    let before = std::mem::take(&mut traces[*place]);
                    let parts = vec![(String::new(), before), (String::new(), trace.clone())];
                    traces[*place] = merge(parts).context("two traces have a union")?;
                }
                None => {
                    known.insert(trace.event, traces.len());
                    traces.push(trace.clone());
                }
            }
        }
        traces.retain(|trace| arguments.all || trace.is_remarkable());
        if arguments.otlp.is_none() {
            traces.drain(..traces.len().saturating_sub(arguments.last));
        }
        Ok(traces)
    }

    /// Returns the reason why there is no trace of an event, and what to do.
    fn why_not(&self, event: u64) -> String {
        let TraceHeader { run, sample, slow_ns, .. } = self.header();
        let slow = Nanos(slow_ns);
        let mut text = format!("event {event} of run {run} has no trace. ");
        if Sample::new(RunNumber(run), sample).has(EventId(event)) {
            text.push_str("It is in the sample, so the run had no such event, it has not ended, or the sample had no room. ");
        } else {
            let _ = write!(
                text,
                "If the run had it, it was neither incomplete, dropped, quarantined nor slow ({slow} or longer), and it is not in the sample \
                 (one in {}). ",
                count(sample)
            );
        }
        let lost = self.left_out().remarkable();
        if lost > 0 {
            let _ = write!(
                text,
                "Or it is one of {} remarkable events for which there was no room: raise `trace.file_bytes`. ",
                count(lost)
            );
        }
        let _ = write!(
            text,
            "`sheaf trace {}` lists the events with traces; `trace.slow_ms` and `trace.sample` decide which events of later runs get one",
            self.place.display()
        );
        text
    }

    fn table(&self, traces: &[Trace], arguments: &TraceArguments) -> String {
        let all = self.readers.iter().flat_map(TraceReader::all);
        let (mut remarkable, mut samples) = (0, 0);
        all.for_each(|trace| if trace.is_remarkable() { remarkable += 1 } else { samples += 1 });
        let mut text = format!(
            "Run {}: traces of {} remarkable events, and of {} others as a sample\n",
            self.header().run,
            count(remarkable),
            count(samples)
        );
        if !traces.is_empty() {
            let _ = writeln!(text, "{:>20}  {:>12}  {:<10}  reasons", "event", "duration", "outcome");
        }
        for trace in traces {
            let took = trace.duration_ns().map_or_else(|| "-".to_owned(), |ns| Nanos(ns).to_string());
            let outcome = trace.outcome.as_deref().unwrap_or("-");
            let mut why = trace.reasons.join(", ");
            let missing: Vec<_> = trace.missing.iter().map(|part| part.source.to_string()).collect();
            if let Some(reason) = &trace.drop_reason {
                let _ = write!(why, " ({reason})");
            }
            if !missing.is_empty() {
                let _ = write!(why, "; without source {}", missing.join(", source "));
            }
            let _ = writeln!(text, "{:>20}  {took:>12}  {outcome:<10}  {why}", trace.event);
        }
        let left_out = self.left_out();
        let LeftOut { file_full, too_many, late_answers, remarks, .. } = left_out;
        if left_out.remarkable() > 0 {
            let _ = writeln!(
                text,
                "{} remarkable events have no trace: {} for lack of room in the file (`trace.file_bytes`), {} beyond the number that is traced in \
                 a second, {} slow ones while nodes answered late, {} overwritten",
                count(left_out.remarkable()),
                count(file_full),
                count(too_many),
                count(late_answers),
                count(remarks)
            );
        }
        if !arguments.all && traces.is_empty() && samples > 0 {
            text.push_str("Nothing is wrong with any event; --all lists those of the sample\n");
        }
        text
    }
}

/// Returns the files of traces in a directory.
fn in_directory(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read directory {}", directory.display()))?;
    let is_file = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("traces.") && name.ends_with(".jsonl")
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_file).collect();
    paths.sort();
    Ok(paths)
}

fn export(traces: &[Trace], url: &str) -> anyhow::Result<()> {
    let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).proxy(None).build();
    let agent = config.new_agent();
    let url = match url.trim_end_matches('/') {
        url if url.ends_with(otlp::PATH) => url.to_owned(),
        url => format!("{url}{}", otlp::PATH),
    };
    for some in traces.chunks(TOGETHER) {
        let request = agent.post(&url).header("Content-Type", "application/json");
        request.send(otlp::request(some).to_string()).with_context(|| {
            format!("{url} does not take traces; is a collector with OTLP over HTTP there?")
        })?;
    }
    print(&format!("{} traces sent to {url}\n", count(traces.len() as u64)))
}
