//! Every metric of Sheaf.
//!
//! Names follow the conventions of `OpenMetrics`: base units, the unit in the name, `_total` for counters. Nothing here is a rate or a
//! fraction: readers compute them over intervals of their choice.

use crate::metric::{Kind, Metric, Unit};

/// Defines metrics, and the list of all.
macro_rules! metrics {
    ($(#[doc = $help:literal] $name:ident = $kind:ident $unit:ident $text:literal [$($label:literal),*];)*) => {
        $(
            #[doc = $help]
            pub static $name: Metric = Metric {
                name: $text,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &[$($label),*],
                help: $help.trim_ascii(),
                sparse: is_sparse(&[$($label),*]),
            };
        )*

        /// All metrics, in the order of the reference page.
        pub static ALL: &[&Metric] = &[$(&$name),*];
    };
}

/// Returns whether a metric has so many possible labels, most of which never occur, that only those which did are shown.
const fn is_sparse(labels: &[&str]) -> bool {
    labels.len() > 1
}

metrics! {
    /// The run that the metrics of a target are of: its number, its partition if it is of one, and the version of Sheaf. It belongs to no node.
    RUN_INFO = Info Count "sheaf_run_info" ["run", "partition", "version"];
    /// Number of the run.
    RUN_NUMBER = Gauge Count "sheaf_run_number" [];
    /// 1 for the present state of the run, 0 for the others: `starting`, `ready`, `running`, `paused`, `finishing`, `closing`, `closed`.
    RUN_STATE = Gauge Count "sheaf_run_state" ["state"];
    /// Unix time at which the run began; 0 before.
    RUN_START = Gauge Seconds "sheaf_run_start_seconds" [];
    /// Triggers that there were, accepted or vetoed.
    TRIGGERS = Counter Count "sheaf_triggers_total" [];
    /// Triggers accepted. Each is an event, which ends in one outcome or is in flight.
    TRIGGERS_ACCEPTED = Counter Count "sheaf_triggers_accepted_total" [];
    /// Triggers vetoed, by cause of the dead time.
    TRIGGERS_VETOED = Counter Count "sheaf_triggers_vetoed_total" ["cause"];
    /// Events that have ended, by outcome.
    EVENTS = Counter Count "sheaf_events_total" ["outcome"];
    /// Events dropped, by reason. Their sum is the outcome `dropped`.
    EVENT_DROPS = Counter Count "sheaf_event_drops_total" ["reason"];
    /// Events between their trigger and their end.
    EVENTS_IN_FLIGHT = Gauge Count "sheaf_events_in_flight" [];
    /// Events built without a required source.
    EVENTS_INCOMPLETE = Counter Count "sheaf_events_incomplete_total" [];
    /// Fragments in events that have ended.
    EVENT_FRAGMENTS = Counter Count "sheaf_event_fragments_total" [];
    /// Payload of events that have ended.
    EVENT_BYTES = Counter Bytes "sheaf_event_bytes_total" [];
    /// Time from a trigger to the end of its event, on the clock of the event manager.
    EVENT_SECONDS = Histogram Seconds "sheaf_event_seconds" [];
    /// Time in which triggers were taken. Live time and dead time together are the time of the run.
    LIVE_SECONDS = Counter Seconds "sheaf_live_seconds_total" [];
    /// Time in which triggers were not taken, by cause, and by the node that alone was the reason; without one if there were several.
    DEAD_SECONDS = Counter Seconds "sheaf_dead_seconds_total" ["cause", "culprit"];
    /// 1 while triggers are not taken for this cause.
    GATE_SHUT = Gauge Count "sheaf_gate_shut" ["cause", "culprit"];
    /// Events that a builder unit has room for and that were not assigned to it.
    CREDIT_SLOTS = Gauge Count "sheaf_credit_slots" ["builder"];
    /// Memory that a builder unit has room for and that was not assigned to it.
    CREDIT_BYTES = Gauge Bytes "sheaf_credit_bytes" ["builder"];
    /// Payload that the readout units hold, according to their last reports to the event manager.
    READOUT_BYTES = Gauge Bytes "sheaf_reported_buffer_bytes" [];
    /// Sessions of builder units that ended before the run did.
    BUILDERS_LOST = Counter Count "sheaf_builder_sessions_lost_total" [];
    /// Readout units that were restarted during the run; the fragments that they held are lost.
    READOUT_RESTARTS = Counter Count "sheaf_readout_restarts_total" [];
    /// Output nodes that were restarted during the run.
    OUTPUT_RESTARTS = Counter Count "sheaf_output_restarts_total" [];
    /// 1 while a standby event manager has all that the active one knows, and a majority of the voters could note that it takes over; otherwise 0. Only of runs that are to have one.
    STANDBY_READY = Gauge Count "sheaf_standby_ready" [];
    /// Take-overs by standby event managers.
    TAKE_OVERS = Counter Count "sheaf_take_overs_total" [];
    /// Messages of the event manager that wait until the standby has what led to them.
    STANDBY_HELD = Gauge Count "sheaf_standby_held_messages" [];
    /// Time for which the first of these messages has waited; 0 if none does.
    STANDBY_WAIT = Gauge Seconds "sheaf_standby_wait_seconds" [];
    /// 1 while the mirror of a readout unit has all that the unit knows, and can act for it; otherwise 0. Only of runs with mirrors.
    READOUT_MIRRORED = Gauge Count "sheaf_readout_mirrored" ["readout"];
    /// Fragments received by a readout unit, and those that have ended, by outcome.
    FRAGMENTS = Counter Count "sheaf_fragments_total" ["bin"];
    /// Fragments dropped by a readout unit, by reason.
    FRAGMENT_DROPS = Counter Count "sheaf_fragment_drops_total" ["reason"];
    /// Fragments that a readout unit holds.
    FRAGMENTS_HELD = Gauge Count "sheaf_fragments_in_flight" [];
    /// Payload held in a bounded buffer: of a readout unit (`fragments`), a builder unit (`events`) or an output node (`output`).
    BUFFER_BYTES = Gauge Bytes "sheaf_buffer_bytes" ["buffer"];
    /// Limit of a buffer. A readout unit may exceed its limit by what was requested of it.
    BUFFER_LIMIT = Gauge Bytes "sheaf_buffer_limit_bytes" ["buffer"];
    /// Events in a bounded buffer.
    BUFFER_EVENTS = Gauge Count "sheaf_buffer_events" ["buffer"];
    /// Limit of the number of events in a buffer.
    BUFFER_EVENTS_LIMIT = Gauge Count "sheaf_buffer_limit_events" ["buffer"];
    /// Fragments accepted from a source.
    SOURCE_FRAGMENTS = Counter Count "sheaf_source_fragments_total" ["source"];
    /// Time since the last fragment of a source, or since the start of the run.
    SOURCE_AGE = Gauge Seconds "sheaf_source_age_seconds" ["source"];
    /// 1 while a readout unit has no room for the next fragment of a source.
    SOURCE_HELD_BACK = Gauge Count "sheaf_source_held_back" ["source"];
    /// 1 while a fragment of the source is requested that it has not given; otherwise 0.
    SOURCE_BEHIND = Gauge Count "sheaf_source_behind" ["source"];
    /// 1 while an operator has excluded the source, and until its first fragment after that; otherwise 0.
    SOURCE_EXCLUDED = Gauge Count "sheaf_source_excluded" ["source"];
    /// 1 while an operator has excluded the readout unit or builder unit, otherwise 0.
    NODE_EXCLUDED = Gauge Count "sheaf_node_excluded" ["peer"];
    /// Events built without a required source, by source and reason.
    SOURCE_MISSING = Counter Count "sheaf_source_missing_total" ["source", "reason"];
    /// Time since the assignment of the oldest event for which a builder unit waits for an answer of the readout unit; 0 if none does.
    PAIR_WAITS = Row Seconds "sheaf_pair_wait_seconds" [];
    /// Payload of the answers of the readout unit to a builder unit. Grows from 0 until the builder unit begins again.
    PAIR_BYTES = Row Bytes "sheaf_pair_received_bytes" [];
    /// Events of which a builder unit collects fragments.
    EVENTS_BUILDING = Gauge Count "sheaf_events_building" [];
    /// Accepted events that are not as durable as configured.
    EVENTS_UNWRITTEN = Gauge Count "sheaf_events_unwritten" [];
    /// 1 while an output does not work or has no room; events wait.
    OUTPUT_FAILING = Gauge Count "sheaf_output_failing" [];
    /// Events stored unfiltered, because the filter had no verdict.
    QUARANTINED = Counter Count "sheaf_quarantined_total" [];
    /// Events whose content differs from what their sources sent.
    CONTENT_MISMATCHES = Counter Count "sheaf_content_mismatches_total" [];
    /// Parts of events for which the step filter had no verdict.
    STEP_FAILURES = Counter Count "sheaf_step_failures_total" [];
    /// Messages that were not sent because their peer was absent; the protocol repeats what matters.
    MESSAGES_UNSENT = Counter Count "sheaf_dropped_frames_total" [];
    /// Messages that could not be parsed, or whose sender was not the peer at the other end.
    MESSAGES_BAD = Counter Count "sheaf_bad_messages_total" [];
    /// Messages of the log of a process, by severity. In a process of several nodes, one of them has all.
    LOG_MESSAGES = Counter Count "sheaf_log_messages_total" ["severity"];
    /// Messages that were left out of the log of a process or were not printed, because a disk or a reader did not keep up.
    LOG_DROPPED = Counter Count "sheaf_log_dropped_total" [];
    /// 1 while a node takes part in the run, 0 after its end.
    NODE_UP = Gauge Count "sheaf_node_up" [];
    /// 1 for each node that the configuration of the run has, while the run is in progress, whether it has published or not.
    NODE_EXPECTED = Gauge Count "sheaf_node_expected" [];
    /// Age of the values of a node.
    NODE_AGE = Gauge Seconds "sheaf_node_age_seconds" [];
    /// Number of times that a node began again during the run.
    NODE_RESTARTS = Counter Count "sheaf_node_restarts_total" [];
    /// 1 for the host of a node that an agent starts.
    NODE_HOST = Gauge Count "sheaf_node_host" ["host"];
    /// Nodes on the host of an agent that have been there in this run and that no operator has excluded. It belongs to no node.
    HOST_NODES = Gauge Count "sheaf_host_nodes" ["host"];
    /// Those of them that are silent or have ended. It belongs to no node.
    HOST_NODES_AWAY = Gauge Count "sheaf_host_nodes_away" ["host"];
    /// Payload received from sources.
    RECEIVED_BYTES = Counter Bytes "sheaf_received_bytes_total" [];
    /// Fragments with a lower event id than an earlier one of their source. They are built like others.
    OUT_OF_ORDER = Counter Count "sheaf_out_of_order_total" [];
    /// Super-fragments sent again because a builder unit repeated its request.
    RESENT = Counter Count "sheaf_resent_total" [];
    /// Requests for events that had been released, or of a superseded attempt.
    STALE_REQUESTS = Counter Count "sheaf_stale_requests_total" [];
    /// Super-fragments of events that are no longer built there.
    STALE_SUPER_FRAGMENTS = Counter Count "sheaf_stale_super_fragments_total" [];
    /// Super-fragments received before.
    DUPLICATE_SUPER_FRAGMENTS = Counter Count "sheaf_duplicate_super_fragments_total" [];
    /// Requests repeated because a readout unit did not answer.
    RETRIED_REQUESTS = Counter Count "sheaf_retried_requests_total" [];
    /// Events that a builder unit returned for lack of memory.
    GIVEN_BACK = Counter Count "sheaf_given_back_total" [];
    /// Messages of a session or run that has ended.
    STALE_MESSAGES = Counter Count "sheaf_stale_messages_total" [];
    /// Control messages retransmitted because they were not acknowledged.
    REPEATED_MESSAGES = Counter Count "sheaf_repeated_messages_total" [];
    /// Messages that the role does not handle.
    UNEXPECTED_MESSAGES = Counter Count "sheaf_unexpected_messages_total" [];
    /// Payload that a readout unit sent to builder units, including repeated answers.
    SENT_BYTES = Counter Bytes "sheaf_sent_bytes_total" [];
    /// Payload of fragments that were never requested.
    NOT_REQUESTED_BYTES = Counter Bytes "sheaf_not_requested_bytes_total" [];
    /// Parts of events that the step filter judged.
    JUDGED_PARTS = Counter Count "sheaf_judged_parts_total" [];
    /// Events rejected after a part had been judged.
    REJECTED_PARTS = Counter Count "sheaf_rejected_parts_total" [];
    /// Number of times that more of an event was requested after a part had been judged.
    CONTINUED_EVENTS = Counter Count "sheaf_continued_events_total" [];
    /// Built events with a fragment whose check value disagrees.
    DISAGREEING_EVENTS = Counter Count "sheaf_disagreeing_events_total" [];
    /// Fragments of built events whose check value disagrees.
    DISAGREEING_FRAGMENTS = Counter Count "sheaf_disagreeing_fragments_total" [];
    /// Fragments of built events that have no check value.
    UNCHECKED_FRAGMENTS = Counter Count "sheaf_unchecked_fragments_total" [];
    /// Fragments to which another event id was given than their source gave.
    RENUMBERED_FRAGMENTS = Counter Count "sheaf_renumbered_fragments_total" [];
    /// Run records that programs have sent.
    KEPT_RECORDS = Counter Count "sheaf_kept_records_total" [];
    /// Run records that were refused.
    REFUSED_RECORDS = Counter Count "sheaf_refused_records_total" [];
    /// Fragments dropped as duplicates that differ from the fragment held.
    CONFLICTING_FRAGMENTS = Counter Count "sheaf_conflicting_fragments_total" [];
    /// Events sent to output nodes, including repetitions.
    FORWARDED_EVENTS = Counter Count "sheaf_forwarded_events_total" [];
    /// Events sent again because their output node died or fell silent.
    FORWARDED_AGAIN = Counter Count "sheaf_forwarded_again_total" [];
    /// Receipts for events that had been sent to another output node meanwhile.
    LATE_RECEIPTS = Counter Count "sheaf_late_receipts_total" [];
    /// Events that an output node accepted from builder units.
    TAKEN_EVENTS = Counter Count "sheaf_taken_events_total" [];
    /// Events of ended builder sessions that an output node did not write.
    VOID_EVENTS = Counter Count "sheaf_void_events_total" [];
    /// Traces of events, by reason. An event may have several.
    TRACES = Counter Count "sheaf_traces_total" ["reason"];
    /// Events that have no trace, and stamps that traces lack, by cause.
    TRACES_LEFT_OUT = Counter Count "sheaf_traces_left_out_total" ["cause"];
    /// A value from outside. Left out while it is stale or unknown. It belongs to no node.
    VALUE = Gauge Count "sheaf_value" ["name", "unit"];
    /// Age of the last number of a value from outside. Left out if there has been none. It belongs to no node.
    VALUE_AGE = Gauge Seconds "sheaf_value_age_seconds" ["name"];
    /// 1 while a value from outside is fresh, otherwise 0. It belongs to no node.
    VALUE_FRESH = Gauge Count "sheaf_value_fresh" ["name"];
    /// Numbers of a value from outside that were taken. It belongs to no node.
    VALUE_READINGS = Counter Count "sheaf_value_readings_total" ["name"];
    /// Values that programs have sent and that were not taken, by reason. It belongs to no node.
    VALUES_REFUSED = Counter Count "sheaf_values_refused_total" ["reason"];
}

/// Returns the metric with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Metric> {
    ALL.iter().find(|metric| metric.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    /// Returns the reference page of all metrics.
    fn page() -> String {
        let mut page = String::from(
            "# Metrics\n\n<!-- Generated from the code: UPDATE_DOCS=1 cargo test -p sheaf-telemetry -->\n\n\
             [The page about watching a run](../operating/monitor.md#metrics) says how they are scraped. Every series has the label \
             `node` in addition to those in the table. Names of counters end in `_total`. Series with more than one label are left out \
             until they are not 0, unless their last label is empty. Series of the kind `row` have a value for each readout unit: they are what \
             [the map of the page](http.md#the-map-of-pairs) shows, and `/metrics` does not have them.\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n",
        );
        for metric in ALL {
            let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let (name, kind, labels, help) =
                (metric.name, metric.kind.name(), labels.join(", "), metric.help);
            let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {help} |");
        }
        page
    }

    #[test]
    fn the_reference_page_is_that_of_the_catalog() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, page()).expect("the page can be written");
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(found, page(), "run UPDATE_DOCS=1 cargo test -p sheaf-telemetry");
    }

    #[test]
    fn names_follow_the_conventions() {
        for metric in ALL {
            let family = metric.family();
            assert!(family.starts_with("sheaf_"), "{family}");
            assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{family}");
            assert_eq!(metric.kind == Kind::Info, metric.name.ends_with("_info"), "{family}");
            if let Some(unit) = metric.unit.name() {
                assert!(family.ends_with(unit), "{family} has no unit in its name");
            }
            assert!(metric.help.ends_with('.') && metric.help.len() > 10, "{family}");
        }
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = ALL.iter().map(|metric| metric.family()).collect();
        assert_eq!(names.len(), ALL.len());
        assert_eq!(find("sheaf_events_total"), Some(&EVENTS));
        assert_eq!(find("sheaf_events"), None);
    }
}
