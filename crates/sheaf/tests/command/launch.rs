//! `sheaf launch` on this host, by ssh, as units of systemd, and as a chart for Kubernetes.

use crate::child::{ScratchDirectory, signal, wait_until};
use crate::nodes::free_ports_in_a_row;
use crate::output::{number, verify};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

const SYSTEM: &str = "[trigger]\nmode = \"fixed\"\nrate_hz = 400.0\n[readout]\ncount = 2\n[builder]\ncount = 3\ncheck_content = true\n\
    [manager]\nstart_timeout_ms = 240000\n";

/// A program `ssh` that runs commands here, and notes for which host.
const SSH: &str = "#!/bin/sh\n[ \"$1 $2\" = '-o BatchMode=yes' ] || exit 255\necho \"$3\" >> \"$SSH_LOG\"\nexec sh -c \"$4\"\n";

/// A directory with a configuration and such a program.
struct Hosts {
    scratch: ScratchDirectory,
    port: String,
}

impl Hosts {
    fn new(head: &str) -> Self {
        let scratch = ScratchDirectory::new();
        scratch.file("run.toml", &format!("[run]\n{head}\n{SYSTEM}"));
        fs::create_dir(scratch.join("bin")).unwrap();
        let ssh = scratch.file("bin/ssh", SSH);
        fs::set_permissions(ssh, fs::Permissions::from_mode(0o755)).unwrap();
        Self { scratch, port: free_ports_in_a_row(10).to_string() }
    }

    /// Starts a launch on three hosts, all of them this one.
    fn launch(&self) -> Child {
        let path = std::env::var("PATH").unwrap();
        let said = fs::File::create(self.scratch.join("said")).unwrap();
        Command::new(env!("CARGO_BIN_EXE_sheaf"))
            .args([
                "launch",
                "ssh",
                "run.toml",
                "--hosts=127.0.0.1,127.0.0.2,me@127.0.0.3",
                "--port",
                &self.port,
            ])
            .env("PATH", format!("{}:{path}", self.scratch.join("bin").display()))
            .env("SSH_LOG", self.scratch.join("ssh.log"))
            .current_dir(self.scratch.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap()
    }

    fn said(&self) -> String {
        fs::read_to_string(self.scratch.join("said")).unwrap()
    }

    /// Waits for the end of a launch, and checks its run and that nothing is left.
    fn assert_ends_well(&self, mut launch: Child) -> u64 {
        let mut status = None;
        wait_until("the launch ends", || {
            status = launch.try_wait().unwrap();
            status.is_some()
        });
        let said = self.said();
        assert!(status.unwrap().success(), "{said}");
        assert!(said.contains("balanced: each trigger and each fragment"), "{said}");
        let hosts = fs::read_to_string(self.scratch.join("ssh.log")).unwrap();
        assert_eq!(hosts, "127.0.0.2\nme@127.0.0.3\n127.0.0.2\nme@127.0.0.3\n");
        assert!(!self.scratch.join("launch/processes").exists());
        for line in said.lines().filter_map(|line| line.rsplit_once(" is process ")) {
            let agent = format!("/proc/{}/exe", line.1);
            wait_until("the agent has ended", || fs::read_link(&agent).is_err());
        }
        assert_eq!(said.matches(" is process ").count(), 2, "{said}");
        number(&verify(&self.scratch.join("runs/run000001"), 0), "events")
    }
}

#[test]
fn a_launch_by_ssh_starts_agents_and_a_run_and_ends_them() {
    let hosts = Hosts::new("events = 1000\nduration_s = 0");
    let launch = hosts.launch();
    assert_eq!(hosts.assert_ends_well(launch), 1_000);
    let log = fs::read_to_string(hosts.scratch.join("launch/agent-127.0.0.2.log")).unwrap();
    assert!(log.contains("listens on 127.0.0.2:"), "{log}");
    let key = fs::metadata(hosts.scratch.join("launch/agents.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o7777, 0o600);
}

#[test]
fn a_signal_ends_a_launch_by_ssh_in_good_order() {
    let hosts = Hosts::new("duration_s = 0");
    let launch = hosts.launch();
    wait_until("there are events", || {
        hosts.said().lines().any(|line| line.starts_with("running: ") && !line.starts_with("running: 0 "))
    });
    signal(launch.id(), "TERM");
    assert!(hosts.assert_ends_well(launch) > 0);
}

#[test]
fn a_launch_whose_agents_may_be_left_is_refused() {
    let hosts = Hosts::new("events = 1000");
    fs::create_dir(hosts.scratch.join("launch")).unwrap();
    hosts.scratch.file("launch/processes", "");
    assert!(!hosts.launch().wait().unwrap().success());
    assert!(hosts.said().contains("end-agents.sh ends its agents"), "{}", hosts.said());
}

#[test]
fn a_local_launch_runs_all_nodes_here() {
    let hosts = Hosts::new("events = 1000\nduration_s = 0");
    let shown = hosts.scratch.sheaf("launch local run.toml --dry-run -- --json").exits(0);
    assert!(shown.stdout.contains(" --local --processes --json\n"), "{}", shown.stdout);
    assert!(!hosts.scratch.join("runs").exists());
    let ended = hosts.scratch.sheaf("launch local run.toml -- --output here").exits(0);
    ended.prints(&["runs     ", "balanced: each trigger"]);
    assert_eq!(number(&verify(&hosts.scratch.join("here/run000001"), 0), "events"), 1_000);
}

#[test]
fn a_plan_that_is_only_shown_changes_nothing() {
    let hosts = Hosts::new("events = 1000");
    for launcher in ["slurm --hosts 2", "ssh --hosts daq1,daq2", "systemd --hosts daq1,daq2"] {
        let shown = hosts.scratch.sheaf(&format!("launch {launcher} run.toml --dry-run")).exits(0);
        shown.prints(&["launch/run.toml, mode 0600", "launch/agents.key, mode 0600", "a new key"]);
    }
    assert!(!hosts.scratch.join("launch").exists());
    hosts
        .scratch
        .sheaf("launch slurm run.toml --hosts 2 --files-only")
        .exits(0)
        .prints(&["writes", "job.sh"]);
    let key = fs::read(hosts.scratch.join("launch/agents.key")).unwrap();
    hosts.scratch.sheaf("launch slurm run.toml --hosts 2 --files-only").exits(0).prints(&["keeps"]);
    assert_eq!(fs::read(hosts.scratch.join("launch/agents.key")).unwrap(), key);
}

#[test]
fn systemd_takes_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("skipped: systemd-analyze is not installed");
        return;
    }
    for (index, flags) in ["--service-user root", ""].into_iter().enumerate() {
        for hosts in ["--hosts daq1,daq2", ""] {
            let scratch = ScratchDirectory::new();
            fs::create_dir(scratch.join("a place")).unwrap();
            fs::write(scratch.join("a place/run.toml"), SYSTEM).unwrap();
            let ended = crate::child::sheaf(
                &scratch.join("a place"),
                format!("launch systemd run.toml {flags} {hosts}").split_whitespace(),
            );
            ended.exits(0).prints(&["enable --now sheaf.target"]);
            let launch = scratch.join("a place/launch");
            let directories =
                if hosts.is_empty() { vec![launch] } else { vec![launch.join("daq1"), launch.join("daq2")] };
            for directory in directories {
                let units = fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path());
                let mut command = Command::new("systemd-analyze");
                command
                    .args(["verify", "--man=no"])
                    .args(units.filter(|path| path.to_string_lossy().contains("/sheaf")));
                let checked = command
                    .arg(if index == 0 { "--system" } else { "--user" })
                    .env("XDG_RUNTIME_DIR", scratch.path());
                let checked = checked.output().unwrap();
                let said = String::from_utf8_lossy(&checked.stderr).into_owned();
                assert!(checked.status.success() && !said.contains("sheaf"), "{said}");
            }
        }
    }
}

/// Reads every document of a chart, with its actions replaced by a word, and says which kinds there are.
const READ_CHART: &str = "
import pathlib, re, sys, yaml
kinds = []
for path in sorted(pathlib.Path(sys.argv[1]).rglob('*.yaml')):
    for document in yaml.safe_load_all(re.sub(r'\\{\\{.*?\\}\\}', 'word', path.read_text())):
        kinds.append(document.get('kind', path.name))
        pod = document.get('spec', {}).get('template', {}).get('spec')
        for container in pod['containers'] + pod['initContainers'] if pod else []:
            assert container['resources']['requests'] == container['resources']['limits'], path
            volumes = {volume['name'] for volume in pod['volumes']}
            assert volumes >= {mount['name'] for mount in container['volumeMounts']}, path
print(' '.join(sorted(kinds)))
";

#[test]
fn a_chart_is_yaml_with_a_set_for_each_role() {
    if !Command::new("python3")
        .args(["-c", "import yaml"])
        .output()
        .is_ok_and(|checked| checked.status.success())
    {
        println!("skipped: python3 has no module yaml");
        return;
    }
    let hosts = Hosts::new("events = 1000");
    let ended = hosts.scratch.sheaf("launch kubernetes run.toml --image registry/sheaf:1").exits(0);
    ended.prints(&["helm upgrade --install sheaf", "kubectl create secret generic sheaf-agents"]);
    let read = Command::new("python3")
        .args(["-c", READ_CHART])
        .arg(hosts.scratch.join("launch/chart"))
        .output()
        .unwrap();
    let (kinds, said) = (String::from_utf8_lossy(&read.stdout), String::from_utf8_lossy(&read.stderr));
    let set = |kind: &str| format!("{kind} ").repeat(3);
    let expected = format!(
        "Chart.yaml ConfigMap {}{}{}values.yaml\n",
        set("PodDisruptionBudget"),
        set("Service"),
        set("StatefulSet")
    );
    assert_eq!(kinds, expected, "{said}");
}
