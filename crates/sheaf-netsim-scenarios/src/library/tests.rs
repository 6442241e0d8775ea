use super::*;
use sheaf_netsim::topology::compile;
use std::collections::BTreeSet;

#[test]
fn every_file_of_the_directory_ships_and_is_good() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    let names: BTreeSet<String> = SHIPPED.iter().map(|shipped| shipped.name.to_owned()).collect();
    assert_eq!(files, names, "scenarios/ and library.rs");
    for shipped in SHIPPED {
        let file = shipped.parse(Overrides::default()).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(file.name, shipped.name, "a shipped scenario is called as its file");
        assert!(!file.about.is_empty(), "{} does not say what it shows", shipped.name);
    }
}

#[test]
fn every_network_that_ships_can_be_made() {
    for shipped in SHIPPED {
        let file = shipped.parse(Overrides::default()).unwrap();
        let mut last = None;
        for scenario in file.points.iter().map(|point| &point.scenario) {
            let wiring = (scenario.topology.clone(), scenario.numbering.clone());
            if last.as_ref() == Some(&wiring) {
                continue;
            }
            let rails = scenario.endpoint.rails;
            let network = compile(&scenario.topology, &scenario.numbering, &scenario.link, rails);
            assert!(network.is_ok(), "{}: {network:?}", shipped.name);
            last = Some(wiring);
        }
    }
}

#[test]
fn a_misspelt_name_is_recognised() {
    assert_eq!(nearest("fourty-nodes"), Some("forty-nodes"));
    assert_eq!(nearest("something else"), None);
}
