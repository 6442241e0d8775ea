//! Resources of this machine for faults: disks that fill up, freeze or become read-only, processor quotas, busy loops, hosts. A
//! missing resource is an error with the reason; the case is then skipped.

use super::process::tool;
use anyhow::{Context as _, Result, bail, ensure};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A file system of a case. Unmounted when dropped.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) path: PathBuf,
    is_frozen: bool,
}

impl Disk {
    /// Mounts a file system in memory of this size.
    pub(super) fn small(path: &Path, mebibytes: u64) -> Result<Self> {
        std::fs::create_dir_all(path)?;
        let options = format!("size={mebibytes}m");
        tool("mount", &["-t", "tmpfs", "-o", &options, "sheaf-torture", text(path)?])?;
        Ok(Self { path: path.to_owned(), is_frozen: false })
    }

    /// Mounts a file system on a loop device that can be frozen. Its writers then wait, as for an unreachable server.
    pub(super) fn freezable(image: &Path, path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path)?;
        std::fs::File::create(image)?.set_len(512 << 20)?;
        tool("mkfs.ext4", &["-q", "-F", text(image)?])?;
        tool("mount", &["-o", "loop", text(image)?, text(path)?])?;
        let mut disk = Self { path: path.to_owned(), is_frozen: false };
        // Checks that freezing works: some containers permit mounting only.
        disk.freeze()?;
        disk.thaw()?;
        Ok(disk)
    }

    /// Changes the size of a file system in memory.
    pub(super) fn resize(&self, mebibytes: u64) -> Result<()> {
        let options = format!("remount,size={mebibytes}m");
        tool("mount", &["-o", &options, text(&self.path)?])
    }

    /// Makes the file system read-only. No file may be open for writing.
    pub(super) fn make_read_only(&self) -> Result<()> {
        tool("mount", &["-o", "remount,ro", text(&self.path)?])
    }

    /// Makes a read-only file system writable again.
    pub(super) fn make_writable(&self) -> Result<()> {
        tool("mount", &["-o", "remount,rw", text(&self.path)?])
    }

    pub(super) fn freeze(&mut self) -> Result<()> {
        tool("fsfreeze", &["-f", text(&self.path)?])?;
        self.is_frozen = true;
        Ok(())
    }

    pub(super) fn thaw(&mut self) -> Result<()> {
        self.is_frozen = false;
        tool("fsfreeze", &["-u", text(&self.path)?])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_frozen {
            let _ = self.thaw();
        }
        // Lazily: a process of a case that failed may still have files there.
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

/// A control group whose processes share a fraction of one processor. Removed when dropped, once it is empty.
#[derive(Debug)]
pub(super) struct Quota {
    path: PathBuf,
}

/// The period of a quota, in microseconds.
const PERIOD_US: u64 = 100_000;

impl Quota {
    /// Creates a group with this percentage of one processor.
    pub(super) fn new(name: &str, percent: u64) -> Result<Self> {
        let quota_us = (PERIOD_US * percent / 100).to_string();
        let (old, new) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let (root, settings) = if old.join("cpu.cfs_quota_us").exists() {
            (old, vec![("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota_us)])
        } else if new.join("cgroup.subtree_control").exists() {
            // No effect if the controller is enabled already. If enabling is not permitted, writing the quota fails below.
            let _ = std::fs::write(new.join("cgroup.subtree_control"), "+cpu");
            (new, vec![("cpu.max", format!("{quota_us} {PERIOD_US}"))])
        } else {
            bail!("no control groups for processors are mounted below /sys/fs/cgroup");
        };
        let path = root.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let quota = Self { path };
        for (file, value) in settings {
            let file = quota.path.join(file);
            std::fs::write(&file, value).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(quota)
    }

    /// Returns the prefix of a command that puts it and its children into this group.
    pub(super) fn prefix(&self) -> Vec<String> {
        let join = "echo $$ > \"$0\" && exec \"$@\"";
        let procs = self.path.join("cgroup.procs").display().to_string();
        vec!["sh".to_owned(), "-c".to_owned(), join.to_owned(), procs]
    }

    /// Returns the number of times that its processes were throttled for exceeding their share.
    pub(super) fn throttled(&self) -> u64 {
        let statistics = std::fs::read_to_string(self.path.join("cpu.stat")).unwrap_or_default();
        let count = statistics.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Processes that keep processors busy. Killed when dropped.
#[derive(Debug)]
pub(super) struct BusyLoops(Vec<Child>);

impl BusyLoops {
    pub(super) fn start(count: u64) -> Result<Self> {
        let mut loops = Self(Vec::new());
        for _ in 0..count {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            loops.0.push(command.spawn().context("cannot start a busy loop")?);
        }
        Ok(loops)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Two connected hosts: network namespaces of this machine. Removed when dropped.
#[derive(Debug)]
pub(super) struct Hosts {
    near: NetworkHost,
    far: NetworkHost,
}

impl Hosts {
    /// Address of the host that stays.
    pub(super) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
    /// Address of the host that loses its power, or has the bad cable.
    pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);

    pub(super) fn new(name: &str) -> Result<Self> {
        let hosts =
            Self { near: NetworkHost(format!("{name}-near")), far: NetworkHost(format!("{name}-far")) };
        let (near, far) = (&hosts.near.0, &hosts.far.0);
        ip(&format!("netns add {near}"))?;
        ip(&format!("netns add {far}"))?;
        ip(&format!("link add cable netns {near} type veth peer name cable netns {far}"))?;
        for (host, address) in [(near, Self::NEAR), (far, Self::FAR)] {
            ip(&format!("-n {host} address add {address}/24 dev cable"))?;
            ip(&format!("-n {host} link set cable up"))?;
            ip(&format!("-n {host} link set lo up"))?;
        }
        Ok(hosts)
    }

    /// Returns the host that stays.
    pub(super) const fn near(&self) -> &NetworkHost {
        &self.near
    }

    /// Returns the other host.
    pub(super) const fn far(&self) -> &NetworkHost {
        &self.far
    }

    /// Unplugs the cable of the other host. From then on all traffic between the two is lost without an error.
    pub(super) fn unplug(&self) -> Result<()> {
        ip(&format!("-n {} link set cable down", self.far.0))
    }

    /// Has the cable of the other host pass at most this many megabits in a second. It loses packets beyond those that wait for 20 ms.
    pub(super) fn spoil(&self, megabits: u64) -> Result<()> {
        let arguments = format!(
            "-n {} qdisc replace dev cable root tbf rate {megabits}mbit burst 32kb latency 20ms",
            self.far.0
        );
        tool("tc", &arguments.split_whitespace().collect::<Vec<_>>())
    }

    /// Returns the number of packets that the spoiled cable has lost.
    pub(super) fn lost(&self) -> Result<u64> {
        let arguments = ["-s", "-j", "-n", &self.far.0, "qdisc", "show", "dev", "cable"];
        let shown = Command::new("tc").args(arguments).output().context("cannot start tc")?;
        let queues: serde_json::Value = serde_json::from_slice(&shown.stdout).context("tc prints JSON")?;
        queues[0]["drops"].as_u64().context("tc counts lost packets")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in [&self.near, &self.far] {
            let _ = ip(&format!("netns delete {}", host.0));
        }
    }
}

/// A host: a network namespace, by its name.
#[derive(Clone, Debug)]
pub(super) struct NetworkHost(String);

impl NetworkHost {
    /// Returns the prefix of a command that runs there.
    pub(super) fn prefix(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.0].map(str::to_owned).into()
    }

    /// Sends a message to an address of this host, as a program on it does, and returns the answer.
    pub(super) fn exchange(&self, address: &str, message: &str) -> Result<String> {
        let (host, port) = address.split_once(':').with_context(|| format!("{address} has no port"))?;
        let script = "exec 3<>/dev/tcp/$0/$1 && cat >&3 && cat <&3";
        let prefix = self.prefix();
        let mut command = Command::new(&prefix[0]);
        command.args(&prefix[1..]).args(["bash", "-c", script, host, port]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut client = command.spawn().context("cannot start ip")?;
        // It is dropped and closed with this statement.
        client.stdin.take().context("it has a pipe")?.write_all(message.as_bytes())?;
        let said = client.wait_with_output()?;
        ensure!(said.status.success(), "nobody answers at {address}");
        String::from_utf8(said.stdout).context("the answer is text")
    }
}

fn ip(arguments: &str) -> Result<()> {
    tool("ip", &arguments.split_whitespace().collect::<Vec<_>>())
}
