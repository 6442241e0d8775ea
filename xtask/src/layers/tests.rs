use super::*;

fn real() -> Packages {
    Packages::read().expect("cargo metadata works where cargo test does")
}

/// Returns the texts of all problems after adding a dependency of `package` on `needed`.
fn with_planted(package: &str, needed: &str) -> String {
    let mut packages = real();
    packages.normal.entry(package.to_owned()).or_default().insert(needed.to_owned());
    texts(check_direction(&packages).into_iter().chain(check_purity(&packages)))
}

fn texts(problems: impl IntoIterator<Item = Problem>) -> String {
    problems.into_iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn this_workspace_keeps_its_layers() {
    let problems = problems().expect("the workspace can be read");
    assert!(problems.is_empty(), "\n{}", texts(problems));
}

#[test]
fn a_role_that_depends_on_a_transport_is_found() {
    let found = with_planted("sheaf-protocol", "sheaf-tcp");
    assert!(found.contains("sheaf-protocol: depends on sheaf-tcp"), "{found}");
    assert!(found.contains("sheaf-protocol: links mio"), "{found}");
}

#[test]
fn a_transport_that_depends_on_the_protocol_is_found() {
    let found = with_planted("sheaf-transport", "sheaf-protocol");
    assert!(found.contains("sheaf-transport: depends on sheaf-protocol"), "{found}");
}

#[test]
fn a_transport_that_depends_on_another_is_found() {
    let found = with_planted("sheaf-shm", "sheaf-tcp");
    assert!(found.contains("sheaf-shm: depends on sheaf-tcp"), "{found}");
}

#[test]
fn an_external_package_that_is_not_in_the_table_is_found() {
    let found = with_planted("sheaf-buffer", "libc");
    assert!(found.contains("sheaf-buffer: depends on libc"), "{found}");
}

#[test]
fn io_behind_an_allowed_package_is_found() {
    let found = with_planted("bytes", "mio");
    assert!(found.contains("sheaf-wire: links mio"), "{found}");
    assert!(found.contains("sheaf-protocol: links mio"), "{found}");
}

#[test]
fn a_new_package_needs_an_entry_and_an_old_entry_must_go() {
    let mut packages = real();
    packages.members.insert("sheaf-new".to_owned());
    packages.members.remove("sheaf-buffer");
    packages.normal.entry("sheaf-config".to_owned()).or_default().remove("toml");
    let found = texts(check_direction(&packages));
    for expected in ["sheaf-new: has no entry", "sheaf-buffer: is in the table", "does not depend on toml"] {
        assert!(found.contains(expected), "{expected} not in {found}");
    }
}

#[test]
fn tests_use_only_what_is_below_them() {
    let mut packages = real();
    packages.dev.entry("sheaf-wire".to_owned()).or_default().insert("sheaf-node".to_owned());
    let found = texts(check_direction(&packages));
    assert!(found.contains("sheaf-wire: its tests depend on sheaf-node"), "{found}");
}

#[test]
fn the_table_has_no_cycle() {
    for (place, layer) in LAYERS.iter().enumerate() {
        for known in layer.may_know {
            let above = LAYERS[..place].iter().any(|above| above.package == *known);
            assert!(above, "{} depends on {known}, which is not above it", layer.package);
        }
    }
}

#[test]
fn names_with_access_to_the_outside_world_are_found_in_every_spelling() {
    let planted = [
        "use std::net::UdpSocket;",
        "let text = std::fs::read(path);",
        "use std::{fs, fmt};",
        "use std::{\n    collections::{BTreeMap, HashMap},\n};",
        "use std::time::{Duration, Instant};",
        "fn f(now: Instant) {}",
        "std::thread::spawn(f);",
        "let map: HashMap<u8, u8, RandomState> = f();",
    ];
    for source in planted {
        assert!(!check_names("a.rs", source).is_empty(), "not found in {source}");
    }
}

#[test]
fn comments_texts_and_tests_may_name_them() {
    let source = "// std::fs\n/// [`std::net`]\nfn f() { g(\"std::thread\") }\nuse std::collections::BTreeMap;\n\
                  #[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
    assert_eq!(check_names("a.rs", source), []);
}

#[test]
fn a_planted_name_is_reported_with_its_line() {
    let problems = check_names("crates/sheaf-wire/src/a.rs", "fn f() {}\nuse std::{\n    fs,\n};\n");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].place, "crates/sheaf-wire/src/a.rs:2");
}

#[test]
fn only_sources_of_pure_packages_are_searched() {
    assert!(is_source_of_pure("crates/sheaf-protocol/src/readout.rs"));
    for path in ["crates/sheaf-protocol/src/readout/tests.rs", "crates/sheaf-node/src/clock.rs", "README.md"]
    {
        assert!(!is_source_of_pure(path), "{path}");
    }
}

#[test]
fn a_package_that_depends_on_a_higher_floor_is_found() {
    let mut layers = Vec::from_iter(LAYERS.iter().map(|layer| Layer { may_know: layer.may_know, ..*layer }));
    assert_eq!(check_floors(&layers), []);
    let wire = layers.iter_mut().find(|layer| layer.package == "sheaf-wire").expect("it is there");
    wire.may_know = &["sheaf-node"];
    assert!(
        texts(check_floors(&layers))
            .contains("sheaf-wire: is on the floor \"vocabulary\", but depends on sheaf-node")
    );
}
