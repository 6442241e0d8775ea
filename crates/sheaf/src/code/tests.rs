//! Copies of code: their content and place. The configuration of a run without code stays as it is.

use super::*;

/// A configuration that loads a filter in Python, a step filter and a preprocessor, each a file `mine...` of its own.
fn everything(directory: &Path) -> Config {
    let file = |name: &str| {
        let path = directory.join(name);
        fs::write(&path, name).expect("the directory is ours");
        Some(path)
    };
    let mut config = Config::default();
    config.filter.kind = FilterKind::Python;
    config.filter.path = file("mine.py");
    config.building.first_step = vec![sheaf_wire::SourceId(0)];
    config.building.filter = StepFilterKind::Library;
    config.building.path = file("libstep.so");
    config.preprocessing.path = file("libpre.so");
    config.trigger.mode = TriggerMode::Library;
    config.trigger.library.path = file("libtrigger.so");
    config
}

#[test]
fn a_run_loads_its_copies_and_says_what_they_are_whatever_is_installed_later() {
    let (place, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = everything(place.path());
    let (code, records) = Code::take(&config, run.path()).unwrap();
    fs::write(place.path().join("mine.py"), "another").unwrap();
    let loading = code.in_place(&config);
    let library = &loading.trigger.library.path;
    let paths = [&loading.filter.path, &loading.building.path, &loading.preprocessing.path, library];
    for (path, record) in paths.iter().zip(&records) {
        let bytes = fs::read(path.as_ref().unwrap()).unwrap();
        assert_eq!((crc32c(&bytes), bytes.len() as u64), (record.crc32c, record.bytes));
        assert_eq!(fs::read(run.path().join(record.copy.as_ref().unwrap())).unwrap(), bytes);
    }
    assert_eq!(records[0].crc32c, crc32c(b"mine.py"));
    let tables: Vec<_> = records.iter().map(|record| record.table.as_str()).collect();
    assert_eq!(tables, ["filter", "building", "preprocessing", "trigger.library"]);
}

#[test]
fn a_process_of_the_run_finds_the_copies_beside_its_configuration() {
    let (place, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = everything(place.path());
    let beside = || Code::beside(&config, &run.path().join("config.toml")).in_place(&config);
    assert_eq!(beside(), config, "where nothing was copied, it loads what is installed");
    let (code, _) = Code::take(&config, run.path()).unwrap();
    assert_eq!(beside(), code.in_place(&config));
    assert_ne!(beside(), config);
}

#[test]
fn nothing_is_copied_that_is_not_loaded() {
    let (place, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut config = everything(place.path());
    config.run.copy_code = false;
    let (code, records) = Code::take(&config, run.path()).unwrap();
    assert_eq!(code.in_place(&config), config);
    assert_eq!(records.iter().filter(|record| record.copy.is_none()).count(), 4);
    config.filter.path = Some("installed.module".into());
    config.building.first_step = Vec::new();
    config.preprocessing.path = None;
    config.trigger.mode = TriggerMode::Free;
    config.run.copy_code = true;
    assert!(Code::take(&config, run.path()).unwrap().1.is_empty());
    assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0);
}

#[test]
fn a_library_that_is_not_there_is_told_with_its_key() {
    let run = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.filter.kind = FilterKind::Library;
    config.filter.path = Some("nowhere/libmine.so".into());
    let error = crate::describe(&Code::take(&config, run.path()).unwrap_err());
    assert!(error.contains("cannot read nowhere/libmine.so (`filter.path`)"), "{error}");
}
