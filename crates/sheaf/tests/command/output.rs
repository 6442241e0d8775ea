//! Files of a run, and their consistency with its own reports.

use crate::child::ScratchDirectory;
use serde_json::Value;
use sheaf_store::run::RunReader;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A fixed rate of small events to two builder units, whose death is detected quickly. More keys of `[builder]` may follow. An event
/// may have been with each of the builders that a test kills, and must not be given up for that.
#[cfg(any(feature = "hdf5", feature = "s3"))]
pub(crate) const SMALL_EVENTS: &str = "\
[source.emulated]
mean_bytes = 500
rms_bytes = 200
[trigger]
mode = \"fixed\"
rate_hz = 4000.0
[readout]
count = 2
[manager]
max_attempts = 10
stop_timeout_ms = 3000
peer_timeout_ms = 1000
[protocol]
heartbeat_ms = 50
[builder]
count = 2
";

/// A line of `sheaf dump --csv`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) event: u64,
    pub(crate) source: u32,
    pub(crate) time_ns: u64,
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// A number in a JSON object, by its path with dots.
#[track_caller]
pub(crate) fn number(summary: &Value, path: &str) -> u64 {
    field(summary, path).as_u64().unwrap_or_else(|| panic!("{path} is not a number in {summary:#}"))
}

/// A value in a JSON object, by its path with dots.
#[track_caller]
pub(crate) fn field<'a>(summary: &'a Value, path: &str) -> &'a Value {
    let found = path.split('.').try_fold(summary, |value, key| value.get(key));
    found.unwrap_or_else(|| panic!("no {path} in {summary:#}"))
}

/// Returns the directory of the run.
#[track_caller]
pub(crate) fn directory(scratch: &ScratchDirectory, summary: &Value) -> PathBuf {
    scratch.join(field(summary, "output").as_str().expect("the run has an output"))
}

/// Returns the number of bytes in those files of a run whose names are wanted. The run may be in progress, or not have begun.
pub(crate) fn bytes_written(run: &Path, is_wanted: impl Fn(&str) -> bool) -> u64 {
    let files = std::fs::read_dir(run).into_iter().flatten().flatten();
    let files = files.filter(|file| file.file_name().to_str().is_some_and(&is_wanted));
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// Returns everything that `sheaf dump --csv` prints for a path.
#[track_caller]
pub(crate) fn dump(path: &Path) -> Vec<Line> {
    let scratch = ScratchDirectory::new();
    let ended = crate::child::sheaf(scratch.path(), ["dump".as_ref(), path.as_os_str(), "--csv".as_ref()]);
    let ended = ended.exits(0);
    let mut lines = ended.stdout.lines();
    assert_eq!(lines.next(), Some("event,source,time_ns,bytes,crc32"));
    let line = |line: &str| {
        let cells: Vec<_> = line.split(',').collect();
        let [event, source, time_ns, bytes, crc32] = cells.try_into().expect("five cells");
        Line {
            event: event.parse().unwrap(),
            source: source.parse().unwrap(),
            time_ns: time_ns.parse().unwrap(),
            bytes: bytes.parse().unwrap(),
            crc32: u32::from_str_radix(crc32, 16).unwrap(),
        }
    };
    lines.map(line).collect()
}

/// Runs `sheaf verify --json` on a path and checks the exit status.
#[track_caller]
pub(crate) fn verify(path: &Path, code: i32) -> Value {
    let scratch = ScratchDirectory::new();
    let ended = crate::child::sheaf(scratch.path(), ["verify".as_ref(), path.as_os_str(), "--json".as_ref()]);
    let report = ended.exits(code).json();
    assert_eq!(field(&report, "ok").as_bool(), Some(code == 0));
    report
}

/// Returns the missing sources of every event that is marked incomplete, with the names of the reasons.
pub(crate) fn incomplete_events(path: &Path) -> BTreeMap<u64, BTreeMap<u32, &'static str>> {
    let events = RunReader::open(path).unwrap().map(|event| event.unwrap().event);
    let missing = |event: &sheaf_wire::Event<_>| {
        event.missing.iter().map(|missing| (missing.source.0, missing.reason.name())).collect()
    };
    events.filter(|event| event.incomplete).map(|event| (event.id.0, missing(&event))).collect()
}

/// Checks that the books of a run, triggers and fragments, add up and agree with its files. For runs that write files and whose
/// readout units lived to the end.
#[track_caller]
pub(crate) fn assert_books_match_files(scratch: &ScratchDirectory, summary: &Value) {
    assert_adds_up(summary);
    let path = directory(scratch, summary);
    let lines = dump(&path);
    let parts: BTreeSet<_> = lines.iter().map(|line| (line.event, line.source)).collect();
    assert_eq!(parts.len(), lines.len(), "a fragment is there twice");
    assert_eq!(lines.len() as u64, number(summary, "ledger.fragments.stored"));
    let report = verify(&path, 0);
    assert_eq!(number(&report, "events"), number(summary, "ledger.stored"));
    assert_eq!(number(&report, "fragments"), lines.len() as u64);
    assert_eq!(number(&report, "duplicates"), 0);
}

/// Checks that every trigger and every fragment is in one bin, nothing is in flight, and live and dead time add up to the run's time.
#[track_caller]
pub(crate) fn assert_adds_up(summary: &Value) {
    let sum = |path: &str| {
        let values = field(summary, path).as_object().expect("an object").values();
        values.map(|value| value.as_u64().expect("a count")).sum::<u64>()
    };
    let offered = number(summary, "ledger.triggers") + sum("ledger.vetoed");
    assert_eq!(number(summary, "ledger.offered"), offered, "offered triggers: {summary:#}");
    let time = number(summary, "ledger.time.live_ns") + sum("ledger.time.dead_ns");
    assert_eq!(number(summary, "ledger.time.run_ns"), time, "time: {summary:#}");
    for (path, received) in [("ledger", "triggers"), ("ledger.fragments", "received")] {
        let ledger = field(summary, path);
        let dropped = field(ledger, "dropped").as_object().expect("reasons to counts");
        let dropped: u64 = dropped.values().map(|count| count.as_u64().unwrap()).sum();
        let bins = number(ledger, "stored") + number(ledger, "rejected") + dropped;
        assert_eq!(number(ledger, received), bins, "{path} of {summary:#}");
        assert_eq!(number(ledger, "in_flight"), 0, "{path} of {summary:#}");
    }
    assert_eq!(field(summary, "ledger.balanced").as_bool(), Some(true), "{summary:#}");
}
