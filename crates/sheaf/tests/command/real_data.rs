//! Detector data from import to dump, with every role in its own process. Every fragment must agree with the reference data; none
//! may be missing or extra.
//!
//! The data are in `../shared/data` beside the workspace, or where `SHEAF_DATA` points. Two of the formats need Python
//! packages, in the interpreter that `SHEAF_PYTHON` names.

use crate::child::ScratchDirectory;
use crate::output::{Line, assert_books_match_files, directory, dump, field, incomplete_events, number};
use crate::streams;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The six-byte hits of a KM3NeT superframe.
const HIT_BYTES: u64 = 6;

/// Options of every run of these tests.
const BUILD: &str = "--readouts 4 --builders 3 --processes --json";

/// Event, source, size, CRC-32.
type Part = (u64, u32, u64, u32);

fn part(line: &Line) -> Part {
    (line.event, line.source, line.bytes, line.crc32)
}

/// Returns the folder of a data set. If it is absent, prints the reason and returns `None`.
pub(crate) fn data(set: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SHEAF_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let folder = root.join(set);
    if !folder.is_dir() {
        println!("skipped: no detector data in {}", folder.display());
        return None;
    }
    Some(std::fs::canonicalize(folder).unwrap())
}

/// Imports a file into `streams` of the directory. If Python or a package is absent, prints the reason and returns `None`.
pub(crate) fn import(scratch: &ScratchDirectory, format: &str, file: &Path) -> Option<Value> {
    let ended = scratch.sheaf(&format!("import {format} {} streams --json", file.display()));
    let lacks_python = ["needs python3", "Python package"].iter().any(|what| ended.stderr.contains(what));
    if ended.status.code() == Some(1) && lacks_python {
        println!("skipped: {}", ended.stderr.lines().last().unwrap_or_default());
        return None;
    }
    Some(ended.exits(0).json())
}

/// Reads a gzipped reference table, with one map per line.
pub(crate) fn truth(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut lines = text.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let cells = line.split(',').map(str::to_owned);
        names.iter().map(|name| (*name).to_owned()).zip(cells).collect()
    };
    lines.map(row).collect()
}

pub(crate) fn value(row: &BTreeMap<String, String>, column: &str) -> u64 {
    row[column].parse().unwrap()
}

pub(crate) fn crc(row: &BTreeMap<String, String>, column: &str) -> u32 {
    u32::from_str_radix(&row[column], 16).unwrap()
}

/// Imports, builds and dumps. The output must equal the reference; `reduce` removes from both the properties that the reference
/// lacks.
fn build_and_compare<T: Ord + Debug>(
    format: &str,
    file: &Path,
    expected: Vec<T>,
    reduce: impl Fn(Part) -> T,
) {
    let scratch = ScratchDirectory::new();
    let Some(_) = import(&scratch, format, file) else { return };
    let summary = scratch.sheaf(&format!("run --replay streams {BUILD}")).exits(0).json();
    assert_books_match_files(&scratch, &summary);
    let lines = dump(&directory(&scratch, &summary));
    let events: BTreeSet<_> = lines.iter().map(|line| line.event).collect();
    assert_eq!(number(&summary, "events_built"), events.len() as u64);
    assert_eq!(number(&summary, "events_incomplete"), 0, "the truth has no incomplete event");
    assert_same(lines.iter().map(part).map(reduce).collect(), expected);
}

fn assert_same<T: Ord + Debug>(mut found: Vec<T>, mut expected: Vec<T>) {
    assert!(!expected.is_empty(), "the truth is empty");
    found.sort();
    expected.sort();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

fn km3net(file: &str, truth_file: &str) {
    let Some(folder) = data("km3net_orca") else { return };
    let rows = truth(&folder.join("truth").join(truth_file));
    let expected = rows.iter().map(|row| {
        let (event, source) = (value(row, "frame_index"), value(row, "dom_id") as u32);
        (event, source, HIT_BYTES * value(row, "nhits"), crc(row, "crc32_hits_pmt_tdcLE_tot"))
    });
    build_and_compare("km3net", &folder.join(file), expected.collect(), |part| part);
}

#[test]
fn km3net_sample_is_built_exactly() {
    km3net("events_sample.root", "truth_events_sample_L1.csv.gz");
}

#[test]
fn km3net_online_is_built_exactly() {
    km3net("km3net_online.root", "truth_km3net_online_L1.csv.gz");
}

#[test]
fn lst1_is_built_exactly() {
    let Some(folder) = data("lst1") else { return };
    let rows = truth(&folder.join("truth/truth.csv.gz"));
    let expected = rows.iter().map(|row| {
        let (event, source) = (value(row, "event_id"), value(row, "module_id") as u32);
        (event, source, value(row, "waveform_bytes"), crc(row, "crc32_waveform"))
    });
    let file = folder.join("LST-1.1.Run02008.0000_first50.fits.fz");
    build_and_compare("lst1", &file, expected.collect(), |part| part);
}

fn sdhcal(file: &str) -> Option<(PathBuf, Vec<BTreeMap<String, String>>)> {
    let folder = data("sdhcal")?;
    let mut rows = truth(&folder.join("truth/truth.csv.gz"));
    rows.retain(|row| row["file"] == file);
    Some((folder.join(file), rows))
}

fn sdhcal_with_sources(file: &str) {
    let Some((path, rows)) = sdhcal(file) else { return };
    let expected = rows.iter().map(|row| {
        let (event, source) = (value(row, "w1"), value(row, "w4_source") as u32);
        (event, source, value(row, "object_bytes"), crc(row, "crc32_object_LE"))
    });
    build_and_compare("sdhcal", &path, expected.collect(), |part| part);
}

#[test]
fn sdhcal_2014_is_built_exactly() {
    sdhcal_with_sources("SPS_Dec2014_DHCAL_726353_I0_0_1event.slcio");
}

#[test]
fn sdhcal_2015_is_built_exactly() {
    sdhcal_with_sources("SPS_2015_CMS_DHCAL_728753_I0_0_4readouts.slcio");
}

/// The reference of 2012 does not contain the source of a fragment.
#[test]
fn sdhcal_2012_is_built_exactly() {
    let Some((path, rows)) = sdhcal("SPS_May2012_DHCAL_714402_I0_0_3events.slcio") else { return };
    let expected =
        rows.iter().map(|row| (value(row, "event"), value(row, "object_bytes"), crc(row, "crc32_object_LE")));
    build_and_compare("sdhcal", &path, expected.collect(), |(event, _, bytes, crc32)| (event, bytes, crc32));
}

/// No event of the data sets is incomplete. If some records are removed, exactly the events that lack one are marked, with the
/// missing sources, and all other bytes are unchanged.
#[test]
fn detector_data_with_gaps_are_built_as_far_as_they_go() {
    let Some((path, _)) = sdhcal("SPS_May2012_DHCAL_714402_I0_0_3events.slcio") else { return };
    let scratch = ScratchDirectory::new();
    import(&scratch, "sdhcal", &path).expect("this format needs nothing");
    let whole = dump(&scratch.join("streams"));
    let sources: BTreeSet<_> = whole.iter().map(|line| line.source).collect();
    let events: Vec<_> = whole.iter().map(|line| line.event).collect::<BTreeSet<_>>().into_iter().collect();
    let sources: Vec<_> = sources.into_iter().collect();
    // The second event lacks three sources; one of them ends there.
    let silent = [sources[0], sources[77]];
    let ends = sources[149];
    let taken_out = |source, event| {
        (event == events[1] && silent.contains(&source)) || (event >= events[1] && source == ends)
    };
    streams::copy(&scratch.join("streams"), &scratch.join("gaps"), |source, event| !taken_out(source, event));

    let summary = scratch.sheaf(&format!("run --replay gaps {BUILD}")).exits(3).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "events_incomplete"), 2);
    let run = directory(&scratch, &summary);
    let expected = whole.iter().filter(|line| !taken_out(line.source, line.event)).map(part);
    assert_same(dump(&run).iter().map(part).collect(), expected.collect());

    let incomplete = incomplete_events(&run);
    let missing: BTreeMap<u64, Vec<u32>> =
        incomplete.iter().map(|(event, missing)| (*event, missing.keys().copied().collect())).collect();
    let expected = [(events[1], vec![silent[0], silent[1], ends]), (events[2], vec![ends])];
    assert_eq!(missing, BTreeMap::from(expected));
    assert_eq!(field(&summary, "ledger.dropped"), &serde_json::json!({}));
}

/// A configuration that finds coincidences of all cards of a capture.
fn coincidences(data: &Path, set: &str, tick_ps: u64, cards: u32) -> String {
    format!(
        "[source]\nkind = \"capture\"\n[source.timed]\nfile = \"{}\"\ntick = \"{tick_ps} ps\"\nslice_us = 100.0\n\
         before_us = 1.0\nafter_us = 100.0\n[filter]\nkind = \"coincidence\"\ngap_ps = {}\nmin_sources = {cards}\n",
        data.join(format!("{set}.pcapng")).display(),
        20 * tick_ps,
    )
}

/// The expected figures were obtained by sorting all hits of a capture (RD51's `vmm-sdat` test data).
#[test]
fn front_ends_without_event_numbers_are_built_by_time_and_every_coincidence_is_found_once() {
    let Some(data) = data("vmm3a_srs") else { return };
    let scratch = ScratchDirectory::new();
    for (set, tick_ps, clusters, coincidences) in
        [("example", 22_500, 4_028, 3_876), ("example_xyu", 25_000, 6_737, 6_433)]
    {
        scratch.file("run.toml", &self::coincidences(&data, set, tick_ps, 2));
        let run = scratch.sheaf("run run.toml --builders 3 --processes --json").exits(0).json();
        assert_eq!(number(&run, "counters.filter_clusters"), clusters, "{set}");
        assert_eq!(number(&run, "counters.filter_coincidences"), coincidences, "{set}");
        assert_eq!(run["counters"].get("filter_clusters_truncated"), None, "{set}");
        assert_eq!(number(&run, "events_incomplete"), 0, "{set}");
        assert_eq!(field(&run, "ledger.balanced"), &Value::Bool(true), "{set}");
    }
}
