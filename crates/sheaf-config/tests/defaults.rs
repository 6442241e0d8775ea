//! The default, the reference page, and the examples.

use sheaf_config::{Config, reference_page};
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
fn the_default_written_and_read_is_the_default() {
    let text = Config::default().to_toml();
    assert_eq!(Config::parse(&text, "default.toml"), Ok(Config::default()), "{text}");
}

#[test]
fn the_reference_page_is_what_the_definitions_say() {
    let path = root().join("docs/reference/configuration.md");
    let page = reference_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{} is out of date: run UPDATE_DOCS=1 cargo test -p sheaf-config",
        path.display()
    );
}

#[test]
fn the_examples_are_valid_for_what_they_say_they_are_for() {
    let examples = root().join("examples");
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
