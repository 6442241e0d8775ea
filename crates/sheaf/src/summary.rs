//! Summary of a run, as a table and as JSON.

mod exclusions;
mod extras;
mod hits;
mod kept;
mod programs;
mod shifts;
mod trigger_link;
mod workers;

use extras::READOUTS_RESTARTED_BEFORE;
pub(crate) use extras::{Extras, FARM_ACCOUNTS_LOST, Lost, OUTPUT_ACCOUNTS_LOST, PROGRAMS_REFUSED};
use extras::{join_hits, join_missing, slower};
pub(crate) use hits::{HitLedger, WindowLedger};
pub(crate) use kept::explain;
use programs::ProgramSummary;
pub(crate) use trigger_link::TriggerLinkSummary;
pub(crate) use workers::WorkerSummary;

use crate::plan::Plan;
use crate::run_directory::{self, Counting, Stored};
pub(crate) use exclusions::ExclusionSummary;
use kept::Kept;
use serde::{Deserialize, Serialize};
use sheaf_config::Config;
use sheaf_node::report::RunReport;
use sheaf_protocol::ledger::{Counter, Ledger};
use sheaf_protocol::manager::DeadTimeCause;
use sheaf_store::run::EndRecord;
use sheaf_wire::{Nanos, NodeId, Role, SessionId, SourceId, SourceNames};
use shifts::ShiftSummary;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A run, as `--json` prints it. Names carry their units.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// The number of the run.
    pub(crate) run: u32,
    /// Fate of the accepted triggers.
    #[serde(default)]
    pub(crate) kept: Kept,
    /// Events whose fragments were brought together and judged: stored or rejected.
    pub(crate) events_built: u64,
    /// Of these, events that lack a required source.
    pub(crate) events_incomplete: u64,
    /// Fragments in ended events.
    pub(crate) fragments: u64,
    /// Payload bytes of those.
    pub(crate) bytes: u64,
    /// Payload that readout units sent to builder units, over all payload including what no builder requested: the load
    /// of the network as a fraction of full building. `null` if everything was requested.
    pub(crate) load_fraction: Option<f64>,
    /// From the start of the run, or the end of its warm-up, to the end of its last event.
    pub(crate) seconds: f64,
    /// When the run began, since 1970; `null` where it did not.
    pub(crate) started_at_ns: Option<u64>,
    pub(crate) events_per_second: f64,
    pub(crate) fragments_per_second: f64,
    pub(crate) bytes_per_second: f64,
    /// From an event's trigger to the event manager's news of its end.
    pub(crate) latency_ns: Latency,
    /// The largest resident memory of the process; of all processes together with `--processes`.
    pub(crate) peak_rss_bytes: u64,
    /// Processor time of the process, in user and kernel mode, from its start; of all processes together with
    /// `--processes`.
    pub(crate) cpu_seconds: f64,
    /// The run's directory; `null` where nothing is written.
    pub(crate) output: Option<PathBuf>,
    /// Whether a signal ended the run.
    pub(crate) interrupted: bool,
    /// Whether an operator has ended the run in favour of the next one, which has followed without a gap.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) switched: bool,
    /// Reason why `sheaf run` ended the run early; `null` if it did not.
    #[serde(default)]
    pub(crate) ended_early: Option<EarlyEnd>,
    pub(crate) ledger: LedgerSummary,
    /// Time for which triggers were not accepted and number of such intervals, by cause.
    pub(crate) dead_time: BTreeMap<String, DeadTimeSummary>,
    /// The link to the trigger supervisor, where one gives the triggers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trigger_link: Option<TriggerLinkSummary>,
    /// The hits of self-triggered front ends, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hits: Option<HitLedger>,
    /// Fraction of the hits that a run may lose with exit status 0.
    #[serde(default)]
    pub(crate) lost_hits_allowed: f64,
    /// Counters of the nodes that are not in their ledgers; zero counters are left out.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Nodes that did not appear, sessions that died.
    pub(crate) trouble: Trouble,
    /// For each required source that events were built without: how many, by reason. Builder units that were killed, and those
    /// that another host runs, are not in this.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) missing_sources: MissingSources,
    /// Names of the sources in this summary, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) source_names: BTreeMap<u32, String>,
    /// Time that an event took on the thread of the slowest builder unit, where that judged without a pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inline_judging_us: Option<f64>,
    /// Work of the farms' workers; empty without a farm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) workers: Vec<WorkerSummary>,
    /// Programs that the run has started to feed sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) programs: Vec<ProgramSummary>,
    /// Evolution of the run over time.
    pub(crate) evolution: EvolutionSummary,
}

/// Numbers of events, by missing source and reason.
pub(crate) type MissingSources = BTreeMap<String, BTreeMap<String, u64>>;

/// Events that ended at each builder unit, interval by interval from the start of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EvolutionSummary {
    pub(crate) interval_s: f64,
    pub(crate) events: BTreeMap<String, Vec<u64>>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

/// The books: of triggers, with those of fragments inside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LedgerSummary {
    /// Triggers that there were: accepted, or vetoed.
    pub(crate) offered: u64,
    /// Vetoed triggers, by cause. Causes that did not occur are left out.
    pub(crate) vetoed: BTreeMap<String, u64>,
    /// Accepted triggers.
    pub(crate) triggers: u64,
    pub(crate) stored: u64,
    pub(crate) rejected: u64,
    pub(crate) dropped: BTreeMap<String, u64>,
    pub(crate) in_flight: u64,
    pub(crate) balanced: bool,
    /// Relations that do not add up.
    pub(crate) problems: Vec<String>,
    pub(crate) fragments: FragmentSummary,
    pub(crate) time: TimeSummary,
    /// Sources whose event numbers disagree with those of the others. Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shifts: Vec<ShiftSummary>,
    /// Ranges of events in which an operator has excluded sources. Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) exclusions: Vec<ExclusionSummary>,
}

/// The time of a run, from its start to the end of its triggers: `run_ns` is `live_ns` and all of `dead_ns`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TimeSummary {
    pub(crate) run_ns: u64,
    /// Time in which triggers were taken.
    pub(crate) live_ns: u64,
    /// Time in which they were not, by cause. Causes that did not occur are left out.
    pub(crate) dead_ns: BTreeMap<String, u64>,
    /// Parts of that time for which one node alone was the reason. Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) culprits: Vec<CulpritSummary>,
    /// Start of the run, since 1970. `None` if it did not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_ns: Option<u64>,
    /// End of its triggers, since 1970: `run_ns` later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) triggers_ended_ns: Option<u64>,
    /// End of its last event, since 1970. `None` if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_event_ns: Option<u64>,
}

/// Dead time for which one node alone was the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CulpritSummary {
    pub(crate) cause: String,
    pub(crate) node: String,
    pub(crate) dead_ns: u64,
}

impl TimeSummary {
    fn new(report: &RunReport) -> Self {
        let dead_time = &report.dead_time;
        let dead = dead_time.time.iter().map(|(cause, time)| (cause.name().to_owned(), time.0));
        Self {
            run_ns: dead_time.run().0,
            live_ns: dead_time.live.0,
            dead_ns: dead.collect(),
            culprits: Vec::new(),
            started_ns: report.started_at.map(|at| at.0),
            triggers_ended_ns: report.started_at.map(|at| (at + dead_time.run()).0),
            last_event_ns: report.last_end_at.map(|at| at.0),
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FragmentSummary {
    pub(crate) received: u64,
    pub(crate) stored: u64,
    pub(crate) rejected: u64,
    pub(crate) dropped: BTreeMap<String, u64>,
    pub(crate) in_flight: u64,
    /// Readout units that died and were restarted. Their accounts up to then are lost.
    pub(crate) restarted_readouts: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DeadTimeSummary {
    pub(crate) vetoed_triggers: u64,
    pub(crate) seconds: f64,
    /// Part of that time for which one node alone was the reason.
    pub(crate) culprits: BTreeMap<String, f64>,
}

/// Why a run ended although nobody had asked for it, and its triggers had not ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EarlyEnd {
    /// Reason in the record of the run: `disk_space`, `requirement`, `shift` or `supervisor`.
    pub(crate) reason: String,
    /// The reason in words.
    pub(crate) why: String,
}

impl EarlyEnd {
    pub(crate) fn new(reason: &str, why: String) -> Self {
        Self { reason: reason.to_owned(), why }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Trouble {
    pub(crate) absent_nodes: Vec<String>,
    /// Number of times that each requirement of a minimum number of nodes was not met.
    #[serde(default)]
    pub(crate) unmet_requirements: BTreeMap<String, u64>,
    pub(crate) lost_builder_sessions: u64,
    /// Number of take-overs by a standby of the event manager.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) take_overs: u64,
    /// Whether the run has gone on without a standby that it was to have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unprotected: bool,
    /// Readout units whose mirrors have taken over from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) mirrored: Vec<String>,
    /// Number of readout units that have gone on without their mirrors.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) lost_mirrors: u64,
    pub(crate) restarted_readouts: u64,
    #[serde(default)]
    pub(crate) restarted_outputs: u64,
    /// Events whose content differed from what their sources sent.
    pub(crate) content_mismatches: u64,
}

impl Summary {
    /// Returns the sum of a counter over all nodes.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.counters.get(counter.name()).copied().unwrap_or(0)
    }

    /// Returns whether a readout unit was started again, in this run or in one that this one follows without a gap.
    fn has_readouts_that_read_again(&self) -> bool {
        self.trouble.restarted_readouts > 0 || self.counters.contains_key(READOUTS_RESTARTED_BEFORE)
    }

    #[expect(clippy::cast_precision_loss, reason = "rates are quoted to a few digits")]
    pub(crate) fn new(report: &RunReport, extras: &Extras, plan: &Plan, output: Option<PathBuf>) -> Self {
        let seconds = report.measured_time().as_secs_f64();
        let measured = report.measured();
        let rate = |value: u64| if seconds > 0.0 { value as f64 / seconds } else { 0.0 };
        let quantile = |at| if report.latency.is_empty() { 0 } else { report.latency.value_at_quantile(at) };
        let mut summary = Self {
            run: plan.config.run.number.0,
            kept: Kept::default(),
            events_built: report.built,
            events_incomplete: report.incomplete,
            fragments: report.fragments,
            bytes: report.bytes.0,
            load_fraction: load_fraction(&counters(report)),
            seconds,
            started_at_ns: report.started_at.map(|at| at.0),
            events_per_second: rate(measured.built),
            fragments_per_second: rate(measured.fragments),
            bytes_per_second: rate(measured.bytes.0),
            latency_ns: Latency { p50: quantile(0.5), p99: quantile(0.99), max: report.latency.max() },
            peak_rss_bytes: 0,
            cpu_seconds: 0.0,
            output,
            interrupted: report.interrupted,
            switched: report.switched,
            ended_early: None,
            ledger: LedgerSummary::new(report, plan.count(Role::Readout)),
            dead_time: dead_time(report, plan),
            trigger_link: report.trigger_link.as_ref().map(|link| TriggerLinkSummary::new(link, plan)),
            hits: None,
            lost_hits_allowed: plan.config.source.timed.max_lost_fraction,
            counters: counters(report),
            trouble: Trouble {
                absent_nodes: report.absent.iter().map(|node| plan.name(*node)).collect(),
                unmet_requirements: report.unmet_requirements.clone(),
                lost_builder_sessions: report.lost_builders,
                take_overs: report.take_overs,
                unprotected: report.unprotected,
                mirrored: report.mirrored.iter().map(|node| plan.name(*node)).collect(),
                lost_mirrors: report.lost_mirrors,
                restarted_readouts: report.restarted_readouts,
                restarted_outputs: report.restarted_outputs,
                content_mismatches: 0,
            },
            missing_sources: MissingSources::new(),
            source_names: BTreeMap::new(),
            inline_judging_us: None,
            workers: Vec::new(),
            programs: Vec::new(),
            evolution: EvolutionSummary {
                interval_s: report.evolution.interval().as_secs_f64(),
                events: (0_u16..)
                    .zip(report.evolution.events())
                    .map(|(index, events)| (plan.name(NodeId::builder(index)), events))
                    .collect(),
            },
        };
        summary.ledger.shifts = shifts::shifts(report, plan);
        summary.ledger.exclusions = exclusions::exclusions(report);
        summary.ledger.time.culprits = culprits(report, plan);
        summary.ended_early = shifts::end_by_shift(&summary.ledger.shifts, plan)
            .or_else(|| Some(EarlyEnd::new("requirement", report.ended_by_requirement.clone()?)));
        let mut of_manager = Extras::default();
        of_manager.add_outbox(report.outbox);
        summary.join(&of_manager);
        summary.join(extras);
        summary
    }

    /// Adds the figures of other nodes.
    pub(crate) fn join(&mut self, extras: &Extras) {
        for (name, value) in &extras.counters {
            *self.counters.entry(name.clone()).or_default() += value;
        }
        join_hits(&mut self.hits, extras.hits.as_ref());
        join_missing(&mut self.missing_sources, &extras.missing_sources);
        self.inline_judging_us = slower(self.inline_judging_us, extras.inline_judging_us);
        self.workers.extend_from_slice(&extras.workers);
        self.programs.extend_from_slice(&extras.programs);
        self.note_lost_supervisor();
        self.trouble.content_mismatches += extras.content_mismatches;
        self.peak_rss_bytes += extras.peak_rss_bytes;
        self.cpu_seconds += extras.cpu_seconds;
        self.kept = Kept::of(self);
    }

    /// Adds the names of the sources in this summary.
    pub(crate) fn name_sources(&mut self, names: &SourceNames) {
        let missing = self.missing_sources.keys().filter_map(|source| source.parse().ok());
        let shifted = self.ledger.shifts.iter().map(|shift| shift.source);
        let excluded = self.ledger.exclusions.iter().map(|exclusion| exclusion.source);
        let named = names.of(missing.chain(shifted).chain(excluded).map(SourceId));
        self.source_names = named.iter().map(|(source, name)| (source.0, name.to_owned())).collect();
    }

    /// Returns whether there is anything to report.
    pub(crate) fn has_begun(&self) -> bool {
        self.ledger.triggers > 0 || self.ledger.fragments.received > 0 || self.trouble.absent_nodes.is_empty()
    }

    /// Returns whether all ledgers balance, nothing was lost, every checked byte was correct, and triggers came until the end.
    pub(crate) fn is_good(&self) -> bool {
        // A node knows its own mismatches; those of other nodes are in the event manager's ledger, which counts them as
        // lost.
        let are_hits_balanced = self.hits.as_ref().is_none_or(|hits| hits.problem().is_none());
        let is_balanced = self.ledger.balanced && are_hits_balanced;
        let is_kept = self.kept.all && self.trouble.content_mismatches == 0;
        is_balanced && is_kept && !self.has_lost_supervisor()
    }

    /// Returns the end of the run as the manifest keeps it. `failure` is the first error of a node.
    pub(crate) fn end_record(&self, config: &Config, failure: Option<&str>) -> EndRecord {
        let is_over = |duration: Nanos| self.ledger.time.run_ns >= duration.0;
        let (reason, detail) = match (failure, &self.ended_early) {
            // Nodes may have failed before the run ended for a reason, or afterwards.
            (_, Some(EarlyEnd { reason, why })) => (reason.as_str(), Some(why.clone())),
            (Some(error), None) => ("failure", Some(error.to_owned())),
            (None, None) if self.interrupted => ("signal", None),
            (None, None) if self.switched => ("switch", None),
            (None, None) if config.run.events.is_some_and(|events| self.ledger.triggers >= events) => {
                ("events", None)
            }
            (None, None) if config.run.duration.is_some_and(is_over) => ("duration", None),
            (None, None) => ("end_of_sources", None),
        };
        let good = failure.is_none() && self.is_good();
        EndRecord { reason: reason.to_owned(), detail, good, lost: self.kept.lost }
    }

    /// Returns the number of accepted triggers.
    pub(crate) fn triggers(&self) -> u64 {
        self.ledger.triggers
    }

    /// The ledger as the manifest keeps it.
    pub(crate) fn ledger_json(&self) -> serde_json::Value {
        serde_json::to_value(&self.ledger).unwrap_or(serde_json::Value::Null)
    }
}

impl LedgerSummary {
    fn new(report: &RunReport, readouts: u16) -> Self {
        let problems = report.imbalances(readouts);
        let fragments = report.fragment_ledger();
        let dead_time = &report.dead_time;
        let vetoed = dead_time.vetoed.iter().map(|(cause, count)| (cause.name().to_owned(), *count));
        Self {
            offered: report.offered(),
            vetoed: vetoed.collect(),
            triggers: report.ledger.received,
            stored: report.ledger.stored,
            rejected: report.ledger.rejected,
            dropped: dropped(&report.ledger),
            in_flight: report.ledger.in_flight,
            balanced: problems.is_empty(),
            problems,
            fragments: FragmentSummary {
                received: fragments.received,
                stored: fragments.stored,
                rejected: fragments.rejected,
                dropped: dropped(&fragments),
                in_flight: fragments.in_flight,
                restarted_readouts: report.restarted_readouts,
            },
            time: TimeSummary::new(report),
            shifts: Vec::new(),
            exclusions: Vec::new(),
        }
    }
}

/// Returns what a run has kept, in words: the first line of its summary, without the label.
pub(crate) fn headline<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let line = lines.find(|line| !line.trim().is_empty())?;
    Some(line.split_once("  ").map_or(line, |(_, text)| text).trim())
}

fn dropped(ledger: &Ledger) -> BTreeMap<String, u64> {
    ledger.dropped.iter().map(|(reason, count)| (reason.name().to_owned(), *count)).collect()
}

fn dead_time(report: &RunReport, plan: &Plan) -> BTreeMap<String, DeadTimeSummary> {
    let mut causes: BTreeMap<String, DeadTimeSummary> = BTreeMap::new();
    for (cause, vetoed) in &report.dead_time.vetoed {
        causes.entry(cause.name().to_owned()).or_default().vetoed_triggers = *vetoed;
    }
    for (cause, time) in &report.dead_time.time {
        causes.entry(cause.name().to_owned()).or_default().seconds = time.as_secs_f64();
    }
    for ((cause, node), time) in &report.dead_time.culprits {
        let culprits = &mut causes.entry(cause.name().to_owned()).or_default().culprits;
        culprits.insert(plan.name(*node), time.as_secs_f64());
    }
    causes
}

fn culprits(report: &RunReport, plan: &Plan) -> Vec<CulpritSummary> {
    let culprit = |((cause, node), time): (&(DeadTimeCause, NodeId), &Nanos)| CulpritSummary {
        cause: cause.name().to_owned(),
        node: plan.name(*node),
        dead_ns: time.0,
    };
    report.dead_time.culprits.iter().map(culprit).collect()
}

fn counters(report: &RunReport) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<Counter, u64> = BTreeMap::new();
    for books in report.nodes.values().chain([&report.manager]) {
        for (counter, value) in &books.counters {
            *sums.entry(*counter).or_default() += value;
        }
    }
    sums.into_iter().map(|(counter, value)| (counter.name().to_owned(), value)).collect()
}

/// Returns the bytes moved as a fraction of the bytes that there were to move.
#[expect(clippy::cast_precision_loss, reason = "quoted to a few digits")]
fn load_fraction(counters: &BTreeMap<String, u64>) -> Option<f64> {
    let of = |counter: Counter| counters.get(counter.name()).copied().unwrap_or(0) as f64;
    let (sent, saved) = (of(Counter::SentBytes), of(Counter::NotRequestedBytes));
    (saved > 0.0).then(|| sent / (sent + saved))
}

/// Returns the largest resident memory of this process so far, in bytes; 0 if the system does not report it.
pub(crate) fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The processor time that this process has used so far, in seconds.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a few years fit exactly")]
pub(crate) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// JSON that a node other than the event manager prints when it ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NodeSummary {
    pub(crate) node: String,
    #[serde(flatten)]
    pub(crate) extras: Extras,
    pub(crate) errors: Vec<String>,
    /// Whether a signal had it leave the run.
    pub(crate) left: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// JSON that the event manager's process prints for its supervisor: the run, and figures that the summary omits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ManagerSummary {
    #[serde(flatten)]
    pub(crate) summary: Summary,
    pub(crate) sessions: Vec<SessionSummary>,
    pub(crate) errors: Vec<String>,
    /// Whether this replica of the event manager had no part in the run any more: its summary is not that of the run.
    #[serde(default)]
    pub(crate) retired: bool,
}

/// Share of a session's files that counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionSummary {
    /// The builder unit or output node, as the code that messages have.
    pub(crate) node: u32,
    pub(crate) session: u64,
    #[serde(flatten)]
    pub(crate) counting: Counting,
}

impl ManagerSummary {
    /// Returns the summary of the run out of those of two replicas of the event manager: that of the one which was active last. A standby has
    /// the same books, but not the counts of the links. A retired replica does not know how the run ended.
    pub(crate) fn choose(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let candidates = one.into_iter().chain(other).filter(|candidate| !candidate.retired);
        // The first one of equals is that of the replica which was active first.
        candidates.reduce(|first, second| {
            let is_later = second.summary.trouble.take_overs > first.summary.trouble.take_overs;
            if is_later { second } else { first }
        })
    }

    pub(crate) fn stored(&self) -> Stored {
        let entry = |session: &SessionSummary| {
            let node = NodeId::from_code(session.node)?;
            Some(((node, SessionId(session.session)), session.counting.clone()))
        };
        self.sessions.iter().filter_map(entry).collect()
    }

    pub(crate) fn new(summary: Summary, report: &RunReport, errors: Vec<String>) -> Self {
        let session = |((node, session), counting): ((NodeId, SessionId), Counting)| SessionSummary {
            node: node.to_code(),
            session: session.0,
            counting,
        };
        let sessions = run_directory::stored(report).into_iter().map(session).collect();
        Self { summary, sessions, errors, retired: report.retired.is_some() }
    }
}
