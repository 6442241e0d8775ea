//! Lists of histograms with their sketches and comparisons.

use super::receiving::SOCKET_NAME;
use crate::description::run_in;
use crate::histogram_files::{Found, HistogramFiles};
use crate::serving::Refusal;
use crate::shared::Shared;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sheaf_histogram::{
    HistogramComparison, HistogramRecord, HistogramSummary, RecordedHistogram, Sketch, compare,
};
use std::fs;
use std::path::{Path, PathBuf};

/// Most bins along an axis of a sketch in a list.
const IN_LIST: u32 = 48;

/// Most bins along an axis of the sketch of a single histogram.
const ALONE: u32 = 200;

/// Number of earlier runs among which a reference is looked for.
const EARLIER: usize = 50;

/// The histograms that are wanted.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    /// Number of the run; without it, the present one.
    pub(crate) run: Option<u32>,
    /// Number of the reference run, 0 for none; without it, the last good run before that has one of the histograms.
    pub(crate) reference: Option<u32>,
    /// Only this histogram, with more bins.
    pub(crate) name: Option<String>,
}

/// A list of histograms.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    run: u32,
    complete: bool,
    written_ms: Option<u64>,
    socket: Option<String>,
    reference: Option<u32>,
    publishers: &'a [sheaf_histogram::PublisherRecord],
    taken: u64,
    stale: u64,
    refused: serde_json::Value,
    histograms: Vec<Shown>,
}

/// A histogram in a list.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    summary: HistogramSummary,
    sketch: Sketch,
    comparison: Option<HistogramComparison>,
    /// Reason why it is not compared.
    not_compared: Option<String>,
}

/// An answer, and its entity tag.
pub(crate) type Tagged = (String, Vec<u8>);

/// Returns the histograms of a run, or `None` for the body if `known` is the tag of the answer.
pub(crate) fn list(
    shared: &Shared,
    wanted: &Wanted,
    known: Option<&str>,
) -> Result<(String, Option<Vec<u8>>), Refusal> {
    let place = Place::of(shared, wanted.run)?;
    let mut files = shared.histograms();
    let found = files.read(&place.file).map_err(|error| failed(&place.file, &error))?;
    let socket = place.file.with_file_name(SOCKET_NAME);
    let socket = (place.is_present && socket.exists()).then(|| socket.display().to_string());
    let Some((stamp, record)) = found else {
        if !place.is_present {
            return Err(absent(place.run));
        }
        return Ok((format!("\"none-{}\"", place.run), Some(json(&empty(place.run, socket)))));
    };
    let reference = match wanted.reference {
        Some(0) => None,
        Some(run) => Some(read(&mut files, &place.beside(run), run)?),
        None => place.last_good(shared, &mut files, &record),
    };
    let of_reference = reference.as_ref().map(|(stamp, _)| stamp.tag()).unwrap_or_default();
    let name = wanted.name.as_deref().unwrap_or_default();
    let tag = format!("\"{}-{of_reference}-{name}-{}\"", stamp.tag(), socket.is_some());
    if known == Some(&*tag) {
        return Ok((tag, None));
    }
    let reference = reference.as_ref().map(|(_, record)| &**record);
    let is_wanted =
        |one: &&RecordedHistogram| wanted.name.as_ref().is_none_or(|name| one.histogram.name == *name);
    let bins = if wanted.name.is_some() { ALONE } else { IN_LIST };
    let shown = record.histograms.iter().filter(is_wanted).map(|one| show(one, bins, reference)).collect();
    let listed = Listed {
        run: record.run,
        complete: record.complete,
        written_ms: Some(record.written_ms),
        socket,
        reference: reference.map(|record| record.run),
        publishers: &record.publishers,
        taken: record.taken,
        stale: record.stale,
        refused: serde_json::to_value(&record.refused).unwrap_or_default(),
        histograms: shown,
    };
    Ok((tag, Some(json(&listed))))
}

/// Returns a histogram of a run with all its numbers.
pub(crate) fn full(shared: &Shared, run: u32, name: &str) -> Result<Tagged, Refusal> {
    let place = Place::of(shared, Some(run))?;
    let (stamp, record) = read(&mut shared.histograms(), &place.file, run)?;
    match record.find(name) {
        Some(one) => Ok((format!("\"{}\"", stamp.tag()), json(one))),
        None => Err((StatusCode::NOT_FOUND, format!("run {run} has no histogram {name}\n"))),
    }
}

fn show(one: &RecordedHistogram, bins: u32, reference: Option<&HistogramRecord>) -> Shown {
    let other = reference.and_then(|record| record.find(&one.histogram.name)).map(|other| &other.histogram);
    let compared = other.map(|other| compare(&one.histogram, other));
    let (comparison, not_compared) = match compared {
        None => (None, reference.map(|_| "the reference run does not have it".to_owned())),
        Some(Ok(comparison)) => (Some(comparison), None),
        Some(Err(difference)) => (None, Some(difference.to_string())),
    };
    let sketch = Sketch::of(&one.histogram, bins, other);
    Shown { summary: HistogramSummary::of(one), sketch, comparison, not_compared }
}

fn empty(run: u32, socket: Option<String>) -> Listed<'static> {
    Listed {
        run,
        complete: false,
        written_ms: None,
        socket,
        reference: None,
        publishers: &[],
        taken: 0,
        stale: 0,
        refused: serde_json::json!({}),
        histograms: Vec::new(),
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn read(files: &mut HistogramFiles, file: &Path, run: u32) -> Result<Found, Refusal> {
    files.read(file).map_err(|error| failed(file, &error))?.ok_or_else(|| absent(run))
}

fn failed(file: &Path, error: &std::io::Error) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot read {}: {error}\n", file.display()))
}

fn absent(run: u32) -> Refusal {
    (StatusCode::NOT_FOUND, format!("there are no histograms of run {run}\n"))
}

/// Where the histograms of a run are.
struct Place {
    run: u32,
    file: PathBuf,
    /// Whether it is the run that the page shows.
    is_present: bool,
    /// Directory of the runs, if they have one.
    runs: Option<PathBuf>,
}

impl Place {
    fn of(shared: &Shared, run: Option<u32>) -> Result<Self, Refusal> {
        let told = shared.told();
        let described = told.run.as_deref();
        let none = || (StatusCode::NOT_FOUND, "there was no run yet\n".to_owned());
        let described = described.ok_or_else(none)?;
        let run = run.unwrap_or(described.number);
        let runs = described.runs().map(Path::to_owned);
        if run == described.number {
            // A run that takes none has no file.
            let file = described.histograms.clone().unwrap_or_default().into();
            return Ok(Self { run, file, is_present: true, runs });
        }
        let place = Self { run, file: PathBuf::new(), is_present: false, runs };
        Ok(Self { file: place.beside(run), ..place })
    }

    /// Returns the file of another run.
    fn beside(&self, run: u32) -> PathBuf {
        run_in(self.runs.as_deref().unwrap_or(Path::new("")), run).join(HistogramRecord::FILE)
    }

    /// Returns the last good run before this one that has one of the histograms.
    fn last_good(
        &self,
        shared: &Shared,
        files: &mut HistogramFiles,
        record: &HistogramRecord,
    ) -> Option<Found> {
        let is_good = shared.told().is_good?;
        let mut earlier: Vec<u32> = fs::read_dir(self.runs.as_ref()?)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("run")?.parse().ok())
            .filter(|run| *run < self.run)
            .collect();
        earlier.sort_unstable();
        let has_one = |(_, other): &Found| {
            other.histograms.iter().any(|one| record.find(&one.histogram.name).is_some())
        };
        let with_file = earlier.iter().rev().take(EARLIER).map(|run| self.beside(*run));
        with_file
            .filter(|file| file.exists() && file.parent().is_some_and(is_good))
            .find_map(|file| files.read(&file).ok().flatten().filter(has_one))
    }
}
