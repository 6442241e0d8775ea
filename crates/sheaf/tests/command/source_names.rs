//! Names of sources from a source map, in everything that people read.

use crate::child::ScratchDirectory;
use crate::output::directory;
use crate::streams;

/// Replays two sources of three, two of which have names.
fn replay(place: &ScratchDirectory) {
    streams::make(&place.join("streams"), 2, 20);
    place.file("map.csv", "source,serial,name\n1,A1,STS-3/left\n808432835,A2,DU3-DOM7\n");
    place.file(
        "run.toml",
        "[source]\nkind = \"replay\"\nmap = \"map.csv\"\n\
         replay = { directory = \"streams\", expected = [\"STS-3/left\", 2, \"DU3-DOM7\"] }\n",
    );
}

#[test]
fn messages_and_the_summary_of_a_run_have_the_names_of_sources() {
    for flags in ["", "--processes --transport tcp"] {
        let place = ScratchDirectory::new();
        replay(&place);
        let run = place.sheaf(&format!("run run.toml {flags}")).exits(3);
        let warning = "no stream of source 808432835 (DU3-DOM7), which `source.replay.expected` lists";
        assert!(run.stderr.contains(warning), "{}", run.stderr);
        let missing = "without source 808432835 (DU3-DOM7) in 20 (source_absent)";
        assert!(run.stdout.contains(missing), "{}", run.stdout);
    }
}

#[test]
fn a_stored_run_has_the_names_without_its_configuration() {
    let place = ScratchDirectory::new();
    replay(&place);
    let summary = place.sheaf("run run.toml --json").exits(3).json();
    assert_eq!(summary["source_names"], serde_json::json!({"808432835": "DU3-DOM7"}));
    let run = directory(&place, &summary);
    std::fs::remove_file(place.join("map.csv")).unwrap();
    std::fs::remove_file(place.join("run.toml")).unwrap();
    let run = run.display();

    let verified = place.sheaf(&format!("verify {run}")).exits(0);
    assert!(
        verified.stdout.contains("source 808432835 (DU3-DOM7) is missing in 20 events"),
        "{}",
        verified.stdout
    );
    let inspected = place.sheaf(&format!("inspect {run}")).exits(0);
    let row = inspected.stdout.lines().find(|line| line.contains("(STS-3/left)"));
    let words: Vec<&str> = row.expect("a row of source 1").split_whitespace().collect();
    assert_eq!(words[..4], ["1", "(STS-3/left)", "20", "fragments"]);
    let row =
        inspected.stdout.lines().find(|line| line.contains("(DU3-DOM7)")).expect("a row of the other source");
    assert!(row.ends_with("missing in 20 events"), "it is never there: {row}");
    let names = serde_json::json!({"1": "STS-3/left", "808432835": "DU3-DOM7"});
    for command in ["inspect", "verify"] {
        assert_eq!(place.sheaf(&format!("{command} {run} --json")).exits(0).json()["source_names"], names);
    }
    let dumped = place.sheaf(&format!("dump {run} --names")).exits(0).stdout;
    let mut lines = dumped.lines();
    assert_eq!(lines.next(), Some("event,source,time_ns,bytes,crc32,source_name"));
    for line in lines {
        let named = if line.split(',').nth(1) == Some("1") { ",\"STS-3/left\"" } else { ",\"\"" };
        assert!(line.ends_with(named), "{line}");
    }
}

#[test]
fn a_map_of_other_sources_is_noticed() {
    let place = ScratchDirectory::new();
    place.file("map.csv", "source,name\n101,left\n102,right\n");
    place.file("run.toml", "[run]\nevents = 5\n[output]\nkind = \"none\"\n[source]\nmap = \"map.csv\"\n");
    let run = place.sheaf("run run.toml").exits(0);
    assert!(run.stderr.contains("no source of this run has a name in `source.map`"), "{}", run.stderr);
    assert!(run.stderr.contains("for instance source 0;"), "{}", run.stderr);
}

#[test]
fn a_wrong_map_is_refused_with_its_line() {
    let place = ScratchDirectory::new();
    place.file("map.csv", "source,name\n1,left\n1,right\n");
    place.file("run.toml", "[source]\nmap = \"map.csv\"\n");
    let said = ["error: source 1 is also in line 2", "map.csv:3:1", "write each source once"];
    place.sheaf("run run.toml").exits(1).says(&said);
}
