//! The roles that events pass: readout units, builder units, the event manager; and what becomes of incomplete events.

use super::{GIB, HOUR, KIB, MAX_NODES, MIB, TIB};
use crate::choice::choice;
use crate::codec::{bytes, microseconds, milliseconds, pick, switch, whole, zero_is_none};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};

/// The shortest timeout that an operating system's timers keep well enough.
const SHORTEST: Nanos = Nanos::from_micros(100);

section! {
    /// Readout units: they merge the fragments of their sources and hold them until the event is done.
    Readout "readout" {
        /// Number of readout units. Optional if `[[node]]` tables list them.
        count: u16 = 4, "count", whole(1, MAX_NODES), flag "--readouts";
        /// Maximum payload that one readout unit holds. It is divided evenly among its sources; a source that has
        /// filled its share is held back.
        buffer: ByteCount = ByteCount(8 * MIB), "buffer_bytes", bytes(64 * KIB, TIB);
        /// Maximum number of fragments that one readout unit holds of one source.
        buffer_events: u32 = 16_384, "buffer_events", whole(16, 1 << 24);
        /// Largest fragment that a readout unit accepts; larger ones are dropped and counted. 0: as large as
        /// `buffer_bytes` and 15/16 of `transport.max_frame_bytes` allow.
        max_fragment: Option<ByteCount> = None, "max_fragment_bytes", zero_is_none(bytes(1, GIB));
        /// Time after which a readout unit stops waiting for a silent source, from the request for the event. Then it
        /// answers with that source marked missing. A source that sends lower ids is behind but not silent, and one
        /// that is measured to be slower is waited for four times its delay, up to `manager.silence_timeout_ms`. With
        /// the policy
        /// `wait` this applies to optional sources only.
        merge_timeout: Nanos = Nanos::from_millis(500), "merge_timeout_ms", milliseconds(SHORTEST, HOUR);
        /// Time after which fragments of an event that no builder unit requests are dropped, with the trigger modes
        /// `source` and `seen`, and with a trigger supervisor. They are counted as `unknown_event`. A builder unit that is stopped or starved may request its events after
        /// up to `manager.silence_timeout_ms`, or another one does for it: with less than twice that time, triggered events may lose
        /// their fragments. 0: never.
        orphan_timeout: Option<Nanos> = Some(Nanos::from_secs(150)), "orphan_timeout_ms",
            zero_is_none(milliseconds(SHORTEST, HOUR));
        /// Protection of what readout units hold. A mirror is a node that has every fragment before it counts as received, and takes over
        /// when its readout unit dies. It is the node `mir0` for `ru0` and so on, or the `[[node]]` with the role `mirror` at the same place among
        /// those of its role. Readout units and mirrors are in different processes.
        protect: Protection = Protection::None, "protect", pick(), flag "--protect";
        /// Silence after which a readout unit is suspected to be dead, and its mirror asks the event manager to take over. A process that has
        /// ended is noticed at once.
        suspect_after: Nanos = Nanos::from_millis(1_000), "suspect_after_ms", milliseconds(Nanos::from_millis(20), HOUR);
        /// Time for which messages of a readout unit wait for its mirror. If it has not confirmed their causes by then, the readout unit goes on
        /// without it. One whose process has ended is not waited for.
        mirror_lag: Nanos = Nanos::from_secs(2), "mirror_lag_ms", milliseconds(Nanos::from_millis(5), HOUR);
    }
}

choice! {
    /// Protection of what readout units hold.
    Protection {
        /// fragments that a readout unit holds are lost with it
        None = "none",
        /// a mirror of each readout unit has them as well
        Mirror = "mirror",
    }
}

section! {
    /// Builder units: they gather one super-fragment per readout unit into an event.
    Builder "builder" {
        /// Number of builder units. Optional if `[[node]]` tables list them.
        count: u16 = 4, "count", whole(1, MAX_NODES), flag "--builders";
        /// Maximum number of events under construction in one builder unit.
        slots: u32 = 512, "slots", whole(1, 1 << 20);
        /// Maximum payload of events under construction in one builder unit.
        memory: ByteCount = ByteCount(256 * MIB), "memory_bytes", bytes(MIB, TIB);
        /// Interval, from the assignment of an event, at which a builder unit looks whether the readout units that it waits for are alive. An event
        /// without those that are given up ends incomplete. Not used with the policy `wait`. Also the time for which events in flight wait for
        /// a readout unit that an operator has excluded.
        event_timeout: Nanos = Nanos::from_secs(5), "event_timeout_ms", milliseconds(SHORTEST, HOUR);
        /// Time after which a builder unit repeats a request that a readout unit has not answered. The time doubles
        /// with each repetition, up to sixteen times its value.
        request_retry: Nanos = Nanos::from_millis(500), "request_retry_ms", milliseconds(SHORTEST, HOUR);
        /// Number of finished events that are reported together to the event manager. They are reported earlier after
        /// `report_delay_us`, or when nothing is left to build.
        report_events: u32 = 32, "report_events", whole(1, 65_536);
        /// See `report_events`.
        report_delay: Nanos = Nanos::from_millis(1), "report_delay_us", microseconds(Nanos::ZERO, HOUR);
        /// Whether builder units check the content of every fragment: its checksum, and the pattern of emulated
        /// sources.
        check_content: bool = false, "check_content", switch();
        /// Whether builder units read every payload byte once, as a filter would. For measurements; no effect if the
        /// content is checked.
        read_payload: bool = false, "read_payload", switch();
    }
}

choice! {
    /// Policy for an event that lacks a required source.
    IncompletePolicy {
        /// wait without limit
        Wait = "wait",
        /// store it after a timeout, with the list of missing sources and the reasons
        Store = "store",
        /// drop it after a timeout, counted by reason
        Drop = "drop",
    }
}

section! {
    /// Incomplete events.
    Incomplete "incomplete" {
        /// Policy for an event that lacks a required source.
        policy: IncompletePolicy = IncompletePolicy::Store, "policy", pick();
    }
}

section! {
    /// The event manager: it owns the triggers and assigns events to builder units.
    Manager "manager" {
        /// Number of consecutive events in one assignment. A larger number makes fewer, fuller messages; a smaller
        /// one spreads bursts better.
        batch_events: u32 = 32, "batch_events", whole(1, 4_096);
        /// Maximum number of builder units that fail to build one event or die because of it. Then the event is dropped
        /// and counted. A death counts for an event only if no other event there can be the cause; silence does not
        /// count.
        max_attempts: u16 = 3, "max_attempts", whole(1, 1_000);
        /// Expected memory of an event in a builder unit. 0: learned from the events that were built.
        expected_event: Option<ByteCount> = None, "expected_event_bytes", zero_is_none(bytes(1, 64 * GIB));
        /// Time for which the event manager waits at the start for all nodes to connect. Then the run begins without
        /// the missing nodes, or fails if there is no readout unit or no builder unit. The missing nodes are named in
        /// both cases.
        start_timeout: Nanos = Nanos::from_secs(60), "start_timeout_ms", milliseconds(SHORTEST, HOUR);
        /// Time to wait, after the last trigger, for the next event to end. The end of the run waits as long as events
        /// end, or a builder unit judges or writes events; then the remaining events are dropped and counted as
        /// `stopped`.
        stop_timeout: Nanos = Nanos::from_secs(60), "stop_timeout_ms", milliseconds(SHORTEST, HOUR);
        /// Time within which a node whose connection is lost may reconnect. Then it is given up: the events of a
        /// builder unit go to others, and events are built without a readout unit.
        peer_timeout: Nanos = Nanos::from_secs(3), "peer_timeout_ms", milliseconds(SHORTEST, HOUR);
        /// Time for which a connected node may stay silent, because it is stopped, swapped out or starved. Then it is
        /// given up as well. A run that has had no builder unit, or no readout unit, for this time ends.
        silence_timeout: Nanos = Nanos::from_secs(60), "silence_timeout_ms", milliseconds(SHORTEST, HOUR);
        /// Factor for every limit after which a node, a source or an event is given up: `peer_timeout_ms`,
        /// `silence_timeout_ms`, `stop_timeout_ms`, `readout.merge_timeout_ms`, `readout.orphan_timeout_ms` and `builder.event_timeout_ms`.
        patience: u32 = 1, "patience", whole(1, 1_000);
        /// Time after which a batch of ended events is reported to the readout units.
        release_delay: Nanos = Nanos::from_millis(1), "release_delay_us", microseconds(Nanos::ZERO, HOUR);
        /// Number of standby event managers: 0 or 1. A standby has everything that the event manager acts on, and takes over when it
        /// dies, without loss. It is the node `evm1`, or the second `[[node]]` with the role `manager`. In a run whose nodes share a
        /// process there is none.
        standby: u16 = 0, "standby", whole(0, 1), flag "--standby";
        /// Number of nodes that vote which event manager is active: readout units first, then output nodes, then builder units. An odd
        /// number; one of 3 may fail, or two of 5. With fewer nodes, the largest odd number of them votes.
        voters: u16 = 3, "voters", whole(1, 5);
        /// Silence after which the event manager is suspected to be dead, and its standby asks the voters to take over. A process that
        /// has ended is noticed at once.
        suspect_after: Nanos = Nanos::from_millis(250), "suspect_after_ms", milliseconds(Nanos::from_millis(20), HOUR);
        /// Time for which messages of the event manager wait for its standby. If it has not confirmed their causes by then, the run goes
        /// on without it. One whose process has ended is not waited for.
        standby_lag: Nanos = Nanos::from_secs(2), "standby_lag_ms", milliseconds(Nanos::from_millis(5), HOUR);
    }
}
