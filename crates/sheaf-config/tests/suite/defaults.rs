//! The default, the reference page, and the examples.

use sheaf_config::{Config, MemoryPolicy, reference_page};
use sheaf_wire::SourceId;
use std::path::{Path, PathBuf};

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn nothing_is_the_default_and_the_default_is_valid() {
    let config = Config::parse("", "empty.toml").unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.validate(), Ok(()));
    let names: Vec<String> = config.nodes().unwrap().into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["evm", "ru0", "ru1", "ru2", "ru3", "bu0", "bu1", "bu2", "bu3"]);
}

#[test]
fn a_slow_filter_and_a_slow_preprocessor_are_given_the_same_time() {
    let config = Config::default();
    assert_eq!(config.preprocessing.time_limit, config.filter.time_limit);
    let text = "[preprocessing]\npath = \"libslow.so\"\ntime_limit_ms = 3600000\n";
    let config = Config::parse(text, "slow.toml").expect("it may be longer than `builder.event_timeout_ms`");
    assert!(config.preprocessing.time_limit > Some(config.builder.event_timeout));
}

#[test]
fn the_default_written_and_read_is_the_default() {
    let text = Config::default().to_toml();
    assert_eq!(Config::parse(&text, "default.toml"), Ok(Config::default()), "{text}");
}

#[test]
fn the_reference_page_is_what_the_definitions_say() {
    is_up_to_date("docs/reference/configuration.md", &reference_page());
    is_up_to_date("docs/reference/lab-scenario.md", &sheaf_config::lab_reference_page());
}

fn is_up_to_date(path: &str, page: &str) {
    let path = root().join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
        std::fs::write(&path, page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "{} is out of date: run cargo xtask docs", path.display());
}

#[test]
fn the_examples_are_valid_for_what_they_say_they_are_for() {
    let examples = root().join("examples");
    for example in ["two-steps.toml", "merger.toml"] {
        Config::load(&examples.join(example)).unwrap();
    }
    let laptop = Config::load(&examples.join("laptop.toml")).unwrap();
    assert_eq!(laptop, Config::default(), "the laptop example spells defaults out");

    for name in ["evm", "ru0", "ru1", "bu0", "bu1"] {
        Config::load_for_node(&examples.join("cluster.toml"), name).unwrap();
    }
    let cluster = Config::load(&examples.join("cluster.toml")).unwrap();
    let nodes = cluster.nodes().unwrap();
    assert_eq!(nodes.len(), 5);
    assert_eq!(
        nodes[2].sources.iter().map(|id| id.0).collect::<Vec<_>>(),
        [108, 109, 110, 111, 112, 113, 115, 120]
    );
    assert_eq!(nodes[2].cpu, [2, 3]);

    let replay = Config::load(&examples.join("replay.toml")).unwrap();
    assert!(replay.nodes().is_err(), "only the directory knows its sources");
    assert_eq!(replay.resolve_nodes(&[SourceId(7), SourceId(9)]).unwrap().len(), 1 + 2 + 3);
}

#[test]
fn a_node_has_its_own_processors_or_those_of_its_role() {
    let text = "\
        [affinity]\nreadout_cpu = [\"0-3\"]\nreadout_priority = 10\nbuilder_memory = \"bind\"\n\
        [[node]]\nname = \"evm\"\nrole = \"manager\"\n\
        [[node]]\nname = \"ru0\"\nrole = \"readout\"\n\
        [[node]]\nname = \"ru1\"\nrole = \"readout\"\ncpu = [7]\n\
        [[node]]\nname = \"bu0\"\nrole = \"builder\"\n";
    let nodes = Config::parse(text, "places.toml").unwrap().nodes().unwrap();
    let places: Vec<_> = nodes
        .iter()
        .map(|node| (node.name.as_str(), node.cpu.as_slice(), node.priority, node.memory))
        .collect();
    let expected: [(_, &[usize], _, _); 4] = [
        ("evm", &[], None, MemoryPolicy::System),
        ("ru0", &[0, 1, 2, 3], Some(10), MemoryPolicy::System),
        ("ru1", &[7], Some(10), MemoryPolicy::System),
        ("bu0", &[], None, MemoryPolicy::Bind),
    ];
    assert_eq!(places, expected);
    for wrong in ["readout_cpu = [1024]", "readout_priority = 100", "readout_memory = \"far\""] {
        assert!(Config::parse(&format!("[affinity]\n{wrong}\n"), "wrong.toml").is_err(), "{wrong}");
    }
}

#[test]
fn a_fragment_of_any_size_that_passes_the_checks_is_taken() {
    let mut passed = 0;
    for shift in 10..30 {
        for size in [(1_u64 << shift) - 1, 1 << shift, (1 << shift) / 16 * 15, (1 << shift) / 16 * 15 + 1] {
            let text = format!(
                "[source]\nmemory_bytes = {m}\n[source.emulated]\nsize = \"fixed\"\nmean_bytes = {size}\n[builder]\n\
                 memory_bytes = {m}\n[readout]\nbuffer_bytes = {m}\n",
                m = 1_u64 << 40
            );
            if let Ok(config) = Config::parse(&text, "run.toml") {
                passed += 1;
                assert!(config.max_fragment().0 >= size, "{size} > {}", config.max_fragment());
            }
        }
    }
    // All sizes up to 15/16 of the default frame of 16 MiB, the last of them to a few bytes, for the head.
    assert!((55..65).contains(&passed), "{passed}");
}

/// A builder unit that is silent requests its events late, or is given up and another one does. Neither may find that their fragments were
/// dropped as those of no event.
#[test]
fn fragments_are_kept_until_a_silent_builder_unit_is_given_up_and_its_events_are_requested_again() {
    let config = Config::default();
    let orphan = config.readout.orphan_timeout.expect("a limit");
    assert!(orphan.0 > 2 * config.manager.silence_timeout.0, "{orphan:?}");
}
