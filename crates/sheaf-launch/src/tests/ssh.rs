//! Launches by ssh.

use super::{assert_hosts, assert_shell_takes, hosts_in, launch, text_of};
use crate::Launch;
use proptest::prelude::*;

const SYSTEM: &str = "[readout]\ncount = 2\n[builder]\ncount = 2\n";

fn hosts(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn agents_are_started_on_other_hosts_and_the_run_here() {
    let plan = launch(SYSTEM).ssh(&hosts(&["daq1", "operator@daq2"])).expect("it fits");
    assert_hosts(
        &plan,
        &[
            ("evm", "daq1:7401", None),
            ("ru0", "daq1:7402", None),
            ("ru1", "daq2:7403", Some("daq2:7400")),
            ("bu0", "daq1:7404", None),
            ("bu1", "daq2:7405", Some("daq2:7400")),
        ],
    );
    let script = text_of(&plan, "/data/launch/start.sh");
    let start = "start_agent operator@daq2 'mkdir -p /data/launch /data && (umask 077; cat > /data/launch/agents.key.daq2) && \
        mv /data/launch/agents.key.daq2 /data/launch/agents.key && cd /data && { setsid /opt/sheaf/bin/sheaf agent \
        --key /data/launch/agents.key --listen daq2:7400 < /dev/null > /data/launch/agent-daq2.log 2>&1 & echo $!; }'\n";
    assert!(script.contains(start), "{script}");
    assert!(script.contains("#   daq1, this host: evm, ru0, bu0\n#   daq2: ru1, bu1\n"), "{script}");
    assert_shell_takes(script);
    assert_shell_takes(text_of(&plan, "/data/launch/end-agents.sh"));
    assert_eq!(plan.commands[0].line(), "bash /data/launch/start.sh");
}

#[test]
fn addresses_and_agents_of_a_configuration_stay_as_they_are() {
    let text = "[transport]\nkind = \"tcp\"\n[agents]\nkey_file = \"agents.key\"\n\
        [[node]]\nname = \"evm\"\nrole = \"manager\"\naddress = \"daq1:7000\"\n\
        [[node]]\nname = \"ru0\"\nrole = \"readout\"\naddress = \"daq2:7001\"\nagent = \"daq2:7999\"\n\
        [[node]]\nname = \"bu0\"\nrole = \"builder\"\naddress = \"daq2:7002\"\nagent = \"daq2:7999\"\n";
    let plan = launch(text).ssh(&[]).expect("it fits");
    let nodes = hosts_in(text_of(&plan, "/data/launch/run.toml"));
    let addresses: Vec<_> = nodes.iter().map(|(_, address, agent)| (&**address, agent.as_deref())).collect();
    assert_eq!(
        addresses,
        [("daq1:7000", None), ("daq2:7001", Some("daq2:7999")), ("daq2:7002", Some("daq2:7999"))]
    );
    assert!(text_of(&plan, "/data/launch/start.sh").contains("--key /data/agents.key --listen daq2:7999"));
}

#[test]
fn hosts_that_ssh_could_misread_are_refused() {
    for host in ["-oProxyCommand=sh", "a b", "daq1;reboot", "", "@daq1", "user@", "a@b@c"] {
        let error = launch(SYSTEM).ssh(&hosts(&["daq1", host])).expect_err("it is odd").to_string();
        assert!(error.contains(&format!("the host `{host}` cannot be written")), "{error}");
    }
    let error = launch(SYSTEM).ssh(&[]).expect_err("there are no hosts").to_string();
    assert!(error.contains("use --hosts"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The command of the other host is read by two shells.
    #[test]
    fn the_shell_of_another_host_gets_paths_as_they_are(program in "[ -~é]{1,12}", directory in "/[ -~é]{0,12}") {
        let launch = Launch { program: program.clone(), directory: directory.clone(), ..launch(SYSTEM) };
        let plan = launch.ssh(&hosts(&["daq1", "daq2"])).expect("it can be quoted");
        let script = text_of(&plan, &format!("{directory}/start.sh"));
        assert_shell_takes(script);
        let line = script.lines().find(|line| line.starts_with("start_agent daq2 ")).expect("there is one");
        let outer = format!("start_agent() {{ printf %s \"$2\"; }}\n{line}");
        let command = std::process::Command::new("bash").args(["-c", &outer]).output().expect("bash is there");
        let command = String::from_utf8(command.stdout).expect("it is text");
        let words = command.split_once(" && (umask").expect("the directories come first").0.to_owned();
        let said = std::process::Command::new("sh").args(["-c", &format!("printf '<%s>' {words}")]).output();
        let said = String::from_utf8(said.expect("sh is there").stdout).expect("it is text");
        prop_assert_eq!(said, format!("<mkdir><-p><{directory}></data>"));
        let start = command.split_once("{ setsid ").expect("the program comes next").1;
        let start = start.split_once(" --listen").expect("the address comes next").0;
        let said = std::process::Command::new("sh").args(["-c", &format!("printf '<%s>' {start}")]).output();
        let said = String::from_utf8(said.expect("sh is there").stdout).expect("it is text");
        prop_assert_eq!(said, format!("<{program}><agent><--key><{directory}/agents.key>"));
    }
}
