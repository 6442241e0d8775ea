//! Charts for Helm. The tests of the command have them parsed as YAML.

use super::{hosts_in, launch, text_of};
use crate::{KubernetesOptions, words};
use proptest::prelude::*;

const SYSTEM: &str = "[readout]\ncount = 2\n[builder]\ncount = 3\n";

fn options() -> KubernetesOptions {
    KubernetesOptions { image: "registry/sheaf:1".into(), claim: "data".into(), version: "0.1.0".into() }
}

#[test]
fn each_node_has_a_pod_with_an_agent_at_the_name_of_its_set() {
    let plan = launch(SYSTEM).kubernetes(&options()).expect("it fits");
    let nodes = hosts_in(text_of(&plan, "/data/launch/chart/run.toml"));
    assert_eq!(nodes.len(), 6);
    assert_eq!(nodes[0], ("evm".into(), "sheaf-control-0.sheaf-control:7401".into(), None));
    let agent = Some("sheaf-readout-1.sheaf-readout:7400".into());
    assert_eq!(nodes[2], ("ru1".into(), "sheaf-readout-1.sheaf-readout:7401".into(), agent));
    let agent = Some("sheaf-builder-2.sheaf-builder:7400".into());
    assert_eq!(nodes[5], ("bu2".into(), "sheaf-builder-2.sheaf-builder:7401".into(), agent));
    assert!(plan.files.iter().all(|file| !file.path.contains("output")));
    assert!(plan.commands.is_empty());
}

#[test]
fn pods_end_after_their_runs_and_have_their_processors_for_themselves() {
    let plan = launch(SYSTEM).kubernetes(&options()).expect("it fits");
    let control = text_of(&plan, "/data/launch/chart/templates/control.yaml");
    // `control.stop_timeout_ms` is 300 s.
    for part in
        ["terminationGracePeriodSeconds: 420\n", "[sheaf, ctl, --directory, control, stop]", "replicas: 1\n"]
    {
        assert!(control.contains(part), "{part} is not in\n{control}");
    }
    let builder = text_of(&plan, "/data/launch/chart/templates/builder.yaml");
    for part in [
        "  clusterIP: None\n  publishNotReadyAddresses: true\n",
        "  maxUnavailable: 1\n",
        "replicas: 3\n",
        "terminationGracePeriodSeconds: 120\n",
        "resources: *resources\n",
        "[sheaf, agent, --key, /run/sheaf/agents.key, --listen, \"0.0.0.0:7400\"]",
    ] {
        assert!(builder.contains(part), "{part} is not in\n{builder}");
    }
    let values = text_of(&plan, "/data/launch/chart/values.yaml");
    assert!(
        values.contains("image: \"registry/sheaf:1\"\n") && values.contains("builder:\n  cpu: \"2\"\n"),
        "{values}"
    );
}

proptest! {
    #[test]
    fn yaml_reads_a_quoted_text_as_it_was(text in any::<String>()) {
        match words::yaml("the text", &text) {
            Ok(word) => {
                let inner = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).expect("it is quoted");
                prop_assert_eq!(inner.replace("\\\"", "\"").replace("\\\\", "\\"), text);
            }
            Err(_) => prop_assert!(text.chars().any(|letter| letter.is_control() || words::is_odd_in_yaml(letter))),
        }
    }
}
