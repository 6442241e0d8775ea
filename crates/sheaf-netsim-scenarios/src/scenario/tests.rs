use super::*;
use crate::scenario::keys::{KEYS, TABLES};
use crate::scenario::schema::Standard;
use crate::scenario::value::{Shape, Value};
use proptest::prelude::*;
use sheaf_netsim::scenario::{Placement, Switching, Topology, TrafficModel};

fn parse(text: &str) -> Result<ScenarioFile, ConfigErrors> {
    ScenarioFile::parse(text, "test.toml", "test", Path::new(""), Overrides::default())
}

/// The errors of a text must be this one, as rendered.
#[track_caller]
fn says(text: &str, expected: &str) {
    let errors = parse(text).expect_err("this scenario is wrong");
    assert_eq!(errors.to_string(), expected.trim_start_matches('\n').trim_end(), "as rendered:\n{errors}");
}

#[test]
fn a_crossbar_needs_one_key_beside_its_kind() {
    let file = parse("[topology]\nkind = \"crossbar\"\nports = 4\n").unwrap();
    assert_eq!((file.name.as_str(), file.points.len()), ("test", 1));
    let scenario = &file.points[0].scenario;
    assert_eq!(scenario.topology, Topology::Crossbar { ports: 4 });
    assert_eq!(scenario.switching, Switching::Wormhole { buffer_bytes: 0 });
}

#[test]
fn lists_make_every_combination_and_the_last_one_changes_fastest() {
    let text = "seed = [1, 2]\n[topology]\nkind = \"delta\"\nradix = [2, 4, 8]\nstages = 2\n";
    let file = parse(text).unwrap();
    let settings: Vec<String> = file
        .points
        .iter()
        .map(|point| point.settings.iter().map(|(key, value)| format!("{key}={value} ")).collect::<String>())
        .collect();
    assert_eq!(
        file.axes.iter().map(|axis| axis.key.as_str()).collect::<Vec<_>>(),
        ["seed", "topology.radix"]
    );
    assert_eq!(settings[0], "seed=1 topology.radix=2 ");
    assert_eq!(settings[1], "seed=1 topology.radix=4 ");
    assert_eq!(settings[5], "seed=2 topology.radix=8 ");
    assert_eq!(file.points[5].scenario.seed, 2);
}

#[test]
fn a_swept_key_that_does_not_matter_does_not_multiply() {
    let text = "[topology]\nkind = [\"delta\", \"layered\"]\nradix = 2\nstages = 3\nspreading = [1, 2]\n";
    let file = parse(text).unwrap();
    assert_eq!(file.points.len(), 3, "one delta network, two layered ones");
    assert_eq!(file.points[0].settings, [("topology.kind".to_owned(), "delta".to_owned())]);
}

#[test]
fn a_seed_of_the_command_line_replaces_those_of_the_file() {
    let text = "seed = [1, 2]\n[topology]\nkind = \"crossbar\"\nports = 4\n";
    let overrides = Overrides { seed: Some(77) };
    let file = ScenarioFile::parse(text, "test.toml", "test", Path::new(""), overrides).unwrap();
    assert_eq!(file.points.len(), 1);
    assert_eq!(file.points[0].scenario.seed, 77);
}

#[test]
fn lists_that_are_values_are_no_sweeps_and_lists_of_them_are() {
    let text = "[topology]\nkind = \"delta\"\nradix = 2\nstages = 2\ndigits = \"listed\"\n";
    assert_eq!(parse(&format!("{text}digit_list = [1, 0]\n")).unwrap().points.len(), 1);
    assert_eq!(parse(&format!("{text}digit_list = [[1, 0], [0, 1]]\n")).unwrap().points.len(), 2);
}

#[test]
fn a_misspelt_key_is_told_with_its_line_and_its_meaning() {
    says(
        "[topology]\nkind = \"delta\"\nradx = 4\nstages = 2\n",
        "
error: there is no key `radx` in [topology]
  --> test.toml:3:1
   |
 3 | radx = 4
   | ^^^^
   = help: did you mean `radix`?",
    );
}

#[test]
fn a_wrong_word_is_told_with_the_right_ones() {
    says(
        "[topology]\nkind = \"crossbar\"\nports = 4\n[switching]\narbiter = \"lottery\"\n",
        "
error: `switching.arbiter` is the text \"lottery\"
  --> test.toml:5:11
   |
 5 | arbiter = \"lottery\"
   |           ^^^^^^^^^
   = help: it must be \"random\", \"round_robin\", \"first_come\" or \"priority\"",
    );
}

#[test]
fn a_wrong_value_inside_a_sweep_is_pointed_at() {
    says(
        "[topology]\nkind = \"crossbar\"\nports = [4, 0, 16]\n",
        "
error: `topology.ports` is 0
  --> test.toml:3:13
   |
 3 | ports = [4, 0, 16]
   |             ^
   = help: it must be an integer from 1 to 65536",
    );
}

#[test]
fn a_key_that_is_missing_is_asked_for_where_its_kind_is() {
    says(
        "[topology]\nkind = \"delta\"\nradix = 4\n",
        "
error: `topology.stages` is not set, and topology.kind = \"delta\" needs it
  --> test.toml:2:8
   |
 2 | kind = \"delta\"
   |        ^^^^^^^
   = help: write `stages = ...` in [topology]: an integer from 1 to 16",
    );
}

#[test]
fn a_key_without_effect_is_an_error() {
    says(
        "[topology]\nkind = \"crossbar\"\nports = 4\nstages = 3\n",
        "
error: `topology.stages` has no effect with topology.kind = \"crossbar\"
  --> test.toml:4:1
   |
 4 | stages = 3
   | ^^^^^^
   = help: leave it out; it belongs to topology.kind = \"delta\", \"layered\"",
    );
}

#[test]
fn two_values_that_do_not_go_together_are_told_at_one_of_them() {
    says(
        "[topology]\nkind = \"crossbar\"\nports = 4\n[traffic]\nkind = \"push\"\n[placement]\nkind = \"apart\"\n\
         readouts = 3\nbuilders = 2\n",
        "
error: 3 sources and 2 builders do not fit 4 endpoints
  --> test.toml:8:12
   |
 8 | readouts = 3
   |            ^
   = help: together at most as many as the topology has endpoints",
    );
}

#[test]
fn two_ends_of_a_run_are_one_too_many() {
    let text = "[topology]\nkind = \"crossbar\"\nports = 4\n[run]\ntime_us = 3\nmessages_per_sender = 4\n";
    let errors = parse(text).unwrap_err();
    assert_eq!(errors.errors()[0].key, "run.messages_per_sender");
}

#[test]
fn a_network_that_no_laptop_holds_is_refused_and_not_built() {
    let errors = parse("[topology]\nkind = \"delta\"\nradix = 1024\nstages = 16\n").unwrap_err();
    assert_eq!(errors.errors().len(), 1);
    assert!(errors.to_string().contains("at most 65536 endpoints"), "{errors}");
}

#[test]
fn so_many_points_are_refused_before_they_are_made() {
    let numbers: Vec<String> = (1..=200).map(|number: u32| number.to_string()).collect();
    let list = numbers.join(", ");
    let text = format!("seed = [{list}]\n[topology]\nkind = \"crossbar\"\nports = [{list}]\n");
    let errors = parse(&text).unwrap_err();
    assert_eq!(errors.errors()[0].kind, ErrorKind::TooLarge);
}

#[test]
fn a_wiring_is_read_from_its_file_and_its_errors_tell_the_line() {
    let directory = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(directory.path().join("wires"), text).unwrap();
    let text = "[topology]\nkind = \"table\"\nfile = \"wires\"\n";
    let load = || ScenarioFile::parse(text, "test.toml", "test", directory.path(), Overrides::default());

    write("# two hosts\ne0 -- s0\ne1 -> s0 10\ns0 -> e1\n");
    let Topology::Table(table) = load().unwrap().points[0].scenario.topology.clone() else {
        panic!("a table was asked for");
    };
    assert_eq!((table.endpoints, table.switches, table.links.len()), (2, 1, 4));

    for (wrong, expected) in [
        ("e0 -- s0\ne1 s0\n", "line 2"),
        ("e0 -- q0\n", "line 1"),
        ("e0 -- s0 fast\n", "Gbit/s"),
        ("e0 -- e1\n", "from endpoint 0 to endpoint 1"),
        ("e1 -- s0\n", "endpoint 0"),
        ("e0 -- s0\ne0 -- s1\ns0 -- s1\ne1 -- s1\n", "several links from endpoint 0"),
        ("e0 -- s0\ne1 -- s1\n", "no way"),
        ("e0 -> s0\n", "no link from endpoint 0"),
        ("", "no endpoints"),
    ] {
        write(wrong);
        let error = load().unwrap_err();
        assert!(error.to_string().contains(expected), "{wrong:?}: {error}");
        assert_eq!(error.errors()[0].line(), Some(3));
    }
}

#[test]
fn faults_are_a_list_of_tables() {
    let text = "[topology]\nkind = \"crossbar\"\nports = 4\n[[fault]]\nkind = \"slow_receiver\"\nendpoint = 1\n\
                factor = 0.5\nfrom_us = 10\nuntil_us = 20\n[[fault]]\nkind = \"frame_loss\"\nprobability = [0, 0.1]\n";
    let file = parse(text).unwrap();
    assert_eq!(file.points.len(), 2);
    assert_eq!(file.points[1].scenario.faults.len(), 2);
    let wrong = text.replace("endpoint = 1", "endpoint = 9");
    assert!(parse(&wrong).unwrap_err().to_string().contains("there is no endpoint 9"));
    let wrong = text.replace("until_us = 20", "until_us = 5");
    assert!(parse(&wrong).unwrap_err().to_string().contains("ends before it begins"));
}

#[test]
fn placements_say_who_is_a_source_and_who_a_builder() {
    let text = "[topology]\nkind = \"folded_clos\"\nleaves = 25\nports = 40\nspines = 20\n[traffic]\nkind = \"push\"\n\
                [placement]\nkind = \"grouped\"\ngroup = 40\nreadouts = 20\nbuilders = 20\n";
    let file = parse(text).unwrap();
    let TrafficModel::Push(events, window) = &file.points[0].scenario.traffic else {
        panic!("push was asked for");
    };
    assert!(matches!(events.placement, Placement::Grouped { readouts: 20, builders: 20, .. }));
    assert_eq!(window.events, 500, "one event for each builder");
}

/// A text for one value that the key accepts.
fn sample(key: &schema::Key) -> String {
    match key.shape {
        Shape::Whole(least, most) => least.max(2).min(most).to_string(),
        Shape::Number(least, most) => format!("{:?}", least.max(0.5).min(most)),
        Shape::Word(words) => format!("\"{}\"", words[0].0),
        Shape::Text => "\"x\"".into(),
        Shape::Switch => "true".into(),
        Shape::Wholes(_) => "[0, 1]".into(),
    }
}

#[test]
fn every_key_is_asked_for_by_some_scenario() {
    // Asked for: where nothing else is wrong, nobody says that it has no effect.
    let of_slots = ["traffic.block_bytes", "traffic.guard_ns", "traffic.synchronised"];
    let extra = |path: &str, kind: &str| match path {
        path if kind == "roles" && of_slots.contains(&path) => "shaping = \"barrel\"\n",
        "topology.digit_list" => "digits = \"listed\"\n",
        "switching.window" => "queue = \"window\"\n",
        "switching.iterations" => "queue = \"virtual_output\"\n",
        "traffic.rms_bytes" => "size = \"normal\"\n",
        "traffic.min_bytes" => "size = \"uniform\"\nmax_bytes = 9\n",
        "traffic.max_bytes" => "size = \"uniform\"\nmin_bytes = 1\n",
        "traffic.guard_ns" => "slot_ns = 9\n",
        "switching.output_bytes" => "buffer_bytes = 9\n",
        _ => "",
    };
    for key in KEYS {
        let path = key.path();
        let kinds: &[&str] = if key.only.is_empty() { &[""] } else { key.only };
        for kind in kinds {
            let mut tables: Vec<String> = TABLES.iter().map(|table| table.name.to_owned()).collect();
            tables.retain(|table| table != "fault" || key.table == "fault");
            let mut text =
                if key.table == "flits" { "fidelity = \"flit\"\n".to_owned() } else { String::new() };
            for table in &tables {
                if !table.is_empty() {
                    let (open, close) = if table == "fault" { ("[[", "]]") } else { ("[", "]") };
                    text.push_str(&format!("{open}{table}{close}\n"));
                }
                let but = if table == key.table { key.name } else { "" };
                let chosen = match table.as_str() {
                    table if table == key.table => kind,
                    "traffic" if key.table == "placement" => "push",
                    _ => "",
                };
                text.push_str(&required(table, chosen, but, extra(&path, kind)));
                if *table == key.table {
                    text.push_str(extra(&path, kind));
                    text.push_str(&format!("{} = {}\n", key.name, sample(key)));
                }
            }
            if let Err(errors) = parse(&text) {
                let unused = format!("`{}` has no effect", path.replace("fault.", "fault[0]."));
                assert!(!errors.to_string().contains(&unused), "{path}: {errors}\n{text}");
                let missing = errors.errors().iter().any(|error| error.kind == ErrorKind::Missing);
                assert!(!missing, "{path} cannot be judged: {errors}\n{text}");
            }
        }
    }
}

/// The keys that a table cannot do without, but the one called `but` and those in `extra`.
fn required(table: &str, kind: &str, but: &str, extra: &str) -> String {
    let mut text = String::new();
    let mut chosen = kind.to_owned();
    for key in keys::keys_of(table) {
        if key.name == "kind" {
            let Shape::Word(words) = key.shape else { panic!("a kind is a word") };
            chosen = if kind.is_empty() { words[0].0.to_owned() } else { kind.to_owned() };
            if but != "kind" {
                text.push_str(&format!("kind = \"{chosen}\"\n"));
            }
        }
        let is_conditional = ["digit_list", "rms_bytes", "min_bytes", "max_bytes"].contains(&key.name);
        let is_used = key.only.is_empty() || key.only.contains(&chosen.as_str());
        let is_there = key.name == but || key.name == "kind" || extra.contains(&format!("{} =", key.name));
        if key.standard == Standard::Required && is_used && !is_conditional && !is_there {
            text.push_str(&format!("{} = {}\n", key.name, sample(key)));
        }
    }
    text
}

#[test]
fn defaults_are_within_their_limits() {
    for key in KEYS {
        let Standard::Is(value) = &key.standard else { continue };
        let good = match (key.shape, value) {
            (Shape::Whole(least, most), Value::Whole(number)) => (least..=most).contains(number),
            (Shape::Number(least, most), Value::Number(number)) => (least..=most).contains(number),
            (Shape::Word(words), Value::Word(word)) => words.iter().any(|(known, _)| known == word),
            (Shape::Switch, Value::Switch(_)) => true,
            _ => false,
        };
        assert!(good, "{}", key.path());
    }
    for key in KEYS.iter().filter(|key| !key.only.is_empty()) {
        let kind = keys::find(&format!("{}.kind", key.table)).unwrap();
        let Shape::Word(words) = kind.shape else { panic!("a kind is a word") };
        assert!(key.only.iter().all(|only| words.iter().any(|(word, _)| word == only)), "{}", key.path());
    }
}

#[test]
fn the_reference_page_is_what_the_definitions_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/scenario.md");
    let page = reference_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reference/scenario.md is out of date: run `cargo xtask docs`");
}

/// Pieces of which texts are made that are nearly scenarios.
fn pieces() -> impl Strategy<Value = String> {
    let keys = proptest::sample::select(KEYS.iter().map(|key| key.name.to_owned()).collect::<Vec<_>>());
    let values = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}")),
        proptest::sample::select(
            KEYS.iter()
                .filter_map(|key| match key.shape {
                    Shape::Word(words) => Some(words.iter().map(|(word, _)| format!("\"{word}\""))),
                    _ => None,
                })
                .flatten()
                .collect::<Vec<_>>()
        ),
        Just("[1, 2, 3]".to_owned()),
        Just("[[0, 1], [1, 0]]".to_owned()),
        Just("{ a = 1 }".to_owned()),
        Just("2024-01-01".to_owned()),
        Just("true".to_owned()),
        (0_u64..100).prop_map(|number| number.to_string()),
    ];
    let tables =
        proptest::sample::select(TABLES.iter().map(|table| table.name.to_owned()).collect::<Vec<_>>());
    prop_oneof![
        4 => (keys, values).prop_map(|(key, value)| format!("{key} = {value}\n")),
        1 => tables.clone().prop_map(|table| format!("[{table}]\n")),
        1 => tables.prop_map(|table| format!("[[{table}]]\n")),
    ]
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(400))]

    #[test]
    fn no_text_panics_and_every_error_has_a_place_and_a_remedy(parts in proptest::collection::vec(pieces(), 0..24)) {
        check(&parts.concat());
    }

    #[test]
    fn no_damage_to_a_good_scenario_panics(cut in any::<proptest::sample::Index>(), with in ".{0,4}") {
        let text = "seed = [1, 2]\n[topology]\nkind = \"layered\"\nradix = 8\nstages = 3\nspreading = 1\n\
                    [traffic]\nkind = \"barrel\"\nsize = \"normal\"\nbytes = 2048\nrms_bytes = 200\nslot_ns = 300\n";
        let at = cut.index(text.len());
        check(&format!("{}{with}{}", &text[..at], &text[at + 1..]));
    }
}

fn check(text: &str) {
    match parse(text) {
        Ok(file) => assert!(!file.points.is_empty()),
        Err(errors) => {
            let lines = text.lines().count().max(1);
            for error in errors.errors() {
                assert!(error.line().is_none_or(|line| (1..=lines).contains(&line)), "{error}");
                assert!(!error.right.is_empty() && !error.found.is_empty(), "{error}");
            }
        }
    }
}
