//! A process is killed, or asked to end. The run ends as documented in `docs/operating` for that fault, and its books show the losses.

use super::{Case, Outcome, always, join_processor, nightly, or_skip};
use crate::torture::books::{Kept, Promise, Status, number};
use crate::torture::machine::Hosts;
use crate::torture::process::{self, Process};
use crate::torture::run::{Run, run_directory};
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

pub(super) const CASES: &[Case] = &[
    always("kill-builder", kill_builder),
    always("kill-output", kill_output),
    always("kill-worker", kill_worker),
    nightly("kill-processor", kill_processor),
    always("kill-readout", kill_readout),
    always("kill-manager", kill_manager),
    always("kill-parent", kill_parent),
    nightly("kill-one-process", kill_one_process),
    nightly("kill-and-freeze", kill_and_freeze),
    nightly("freeze-readout", freeze_readout),
    always("restart-builder-by-hand", |trial| restart_by_hand(trial, &["bu0"])),
    always("restart-readout-by-hand", |trial| restart_by_hand(trial, &["ru1"])),
    nightly("restart-all-builders-by-hand", |trial| restart_by_hand(trial, &["bu0", "bu1"])),
    always("kill-host", kill_host),
    nightly("stop-once", |trial| stop(trial, 1)),
    nightly("stop-twice", |trial| stop(trial, 2)),
    always("stop-thrice", |trial| stop(trial, 3)),
];

/// Returns a system of a few seconds for the cases of this family.
fn system(trial: &mut Trial) -> System {
    let mut system = System::new(trial.by_scale(16_000, 60_000));
    system.transport = trial.dice.pick(&["tcp", "shm"]);
    system
}

fn kill_builder(trial: &mut Trial) -> Result<Outcome> {
    let system = system(trial);
    let mut run = trial.start(&system)?;
    let kills = trial.by_scale(3, 6);
    for percent in trial.moments(kills) {
        let node = trial.dice.pick(&["bu0", "bu1"]);
        let killed = trial.kill(&mut run, node, percent)?;
        run.node(node, killed)?;
    }
    let ended = run.end()?;
    let promise = Promise::nothing_lost().saying("it is restarted");
    if let Some(summary) = trial.check(&ended, &promise, system.readouts)? {
        let lost = number(&summary["trouble"]["lost_builder_sessions"]);
        if lost == 0 {
            trial.problem("the books contain no lost builder session");
        }
    }
    Ok(Outcome::Done)
}

fn kill_output(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.outputs = trial.dice.between(1, 2);
    let mut run = trial.start(&system)?;
    let kills = trial.by_scale(2, 5);
    for percent in trial.moments(kills) {
        let killed = trial.kill(&mut run, "out0", percent)?;
        run.node("out0", killed)?;
    }
    let ended = run.end()?;
    trial.check(&ended, &Promise::nothing_lost().saying("it is restarted"), system.readouts)?;
    Ok(Outcome::Done)
}

/// Worker processes die while they judge events. Each event is retried by another worker. An event whose second worker dies, too, is
/// stored unfiltered.
fn kill_worker(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.set("filter", "workers = 2\nprocesses = true\npatience_ms = 0");
    let mut run = trial.start(&system)?;
    let kills = trial.by_scale(4, 20);
    let mut killed = Vec::new();
    for percent in trial.moments(kills) {
        if !trial.wait_for(&mut run, percent)? {
            break;
        }
        let is_alive = |process: &Process| process.is_processor() && !killed.contains(&process.id);
        let Some(victim) = run.process(is_alive)? else { break };
        process::signal(victim.id, "KILL")?;
        killed.push(victim.id);
        trial.note_kill("a worker", percent);
    }
    let ended = run.end()?;
    trial.check(&ended, &Promise::nothing_lost(), system.readouts)?;
    Ok(Outcome::Done)
}

fn kill_processor(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.set("filter", "workers = 1\ndoor = true\npatience_ms = 0");
    let mut run = trial.start(&system)?;
    run.reaches(1)?;
    for percent in trial.moments(4) {
        let processor = join_processor(trial)?;
        if trial.wait_for(&mut run, percent)? {
            processor.signal("KILL")?;
            trial.note_kill("a processor", percent);
        }
        processor.end()?;
    }
    let ended = run.end()?;
    trial.check(&ended, &Promise::nothing_lost(), system.readouts)?;
    Ok(Outcome::Done)
}

/// The readout unit is started again, and its emulated sources go on where the run is. Events lack them only if that takes longer than builder
/// units wait, on a busy machine.
fn kill_readout(trial: &mut Trial) -> Result<Outcome> {
    let system = system(trial);
    let mut run = trial.start(&system)?;
    let percent = trial.dice.between(5, 45);
    trial.kill(&mut run, "ru1", percent)?;
    let ended = run.end()?;
    let promise = Promise {
        status: Status::Codes(&[0, 3]),
        kept: Kept::ButSources(vec![1]),
        verify: &[0, 3],
        says: vec!["ru1 died (signal: 9 (SIGKILL)); it is restarted".to_owned()],
    };
    if let Some(summary) = trial.check(&ended, &promise, system.readouts)?
        && summary["trouble"]["restarted_readouts"] != 1
    {
        trial.problem(format!("the run does not say that ru1 was restarted: {}", summary["trouble"]));
    }
    Ok(Outcome::Done)
}

fn kill_manager(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.outputs = trial.dice.below(2);
    let mut run = trial.start(&system)?;
    let percent = trial.moment();
    trial.kill(&mut run, "evm", percent)?;
    let ended = run.end()?;
    let promise = Promise::no_books(Status::Codes(&[1])).saying("ended without a report");
    trial.check(&ended, &promise, system.readouts)?;
    Ok(Outcome::Done)
}

/// Child processes end with their parent.
fn kill_parent(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.set("filter", "workers = 1\nprocesses = true");
    kill_whole(trial, &system)
}

fn kill_one_process(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.processes = false;
    system.transport = "memory";
    kill_whole(trial, &system)
}

fn kill_whole(trial: &mut Trial, system: &System) -> Result<Outcome> {
    let mut run = trial.start(system)?;
    let percent = trial.moment();
    if trial.wait_for(&mut run, percent)? {
        run.signal("KILL")?;
        trial.note_kill("the run", percent);
    }
    let ended = run.end()?;
    trial.check(&ended, &Promise::no_books(Status::Killed), system.readouts)?;
    Ok(Outcome::Done)
}

/// Kills and freezes, in any order, all nodes that are restarted.
fn kill_and_freeze(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.outputs = 2;
    system.events *= 2;
    system.set("filter", "workers = 2\nprocesses = true\npatience_ms = 0");
    let mut run = trial.start(&system)?;
    let faults = trial.by_scale(5, 15);
    for percent in trial.moments(faults) {
        let node = trial.dice.pick(&["bu0", "bu1", "out0", "out1"]);
        if trial.dice.below(2) == 0 {
            let killed = trial.kill(&mut run, node, percent)?;
            run.node(node, killed)?;
        } else if trial.wait_for(&mut run, percent)? {
            let longest = trial.by_scale(4_000, 10_000);
            let time = std::time::Duration::from_millis(trial.dice.magnitude(100, longest));
            let victims: Vec<u32> = run.node(node, 0)?.into_iter().collect();
            trial.freeze(&format!("{node} at {percent} %"), &victims, time);
        }
    }
    let ended = run.end()?;
    trial.check(&ended, &Promise::nothing_lost(), system.readouts)?;
    Ok(Outcome::Done)
}

/// Events may lack the fragments of the frozen unit. None is dropped, and the exit status reports the loss.
fn freeze_readout(trial: &mut Trial) -> Result<Outcome> {
    let system = system(trial);
    let (percent, time) = (trial.moment(), trial.freeze_time());
    let mut run = trial.start(&system)?;
    if trial.wait_for(&mut run, percent)?
        && let Some(victim) = run.node("ru1", 0)?
    {
        trial.freeze(&format!("ru1 at {percent} %"), &[victim], time);
    }
    let ended = run.end()?;
    let promise =
        Promise { status: Status::ByLoss, kept: Kept::ButSources(vec![1]), ..Promise::nothing_lost() };
    let promise = Promise { verify: &[0, 3], ..promise };
    trial.check(&ended, &promise, system.readouts)?;
    Ok(Outcome::Done)
}

/// Nodes of a system whose nodes are started one by one.
const BY_HAND: [&str; 5] = ["evm", "ru0", "ru1", "bu0", "bu1"];

/// Writes the configuration of such a system with these addresses.
fn write_nodes(trial: &Trial, system: &mut System, addresses: &[SocketAddr]) -> Result<()> {
    system.transport = "tcp";
    system.set("run", "number = 1").set("builder", "event_timeout_ms = 2000");
    // The number of nodes follows from their tables.
    let mut text = system.to_toml(&trial.output).replace("count = 2\n", "");
    for (name, address) in BY_HAND.iter().zip(addresses) {
        let role = match &name[..2] {
            "ev" => "manager",
            "ru" => "readout",
            _ => "builder",
        };
        let sources = if role == "readout" { format!("sources = [{}]\n", &name[2..]) } else { String::new() };
        text += &format!("[[node]]\nname = {name:?}\nrole = {role:?}\naddress = \"{address}\"\n{sources}");
    }
    std::fs::write(trial.directory.join("nodes.toml"), text).context("cannot write a configuration")
}

/// Returns the arguments of the command for a node.
fn node(name: &str) -> [&str; 4] {
    ["node", "nodes.toml", name, "--json"]
}

/// Nodes are started one by one; some are killed and restarted by hand.
fn restart_by_hand(trial: &mut Trial, victims: &[&str]) -> Result<Outcome> {
    let mut system = system(trial);
    let listeners =
        BY_HAND.map(|_| TcpListener::bind("127.0.0.1:0")).into_iter().collect::<Result<Vec<_>, _>>()?;
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    drop(listeners);
    write_nodes(trial, &mut system, &addresses)?;
    let mut nodes = BTreeMap::new();
    for name in BY_HAND {
        nodes.insert(name, trial.sheaf(name, &node(name))?);
    }
    let mut manager = nodes.remove("evm").context("it was started")?;
    manager.expect_bytes(system.stored_bytes());
    let percent = trial.dice.between(5, 60);
    if trial.wait_for(&mut manager, percent)? {
        for victim in victims {
            let killed = nodes.remove(victim).context("it is one of them")?;
            killed.signal("KILL")?;
            killed.end()?;
            trial.note_kill(victim, percent);
        }
        if victims == ["bu0", "bu1"] && !manager.says("no builder unit is left")? {
            trial.problem("the event manager does not report that all builder units are gone");
        }
        for victim in victims {
            trial.note(format!("restarted {victim}"));
            nodes.insert(victim, trial.sheaf(&format!("{victim}-again"), &node(victim))?);
        }
    }
    let ended = manager.end()?;
    for node in nodes.into_values() {
        node.end()?;
    }
    // The death of a builder unit loses nothing. That of a readout unit loses the fragments that it held, and those that arrived
    // until its restart.
    let promise = match victims.iter().any(|name| name.starts_with("ru")) {
        true => Promise {
            status: Status::ByLoss,
            kept: Kept::ButSources(vec![1]),
            verify: &[0, 3],
            says: Vec::new(),
        },
        false => Promise::nothing_lost(),
    };
    trial.check(&ended, &promise, system.readouts)?;
    Ok(Outcome::Done)
}

/// A host loses its power: no connection of its builder unit is closed, and its kernel does not answer. The other nodes detect that
/// silence long before the time for which a process may be stopped.
fn kill_host(trial: &mut Trial) -> Result<Outcome> {
    let hosts = or_skip!(Hosts::new(&trial.mark));
    let mut system = system(trial);
    let address = |(port, name): (u16, &&str)| {
        let host = if *name == "bu1" { Hosts::FAR } else { Hosts::NEAR };
        SocketAddr::from((host, port))
    };
    let addresses: Vec<_> = (7001..).zip(&BY_HAND).map(address).collect();
    write_nodes(trial, &mut system, &addresses)?;
    let mut nodes = BTreeMap::new();
    for name in BY_HAND {
        let host = if name == "bu1" { hosts.far() } else { hosts.near() };
        nodes.insert(name, trial.sheaf_below(&host.prefix(), name, &node(name))?);
    }
    let mut manager = nodes.remove("evm").context("it was started")?;
    manager.expect_bytes(system.stored_bytes());
    let percent = trial.dice.between(5, 60);
    if trial.wait_for(&mut manager, percent)? {
        hosts.unplug()?;
        let killed = nodes.remove("bu1").context("it was started")?;
        killed.signal("KILL")?;
        killed.end()?;
        trial.note_kill("bu1 with its host", percent);
        // Its socket for consumers remains, because it is not restarted.
        let _ = std::fs::remove_file(run_directory(&trial.output)?.join("bu1.tap"));
    }
    let ended = manager.end()?;
    for node in nodes.into_values() {
        node.end()?;
    }
    if let Some(summary) = trial.check(&ended, &Promise::nothing_lost(), system.readouts)?
        && number(&summary["trouble"]["lost_builder_sessions"]) != 1
    {
        trial.problem("the builder unit of the dead host is not booked as lost");
    }
    Ok(Outcome::Done)
}

/// The operator interrupts the run in the middle, once, twice or three times.
fn stop(trial: &mut Trial, times: u64) -> Result<Outcome> {
    let mut system = system(trial);
    system.processes = trial.dice.below(2) == 0;
    system.transport = if system.processes { system.transport } else { "memory" };
    let mut run = trial.start(&system)?;
    let percent = trial.moment();
    if trial.wait_for(&mut run, percent)? {
        for _ in 0..times {
            interrupt(&run)?;
        }
        trial.note(format!("{times} Ctrl-C at {percent} %"));
    }
    let ended = run.end()?;
    trial.note(format!("it ended with {}", ended.status));
    // The exit status reports losses.
    let cut =
        Promise { status: Status::ByLoss, kept: Kept::ButDropped(&["stopped"]), ..Promise::nothing_lost() };
    let promise = match times {
        1 => Promise::nothing_lost(),
        2 => cut,
        // The run may have ended by itself between two signals.
        _ if ended.status.code() != Some(130) => cut,
        // The third signal may arrive when all files are closed but the process still exists.
        _ => Promise { verify: &[0, 3], ..Promise::no_books(Status::Codes(&[130])) },
    };
    trial.check(&ended, &promise, system.readouts)?;
    Ok(Outcome::Done)
}

/// Sends one Ctrl-C and waits for it to be handled: two pending signals are merged into one.
fn interrupt(run: &Run) -> Result<()> {
    // A run that has ended meanwhile needs no signal.
    let _ = run.signal("INT");
    std::thread::sleep(std::time::Duration::from_millis(100));
    Ok(())
}
