//! A Slurm of one test: a controller, and daemons of three hosts on this machine.

use crate::child::{ScratchDirectory, wait_until};
use crate::nodes::free_ports;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const HOSTS: usize = 3;

/// A cluster that ends with the test, and its jobs with it.
pub(super) struct Cluster {
    pub(super) scratch: ScratchDirectory,
    munge: Child,
    controller: Option<Child>,
    hosts: Vec<Option<Child>>,
}

impl Cluster {
    /// Starts a cluster. `None` where Slurm is not installed.
    pub(super) fn start(scratch: ScratchDirectory) -> Option<Self> {
        for program in ["munged", "slurmctld", "slurmd", "sbatch"] {
            if Command::new(program).arg("--version").output().is_err() {
                println!("skipped: {program} is not installed (slurm-wlm, munge)");
                return None;
            }
        }
        let munge = munge(&scratch);
        configure(&scratch);
        let mut cluster = Self { scratch, munge, controller: None, hosts: Vec::new() };
        wait_until("munged has its socket", || cluster.scratch.join("munge.sock").exists());
        cluster.start_controller();
        for host in 1..=HOSTS {
            let daemon = cluster.daemon("slurmd", &["-N", &format!("n{host}")]);
            cluster.hosts.push(Some(daemon));
        }
        wait_until("all hosts are idle", || {
            cluster.slurm("sinfo", &["--noheader", "--format=%T %D"]).trim() == format!("idle {HOSTS}")
        });
        Some(cluster)
    }

    /// The directory that the jobs begin in.
    pub(super) fn place(&self) -> PathBuf {
        self.scratch.path().to_owned()
    }

    pub(super) fn start_controller(&mut self) {
        self.controller = Some(self.daemon("slurmctld", &[]));
        wait_until("the controller answers", || {
            self.command("scontrol").arg("ping").output().unwrap().status.success()
        });
    }

    pub(super) fn kill_controller(&mut self) {
        end(self.controller.take());
    }

    /// Kills all processes of a host, with the index `host`.
    pub(super) fn kill_host(&mut self, host: usize) {
        end(self.hosts[host].take());
        self.kill_agent(&format!("127.0.0.{}", host + 1));
    }

    /// Kills the agent that listens at this host.
    pub(super) fn kill_agent(&self, address: &str) {
        let find = || {
            let is_agent = |arguments: &[String]| {
                arguments.get(1).is_some_and(|word| word == "agent")
                    && arguments.iter().any(|word| word.starts_with(&format!("{address}:")))
                    && arguments[0] == env!("CARGO_BIN_EXE_sheaf")
            };
            self.processes().into_iter().find(|(_, arguments)| is_agent(arguments)).map(|(id, _)| id)
        };
        wait_until(&format!("there is an agent at {address}"), || find().is_some());
        kill(find().expect("it was there"));
    }

    /// Runs a command of Slurm, and returns its output. What fails because the controller is not there yet is tried by the caller.
    pub(super) fn slurm(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `sheaf` to its end, and returns what it has printed.
    pub(super) fn sheaf(&self, arguments: &[&str]) -> String {
        let output = self.command(env!("CARGO_BIN_EXE_sheaf")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.place())
            .env("SLURM_CONF", self.scratch.join("slurm.conf"))
            .stdin(Stdio::null());
        command
    }

    fn daemon(&self, program: &str, arguments: &[&str]) -> Child {
        let mut command = self.command(program);
        command.arg("-D").arg("-f").arg(self.scratch.join("slurm.conf")).args(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Processes that work in the directory of the test, with their arguments.
    fn processes(&self) -> Vec<(i32, Vec<String>)> {
        let process = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.ok()?.path();
            let id: i32 = path.file_name()?.to_str()?.parse().ok()?;
            let is_here = fs::read_link(path.join("cwd")).ok()?.starts_with(self.scratch.path());
            let arguments = fs::read(path.join("cmdline")).ok()?;
            let arguments = arguments.split(|byte| *byte == 0);
            let arguments = arguments.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            (is_here && id.cast_unsigned() != std::process::id()).then_some((id, arguments))
        };
        fs::read_dir("/proc").unwrap().filter_map(process).collect()
    }
}

impl Drop for Cluster {
    /// Ends the daemons, so that nothing is started any more, and then everything that they have started.
    fn drop(&mut self) {
        for daemon in self.hosts.iter_mut().chain([&mut self.controller]) {
            end(daemon.take());
        }
        for (id, _) in self.processes() {
            kill(id);
        }
        let _ = self.munge.kill();
        let _ = self.munge.wait();
    }
}

fn end(daemon: Option<Child>) {
    if let Some(mut daemon) = daemon {
        let _ = daemon.kill();
        let _ = daemon.wait();
    }
}

/// Kills a process, which may have ended.
fn kill(id: i32) {
    if let Some(id) = Pid::from_raw(id) {
        let _ = kill_process(id, Signal::KILL);
    }
}

/// Starts the daemon that says who is who.
fn munge(scratch: &ScratchDirectory) -> Child {
    use std::os::unix::fs::PermissionsExt as _;
    let key = scratch.file("munge.key", &"0123456789abcdef".repeat(8));
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    let flag = |name: &str, file: &str| format!("--{name}={}", scratch.join(file).display());
    Command::new("munged")
        .args(["--foreground", "--force", "--num-threads=1"])
        .args([flag("key-file", "munge.key"), flag("socket", "munge.sock"), flag("pid-file", "munge.pid")])
        .args([flag("log-file", "munge.log"), flag("seed-file", "munge.seed")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Writes the configuration of a cluster whose hosts have addresses of their own on the loopback interface.
fn configure(scratch: &ScratchDirectory) {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = host.split('.').next().expect("there is a first part").to_owned();
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap().trim().to_owned();
    let [controller, ports @ ..] = free_ports::<{ HOSTS + 1 }>();
    let path = |name: &str| scratch.join(name).display().to_string();
    let mut text = format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmUser={user}\nSlurmdUser={user}\n\
         AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={munge}\nStateSaveLocation={state}\nSlurmdSpoolDir={spool}-%n\n\
         SlurmctldPidFile={controller_id}\nSlurmdPidFile={daemon}-%n.pid\nSlurmctldLogFile={controller_log}\nSlurmdLogFile={daemon}-%n.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
         SwitchType=switch/none\nMpiDefault=none\nJobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
         JobCompType=jobcomp/none\nReturnToService=2\nSlurmdTimeout=300\nInactiveLimit=0\nKillWait=5\nMinJobAge=300\n",
        munge = path("munge.sock"),
        state = path("state"),
        spool = path("spool"),
        controller_id = path("slurmctld.pid"),
        controller_log = path("slurmctld.log"),
        daemon = path("slurmd"),
    );
    for (index, port) in ports.iter().enumerate() {
        let number = index + 1;
        text.push_str(&format!(
            "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.{number} Port={port} CPUs=2 RealMemory=100\n"
        ));
    }
    text.push_str("PartitionName=daq Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
    scratch.file("slurm.conf", &text);
    scratch.file("cgroup.conf", "CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\n");
    fs::create_dir(scratch.join("state")).unwrap();
    assert!(Path::new(&path("state")).is_dir());
}
