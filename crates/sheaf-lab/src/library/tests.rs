use super::*;

#[test]
fn every_scenario_that_ships_is_understood_and_says_what_it_shows() {
    for shipped in SHIPPED {
        let file = shipped.parse(|_| {}).unwrap_or_else(|errors| panic!("{}: {errors}", shipped.name));
        assert_eq!(file.name, shipped.name);
        assert!(!file.about.is_empty(), "{} has no `about`", shipped.name);
    }
}

#[test]
fn every_scenario_in_the_folder_ships() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab");
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        assert!(find(name).is_some(), "{} is not in the list", path.display());
    }
}

#[test]
fn a_misspelt_name_is_understood() {
    assert_eq!(nearest("frist-switch"), Some("first-switch"));
}
