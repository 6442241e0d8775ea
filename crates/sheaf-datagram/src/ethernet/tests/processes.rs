//! Other processes: one that dies, and one without permission.
//!
//! The other process is this test program again; its environment defines its task ([`the_other_process`]).

use super::*;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

const TASK: &str = "SHEAF_TEST_ETHERNET_TASK";
const READY: &str = "the port is open";

/// Not a test of its own.
#[test]
fn the_other_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let backend = if task.ends_with("xdp") { Backend::Xdp } else { Backend::Packet };
    match EthernetPort::new(options(Host::A, 1, backend)) {
        Err(error) => println!("{error}"),
        Ok(mut port) => {
            println!("{READY}");
            loop {
                port.wait(Nanos::from_secs(1));
                while port.poll().is_some() {}
            }
        }
    }
}

/// This program in host A, behind `wrapper`. Killed with the value.
struct Other(Child);

impl Other {
    fn start(world: &World, wrapper: &[&str], task: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", world.name(Host::A)]).args(wrapper).arg(program);
        command.args(["--exact", "ethernet::tests::processes::the_other_process", "--nocapture"]);
        command.env(TASK, task).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// The first line that it prints with one of these in it.
    fn says(&mut self, expected: &[&str]) -> String {
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        let line = lines.map_while(Result::ok).find(|line| expected.iter().any(|part| line.contains(part)));
        line.unwrap_or_else(|| panic!("it says one of {expected:?}"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_is_killed_leaves_no_program_at_the_interface() {
    let Some(world) = World::new(PLAIN) else { return };
    let attached = || world.ip(Host::A, "-details link show e0").contains("prog/xdp");
    let mut doomed = Other::start(&world, &[], "xdp");
    doomed.says(&[READY]);
    assert!(attached());
    // `Child::kill` is SIGKILL: no destructor runs.
    drop(doomed);
    until("the kernel has detached the program", || !attached());
    // And the queue is free: a port waits for that itself.
    let mut a = port(&world, Host::A, options(Host::A, 1, Backend::Xdp));
    let mut b = port(&world, Host::B, options(Host::B, 1, Backend::Packet));
    meet(&mut a, &mut b);
    assert!(attached());
    drop(a);
    until("a port that is dropped detaches the program", || !attached());
}

#[test]
fn a_process_without_the_capabilities_is_told_which_it_needs() {
    let Some(world) = World::new(PLAIN) else { return };
    let bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"];
    if !world.succeeds(Host::A, &[&bare[..], &["true"]].concat()) {
        println!("skipped: no `setpriv` here to do without capabilities");
        return;
    }
    for (task, capabilities) in
        [("xdp", "cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock"), ("packet", "cap_net_raw")]
    {
        let mut other = Other::start(&world, &bare, task);
        let line = other.says(&["no permission", READY]);
        assert!(line.contains(&format!("`setcap {capabilities}+ep")), "{line}");
    }
}
