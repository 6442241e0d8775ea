//! `sheaf doctor`: reads, explains, and changes nothing without consent.

use crate::child::ScratchDirectory;
use crate::output::{field, number};

#[test]
fn this_host_is_examined_and_every_finding_is_explained() {
    let scratch = ScratchDirectory::new();
    let json = scratch.sheaf("doctor --json").json();
    let findings = field(&json, "findings").as_array().unwrap();
    assert!(findings.len() > 20, "{json}");
    for finding in findings {
        for key in ["group", "key", "severity", "value", "source"] {
            assert!(!field(finding, key).as_str().unwrap().is_empty(), "{finding}");
        }
        let severity = field(finding, "severity").as_str().unwrap();
        if severity != "good" {
            assert!(!field(finding, "cost").as_str().unwrap().is_empty(), "{finding}");
        }
        if severity == "warning" || severity == "problem" {
            assert!(field(finding, "remedy").is_object(), "{finding}");
        }
    }
    let warnings = findings.iter().filter(|it| field(it, "severity") == "warning").count() as u64;
    assert_eq!(number(&json, "warnings"), warnings);
}

#[test]
fn a_configuration_is_compared_with_the_host() {
    let scratch = ScratchDirectory::new();
    let file = scratch.file("run.toml", "[affinity]\nbuilder_cpu = [1000]\n");
    let ended = scratch.sheaf(&format!("doctor --config {}", file.display()));
    let ended = ended.exits(3);
    let text = &ended.stdout;
    assert!(text.contains("PROBLEM  cpu.placement.builder-units"), "{text}");
    assert!(text.contains("nodes") || text.contains("[affinity]"), "{text}");
}

#[test]
fn a_host_without_information_is_no_error() {
    let scratch = ScratchDirectory::new();
    let empty = scratch.join("nothing");
    std::fs::create_dir(&empty).unwrap();
    let json = scratch.sheaf(&format!("doctor --json --root {}", empty.display())).exits(0).json();
    assert_eq!((number(&json, "problems"), number(&json, "warnings")), (0, 0));
}

#[test]
fn nothing_is_applied_that_does_not_exist_or_was_not_confirmed() {
    let scratch = ScratchDirectory::new();
    scratch
        .sheaf("doctor --apply no.such.key --yes")
        .exits(1)
        .says(&["no.such.key", "those with a command are"]);
    scratch.sheaf("doctor --apply cpu.online --yes").exits(1).says(&["cpu.online needs no change"]);
    scratch.sheaf("doctor --apply cpu.online --yes --root /nowhere").exits(1).says(&["--root"]);
    scratch.sheaf("doctor --yes").exits(2);
}
