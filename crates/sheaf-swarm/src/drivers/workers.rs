//! Simulated workers of a builder unit's farm: each judges one event at a time, beside its builder unit.

use super::net::Network;
use super::options::DriverOptions;
use bytes::Bytes;
use sheaf_node::farm::Worker;
use sheaf_protocol::farm::{Departure, Processor, ProcessorEvent, Ticket, Word};
use sheaf_wire::{Event, NodeId, Timestamp, Verdict};
use std::sync::Arc;

/// Behaviour of the filter with the current event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judging {
    Until(Timestamp),
    /// The filter never returns.
    Hangs,
}

/// A worker.
pub(super) struct SimWorker {
    node: NodeId,
    options: Arc<DriverOptions>,
    network: Network,
    role: Processor<Arc<Event<Bytes>>, Verdict>,
    current: Option<(Ticket, Arc<Event<Bytes>>, Judging)>,
    /// Whether the filter has crashed the worker.
    is_dead: bool,
}

impl SimWorker {
    pub(super) fn new(node: NodeId, ahead: u32, options: Arc<DriverOptions>, network: Network) -> Self {
        Self { node, options, network, role: Processor::new(ahead), current: None, is_dead: false }
    }

    /// Lets the filter run up to `now`.
    fn advance(&mut self, now: Timestamp) {
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
    fn receive(&mut self) -> Result<Option<Word<Verdict>>, Departure> {
        let now = self.network.lock().now;
        if !self.is_dead {
            self.advance(now);
        }
        // Messages that it had sent arrive before its death is detected.
        match self.role.poll_transmit() {
            Some(word) => Ok(Some(word)),
            None if self.is_dead => Err(Departure::Died),
            None => Ok(None),
        }
    }

    fn give(&mut self, ticket: Ticket, event: &Arc<Event<Bytes>>) {
        let now = self.network.lock().now;
        let asked = self.role.handle_input(ticket, event.clone());
        assert!(asked, "a farm gives only requested events");
        if !self.is_dead {
            self.advance(now);
        }
    }

    fn close(&mut self) {
        self.current = None;
        self.is_dead = true;
    }
}
