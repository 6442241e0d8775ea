//! Rules that options keep, as configurations of real systems do.

use super::{Options, TriggerOptions};
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_wire::Nanos;

impl Options {
    /// Checks the options by the rules for configurations of real systems.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub fn validate(&self) -> Result<(), &'static str> {
        let (times, system, bounds) = (&self.times, &self.system, &self.bounds);
        let rules = [
            (system.readouts > 0 && system.sources_per_readout > 0, "there is at least one source"),
            (system.builders > 0, "there is at least one builder"),
            (bounds.slots > 0 && bounds.buffer_events > 0, "there is room for at least one event"),
            (
                bounds.batch_events <= bounds.slots as usize,
                "a batch must fit into the slots of a builder unit",
            ),
            (
                bounds.slots as usize <= bounds.request_events,
                "a readout unit takes a request for all that a builder unit has slots for",
            ),
            (
                self.policy == IncompletePolicy::Wait || times.merge < times.event,
                "a readout unit gives up a silent source before its builder gives up the event",
            ),
            (
                self.policy == IncompletePolicy::Wait || times.retry < times.event,
                "a request is repeated before the event is given up",
            ),
            (
                times.orphan.is_none_or(|orphan| times.merge < orphan),
                "fragments outlive the wait for the others of their event",
            ),
            (times.heartbeat < times.peer, "a living node is heard before it is held for dead"),
            (times.patience().silence >= times.peer, "a node whose link is up is not given up sooner"),
            (times.retransmit < times.peer, "a lost message is repeated before its peer is held for dead"),
            (times.acknowledge < times.retransmit, "an acknowledgement comes before the repetition"),
            (times.retry > Nanos::ZERO && times.heartbeat > Nanos::ZERO, "what is repeated takes time"),
            (
                self.steps_may_be(),
                "readout units that send unasked, or announce, are not asked for parts, or by trigger type",
            ),
            (self.sources.smallest <= self.sources.largest, "the smallest fragment is not the largest"),
            (
                self.sources.largest <= bounds.max_fragment,
                "fragments sent rightly are taken by readout units",
            ),
            (self.numbers_may_be(), "sources that are off have consecutive ids, and no program of their own"),
            (
                self.supervisor.is_none_or(|setup| {
                    matches!(self.triggers, TriggerOptions::Driven { .. })
                        && self.trigger_reserve(setup) < bounds.queue_events as u64
                }),
                "a supervisor makes the triggers, and the queue has more places than may be in flight",
            ),
            (
                self.windows_may_be(),
                "sources that give on request are asked for windows, of triggers with times or of a first step, and have no defects",
            ),
            (self.are_slices_possible(), "time slices have consecutive ids, which sources announce"),
        ];
        rules.into_iter().find(|(kept, _)| !kept).map_or(Ok(()), |(_, rule)| Err(rule))
    }
}
