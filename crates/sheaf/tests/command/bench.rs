//! `sheaf bench`: its output, and that nothing is lost. Speed is not tested.

use crate::child::ScratchDirectory;
use crate::output::{field, number};
use serde_json::Value;

/// Options that keep tests short but let events be built.
const SHORT: &str = "--seconds 0.15 --repeat 2 --json";

fn points(report: &Value) -> Vec<&Value> {
    let curves = field(report, "curves").as_array().unwrap();
    curves.iter().flat_map(|curve| curve["points"].as_array().unwrap()).collect()
}

fn positive(value: &Value, names: &[&str]) {
    for name in names {
        let found = field(value, name).as_f64();
        assert!(found.is_some_and(|found| found > 0.0), "{name} is {found:?} in {value}");
    }
}

#[test]
fn the_event_builder_has_all_its_figures() {
    let scratch = ScratchDirectory::new();
    for kind in ["", "--processes", "--transport tcp --payload descriptor"] {
        let arguments =
            format!("bench builder --readouts 2 --builders 1 --size 2048 --baseline {kind} {SHORT}");
        let report = scratch.sheaf(&arguments).exits(0).json();
        positive(
            &report,
            &[
                "fragments_per_second",
                "events_per_second",
                "bytes_per_second",
                "latency_ns.p50",
                "latency_ns.p99",
                "latency_ns.max",
                "cpu_seconds",
                "limit_bytes_per_second",
                "fraction_of_limit",
            ],
        );
        assert_eq!(number(&report, "events_incomplete"), 0, "{kind}");
        assert_eq!(field(&report, "curves").as_array().unwrap().len(), 1);
        assert_eq!(field(&report, "interrupted"), false);
    }
    assert!(!scratch.join("runs").exists(), "a measurement leaves nothing behind");
}

#[test]
fn storing_is_measured_beside_plain_writes_for_every_kind_of_durability() {
    let scratch = ScratchDirectory::new();
    let report = scratch.sheaf("bench store . --megabytes 1 --repeat 2 --json").exits(0).json();
    let names = ["bytes_per_second", "plain_bytes_per_second", "fraction_of_plain", "read_bytes_per_second"];
    let points = points(&report);
    assert_eq!(points.len(), 4);
    points.into_iter().for_each(|point| positive(point, &names));
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a measurement leaves nothing behind");
    scratch.sheaf("bench store no/such/directory").exits(1).says(&["no/such/directory"]);
    scratch.sheaf("bench store --sync always").exits(2).says(&["fsync-at-end"]);
}

#[test]
fn programs_that_feed_a_run_are_measured_beside_the_machine_and_beside_emulated_sources() {
    let scratch = ScratchDirectory::new();
    let report =
        scratch.sheaf(&format!("bench feed --size 256 --batch 1,64 --no-keep {SHORT}")).exits(0).json();
    let curves = field(&report, "curves").as_array().unwrap();
    let of = |curve: &Value| (field(curve, "part").clone(), field(curve, "transport").clone());
    let link = |transport: &str| (Value::from("link"), Value::from(transport));
    let expected = [link("shm"), link("tcp"), ("builder".into(), "shm".into())];
    assert_eq!(curves.iter().step_by(2).map(of).collect::<Vec<_>>(), expected);
    for curve in curves {
        let beside = match field(curve, "part").as_str() {
            Some("link") => ["limit_bytes_per_second", "fraction_of_limit"],
            _ => ["emulated_fragments_per_second", "fraction_of_emulated"],
        };
        let point = &curve["points"][0];
        positive(point, &["fragments_per_second", "bytes_per_second"]);
        positive(point, &beside);
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a measurement leaves nothing behind");
}

#[test]
fn a_program_that_does_not_feed_the_measurement_ends_it() {
    let scratch = ScratchDirectory::new();
    let line = "bench feed --part link,builder --transport shm --size 64 --batch 1 --client false --repeat 1";
    scratch.sheaf(line).exits(1).says(&["no program has connected"]);
    let line = line.replace("link,builder", "builder");
    scratch
        .sheaf(&line)
        .exits(1)
        .says(&["a program that feeds the measurement has failed", "exit status: 1"]);
}

#[test]
fn one_run_of_fixed_sizes_has_whole_events() {
    let scratch = ScratchDirectory::new();
    let arguments = "bench builder --readouts 3 --builders 2 --size 512 --seconds 0.15 --repeat 1 --json";
    let report = scratch.sheaf(arguments).exits(0).json();
    assert_eq!(number(&report, "fragments"), 3 * number(&report, "events"));
    let bytes = field(&report, "bytes_per_second").as_f64().unwrap();
    let fragments = field(&report, "fragments_per_second").as_f64().unwrap();
    assert!((bytes / fragments - 512.0).abs() < 1e-6, "{bytes} {fragments}");
}

#[test]
fn a_configuration_is_measured_as_it_is_or_refused() {
    let scratch = ScratchDirectory::new();
    let line = format!("bench builder --readouts 1 --builders 1 --size 64 {SHORT} --config run.toml");
    let with = |text: &str| {
        std::fs::write(scratch.join("run.toml"), text).unwrap();
        scratch.sheaf(&line)
    };
    // Both sources have the fill byte as their number, so that all agree.
    let compared = "[source]\ncount = 2\n[readout]\ncount = 1\n[check_fields.trigger]\nvalue = \"u8 at 0\"\n";
    let report = with(compared).exits(0).json();
    // A median of two repetitions may be between two numbers.
    let median = |key| points(&report)[0][key].as_f64().expect("a number");
    assert_eq!(median("fragments"), 2.0 * median("events"));
    with("[run]\nevents = 50\n[source.emulated]\ncontent = \"number\"\n").exits(1).says(&[
        "`run.events` is 50, but the measurement sets it to 0",
        "`source.emulated.content` is \"number\", but the measurement sets it to \"fill\"",
    ]);
    with("[readout]\ncount = 3\n").exits(1).says(&["`readout.count` is 3, but the measurement sets it to 1"]);
    with("[output]\nrotate_events = 5\n")
        .exits(1)
        .says(&["`output.rotate_events` has no effect: nothing is stored"]);
    let nodes = ["manager", "readout", "builder"]
        .map(|role| format!("[[node]]\nname = \"{role}\"\nrole = \"{role}\"\n"));
    with(&nodes.concat()).exits(1).says(&["run.toml lists nodes"]);
    with("[source]\nkind = \"feed\"\n").exits(1).says(&["sets the sizes of emulated sources"]);
    with("[check]\non_shift = \"stop\"\n").exits(1).says(&["no value is checked"]);
}

#[test]
fn every_shape_and_spread_of_sizes_is_a_curve_with_a_point_for_every_size() {
    let scratch = ScratchDirectory::new();
    let arguments = format!("bench builder --readouts 1,2 --builders 1,2 --rms 0,1 --size 256,1Ki {SHORT}");
    let report = scratch.sheaf(&arguments).exits(0).json();
    let curves = field(&report, "curves").as_array().unwrap();
    let shape = |curve: &Value| (number(curve, "readouts"), number(curve, "builders"));
    assert_eq!(curves.iter().map(shape).collect::<Vec<_>>(), [(1, 1), (1, 1), (2, 2), (2, 2)]);
    assert_eq!(curves.iter().map(|curve| curve["rms_fraction"].as_f64().unwrap()).sum::<f64>(), 2.0);
    let sizes = |point: &&Value| number(point, "size_bytes");
    assert_eq!(points(&report).iter().map(sizes).collect::<Vec<_>>(), [256, 1024].repeat(4));
}

#[test]
fn links_lose_nothing_in_threads_and_in_processes() {
    let scratch = ScratchDirectory::new();
    for arguments in [
        "stream --size 0,64,2Ki,1Mi",
        "stream --transport tcp --size 2Ki --baseline",
        "mstream --senders 3 --receivers 2 --size 2Ki --processes",
        "mstream --senders 16 --receivers 1 --size 256 --payload descriptor",
        "roundtrip --size 64 --processes",
        "roundtrip --size 64 --processes --transport shm --rate 500",
        "mstream --senders 2 --receivers 2 --size 64,2Ki,1Mi --processes --transport shm",
        "pingpong --size 4,64Ki",
    ] {
        let line = format!("bench {arguments} --warm-up 0.01 --seconds 0.05 --repeat 1 --json");
        let report = scratch.sheaf(&line).exits(0).json();
        let points = points(&report);
        assert!(!points.is_empty(), "{arguments}");
        for point in points {
            let (sent, received) = (number(point, "messages_sent"), number(point, "messages_received"));
            assert!(sent > 0 && sent == received, "{arguments}: {point}");
        }
    }
}

#[test]
fn a_ping_pong_has_a_curve_for_each_placement_and_direction_or_says_why_not() {
    let scratch = ScratchDirectory::new();
    let report = scratch.sheaf("bench pingpong --size 64 --seconds 0.02 --repeat 1 --json").exits(0).json();
    let curves = field(&report, "curves").as_array().unwrap().len();
    let absent = field(&report, "left_out").as_array().unwrap().len();
    assert_eq!(curves + 2 * absent, 6);
}

#[test]
fn memory_has_a_curve_for_each_operation() {
    let scratch = ScratchDirectory::new();
    let line = "bench memory --threads 1,3 --working-set 1Mi --size 2Ki --seconds 0.01 --repeat 2 --json";
    let report = scratch.sheaf(line).exits(0).json();
    let operation =
        |curve: &Value| (curve["operation"].as_str().unwrap().to_owned(), number(curve, "threads"));
    let curves = field(&report, "curves").as_array().unwrap();
    let apart = |threads| ["copy", "read", "fill", "gather"].map(|name| (name.to_owned(), threads));
    let pair = ("handover".to_owned(), 2);
    assert!(curves.iter().map(operation).eq(apart(1).into_iter().chain(apart(3)).chain([pair])));
    assert_eq!(number(&report, "working_set_bytes"), 1 << 20);
    points(&report).into_iter().for_each(|point| positive(point, &["bytes_per_second"]));
}

#[test]
fn the_default_output_is_a_table_and_a_plot() {
    let scratch = ScratchDirectory::new();
    let line =
        "bench stream --size 64,1Ki,16Ki,256Ki --warm-up 0.01 --seconds 0.03 --plot stream.svg --baseline";
    let ended = scratch.sheaf(line).exits(0);
    for word in ["messages/s", "MB/s", "64 B", "256 KiB", "of limit", "fit: time per message"] {
        assert!(ended.stdout.contains(word), "`{word}` is not in:\n{}", ended.stdout);
    }
    let picture = std::fs::read_to_string(scratch.join("stream.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("1 to 1, memory") && picture.contains("limit"));
}

#[test]
fn impossible_settings_are_refused_before_anything_is_measured() {
    let scratch = ScratchDirectory::new();
    for (arguments, code, words) in [
        ("builder --processes --transport memory", 1, &["--transport tcp"][..]),
        ("stream --processes --transport memory", 1, &["--transport tcp"]),
        ("builder --readouts 1,2 --builders 1,2,3", 1, &["--readouts has 2 values", "--builders 3"]),
        ("builder --size 2X", 2, &["2X", "2Ki"]),
        ("stream --transport pigeon", 2, &["pigeon", "memory, tcp, shm"]),
        ("memory --plot nowhere/x.svg", 1, &["nowhere/x.svg", "does not exist"]),
        ("stream --seconds -1", 2, &["seconds"]),
        ("", 2, &["builder"]),
    ] {
        let ended = scratch.sheaf(&format!("bench {arguments}")).exits(code);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        for word in words {
            assert!(said.contains(word), "`{word}` is not in:\n{said}");
        }
    }
}

#[test]
fn a_signal_ends_a_scan_and_its_processes() {
    let scratch = ScratchDirectory::new();
    for line in ["builder --size 64,64", "feed --part builder --size 64 --batch 64"] {
        let measuring = scratch.start(&format!("bench {line} --seconds 1000 --repeat 1 --processes"));
        let manager = measuring.wait_for_node("evm", 0);
        measuring.signal("INT");
        measuring.end().exits(1).says(&["interrupted before anything was measured"]);
        assert!(
            !std::path::Path::new(&format!("/proc/{manager}")).exists(),
            "the event manager ended as well"
        );
    }
}

#[test]
fn workers_of_a_farm_have_their_figures_and_a_filter_takes_the_time_that_it_was_told_to() {
    let scratch = ScratchDirectory::new();
    for kind in ["", "--processes"] {
        let arguments =
            format!("bench farm --workers 2 --filter-us 0,200 --seconds 0.15 --repeat 1 --json {kind}");
        let report = scratch.sheaf(&arguments).exits(0).json();
        let points = points(&report);
        assert_eq!(points.iter().map(|point| number(point, "filter_us")).collect::<Vec<_>>(), [0, 200]);
        for point in &points {
            positive(point, &["events_per_second", "bytes_per_second", "events"]);
            assert!(field(point, "overhead_ns").is_number(), "{point}");
        }
        positive(points[1], &["useful_fraction", "useful_fraction_of_worker_time"]);
        // Two workers with 200 us for an event: no more events than that allows.
        let events = field(points[1], "events_per_second").as_f64().unwrap();
        assert!(events <= 2.0 / 200e-6 * 1.1, "{events} events/s");
    }
    assert!(!scratch.join("runs").exists(), "a measurement leaves nothing behind");
}
