//! Somebody is killed, or asked to end: the run ends as `docs/operating` says for that fault, and its books say what it cost.

use super::{Case, Outcome, always, join_processor, nightly};
use crate::torture::books::{Kept, Promise, Status, number};
use crate::torture::process::{self, Process};
use crate::torture::run::Run;
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::{Context as _, Result};
use std::net::TcpListener;

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
    always("restart-builder-by-hand", |trial| restart_by_hand(trial, "bu0")),
    always("restart-readout-by-hand", |trial| restart_by_hand(trial, "ru1")),
    nightly("stop-once", |trial| stop(trial, 1)),
    nightly("stop-twice", |trial| stop(trial, 2)),
    always("stop-thrice", |trial| stop(trial, 3)),
];

/// A system with the default number of attempts: no event is dropped for deaths that have other causes.
fn system(trial: &mut Trial) -> System {
    let mut system = System::new(trial.by_scale(16_000, 60_000));
    system.transport = trial.dice.pick(&["tcp", "shm"]);
    system
}

/// Moments of so many faults, in order.
fn moments(trial: &mut Trial, count: u64) -> Vec<u64> {
    let mut moments: Vec<u64> = (0..count).map(|_| trial.moment()).collect();
    moments.sort_unstable();
    moments
}

fn kill_builder(trial: &mut Trial) -> Result<Outcome> {
    let system = system(trial);
    let mut run = trial.start(&system)?;
    let kills = trial.by_scale(3, 6);
    for percent in moments(trial, kills) {
        let node = trial.dice.pick(&["bu0", "bu1"]);
        let killed = trial.kill(&mut run, node, percent)?;
        run.node(node, killed)?;
    }
    let ended = run.end()?;
    let promise = Promise::nothing_lost().saying("it is started again");
    if let Some(summary) = trial.check(&ended, &promise, system.readouts)? {
        let lost = number(&summary["trouble"]["lost_builder_sessions"]);
        if lost == 0 {
            trial.problem("no lost builder session is booked");
        }
    }
    Ok(Outcome::Done)
}

fn kill_output(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.outputs = trial.dice.between(1, 2);
    let mut run = trial.start(&system)?;
    let kills = trial.by_scale(2, 5);
    for percent in moments(trial, kills) {
        let killed = trial.kill(&mut run, "out0", percent)?;
        run.node("out0", killed)?;
    }
    let ended = run.end()?;
    trial.check(&ended, &Promise::nothing_lost().saying("it is started again"), system.readouts)?;
    Ok(Outcome::Done)
}

/// Worker processes die with events in hand. Each event is tried again by another; one may be with two that die, and is stored as
/// it was built.
fn kill_worker(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.set("filter", "workers = 2\nprocesses = true\npatience_ms = 0");
    let mut run = trial.start(&system)?;
    let kills = trial.by_scale(4, 20);
    let mut killed = Vec::new();
    for percent in moments(trial, kills) {
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
    for percent in moments(trial, 4) {
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

/// Events of a dead readout unit are stored without its source, and its books are missing.
fn kill_readout(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.set("builder", "event_timeout_ms = 300\nrequest_retry_ms = 100");
    system.set("readout", "merge_timeout_ms = 50");
    let mut run = trial.start(&system)?;
    let percent = trial.dice.between(5, 45);
    trial.kill(&mut run, "ru1", percent)?;
    let ended = run.end()?;
    let promise = Promise {
        status: Status::Codes(&[1]),
        kept: Kept::ButSources(vec![1]),
        verify: &[0, 3],
        says: vec!["ru1 ended: signal: 9 (SIGKILL)".to_owned(), "without a report".to_owned()],
    };
    if let Some(summary) = trial.check(&ended, &promise, system.readouts)?
        && !summary["ledger"]["problems"].to_string().contains("no books of ru1")
    {
        trial
            .problem(format!("the ledger does not miss the books of ru1: {}", summary["ledger"]["problems"]));
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

/// Children end with their parent.
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

/// Kills and halts of all that is started again, in any order.
fn kill_and_freeze(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.outputs = 2;
    system.events *= 2;
    system.set("filter", "workers = 2\nprocesses = true\npatience_ms = 0");
    let mut run = trial.start(&system)?;
    let faults = trial.by_scale(5, 15);
    for percent in moments(trial, faults) {
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

/// Events may lack what the frozen unit held; none is dropped, and the status tells.
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

/// Nodes that were started one by one; one is killed, and started again by hand.
fn restart_by_hand(trial: &mut Trial, node: &str) -> Result<Outcome> {
    let mut system = system(trial);
    system.transport = "tcp";
    system.set("run", "number = 1").set("builder", "event_timeout_ms = 2000");
    let names = ["evm", "ru0", "ru1", "bu0", "bu1"];
    let mut text = system.to_toml(&trial.output);
    let listeners: Vec<TcpListener> =
        names.iter().map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    for (name, listener) in names.iter().zip(&listeners) {
        let role = match &name[..2] {
            "ev" => "manager",
            "ru" => "readout",
            _ => "builder",
        };
        let address = listener.local_addr()?;
        let sources = if role == "readout" { format!("sources = [{}]\n", &name[2..]) } else { String::new() };
        text += &format!("[[node]]\nname = {name:?}\nrole = {role:?}\naddress = \"{address}\"\n{sources}");
    }
    // The tables of nodes say how many there are.
    text = text.replace("count = 2\n", "");
    drop(listeners);
    std::fs::write(trial.directory.join("nodes.toml"), text)?;
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(trial.sheaf(name, &["node", "nodes.toml", name, "--json"])?);
    }
    let mut manager = nodes.remove(0);
    manager.expect_bytes(system.stored_bytes());
    let percent = trial.dice.between(5, 60);
    if trial.wait_for(&mut manager, percent)? {
        let index = names.iter().position(|name| *name == node).context("it is one of them")? - 1;
        nodes[index].signal("KILL")?;
        nodes.remove(index).end()?;
        trial.note_kill(node, percent);
        trial.note(format!("started {node} again"));
        nodes.push(trial.sheaf(&format!("{node}-again"), &["node", "nodes.toml", node, "--json"])?);
    }
    let ended = manager.end()?;
    for node in nodes {
        node.end()?;
    }
    // Nothing is lost with a builder unit. A readout unit takes with it what it held, and what came meanwhile.
    let promise = match node.starts_with("ru") {
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

/// The operator ends the run in the middle, once, twice or thrice.
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
    // What is cut is told by the status.
    let cut =
        Promise { status: Status::ByLoss, kept: Kept::ButDropped(&["stopped"]), ..Promise::nothing_lost() };
    let promise = match times {
        1 => Promise::nothing_lost(),
        2 => cut,
        // A run that was quick had ended by itself between two of them.
        _ if ended.status.code() != Some(130) => cut,
        // The third may come when all is closed but the process.
        _ => Promise { verify: &[0, 3], ..Promise::no_books(Status::Codes(&[130])) },
    };
    trial.check(&ended, &promise, system.readouts)?;
    Ok(Outcome::Done)
}

/// One Ctrl-C, and time for it to be heard: two signals at once are one.
fn interrupt(run: &Run) -> Result<()> {
    // A run that has ended meanwhile needs no signal.
    let _ = run.signal("INT");
    std::thread::sleep(std::time::Duration::from_millis(100));
    Ok(())
}
