//! Plans, compared with what they have to be, and texts that shells read.

mod kubernetes;
mod slurm;
mod ssh;
mod systemd;

use crate::{FileContents, Launch, LaunchPlan, words};
use proptest::prelude::*;
use sheaf_config::Config;
use std::process::Command;

/// A launch of a configuration with this text.
pub(super) fn launch(text: &str) -> Launch {
    Launch {
        config: Config::parse(text, "run.toml").expect("the configuration is good"),
        file: "/data/run.toml".into(),
        program: "/opt/sheaf/bin/sheaf".into(),
        directory: "/data/launch".into(),
        place: "/data".into(),
        port: 7400,
        run_flags: Vec::new(),
    }
}

/// Returns the text of a file of a plan.
pub(super) fn text_of<'a>(plan: &'a LaunchPlan, path: &str) -> &'a str {
    let file = plan.files.iter().find(|file| file.path == path);
    match &file.unwrap_or_else(|| panic!("{path} is not in {plan}")).contents {
        FileContents::Text(text) => text,
        FileContents::NewKey => panic!("{path} is a key"),
    }
}

/// Returns the host of each node, and its agent, out of the text of a configuration.
pub(super) fn hosts_in(text: &str) -> Vec<(String, String, Option<String>)> {
    let config = Config::parse(text, "run.toml").expect("the configuration of a launch is good");
    let nodes = config.nodes().expect("its nodes are listed");
    nodes.into_iter().map(|node| (node.name, node.address.expect("it has an address"), node.agent)).collect()
}

/// Checks name, address and agent of all nodes of a launch.
#[track_caller]
pub(super) fn assert_hosts(plan: &LaunchPlan, hosts: &[(&str, &str, Option<&str>)]) {
    let nodes = hosts_in(text_of(plan, "/data/launch/run.toml"));
    let nodes: Vec<_> =
        nodes.iter().map(|(name, address, agent)| (&**name, &**address, agent.as_deref())).collect();
    assert_eq!(nodes, hosts);
}

/// Checks that a shell takes a script, without running it.
pub(super) fn assert_shell_takes(script: &str) {
    let directory = std::env::temp_dir();
    let checked = Command::new("bash").args(["-n", "-c", script]).current_dir(directory).output();
    let checked = checked.expect("bash is there");
    assert!(checked.status.success(), "{}\n{script}", String::from_utf8_lossy(&checked.stderr));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was(text in any::<String>()) {
        match words::shell("the text", &text) {
            Ok(word) => {
                let said = Command::new("sh").args(["-c", &format!("printf %s {word}")]).output();
                prop_assert_eq!(said.expect("sh is there").stdout, text.as_bytes());
            }
            Err(error) => {
                prop_assert!(text.chars().any(char::is_control));
                prop_assert!(error.to_string().starts_with("the text `"), "{}", error);
            }
        }
    }
}

#[test]
fn plain_words_stay_as_they_are() {
    assert_eq!(words::quoted("/data/launch/job.sh"), "/data/launch/job.sh");
    assert_eq!(words::quoted(""), "''");
    assert_eq!(words::quoted("it's"), r"'it'\''s'");
    assert_eq!(words::quoted("~"), "'~'");
}
