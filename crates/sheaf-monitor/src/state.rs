//! The state of a run as JSON, made from a snapshot.

mod alarm;
mod books;
mod nodes;

pub(crate) use alarm::AlarmList;
pub use alarm::{Alarm, AlarmSilence, PastAlarm, Severity};
pub use books::{Books, Cause, Culprit, DeadTime, Drop, Events, Fragments, Imbalance, Shut, Triggers};
pub(crate) use nodes::figures as figures_of;
pub use nodes::{Figure, Fill, Missing, NodeState, SourceState};

use crate::columns::{manager, oldest};
use crate::description::{RunDescription, RunVerdict};
use crate::messages::LogEntry;
use crate::values::ValueCounts;
use serde::Serialize;
use sheaf_telemetry::{NodeSnapshot, Snapshot, Unit, buckets, catalog};

/// Version of the interface for programs.
pub const API: u32 = 1;

/// Everything that is known of a run at one moment, except numbers over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Version of this interface.
    pub api: u32,
    /// Version of Sheaf.
    pub version: &'static str,
    /// When this was composed, in milliseconds since 1970.
    pub time_ms: u64,
    /// Age of the oldest values of a node that has not ended.
    pub age_ms: Option<u64>,
    /// Number of this state. A higher one is newer.
    pub revision: u64,
    /// The run.
    pub run: Run,
    /// Books of triggers, events and fragments, and dead time.
    #[serde(flatten)]
    pub books: Books,
    /// All nodes that were expected, and those that publish.
    pub nodes: Vec<NodeState>,
    /// Sources in trouble.
    pub sources: Vec<SourceState>,
    /// Time from a trigger to the end of its event.
    pub latency: Latency,
    /// Conditions that an operator must know.
    pub alarms: Vec<Alarm>,
    /// Alarms of the run that have ended and that nobody has seen, the latest first.
    pub past_alarms: Vec<PastAlarm>,
    /// Numbers of values from outside.
    pub values: ValueCounts,
    /// The last messages of the log.
    pub log: Vec<LogEntry>,
    /// State of run control, if this page has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<serde_json::Value>,
}

/// The run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Run {
    /// Its number; `null` before the event manager has published.
    pub number: Option<u64>,
    /// `none`, `starting`, `ready`, `running`, `paused`, `finishing`, `closing` or `closed`.
    pub phase: String,
    /// When it began, in milliseconds since 1970.
    pub began_ms: Option<u64>,
    /// Live time and dead time.
    pub seconds: f64,
    /// Run directory, if the run writes files.
    pub directory: Option<String>,
    /// Nodes and programs that the run waits for, before its start or at its end.
    pub waits_for: Option<String>,
    /// Number of sources.
    pub sources: u64,
    /// The standby event manager; `null` in a run that is to have none, and before the event manager has published.
    pub standby: Option<Standby>,
    /// Readout units without a mirror that could act for them; `null` in a run without mirrors, and before the event manager has published.
    pub unmirrored: Option<Vec<String>>,
    /// Result, after the end.
    pub verdict: Option<RunVerdict>,
}

/// The standby event manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Standby {
    /// Whether it can take over. If not, the run ends with its event manager.
    pub ready: bool,
    /// Number of take-overs.
    pub take_overs: u64,
    /// Messages of the event manager that wait for it.
    pub held_messages: u64,
    /// Time for which the first of them has waited.
    pub wait_seconds: f64,
}

/// Numbers of events by the time from their trigger to their end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Upper bounds in seconds.
    pub bounds_s: Vec<f64>,
    /// Numbers of events; one more than bounds.
    pub counts: Vec<u64>,
    /// Sum of the times in seconds.
    pub sum_s: f64,
}

/// Everything that a state is composed of, beside a snapshot.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) version: &'static str,
    pub(crate) time_ms: u64,
    pub(crate) revision: u64,
    pub(crate) run: Option<&'a RunDescription>,
    pub(crate) waits_for: Option<String>,
    pub(crate) verdict: Option<RunVerdict>,
}

/// Composes a state, without alarms, messages and run control.
pub(crate) fn compose(snapshot: &Snapshot, context: &Context<'_>) -> State {
    let manager = manager(snapshot);
    let books = Books::of(snapshot, manager);
    let run = compose_run(manager, &books, context);
    let in_progress = matches!(&*run.phase, "running" | "paused" | "finishing");
    State {
        api: API,
        version: context.version,
        time_ms: context.time_ms,
        age_ms: oldest(snapshot).map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        revision: context.revision,
        nodes: nodes::compose(snapshot, context.run),
        sources: nodes::sources_in_trouble(snapshot, context.run, in_progress),
        latency: manager.map(latency_of).unwrap_or_default(),
        run,
        books,
        alarms: Vec::new(),
        past_alarms: Vec::new(),
        values: ValueCounts::default(),
        log: Vec::new(),
        control: None,
    }
}

fn compose_run(manager: Option<&NodeSnapshot>, books: &Books, context: &Context<'_>) -> Run {
    let description = context.run;
    let began = manager.map(|manager| manager.sum(&catalog::RUN_START)).filter(|began| *began > 0);
    let phase = manager.and_then(|manager| {
        let states = manager.of(&catalog::RUN_STATE);
        let mut present = states.filter(|(_, values)| values.first() == Some(&1));
        present.next().and_then(|(series, _)| series.label("state").map(str::to_owned))
    });
    let phase = match (phase, &context.verdict) {
        (_, Some(_)) => "closed".to_owned(),
        (Some(phase), None) => phase,
        (None, None) => if description.is_some() { "starting" } else { "none" }.to_owned(),
    };
    Run {
        number: manager.map(|manager| manager.sum(&catalog::RUN_NUMBER)).filter(|number| *number > 0),
        phase,
        began_ms: began.map(|began| began / 1_000_000),
        seconds: books.dead_time.live_seconds + books.dead_time.dead_seconds,
        directory: description.and_then(|run| run.directory.clone()),
        waits_for: context.waits_for.clone(),
        sources: description.map_or(0, |run| run.sources.len() as u64),
        standby: manager.and_then(standby_of),
        unmirrored: manager.and_then(unmirrored_of),
        verdict: context.verdict.clone(),
    }
}

/// Returns the state of the standby event manager, as the event manager has published it.
pub(crate) fn standby_in(snapshot: &Snapshot) -> Option<Standby> {
    manager(snapshot).and_then(standby_of)
}

fn standby_of(manager: &NodeSnapshot) -> Option<Standby> {
    // Without a standby in the configuration, there is no such series.
    let (_, ready) = manager.of(&catalog::STANDBY_READY).next()?;
    Some(Standby {
        ready: ready.first() == Some(&1),
        take_overs: manager.sum(&catalog::TAKE_OVERS),
        held_messages: manager.sum(&catalog::STANDBY_HELD),
        wait_seconds: Unit::Seconds.scale(manager.sum(&catalog::STANDBY_WAIT)),
    })
}

fn unmirrored_of(manager: &NodeSnapshot) -> Option<Vec<String>> {
    // Without mirrors in the configuration, there are no such series.
    let mut units = manager.of(&catalog::READOUT_MIRRORED).peekable();
    units.peek()?;
    let without = units.filter(|(_, values)| values.first() == Some(&0));
    Some(without.filter_map(|(series, _)| series.label("readout").map(str::to_owned)).collect())
}

fn latency_of(manager: &NodeSnapshot) -> Latency {
    let Some((_, values)) = manager.of(&catalog::EVENT_SECONDS).next() else { return Latency::default() };
    let Some((sum_ns, counts)) = values.split_last() else { return Latency::default() };
    let seconds = |ns: u64| Unit::Seconds.scale(ns);
    Latency {
        bounds_s: buckets::BOUNDS_NS.iter().map(|bound| seconds(*bound)).collect(),
        counts: counts.to_vec(),
        sum_s: seconds(*sum_ns),
    }
}

#[cfg(test)]
mod tests;
