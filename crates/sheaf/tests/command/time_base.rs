//! Unit and epoch of times, from streams and configurations to event files.

use crate::child::ScratchDirectory;
use crate::output::directory;
use crate::streams;
use sheaf_store::fragment_stream::{StreamReader, StreamWriter};
use sheaf_store::run::RunReader;
use sheaf_wire::stream_file::StreamHeader;
use sheaf_wire::{TimeBase, TimeUnit};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

const REPLAY: &str =
    "[run]\noverwrite = true\n[source]\nkind = \"replay\"\nreplay = { directory = \"streams\" }\n";

/// Writes the streams again, with a time base.
fn state(place: &ScratchDirectory, time_base: Option<TimeBase>) {
    for path in streams::paths(&place.join("streams")) {
        let reader = StreamReader::open(&path).unwrap();
        let header = StreamHeader { time_base, ..*reader.header() };
        let fragments: Vec<_> = reader.map(Result::unwrap).collect();
        std::fs::remove_file(&path).unwrap();
        let mut writer = StreamWriter::create(&path, header, "{}").unwrap();
        fragments.iter().for_each(|fragment| writer.append(fragment).unwrap());
        writer.finish().unwrap();
    }
}

/// Runs the configuration, and returns the time base of the event files. All times must be those of the streams.
fn replayed(place: &ScratchDirectory) -> (PathBuf, Option<TimeBase>) {
    let summary = place.sheaf("run run.toml --json").exits(0).json();
    let run = directory(place, &summary);
    let reader = RunReader::open(&run).unwrap();
    let time_base = reader.time_base();
    let mut events = 0;
    for stored in reader {
        let event = stored.unwrap().event;
        let times: Vec<u64> =
            event.fragments.iter().map(|fragment| fragment.time.0).chain([event.time.0]).collect();
        assert_eq!(times, [1_000_000 * event.id.0; 3]);
        events += 1;
    }
    assert_eq!(events, 20);
    (run, time_base)
}

#[test]
fn the_time_base_of_streams_is_that_of_the_event_files() {
    let place = ScratchDirectory::new();
    streams::make(&place.join("streams"), 2, 20);
    place.file("run.toml", REPLAY);
    assert_eq!(replayed(&place).1, None);
    let epoch = "2026-01-01T00:00:00Z";
    let base = TimeBase { unit: TimeUnit::from_fraction(1, 10).unwrap(), epoch: epoch.parse().ok() };
    state(&place, Some(base));
    let (run, time_base) = replayed(&place);
    assert_eq!(time_base, Some(base));
    let run = run.display();
    let shown = place.sheaf(&format!("inspect {run}")).exits(0).stdout;
    assert!(shown.contains("time base        units of 100 ps since 2026-01-01T00:00:00Z\n"), "{shown}");
    assert!(shown.contains("times (units)    0 to 19000000\n"), "{shown}");
    let dumped = place.sheaf(&format!("dump {run}")).exits(0).stdout;
    assert!(dumped.starts_with("event,source,time,bytes,crc32\n"), "{dumped}");
    place.sheaf(&format!("verify {run}")).exits(0);

    place.file("run.toml", &format!("{REPLAY}time_unit = \"1 ns\"\n"));
    place.sheaf("run run.toml").exits(1).says(&["times of 100 ps since 2026", "remove `time_unit`"]);
    place.file("run.toml", &format!("{REPLAY}epoch = \"2025-01-01T00:00:00Z\"\n"));
    place.sheaf("run run.toml").exits(1).says(&["the configuration sets others"]);

    // The configuration adds what the streams do not know.
    state(&place, Some(TimeBase { epoch: None, ..base }));
    place.file("run.toml", &format!("{REPLAY}epoch = \"{epoch}\"\n"));
    assert_eq!(replayed(&place).1, Some(base));
}

#[test]
fn triggers_without_a_time_get_that_of_the_system_in_the_unit_of_the_run() {
    let place = ScratchDirectory::new();
    let sheaf = env!("CARGO_BIN_EXE_sheaf");
    place.file("times.txt", "0\n0\n0\n");
    // Events of windows have the times of their triggers.
    crate::windowed::record(&place.join("streams"));
    let base = TimeBase {
        unit: TimeUnit::from_fraction(100, 1).unwrap(),
        epoch: "2000-01-01T00:00:00Z".parse().ok(),
    };
    state(&place, Some(base));
    let text = format!(
        "{REPLAY}build_by = \"window\"\n\
         [source.timed]\nfront_end = \"described\"\ntimes = \"fragment\"\ntick = \"1 ns\"\n\
         [source.hits]\nrecord_bytes = 4\ntime = \"u32le at 0\"\n[trigger]\nmode = \"command\"\n\
         [trigger.command]\ncommand = [\"{sheaf}\", \"emulate-trigger\", \"--times\", \"times.txt\"]\n"
    );
    place.file("run.toml", &text);
    let system_ns =
        || u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap();
    let before = system_ns();
    // The recording is of another time, so that its hits are not in the windows.
    let summary = place.sheaf("run run.toml --json").exits(3).json();
    let after = system_ns();
    let reader = RunReader::open(&directory(&place, &summary)).unwrap();
    let epoch_ns = 946_684_800_000_000_000;
    let times: Vec<u64> = reader.map(|stored| epoch_ns + 100 * stored.unwrap().event.time.0).collect();
    assert_eq!(times.len(), 3);
    // The clock of a run begins with that of the system, and then goes on steadily.
    let most = 60_000_000_000;
    assert!(times.iter().all(|time| (before - most..after + most).contains(time)), "{times:?}");
}
