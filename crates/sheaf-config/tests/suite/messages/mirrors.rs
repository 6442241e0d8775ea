//! Mirrors of readout units.

use super::*;

const MIRRORED: &str = "[readout]\nprotect = \"mirror\"\n[transport]\nkind = \"tcp\"\n";

fn refused(more: &str, what: &str) {
    let text = format!("{MIRRORED}{more}");
    let errors = parse(&text).expect_err("it is refused").to_string();
    assert!(errors.contains(what), "{errors}");
}

#[test]
fn emulated_fragments_are_mirrored() {
    let config = parse(MIRRORED).expect("it is a configuration");
    let nodes = config.nodes().expect("it is a system");
    let mirrors = nodes.iter().filter(|node| node.name.starts_with("mir"));
    assert_eq!(mirrors.count(), usize::from(config.readout.count));
}

#[test]
fn what_mirrors_cannot_do_is_refused() {
    refused("[source]\nkind = \"feed\"\n", "`source.kind` is \"feed\"");
    refused("[source.emulated]\nfaulty_source = 1\n", "an emulated source misses triggers");
    refused("[preprocessing]\npath = \"a.so\"\n", "readout units process fragments");
    refused("[run]\ncontinuous = true\n", "`run.continuous` is true");
    let memory = parse("[readout]\nprotect = \"mirror\"\n").expect_err("it is refused").to_string();
    assert!(memory.contains("add `--processes`"), "{memory}");
}

#[test]
fn there_is_a_mirror_for_each_readout_unit() {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let all =
        [("evm", "manager"), ("ru0", "readout"), ("ru1", "readout"), ("bu0", "builder"), ("mir0", "mirror")];
    let nodes: String = all.iter().map(|(name, role)| node(name, role)).collect();
    refused(&nodes, "the number of nodes with the role \"mirror\" is 1");
    parse(&format!("{MIRRORED}{nodes}{}", node("mir1", "mirror"))).expect("there is one for each");
    let unprotected = parse(&nodes).expect_err("it is refused").to_string();
    assert!(unprotected.contains("set `readout.protect = \"mirror\"`"), "{unprotected}");
}
