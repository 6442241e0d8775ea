//! Simulated workers of a builder unit's farm: each judges one event at a time, beside its builder unit.

use super::net::Network;
use super::options::DriverOptions;
use bytes::Bytes;
use sheaf_node::farm::Worker;
use sheaf_protocol::farm::{Departure, Processor, ProcessorEvent, Ticket, Word};
use sheaf_wire::{Event, NodeId, Timestamp, Verdict};
use std::sync::Arc;

/// Behaviour of the filter with the event that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judging {
    Until(Timestamp),
    /// It never comes back.
    Hangs,
}

/// A worker.
pub(super) struct SimWorker {
    node: NodeId,
    options: Arc<DriverOptions>,
    network: Network,
    role: Processor<Arc<Event<Bytes>>, Verdict>,
    current: Option<(Ticket, Arc<Event<Bytes>>, Judging)>,
    /// The filter ended the worker.
    is_dead: bool,
}

impl SimWorker {
    pub(super) fn new(node: NodeId, ahead: u32, options: Arc<DriverOptions>, network: Network) -> Self {
        Self { node, options, network, role: Processor::new(ahead), current: None, is_dead: false }
    }

    /// Lets the filter go on up to `now`.
    fn go_on(&mut self, now: Timestamp) {
        let mut free_at = now;
        loop {
            match &self.current {
                Some((_, _, Judging::Until(at))) if *at <= now => free_at = *at,
                Some(_) => return,
                None => {}
            }
            if let Some((ticket, event, _)) = self.current.take() {
                if self.options.kills_worker(event.id) {
                    self.is_dead = true;
                    return;
                }
                let rejected = self.options.is_rejected(event.id);
                let verdict = if rejected { Verdict::reject() } else { Verdict::accept() };
                self.role.handle_answer(ticket, Ok(verdict));
            }
            let Some(ProcessorEvent::Judge(ticket, event)) = self.role.poll_event() else { return };
            let judging = if self.options.hangs_worker(event.id) {
                Judging::Hangs
            } else {
                let until = free_at + self.options.judging_time(event.id);
                self.network.lock().wake(self.node, until);
                Judging::Until(until)
            };
            self.current = Some((ticket, event, judging));
        }
    }
}

impl Worker for SimWorker {
    fn hear(&mut self) -> Result<Option<Word<Verdict>>, Departure> {
        let now = self.network.lock().now;
        if !self.is_dead {
            self.go_on(now);
        }
        // What it had said is heard first.
        match self.role.poll_transmit() {
            Some(word) => Ok(Some(word)),
            None if self.is_dead => Err(Departure::Died),
            None => Ok(None),
        }
    }

    fn give(&mut self, ticket: Ticket, event: &Arc<Event<Bytes>>) {
        let now = self.network.lock().now;
        let asked = self.role.handle_input(ticket, event.clone());
        assert!(asked, "a farm gives what was asked for");
        if !self.is_dead {
            self.go_on(now);
        }
    }

    fn close(&mut self) {
        self.current = None;
        self.is_dead = true;
    }
}
