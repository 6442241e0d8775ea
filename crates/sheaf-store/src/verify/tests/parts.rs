//! Runs that are spread over several hosts.

use super::*;
use crate::run::HostRecord;

/// The run of two builders on two hosts: the part of the second, whose first builder is on the host of the run.
fn part() -> (TempDir, TempDir, Manifest) {
    let (first, mut manifest) = run();
    let host = |name: &str, agent: Option<&str>, builder| HostRecord {
        host: name.into(),
        agent: agent.map(str::to_owned),
        directory: format!("/data/{name}").into(),
        nodes: vec![NodeId::builder(builder)],
    };
    manifest.hosts = vec![host("daq1", None, 0), host("daq2", Some("daq2:7400"), 1)];
    manifest.part = Some(1);
    let second = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(first.path()).unwrap() {
        let file = entry.unwrap().path();
        if file.to_string_lossy().contains("_bu1_") {
            fs::rename(&file, second.path().join(file.file_name().unwrap())).unwrap();
        }
    }
    manifest.write(second.path()).unwrap();
    manifest.part = Some(0);
    manifest.write(first.path()).unwrap();
    (first, second, manifest)
}

#[test]
fn a_part_of_a_run_is_good_and_says_where_the_rest_is() {
    let (first, second, _) = part();
    let elsewhere = |path: &Path| {
        let report = verify(path).unwrap();
        assert!(report.ok, "{:?}", report.problems);
        let place = |part: &PartReport| (part.host.clone(), part.nodes.clone(), part.events);
        (report.events, report.elsewhere.iter().map(place).collect::<Vec<_>>())
    };
    assert_eq!(elsewhere(first.path()), (2, vec![("daq2".into(), vec!["bu1".into()], 3)]));
    assert_eq!(elsewhere(second.path()), (3, vec![("daq1".into(), vec!["bu0".into()], 2)]));
}

#[test]
fn a_file_that_is_lost_on_the_host_of_a_part_is_no_part_elsewhere() {
    let (_first, second, _) = part();
    for entry in fs::read_dir(second.path()).unwrap() {
        let file = entry.unwrap().path();
        if file.to_string_lossy().contains("_bu1_") {
            fs::remove_file(file).unwrap();
        }
    }
    assert_eq!(
        problems(second.path()),
        [
            "session 0000000000000005 of bu1: 3 events are committed, but 0 were found",
            "the ledger has 5 events stored, but 2 were found"
        ]
    );
}

#[test]
fn all_parts_in_one_directory_are_the_run() {
    let (first, second, mut manifest) = part();
    for entry in fs::read_dir(second.path()).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_owned();
        if name != crate::kind::MANIFEST_NAME {
            fs::copy(&file, first.path().join(name)).unwrap();
        }
    }
    let report = verify(first.path()).unwrap();
    assert!(report.ok && report.elsewhere.is_empty(), "{:?}", report.problems);
    assert_eq!(report.events, 5);
    manifest.sessions[1].committed = 4;
    manifest.write(first.path()).unwrap();
    assert_eq!(
        problems(first.path()),
        ["session 0000000000000005 of bu1: 4 events are committed, but 3 were found"]
    );
}
