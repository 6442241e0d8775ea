//! Imports the real detector data and compares every fragment with the reference that is shipped with them: none
//! missing, none extra, equal size and content. Skips with a reason if the data or a Python package are absent.
//!
//! The data are in `../shared/data` beside the workspace, or where `SHEAF_DATA` points.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper that fails, fails its test; a test that is skipped says why"
)]

mod common;

use common::{Imported, Truth, data, import_or_skip, truth};
use sheaf_import::Format;

/// The six-byte hits of a KM3NeT superframe.
const HIT_BYTES: u64 = 6;

fn km3net(file: &str, truth_file: &str, run: u32, slices: &[u64]) {
    let Some(folder) = data("km3net_orca") else { return };
    let Some(imported) = import_or_skip(Format::Km3net, &[folder.join(file)]) else { return };
    let rows = truth(&folder.join("truth").join(truth_file));
    let expected = rows.iter().map(|row| Truth {
        event: row.number("frame_index"),
        source: row.number("dom_id"),
        bytes: HIT_BYTES * row.number::<u64>("nhits"),
        crc32: row.hex("crc32_hits_pmt_tdcLE_tot"),
    });
    imported.assert_is_exactly(expected);

    let report = &imported.report;
    assert_eq!((report.run, report.sources, report.events), (run, 69, slices.len() as u64));
    assert_eq!((report.events_incomplete, report.fragments_repeated), (0, 0));
    // Slices are out of order in the file, and remain so in every stream.
    for fragments in imported.sources.values() {
        let order: Vec<u64> = fragments.iter().map(|fragment| fragment.event).collect();
        assert_eq!(order, slices);
    }
}

#[test]
fn km3net_events_sample_is_imported_exactly() {
    let slices = [366, 368, 369, 370, 371, 364, 372, 373, 365, 367];
    km3net("events_sample.root", "truth_events_sample_L1.csv.gz", 6884, &slices);
}

#[test]
fn km3net_online_is_imported_exactly() {
    km3net("km3net_online.root", "truth_km3net_online_L1.csv.gz", 6633, &[512, 509, 514]);
}

#[test]
fn km3net_slices_have_the_time_of_their_frame() {
    let Some(folder) = data("km3net_orca") else { return };
    let Some(imported) = import_or_skip(Format::Km3net, &[folder.join("events_sample.root")]) else { return };
    // A slice lasts 100 ms, and frame indices count slices.
    const SLICE_NS: u64 = 100_000_000;
    for fragments in imported.sources.values() {
        let begins: Vec<u64> =
            fragments.iter().map(|fragment| fragment.time_ns - SLICE_NS * fragment.event).collect();
        assert!(begins.iter().all(|begin| *begin == begins[0]), "{begins:?}");
    }
}

#[test]
fn km3net_files_of_two_runs_are_refused() {
    let Some(folder) = data("km3net_orca") else { return };
    let files = ["events_sample.root", "km3net_online.root"].map(|name| folder.join(name));
    let Some(error) = common::refused_or_skip(Format::Km3net, &files) else { return };
    assert!(error.contains("6884") && error.contains("6633"), "{error}");
}

#[test]
fn lst1_is_imported_exactly() {
    let Some(folder) = data("lst1") else { return };
    let file = folder.join("LST-1.1.Run02008.0000_first50.fits.fz");
    let Some(imported) = import_or_skip(Format::Lst1, &[file]) else { return };
    let rows = truth(&folder.join("truth/truth.csv.gz"));
    imported.assert_is_exactly(rows.iter().map(|row| Truth {
        event: row.number("event_id"),
        source: row.number("module_id"),
        bytes: row.number("waveform_bytes"),
        crc32: row.hex("crc32_waveform"),
    }));

    let report = &imported.report;
    assert_eq!((report.run, report.sources, report.events), (2008, 265, 50));
    assert_eq!((report.events_incomplete, report.fragments_repeated), (0, 0));
    // A fragment's time is its module's own clock, with the tick by which some modules differ.
    for row in &rows {
        let (event, source) = (row.number("event_id"), row.number("module_id"));
        let expected =
            1_000_000_000 * row.number::<u64>("trigger_s") + 100 * row.number::<u64>("tenMHz_counter");
        assert_eq!(imported.fragment(source, event).time_ns, expected, "module {source}, event {event}");
    }
}

/// Imports one SDHCAL file and compares it with its true values. In 2012 the columns w1 to w5 are not the readout's:
/// the readout is the event, and the source is not in it.
fn sdhcal(file: &str, run: u32, sources: u64, events: u64, source_is_in_truth: bool) -> Option<Imported> {
    let folder = data("sdhcal")?;
    let imported = import_or_skip(Format::Sdhcal, &[folder.join(file)])?;
    let mut rows = truth(&folder.join("truth/truth.csv.gz"));
    rows.retain(|row| row.text("file") == file);
    if source_is_in_truth {
        imported.assert_is_exactly(rows.iter().map(|row| Truth {
            event: row.number("w1"),
            source: row.number("w4_source"),
            bytes: row.number("object_bytes"),
            crc32: row.hex("crc32_object_LE"),
        }));
    } else {
        imported.assert_has_exactly_the_payloads(rows.iter().map(|row| {
            let bytes: u64 = row.number("object_bytes");
            (row.number("event"), bytes, row.hex("crc32_object_LE"))
        }));
    }
    let report = &imported.report;
    assert_eq!((report.run, report.sources, report.events), (run, sources, events));
    assert_eq!((report.events_incomplete, report.fragments_repeated), (0, 0));
    assert_eq!(report.fragments, sources * events);
    Some(imported)
}

#[test]
fn sdhcal_2014_is_imported_exactly() {
    sdhcal("SPS_Dec2014_DHCAL_726353_I0_0_1event.slcio", 726_353, 152, 1, true);
}

#[test]
fn sdhcal_2015_is_imported_exactly() {
    sdhcal("SPS_2015_CMS_DHCAL_728753_I0_0_4readouts.slcio", 728_753, 7, 4, true);
}

#[test]
fn sdhcal_2012_is_imported_exactly() {
    let file = "SPS_May2012_DHCAL_714402_I0_0_3events.slcio";
    let Some(imported) = sdhcal(file, 714_402, 150, 3, false) else { return };
    // 149 readout boards under their own ids, and the trigger's block.
    let trigger: Vec<u32> = imported.sources.keys().copied().filter(|source| *source > 255).collect();
    assert_eq!(trigger, [65_536]);
}

#[test]
fn sdhcal_files_of_two_runs_are_refused() {
    let Some(folder) = data("sdhcal") else { return };
    let files =
        ["SPS_Dec2014_DHCAL_726353_I0_0_1event.slcio", "SPS_2015_CMS_DHCAL_728753_I0_0_4readouts.slcio"];
    let error = common::refused_or_skip(Format::Sdhcal, &files.map(|name| folder.join(name)));
    let error = error.expect("this format needs nothing");
    assert!(error.contains("726353") && error.contains("728753"), "{error}");
}

#[test]
fn sdhcal_files_with_damage_are_read_as_far_as_they_go() {
    let Some(folder) = data("sdhcal") else { return };
    let good = std::fs::read(folder.join("SPS_2015_CMS_DHCAL_728753_I0_0_4readouts.slcio")).unwrap();
    assert_eq!(sheaf_import::fuzz_slcio(&good), 28);
    // A step that is prime to the file's structure reaches headers, names and compressed data alike.
    for position in (0..good.len()).step_by(97) {
        let mut damaged = good.clone();
        damaged[position] ^= 1 << (position % 8);
        assert!(sheaf_import::fuzz_slcio(&damaged) <= 28);
        assert!(sheaf_import::fuzz_slcio(&good[..position]) <= 28);
    }
}
