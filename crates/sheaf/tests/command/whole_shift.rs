//! A whole shift, as a crew does it: with `sheaf ctl`, `sheaf runs`, `sheaf verify` and the state over HTTP, and nothing else.
//!
//! Each step ends with a state or an amount, never after a time. For every change there is one run with small amounts; with `SHEAF_NIGHTLY` there are
//! some ten minutes of runs. A change of run control that a crew would use belongs here as a step of [`Crew::take_a_run`].

use crate::child::{signal, wait_until};
use crate::feed::{options, payload};
use crate::serve::{Controller, codes};
use serde_json::{Value, json};
use sheaf_feed::SourceClient;
use sheaf_feed::client::SourceFragment;
use sheaf_wire::{EventId, Timestamp};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Four boards with a program each, and a trigger supervisor. `SHEAF` stands for the command.
const SYSTEM: &str = "[source]\nkind = \"feed\"\ncount = 4\n[source.names]\n3 = \"ecal-3\"\n[readout]\ncount = 2\n\
     [builder]\ncount = 2\n[trigger]\nmode = \"command\"\n[trigger.command]\n\
     command = [\"SHEAF\", \"emulate-trigger\", \"--rate\", \"200\"]\n[manager]\npatience = 100\n\
     [incomplete]\npolicy = \"wait\"\n[monitor]\nalarm_hold_off_ms = 0\n[transport]\nkind = \"tcp\"\n";

/// The board that breaks.
const BROKEN: &str = "ecal-3";

/// Amounts of a shift.
struct Amounts {
    runs: u64,
    /// Events that are stored after each step.
    events: u64,
}

impl Amounts {
    fn of_this_test() -> Self {
        match std::env::var_os("SHEAF_NIGHTLY") {
            None => Self { runs: 1, events: 40 },
            Some(_) => Self { runs: 12, events: 600 },
        }
    }
}

/// The program of a board, for one run. It gives the fragments of all events in their order, unless the board is broken.
struct Board {
    is_broken: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Board {
    fn begin(socket: PathBuf, source: u32) -> Self {
        let (is_broken, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (broken, over) = (is_broken.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let Ok(mut client) = SourceClient::connect(&socket, options(&[source])) else { return };
            if !client.wait_for_start(None).unwrap_or(false) {
                return;
            }
            for event in 0.. {
                while broken.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let payload = payload(source as usize, event);
                let fragment = SourceFragment {
                    event: EventId(event),
                    time: Timestamp(event * 1_000),
                    payload: &payload,
                };
                // The run has ended.
                if over.load(Ordering::Relaxed) || client.send(0, fragment).is_err() {
                    return;
                }
            }
        });
        Self { is_broken, is_over, thread: Some(thread) }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the program of a board has failed");
        }
    }
}

/// A crew and its system.
struct Crew {
    controller: Controller,
    amounts: Amounts,
}

impl Crew {
    fn ctl(&self, arguments: &str) -> crate::child::Ended {
        self.controller.ctl(arguments).exits(0)
    }

    fn state(&self) -> Value {
        self.controller.http("GET", "/api/v1/state", &[], "").1
    }

    /// Waits until further events are stored, and the books of triggers balance meanwhile.
    fn take_events(&self, after: &str) {
        let stored = |state: &Value| state["events"]["stored"].as_u64().unwrap_or(0);
        let before = stored(&self.state());
        wait_until(&format!("further events are stored after {after}"), || {
            let state = self.state();
            assert_eq!(state["imbalance"]["triggers"], 0, "after {after}: {state:#}");
            stored(&state) >= before + self.amounts.events
        });
    }

    /// Codes and culprits of the alarms.
    fn alarms(&self) -> Vec<(String, String)> {
        let (_, list) = self.controller.http("GET", "/api/v1/alarms", &[], "");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let alarms = list["alarms"].as_array().expect("a list of alarms").iter();
        alarms.map(|alarm| (text(&alarm["code"]), text(&alarm["culprit"]))).collect()
    }

    fn wait_for_state(&self, wanted: &str) {
        self.controller.wait_for(&format!("run control is {wanted}"), |status| status["state"] == wanted);
    }

    /// Brings up a run and starts it. Returns the programs of its boards.
    fn start(&self, run: u64) -> Vec<Board> {
        self.ctl("configure --no-wait --comment late-shift");
        let socket = |source: u32| self.controller.place.join(&format!("runs/ru{}.feed", source / 2));
        wait_until("the run accepts programs", || socket(0).exists() && socket(2).exists());
        let boards = (0..4).map(|source| Board::begin(socket(source), source)).collect();
        self.wait_for_state("configured");
        self.ctl("start").says(&[&format!("run {run} is running")]);
        self.take_events("start");
        boards
    }

    /// A board falls silent, is named by an alarm, excluded, repaired and included.
    fn lose_a_board(&self, boards: &[Board]) {
        boards[3].is_broken.store(true, Ordering::Relaxed);
        let alarm = ("source-silent".to_owned(), BROKEN.to_owned());
        wait_until("an alarm names the board", || self.alarms().contains(&alarm));
        self.ctl("status").prints(&["source ecal-3 has given nothing", "sheaf ctl exclude"]);
        self.ctl(&format!("exclude {BROKEN} --timeout 300"));
        wait_until("the alarm is over", || !self.alarms().iter().any(|(_, culprit)| culprit == BROKEN));
        self.take_events("the exclusion of a board");
        boards[3].is_broken.store(false, Ordering::Relaxed);
        self.ctl(&format!("include {BROKEN} --timeout 300"));
        let is_back = |status: &Value| status["sources"].as_array().is_some_and(Vec::is_empty);
        self.controller.wait_for("the board is back", is_back);
        self.take_events("the return of a board");
    }

    /// A builder unit dies and comes back by itself; another one hangs, and the crew has it started again.
    fn lose_nodes(&self, launch: u64) {
        let dead = self.controller.node(launch, "bu0");
        signal(dead, "KILL");
        let nodes = || crate::child::children_of(self.controller.run(launch));
        wait_until("bu0 has another process", || {
            nodes().iter().any(|(name, process)| name == "bu0" && *process != dead)
        });
        self.take_events("the death of a node");
        signal(self.controller.node(launch, "bu1"), "STOP");
        self.ctl("recover bu1 --timeout 300");
        self.take_events("the return of a node");
        wait_until("no node is away", || !self.alarms().iter().any(|(code, _)| code.starts_with("node-")));
    }

    fn pause(&self, run: u64) {
        self.ctl("pause").says(&[&format!("run {run} is paused")]);
        let accepted = self.controller.triggers_so_far();
        assert_eq!(self.controller.status()["state"], "paused");
        self.ctl("resume").says(&[&format!("run {run} is running")]);
        wait_until("triggers are taken again", || self.controller.triggers_so_far() > accepted);
        self.take_events("resume");
    }

    /// Looks the run up: its end, books, what was excluded, judgement and files.
    fn look_up(&self, run: u64) {
        let place = &self.controller.place;
        place.sheaf(&format!("runs comment {run} fine --quality good --author crew")).exits(0);
        let record = place.sheaf(&format!("runs show {run} --json")).exits(0).json();
        let ledger = &record["ledger"];
        assert_eq!((&record["state"], &ledger["balanced"]), (&json!("good"), &json!(true)), "{record:#}");
        assert_eq!(ledger["triggers"], ledger["stored"], "{ledger:#}");
        assert!(ledger["time"]["dead_ns"]["paused"].as_u64() > Some(0), "{ledger:#}");
        let range = &ledger["exclusions"][0];
        assert!(
            range["source"] == 3 && range["included_from_event"].as_u64() > range["first_event"].as_u64(),
            "{ledger:#}"
        );
        let comments: Vec<_> = record["comments"].as_array().unwrap().iter().map(|it| &it["text"]).collect();
        assert_eq!(comments, ["late-shift", "bu0-died", "fine"]);
        assert_eq!(record["comments"][2]["quality"], "good");
        let report = place.sheaf(&format!("verify runs/run{run:06} --json")).exits(0).json();
        assert_eq!((&report["events"], &report["duplicates"]), (&ledger["stored"], &json!(0)), "{report:#}");
    }

    /// Takes a run from its configuration to its record.
    fn take_a_run(&self, run: u64) {
        let boards = self.start(run);
        self.lose_a_board(&boards);
        self.lose_nodes(run);
        self.pause(run);
        self.controller.place.sheaf(&format!("runs comment {run} bu0-died")).exits(0);
        // A next run without a gap (`sheaf ctl switch`) needs nodes that no agent has started, and has tests of its own.
        self.ctl("stop").says(&[&format!("run {run} ended: all")]);
        drop(boards);
        self.wait_for_state("idle");
        self.look_up(run);
        assert_eq!(codes(&self.controller.status()).len(), 0);
    }
}

#[test]
fn a_crew_takes_runs_in_which_a_board_and_nodes_break_and_all_books_balance() {
    let system = SYSTEM.replace("SHEAF", env!("CARGO_BIN_EXE_sheaf"));
    let crew = Crew { controller: Controller::begin(&system), amounts: Amounts::of_this_test() };
    for run in 1..=crew.amounts.runs {
        crew.take_a_run(run);
    }
    let states: Vec<_> = crew.controller.runs().iter().map(|run| run["state"].clone()).collect();
    assert_eq!(states, vec![json!("good"); states.len()]);
    assert_eq!(states.len() as u64, crew.amounts.runs);
}
