//! Detector data that front ends send while a run takes them. The front ends are a Python program that knows nothing of Sheaf but the
//! format of fragment streams; the run knows their packets from its configuration only.

use crate::child::{ScratchDirectory, wait_until};
use crate::numbering::assert_files_have_shifts;
use crate::output::{Line, assert_books_match_files, directory, dump, number};
use crate::real_data::{crc, data, import, truth, value};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The packets of `front_ends/recorded.py`.
const PACKETS: &str = "
protocol = \"tcp\"
magic = [\"5eaf at 0\"]
length = \"u32 at 2\"
source = \"u16 at 6\"
event = \"u64 at 8\"
end_on_close = true
";

/// Size and CRC-32 of the payload of each fragment, by number of the event and of the source.
type Parts = BTreeMap<(u64, u32), (u64, u32)>;

/// The front ends of all sources.
struct FrontEnds {
    child: Child,
    address: String,
}

impl FrontEnds {
    /// Starts them and waits until they listen.
    fn start(scratch: &ScratchDirectory, options: &str) -> Self {
        let python = std::env::var("SHEAF_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/front_ends/recorded.py");
        let printed = scratch.join("address");
        let child = Command::new(&python)
            .arg(program)
            .args([scratch.join("streams").to_str().expect("the path is text"), "127.0.0.1:0"])
            .args(options.split_whitespace())
            .stdout(Stdio::from(File::create(&printed).expect("the directory is writable")))
            .spawn()
            .expect("Python has imported the data");
        let mut address = String::new();
        wait_until("the front ends listen", || {
            address = fs::read_to_string(&printed).expect("it is there");
            address.ends_with('\n')
        });
        Self { child, address: address.trim_end().to_owned() }
    }

    fn end(mut self) {
        assert!(self.child.wait().expect("it was started").success(), "the front ends have sent all");
    }
}

/// Writes the configuration of a run with so many sources.
fn configure(scratch: &ScratchDirectory, front_ends: &FrontEnds, sources: usize, more: &str) {
    let address = &front_ends.address;
    scratch.file(
        "run.toml",
        &format!(
            "[source]\nkind = \"stream\"\ncount = {sources}\nmemory_bytes = 262144\nblock_bytes = 32768\n\
             [incomplete]\npolicy = \"wait\"\n[builder]\ncount = 3\n{more}\
             [source.stream]\nconnect = [\"{address}\"]\n{PACKETS}"
        ),
    );
}

/// Builds what the front ends send. Every fragment must agree with the reference data.
fn build_live(scratch: &ScratchDirectory, options: &str, expected: &[(u64, u32, u64, u32)]) {
    let mut sources: Vec<u32> = expected.iter().map(|(_, source, ..)| *source).collect();
    sources.sort_unstable();
    sources.dedup();
    let place_of = |source: u32| sources.binary_search(&source).expect("it is one of them") as u32;
    let expected: Parts = expected
        .iter()
        .map(|(event, source, bytes, crc)| ((*event, place_of(*source)), (*bytes, *crc)))
        .collect();
    let front_ends = FrontEnds::start(scratch, options);
    configure(scratch, &front_ends, sources.len(), "");
    let summary = scratch.sheaf("run run.toml --processes --json").exits(0).json();
    front_ends.end();
    assert_books_match_files(scratch, &summary);
    assert_same(&dump(&directory(scratch, &summary)), &expected);
}

fn assert_same(lines: &[Line], expected: &Parts) {
    assert!(!expected.is_empty(), "the truth is empty");
    assert_eq!(lines.len(), expected.len());
    for line in lines {
        let found = (line.bytes, line.crc32);
        assert_eq!(Some(&found), expected.get(&(line.event, line.source)), "{line:?}");
    }
}

/// Event, source, size and CRC-32 of the fragments of the telescope camera.
fn camera(folder: &Path) -> Vec<(u64, u32, u64, u32)> {
    let rows = truth(&folder.join("truth/truth.csv.gz"));
    let parts = rows.iter().map(|row| {
        let (event, source) = (value(row, "event_id"), value(row, "module_id") as u32);
        (event, source, value(row, "waveform_bytes"), crc(row, "crc32_waveform"))
    });
    parts.collect()
}

const CAMERA: &str = "LST-1.1.Run02008.0000_first50.fits.fz";

#[test]
fn a_telescope_camera_that_sends_at_full_speed_is_built_exactly() {
    let Some(folder) = data("lst1") else { return };
    let scratch = ScratchDirectory::new();
    if import(&scratch, "lst1", &folder.join(CAMERA)).is_some() {
        build_live(&scratch, "", &camera(&folder));
    }
}

#[test]
fn a_neutrino_telescope_that_sends_at_recorded_speed_is_built_exactly() {
    let Some(folder) = data("km3net_orca") else { return };
    let scratch = ScratchDirectory::new();
    if import(&scratch, "km3net", &folder.join("km3net_online.root")).is_some() {
        let rows = truth(&folder.join("truth/truth_km3net_online_L1.csv.gz"));
        let expected: Vec<_> = rows
            .iter()
            .map(|row| {
                let (event, source) = (value(row, "frame_index"), value(row, "dom_id") as u32);
                (event, source, 6 * value(row, "nhits"), crc(row, "crc32_hits_pmt_tdcLE_tot"))
            })
            .collect();
        build_live(&scratch, "--recorded-speed", &expected);
    }
}

#[test]
fn a_calorimeter_that_sends_at_full_speed_is_built_exactly() {
    const FILE: &str = "SPS_2015_CMS_DHCAL_728753_I0_0_4readouts.slcio";
    let Some(folder) = data("sdhcal") else { return };
    let scratch = ScratchDirectory::new();
    import(&scratch, "sdhcal", &folder.join(FILE)).expect("this format needs nothing");
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: the front ends need python3");
        return;
    }
    let rows = truth(&folder.join("truth/truth.csv.gz"));
    let rows = rows.iter().filter(|row| row["file"] == FILE);
    let expected: Vec<_> = rows
        .map(|row| {
            let (event, source) = (value(row, "w1"), value(row, "w4_source") as u32);
            (event, source, value(row, "object_bytes"), crc(row, "crc32_object_LE"))
        })
        .collect();
    build_live(&scratch, "", &expected);
}

/// Number of times that the 50 events of the camera are sent, the module that misses a trigger, and this trigger.
const PASSES: u64 = 12;
const FAULTY: u32 = 77;
const MISSED: u64 = 100;

/// Returns the fragments that the front ends send for each trigger: the number that the experiment gave the event, and the recorded
/// payload.
fn sent(recorded: &[(u64, u32, u64, u32)]) -> Vec<BTreeMap<u32, (u64, u32)>> {
    let mut events: BTreeMap<u64, BTreeMap<u32, (u64, u32)>> = BTreeMap::new();
    for (event, source, bytes, crc) in recorded {
        events.entry(*event).or_default().insert(*source, (*bytes, *crc));
    }
    let stride = events.keys().next_back().expect("there are events") + 1;
    let with_number = |number: u64, (bytes, crc): (u64, u32)| {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&number.to_be_bytes());
        hasher.combine(&crc32fast::Hasher::new_with_initial_len(crc, bytes));
        (bytes + 8, hasher.finalize())
    };
    let parts = |number: u64, parts: &BTreeMap<u32, (u64, u32)>| {
        parts.iter().map(|(source, part)| (*source, with_number(number, *part))).collect()
    };
    let passes =
        (0..PASSES).flat_map(|pass| events.iter().map(move |(event, of)| (event + pass * stride, of)));
    passes.map(|(number, of)| parts(number, of)).collect()
}

/// A module of a recorded camera misses a trigger and counts on. Its shift begins there, and is repaired: before and after it, each
/// recorded fragment is in its event.
#[test]
fn a_module_of_a_recorded_camera_that_misses_a_trigger_is_found_and_repaired() {
    let Some(folder) = data("lst1") else { return };
    let scratch = ScratchDirectory::new();
    if import(&scratch, "lst1", &folder.join(CAMERA)).is_none() {
        return;
    }
    let sent = sent(&camera(&folder));
    let (sources, triggers) = (sent[0].len(), sent.len() as u64);
    let options = format!("--passes {PASSES} --count-triggers --miss {FAULTY}:{MISSED}");
    let front_ends = FrontEnds::start(&scratch, &options);
    let check =
        "[check]\non_shift = \"repair\"\nreference = 0\n[check_fields.number]\nvalue = \"u64 at 0\"\n";
    configure(&scratch, &front_ends, sources, check);
    let summary = scratch.sheaf("run run.toml --processes --json").exits(3).json();
    front_ends.end();
    assert_books_match_files(&scratch, &summary);
    let shifts = summary["ledger"]["shifts"].as_array().expect("a list of shifts");
    let [shift] = &shifts[..] else { panic!("one shift: {shifts:?}") };
    assert_eq!((number(shift, "source"), number(shift, "first_event")), (FAULTY.into(), MISSED));
    assert_eq!(shift["shift"], json!(1));
    assert_files_have_shifts(&scratch, &summary, "repair");
    let repaired = number(shift, "repaired_from_event");
    assert!((MISSED..triggers).contains(&repaired), "{shift}");

    let lines = dump(&directory(&scratch, &summary));
    for line in &lines {
        let is_off = line.source == FAULTY && (MISSED..repaired).contains(&line.event);
        let event = if is_off { line.event + 1 } else { line.event };
        let found = (line.bytes, line.crc32);
        assert_eq!(Some(&found), sent[event as usize].get(&line.source), "{line:?}, {shift}");
    }
    // The trigger that it missed is replaced by the next one, and the event before the repaired ones lacks a fragment.
    assert_eq!(lines.len() as u64, sources as u64 * triggers - 1);
}
