//! Units of systemd.

use super::{hosts_in, launch, text_of};
use crate::{Launch, SystemdOptions, words};
use proptest::prelude::*;

const SYSTEM: &str = "[readout]\ncount = 2\n[builder]\ncount = 2\n";

fn options(hosts: &[&str], user: Option<&str>) -> SystemdOptions {
    SystemdOptions {
        hosts: hosts.iter().map(ToString::to_string).collect(),
        user: user.map(str::to_owned),
        page: "127.0.0.1:7070".into(),
    }
}

/// Returns the values of a setting of a unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn the_first_host_has_run_control_and_the_others_agents() {
    let plan = launch(SYSTEM).systemd(&options(&["daq1", "daq2"], Some("daq"))).expect("it fits");
    let files: Vec<_> = plan.files.iter().map(|file| (&*file.path, file.mode)).collect();
    assert_eq!(
        files,
        [
            ("/data/launch/run.toml", 0o600),
            ("/data/launch/agents.key", 0o600),
            ("/data/launch/daq1/sheaf-control.service", 0o644),
            ("/data/launch/daq1/sheaf.target", 0o644),
            ("/data/launch/daq2/sheaf-agent.service", 0o644),
            ("/data/launch/daq2/sheaf.target", 0o644),
        ]
    );
    assert!(plan.commands.is_empty());
    let nodes = hosts_in(text_of(&plan, "/data/launch/run.toml"));
    assert_eq!(nodes[2], ("ru1".into(), "daq2:7403".into(), Some("daq2:7400".into())));
    let control = text_of(&plan, "/data/launch/daq1/sheaf-control.service");
    let start = "/opt/sheaf/bin/sheaf serve /data/launch/run.toml --page \"127.0.0.1:7070\"";
    assert_eq!(values(control, "ExecStart"), [start]);
    let agent = text_of(&plan, "/data/launch/daq2/sheaf-agent.service");
    let start = "/opt/sheaf/bin/sheaf agent --key /data/launch/agents.key --listen daq2:7400";
    assert_eq!(values(agent, "ExecStart"), [start]);
    for unit in [control, agent] {
        assert_eq!((values(unit, "User"), values(unit, "LimitMEMLOCK")), (vec!["daq"], vec!["infinity"]));
        assert_eq!(
            (values(unit, "WorkingDirectory"), values(unit, "ProtectSystem")),
            (vec!["/data"], vec!["full"])
        );
        assert!(!unit.contains("@\n") && !unit.contains("Private"), "{unit}");
    }
    let target = text_of(&plan, "/data/launch/daq2/sheaf.target");
    assert_eq!(values(target, "WantedBy"), ["multi-user.target"]);
    assert_eq!(values(target, "Wants"), ["sheaf-agent.service"]);
    assert!(
        plan.notes[1].starts_with("on daq2: cp /data/launch/daq2/sheaf* /etc/systemd/system/ && "),
        "{:?}",
        plan.notes
    );
}

#[test]
fn one_host_of_a_user_has_processes_and_no_agent() {
    let plan = launch(SYSTEM).systemd(&options(&[], None)).expect("it fits");
    let files: Vec<_> = plan.files.iter().map(|file| &*file.path).collect();
    assert_eq!(files, ["/data/launch/sheaf-control.service", "/data/launch/sheaf.target"]);
    let control = text_of(&plan, files[0]);
    let start = "/opt/sheaf/bin/sheaf serve /data/run.toml --processes --page \"127.0.0.1:7070\"";
    assert_eq!(values(control, "ExecStart"), [start]);
    // The manager of a user cannot raise limits, nor change what is mounted.
    assert!(
        !control.contains("User=") && !control.contains("MEMLOCK") && !control.contains("Protect"),
        "{control}"
    );
    assert_eq!(values(text_of(&plan, files[1]), "WantedBy"), ["default.target"]);
}

#[test]
fn odd_hosts_users_and_directories_are_refused() {
    let refused = |launch: Launch, options: &SystemdOptions| {
        launch.systemd(options).expect_err("it is odd").to_string()
    };
    assert!(refused(launch(SYSTEM), &options(&["daq1", "../etc"], None)).contains("the host `../etc`"));
    assert!(refused(launch(SYSTEM), &options(&[], Some("a b"))).contains("the user `a b`"));
    let flags = Launch { run_flags: vec!["--json".into()], ..launch(SYSTEM) };
    assert!(refused(flags, &options(&[], None)).contains("`--json` would have no effect"));
    let odd = Launch { place: "/data/\\x".into(), ..launch(SYSTEM) };
    assert!(refused(odd, &options(&[], None)).contains("the working directory `/data/\\x`"));
}

/// Reads a word of a command as systemd.syntax(7) and systemd.service(5) say.
fn read(word: &str) -> String {
    let inner = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let mut letters = inner.unwrap_or(word).chars();
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' | '%' | '$' => {
                let next = letters.next().expect("a letter follows");
                assert!(letter == '\\' || next == letter, "{word}");
                text.push(next);
            }
            other => text.push(other),
        }
    }
    text
}

proptest! {
    #[test]
    fn systemd_reads_a_quoted_word_as_it_was(text in any::<String>()) {
        match words::unit("the text", &text) {
            Ok(word) => {
                prop_assert!(!word.contains('\n'));
                prop_assert_eq!(read(&word), text);
            }
            Err(_) => prop_assert!(text.chars().any(char::is_control)),
        }
    }
}
