//! Figures of the nodes that are not in the event manager's report.

use super::{HitLedger, MissingSources, ProgramSummary, WorkerSummary, cpu_seconds, peak_rss_bytes};
use serde::{Deserialize, Serialize};
use sheaf_node::builder::BuilderReport;
use sheaf_node::farm::FarmReport;
use sheaf_node::judging::WorkerTimes;
use sheaf_node::output::OutputReport;
use sheaf_node::preprocessing::PreprocessingCounts;
use sheaf_node::readout::ReadoutReport;
use sheaf_protocol::farm::Seat;
use sheaf_tap::door::DoorCounts;
use sheaf_wire::{NodeId, Role};
use std::collections::BTreeMap;

/// Builder units that were killed, with the accounts of their farms.
pub(crate) const FARM_ACCOUNTS_LOST: &str = "farm_accounts_lost";

/// Prefix of the counters of refused programs that feed sources. The name of the reason follows.
pub(crate) const PROGRAMS_REFUSED: &str = "programs_refused_";

/// Output nodes that were killed, with the counters of their files and links.
pub(crate) const OUTPUT_ACCOUNTS_LOST: &str = "output_accounts_lost";

/// Readout units that were started again in the run before, where this one follows without a gap: their sources deliver its fragments again.
pub(crate) const READOUTS_RESTARTED_BEFORE: &str = "readouts_restarted_before";

/// Number of accounts lost with the nodes that kept them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    /// Those of readout units.
    pub(crate) readouts: u64,
    /// Those of readout units in the run before, where this one follows without a gap.
    pub(crate) readouts_before: u64,
    /// Those of farms, with their builder units.
    pub(crate) farms: u64,
    /// Those of output nodes.
    pub(crate) outputs: u64,
}

impl Lost {
    /// Notes that a node of this role died with its accounts. `has_farm` is whether builder units have farms.
    pub(crate) fn note(&mut self, role: Role, has_farm: bool) {
        match role {
            Role::Output => self.outputs += 1,
            Role::Builder => self.farms += u64::from(has_farm),
            Role::Readout => self.readouts += 1,
            Role::Manager | Role::Mirror => {}
        }
    }

    /// Returns the number at the beginning of the run that follows without a gap.
    pub(crate) fn follow(self) -> Self {
        Self { readouts_before: self.readouts, ..Self::default() }
    }
}

/// Figures of the nodes that are not in the event manager's report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Extras {
    pub(crate) counters: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hits: Option<HitLedger>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) missing_sources: MissingSources,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inline_judging_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) workers: Vec<WorkerSummary>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) programs: Vec<ProgramSummary>,
    pub(crate) content_mismatches: u64,
    pub(crate) peak_rss_bytes: u64,
    pub(crate) cpu_seconds: f64,
}

impl Extras {
    pub(crate) fn new(
        readouts: &[ReadoutReport],
        builders: &[BuilderReport],
        outputs: &[OutputReport],
        doors: &[DoorCounts],
    ) -> Self {
        let mut extras =
            Self { peak_rss_bytes: peak_rss_bytes(), cpu_seconds: cpu_seconds(), ..Self::default() };
        for report in readouts {
            extras.add_outbox(report.outbox);
            for (name, value) in report.preprocessing.iter().flat_map(PreprocessingCounts::named) {
                extras.add(&format!("preprocessing_{name}"), value);
            }
            for (_, source) in &report.sources {
                extras.add("source_damaged_headers", source.corrupt_headers);
                extras.add("source_damaged_payloads", source.corrupt_payloads);
                extras.add("source_read_errors", source.read_errors);
                extras.add("source_out_of_memory", source.out_of_memory);
                extras.add("source_events_divided_away", source.divided);
                for (reason, value) in &source.refused {
                    extras.add(&format!("{PROGRAMS_REFUSED}{reason}"), *value);
                }
                for (name, value) in source.stream.iter().flat_map(|books| books.fields()) {
                    extras.add(&format!("source_{name}"), value);
                }
                for (name, value) in source.polled.iter().flat_map(|books| books.fields()) {
                    extras.add(&format!("source_{name}"), value);
                }
                for (name, value) in source.timed.iter().flat_map(|books| books.fields()) {
                    extras.add(&format!("source_{name}"), value);
                }
                for (name, value) in source.windows.iter().flat_map(|books| books.fields()) {
                    extras.add(&format!("source_{name}"), value);
                }
                let hits =
                    source.timed.as_ref().map(|books| HitLedger::of(books).with(source.windows.as_ref()));
                join_hits(&mut extras.hits, hits.as_ref());
            }
        }
        for report in builders {
            extras.add_outbox(report.outbox);
            extras.content_mismatches += report.bad_events;
            extras.add("quarantined", report.quarantined);
            for ((source, reason), events) in &report.missing {
                let reasons = extras.missing_sources.entry(source.to_string()).or_default();
                *reasons.entry(reason.name().to_owned()).or_default() += events;
            }
            let judging = report.judging.map(|time| time.as_secs_f64() * 1e6);
            extras.inline_judging_us = slower(extras.inline_judging_us, judging);
            for (name, value) in &report.filter {
                extras.add(&format!("filter_{name}"), *value);
            }
            extras.add_output(&report.output);
            for (counter, value) in &report.sender.counters {
                extras.add(counter.name(), *value);
            }
            if let Some(farm) = &report.farm {
                extras.add_farm(report.node, farm);
            }
            extras.add("step_failures", report.step_failures);
            for (name, value) in &report.steps {
                extras.add(&format!("step_{name}"), *value);
            }
        }
        for report in outputs {
            extras.add_outbox(report.outbox);
            extras.add_output(&report.output);
        }
        for (name, value) in doors.iter().flat_map(DoorCounts::fields) {
            extras.add(&format!("consumers_{name}"), value);
        }
        extras
    }

    fn add_output(&mut self, counts: &[(String, u64)]) {
        for (name, value) in counts {
            self.add(&format!("output_{name}"), *value);
        }
    }

    fn add_farm(&mut self, node: NodeId, farm: &FarmReport) {
        for (name, value) in farm.counts.named() {
            self.add(name, value);
        }
        self.add("workers_restarted", farm.restarts);
        self.add("farm_callers_refused", farm.callers_refused);
        let worker = |(seat, times): &(Seat, WorkerTimes)| {
            WorkerSummary::new(node.to_string(), seat.to_string(), times)
        };
        self.workers.extend(farm.workers.iter().map(worker));
    }

    pub(super) fn add_outbox(&mut self, stats: sheaf_node::outbox::OutboxStats) {
        self.add("bad_messages", stats.bad_messages);
        self.add("dropped_frames", stats.dropped_frames);
        self.add("too_large_frames", stats.too_large_frames);
        self.add("refused_links", stats.refused_links);
        self.add("unproven_links", stats.transport.links_unproven);
        self.add("lost_rails", stats.lost_rails);
        self.add("superseded_messages", stats.superseded_messages);
        for (name, value) in stats.transport.fields().filter(|(name, _)| is_of_recovery(name)) {
            self.add(name, value);
        }
    }

    pub(super) fn add(&mut self, name: &str, value: u64) {
        if value > 0 {
            *self.counters.entry(name.to_owned()).or_default() += value;
        }
    }

    /// Takes note of accounts that nodes which were killed took with them.
    pub(crate) fn note_lost(&mut self, lost: Lost) {
        self.add(FARM_ACCOUNTS_LOST, lost.farms);
        self.add(OUTPUT_ACCOUNTS_LOST, lost.outputs);
        self.add(READOUTS_RESTARTED_BEFORE, lost.readouts_before);
    }

    pub(crate) fn join(&mut self, other: &Self) {
        for (name, value) in &other.counters {
            self.add(name, *value);
        }
        join_hits(&mut self.hits, other.hits.as_ref());
        join_missing(&mut self.missing_sources, &other.missing_sources);
        self.inline_judging_us = slower(self.inline_judging_us, other.inline_judging_us);
        self.workers.extend_from_slice(&other.workers);
        self.programs.extend_from_slice(&other.programs);
        self.content_mismatches += other.content_mismatches;
        self.peak_rss_bytes += other.peak_rss_bytes;
        self.cpu_seconds += other.cpu_seconds;
    }
}

pub(super) fn join_hits(sum: &mut Option<HitLedger>, other: Option<&HitLedger>) {
    if let Some(other) = other {
        sum.get_or_insert_default().join(other);
    }
}

pub(super) fn join_missing(sums: &mut MissingSources, other: &MissingSources) {
    for (source, reasons) in other {
        let of_source = sums.entry(source.clone()).or_default();
        for (reason, events) in reasons {
            *of_source.entry(reason.clone()).or_default() += events;
        }
    }
}

/// The longer of two times that may not be known.
pub(super) fn slower(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

/// Returns whether a counter of a transport reports loss and recovery, so that it belongs to the account of a run.
fn is_of_recovery(name: &str) -> bool {
    name.starts_with("datagrams_")
        || ["bytes_repeated", "bytes_in_vain", "reports_sent", "probes"].contains(&name)
}
