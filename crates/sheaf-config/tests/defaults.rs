//! The default, the reference page, and the examples.

use sheaf_config::{Config, reference_page};
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
