//! Conditions that an operator must know.
//!
//! A condition raises its alarm when it has lasted for a time that depends on it. The alarm goes when the condition does, except for losses,
//! which stay for the rest of the run because the numbers they come from do.

mod absent;
mod full;
mod holdups;
mod hosts;
mod values;

use crate::advice;
use crate::state::{Alarm, NodeState, Severity, SourceState, State};
use sheaf_protocol::manager::DeadTimeCause;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use absent::Absent;
use full::{Advice, Load};
use holdups::{Holdup, Holdups};
use hosts::Hosts;

pub(crate) use holdups::at as reasons_of_full_builders;
pub(crate) use hosts::HostFigures;
pub(crate) use values::ValueAlarms;

/// Codes of all alarms, with their meaning, for the page about them.
pub const CODES: [(&str, &str); 15] = [
    ("imbalance", "books do not balance"),
    ("loss", "accepted data were lost"),
    ("node-silent", "a node does not publish"),
    ("node-gone", "a node has ended during the run"),
    ("host-silent", "all nodes of a host have ended or do not publish"),
    ("hosts-silent", "the same of several hosts at once"),
    ("output-failing", "an output does not work"),
    ("run-unprotected", "the event manager has no standby that could take over"),
    ("unit-unprotected", "a readout unit has no mirror that could act for it"),
    ("dead-time", "more than 5 % of the last 10 s were dead time"),
    ("source-silent", "a source does not give a fragment that is requested"),
    ("incomplete", "events were built without a required source in the last 10 s"),
    ("value-error", "a value from outside is beyond a limit that is an error"),
    ("value-warning", "a value from outside is beyond a limit that is a warning"),
    ("value-stale", "a value from outside is not known"),
];

/// Time over which dead time and incomplete events are judged.
const WINDOW_MS: u64 = 10_000;

/// Fraction of dead time that raises an alarm.
const DEAD_FRACTION: f64 = 0.05;

/// Minimum time of a run without its pauses, in seconds, of which a fraction of dead time is taken.
const SHORTEST_RUN: f64 = 0.1;

/// Age of a node's values at which it counts as silent.
const SILENT_MS: u64 = 2_000;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    run: Option<u64>,
    /// When each condition began.
    began: BTreeMap<(&'static str, Option<String>), u64>,
    /// Earlier moments of the window, the oldest first.
    past: VecDeque<Moment>,
    absent: Absent,
    holdups: Holdups,
    hosts: Hosts,
}

#[derive(Clone, Debug)]
struct Moment {
    time_ms: u64,
    live: f64,
    dead: f64,
    /// By cause and culprit.
    reasons: BTreeMap<(&'static str, Option<String>), f64>,
    incomplete: u64,
    /// Triggers that there were.
    triggers: u64,
    /// Events that have ended.
    ended: u64,
}

/// Returns how long a condition lasts before it is an alarm.
const fn hold(code: &str) -> u64 {
    match code.as_bytes() {
        // Output that is out of room for a moment is ordinary back-pressure.
        b"output-failing" => 1_000,
        // Nodes of other processes end a moment before the news of the end of their run arrives.
        b"node-gone" => 1_000,
        // One that is started again joins within a second.
        b"run-unprotected" => 3_000,
        // A source that was held back may give again a moment later.
        b"source-silent" => 1_000,
        _ => 0,
    }
}

/// Returns whether triggers are not taken because builder units or readout units are full.
pub(crate) fn are_units_full(state: &State) -> bool {
    let cause = state.books.dead_time.now.as_ref().and_then(|shut| DeadTimeCause::from_name(&shut.cause));
    cause.is_some_and(is_of_full_units)
}

/// Returns whether the cause is that units are full, which they may be of events that wait for something else.
const fn is_of_full_units(cause: DeadTimeCause) -> bool {
    matches!(cause, DeadTimeCause::BuilderCredit | DeadTimeCause::ReadoutMemory)
}

impl Alarms {
    /// Adds what full builder units wait for at this moment.
    pub(crate) fn add_reasons(&mut self, time_ms: u64, reasons: BTreeSet<Holdup>) {
        self.holdups.add(time_ms, time_ms.saturating_sub(WINDOW_MS), reasons);
    }

    /// Returns the alarms of a state.
    pub(crate) fn judge(&mut self, state: &State) -> Vec<Alarm> {
        if self.run != state.run.number {
            *self = Self { run: state.run.number, ..Self::default() };
        }
        let mut conditions = books(state);
        if is_in_progress(state) {
            conditions.extend(state.nodes.iter().filter_map(|node| of_node(state, node)));
            conditions.extend(self.absent.judge(state));
            conditions.extend(unprotected(state));
            conditions.extend(unmirrored(state));
            conditions.extend(state.sources.iter().filter_map(of_source));
        } else {
            self.absent = Absent::default();
        }
        let moment = Moment::of(state);
        if matches!(&*state.run.phase, "running" | "paused")
            && let Some(past) = self.past.front()
        {
            let silent = state.sources.iter().find(|source| source.is_silent());
            let full = self
                .holdups
                .reason(past.time_ms)
                .map(|holdup| Advice::of(holdup, &Load::of(past, &moment, state)));
            conditions.extend(dead_time(past, &moment, silent, full));
            conditions.extend(incomplete(past, &moment));
        }
        self.remember(moment);
        let raised = self.raise(state.time_ms, conditions);
        let mut alarms = self.hosts.fold(state, raised);
        sort(&mut alarms);
        alarms
    }

    fn remember(&mut self, moment: Moment) {
        let first = moment.time_ms.saturating_sub(WINDOW_MS);
        self.past.push_back(moment);
        while self.past.get(1).is_some_and(|second| second.time_ms <= first) {
            self.past.pop_front();
        }
    }

    fn raise(&mut self, now_ms: u64, conditions: Vec<Alarm>) -> Vec<Alarm> {
        let mut began = BTreeMap::new();
        let mut raised = Vec::new();
        for mut alarm in conditions {
            let key = (alarm.code, alarm.culprit.clone());
            alarm.since_ms = self.began.get(&key).copied().unwrap_or(now_ms);
            began.insert(key, alarm.since_ms);
            if now_ms - alarm.since_ms >= hold(alarm.code) {
                raised.push(alarm);
            }
        }
        self.began = began;
        raised
    }
}

/// Returns whether nodes are expected to be there.
fn is_in_progress(state: &State) -> bool {
    matches!(&*state.run.phase, "starting" | "ready" | "running" | "paused" | "finishing")
}

/// Puts the most severe alarm first, and of those the oldest.
pub(crate) fn sort(alarms: &mut [Alarm]) {
    alarms.sort_by_key(|alarm| (std::cmp::Reverse(alarm.severity), alarm.since_ms));
}

fn alarm(code: &'static str, severity: Severity, text: String, culprit: Option<&str>, remedy: &str) -> Alarm {
    Alarm {
        code,
        severity,
        text,
        culprit: culprit.map(str::to_owned),
        remedy: remedy.to_owned(),
        since_ms: 0,
        silence: None,
        folded: Vec::new(),
    }
}

/// Returns the conditions of the books.
fn books(state: &State) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    // Fragments are booked by many nodes at slightly different times; the numbers of each node are of one moment.
    let imbalance = state.books.imbalance;
    for (value, what) in [(imbalance.triggers, "triggers"), (imbalance.fragments, "fragments")] {
        if value != 0 {
            let text = format!("the books of {what} do not balance: {value} are in no bin");
            let remedy = "this is a bug in Sheaf: keep the run directory and the log, and report it";
            alarms.push(alarm("imbalance", Severity::Error, text, Some(what), remedy));
        }
    }
    let drops = [("events", &state.books.events.drops), ("fragments", &state.books.fragments.drops)];
    for (what, drops) in drops {
        for drop in drops.iter().filter(|drop| drop.account == "loss") {
            let text = format!("{} {what} were lost: {}", drop.count, drop.reason);
            let remedy = "docs/operating/troubleshooting.md explains each reason, and what prevents it";
            alarms.push(alarm("loss", Severity::Error, text, Some(&drop.reason), remedy));
        }
    }
    alarms
}

fn of_node(state: &State, node: &NodeState) -> Option<Alarm> {
    let age_ms = node.age_ms?;
    let name = Some(&*node.name);
    // Nothing waits for a node that an operator has excluded.
    if node.excluded && (!node.up || age_ms >= SILENT_MS) {
        return None;
    }
    if !node.up {
        let text = format!("{} has ended during the run", node.name);
        let remedy = "its log has the reason; `sheaf ctl recover` starts it again during the run, and `sheaf ctl exclude` leaves it out";
        return Some(alarm("node-gone", Severity::Error, text, name, remedy));
    }
    if age_ms >= SILENT_MS {
        let text = format!("{} has published nothing for {} s", node.name, age_ms / 1_000);
        let remedy = "its process is stopped, hangs, or gets no processor time, or its agent is not connected: look at its host; `sheaf ctl recover` starts it again";
        return Some(alarm("node-silent", Severity::Error, text, name, remedy));
    }
    let is_failing = node.output_failing && !matches!(&*state.run.phase, "starting" | "ready");
    is_failing.then(|| {
        let text = format!("the output of {} does not work or has no room; events wait", node.name);
        let remedy = "look at the disk: free space, errors in the log, other writers";
        alarm("output-failing", Severity::Error, text, name, remedy)
    })
}

fn unprotected(state: &State) -> Option<Alarm> {
    // The event manager waits for it before the start.
    let is_missing = state.run.standby.is_some_and(|standby| !standby.ready) && state.run.phase != "starting";
    is_missing.then(|| {
        let text = "the event manager has no standby that can take over: if it dies now, the run ends".to_owned();
        let remedy = "its log says why the standby ended, or was too slow, or which voters are away; a standby that is started again joins during the run";
        alarm("run-unprotected", Severity::Warning, text, None, remedy)
    })
}

fn unmirrored(state: &State) -> Option<Alarm> {
    let units = state.run.unmirrored.as_ref().filter(|units| !units.is_empty())?;
    let is_in_progress = matches!(&*state.run.phase, "ready" | "running" | "paused" | "finishing");
    is_in_progress.then(|| {
        let (have, it) = if units.len() == 1 { ("has", "it") } else { ("have", "one of them") };
        let names = units.join(", ");
        let text = format!("{names} {have} no mirror any more: if {it} dies now, its fragments are lost");
        let remedy = "the run goes on, and has new mirrors when it is started again; the log says which process has ended, or was too slow";
        alarm("unit-unprotected", Severity::Warning, text, None, remedy)
    })
}

/// Advice about a silent source.
pub(super) const SILENT_SOURCE: &str = "look at its front end and its link; if it does not recover, exclude it (`sheaf ctl exclude`): events are then complete without it";

fn of_source(source: &SourceState) -> Option<Alarm> {
    let age = source.last_seen_seconds.filter(|_| source.is_silent())?;
    let name = source.shown();
    let text = format!("source {name} has given nothing for {age:.0} s");
    Some(alarm("source-silent", Severity::Warning, text, Some(&name), SILENT_SOURCE))
}

impl Moment {
    fn of(state: &State) -> Self {
        let dead_time = &state.books.dead_time;
        let mut reasons = BTreeMap::new();
        for cause in &dead_time.causes {
            let mut of_nobody = cause.seconds;
            for culprit in &cause.culprits {
                of_nobody -= culprit.seconds;
                reasons.insert((cause.cause, Some(culprit.node.clone())), culprit.seconds);
            }
            reasons.insert((cause.cause, None), of_nobody);
        }
        Self {
            time_ms: state.time_ms,
            live: dead_time.live_seconds,
            dead: dead_time.dead_seconds,
            reasons,
            incomplete: state.books.events.incomplete,
            triggers: state.books.triggers.offered,
            ended: {
                let events = &state.books.events;
                events.stored + events.rejected + events.dropped
            },
        }
    }
}

/// Returns the alarm about dead time, with the cause and the culprit of most of it. Where units are full of events that wait, the culprit is
/// what the events wait for, and not the units.
fn dead_time(
    past: &Moment,
    now: &Moment,
    silent: Option<&SourceState>,
    full: Option<Advice>,
) -> Option<Alarm> {
    let grown = |key: &(&'static str, Option<String>)| {
        now.reasons.get(key).unwrap_or(&0.0) - past.reasons.get(key).unwrap_or(&0.0)
    };
    // An operator has wanted the time of a pause.
    let paused = (DeadTimeCause::Paused.name(), None);
    let (live, dead) = (now.live - past.live, now.dead - past.dead - grown(&paused));
    let fraction = dead / (live + dead);
    if live + dead < SHORTEST_RUN || fraction < DEAD_FRACTION {
        return None;
    }
    let reasons = now.reasons.keys().filter(|key| **key != paused);
    let (name, node) = reasons.max_by(|one, other| grown(one).total_cmp(&grown(other)))?;
    let cause = DeadTimeCause::from_name(name)?;
    let seconds = (now.time_ms - past.time_ms) as f64 / 1e3;
    let time = format!("{:.0} % dead time in the last {seconds:.0} s", fraction * 100.0);
    let waits = is_of_full_units(cause);
    let advice = match (silent.filter(|_| waits), full.filter(|_| waits)) {
        (Some(source), _) => Advice::of_source(source.shown()),
        (None, Some(full)) => full.or_culprit(node.as_ref()),
        (None, None) => {
            let by = node.as_ref().map_or_else(String::new, |node| format!(" ({node})"));
            Advice {
                text: format!("{cause}{by}"),
                culprit: node.clone(),
                remedy: advice::remedy(cause).to_owned(),
            }
        }
    };
    let text = format!("{time}: {}", advice.text);
    Some(alarm("dead-time", Severity::Warning, text, advice.culprit.as_deref(), &advice.remedy))
}

fn incomplete(past: &Moment, now: &Moment) -> Option<Alarm> {
    let events = now.incomplete.checked_sub(past.incomplete).filter(|events| *events > 0)?;
    let text = format!("{events} events were built without a required source in the last 10 s");
    let remedy = "the sources in trouble are listed; exclude one that does not come back (`sheaf ctl exclude`), or make it optional (`source.optional`)";
    Some(alarm("incomplete", Severity::Warning, text, None, remedy))
}

#[cfg(test)]
pub(crate) mod tests;
