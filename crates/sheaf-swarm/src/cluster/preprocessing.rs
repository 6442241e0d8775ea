//! Drives the preprocessing of active readout units, as the driver of a node does: before an answer is sent, the least busy worker
//! processes its fragments, and the answer is sent with the results.

use super::Cluster;
use super::post::{Happening, Post, payload_bytes};
use crate::options::{Options, PreprocessingOptions, Processing};
use crate::payload::SimPayload;
use sheaf_protocol::Transmit;
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_wire::message::{Body, SuperFragments};
use sheaf_wire::{EventId, Fragment, Nanos, NodeId, SessionId, SuperFragment, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Part of an event for a builder, in an attempt.
type Errand = (NodeId, EventId, u16, u16);

/// The workers of a readout unit, and their answers.
#[derive(Debug)]
pub(super) struct Preprocessing {
    setup: PreprocessingOptions,
    workers: Vec<Worker>,
    /// Answers, and whether they are sent unprocessed because their worker is given up.
    pending: BTreeMap<u64, (Transmit<SimPayload>, bool)>,
    outstanding: BTreeSet<Errand>,
    next: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Worker {
    /// Time when the worker has finished all its work, or is given up.
    until: Timestamp,
    /// Whether the worker hangs and is given up then.
    hangs: bool,
}

impl Preprocessing {
    pub(super) fn new(setup: PreprocessingOptions) -> Self {
        let workers = vec![Worker::default(); usize::from(setup.workers)];
        Self { setup, workers, pending: BTreeMap::new(), outstanding: BTreeSet::new(), next: 0 }
    }

    /// Returns the next message of the unit that is not an answer, or an answer without fragments to process. Other answers are passed
    /// to workers as long as there is room.
    pub(super) fn poll(
        &mut self,
        unit: &mut ReadoutUnit<SimPayload>,
        post: &mut Post,
        options: &Options,
        (index, session): (usize, SessionId),
        has_lane_room: impl Fn(u16) -> bool,
    ) -> Option<Transmit<SimPayload>> {
        loop {
            let has_room = self.outstanding.len() < self.setup.outstanding_events;
            let mut transmit = match has_room {
                true => unit.poll_transmit_if(post.now, &has_lane_room),
                false => unit.poll_control(post.now),
            }?;
            let Body::SuperFragments(parts) = &mut transmit.message.body else { return Some(transmit) };
            let to = transmit.to;
            let (rest, dropped) = self.without_outstanding(to, std::mem::take(parts));
            unit.note_saved(dropped);
            *parts = rest;
            if parts.entries.is_empty() {
                continue;
            }
            let is_wanted = |it: &Fragment<SimPayload>| {
                self.setup.of(options.seed, it.event, it.source) != Processing::NotWanted
            };
            if !parts.fragments.iter().any(is_wanted) {
                return Some(transmit);
            }
            self.outstanding.extend(parts.entries.iter().flat_map(|entry| errands(to, *entry)));
            let (at, is_raw) = self.hand_out(post.now, options.seed, &parts.fragments);
            post.plan(at, Happening::Processed(index, session, self.next));
            self.pending.insert(self.next, (transmit, is_raw));
            self.next += 1;
        }
    }

    /// Removes events from an answer that are already being processed for the same request. Returns the rest, and the payload bytes
    /// removed.
    fn without_outstanding(
        &self,
        to: NodeId,
        parts: SuperFragments<SimPayload>,
    ) -> (SuperFragments<SimPayload>, u64) {
        let (mut fragments, mut missing) = (parts.fragments.into_iter(), parts.missing.into_iter());
        let (mut rest, mut dropped) = (SuperFragments::default(), 0);
        for entry in parts
            .entries
            .iter()
            .flat_map(|run| run.events().map(|event| SuperFragment { event, count: 1, ..*run }))
        {
            let its_fragments = fragments.by_ref().take(usize::from(entry.fragments));
            let its_missing = missing.by_ref().take(usize::from(entry.missing));
            if self.outstanding.contains(&(to, entry.event, entry.attempt, entry.part)) {
                dropped += its_fragments.map(|fragment| u64::from(fragment.payload.length)).sum::<u64>();
                its_missing.for_each(drop);
            } else {
                rest.fragments.extend(its_fragments);
                rest.missing.extend(its_missing);
                rest.push_entry(entry);
            }
        }
        (rest, dropped)
    }

    /// Returns the payload bytes that are being processed.
    pub(super) fn held(&self) -> u64 {
        self.pending.values().map(|(transmit, _)| payload_bytes(transmit)).sum()
    }

    /// Passes fragments to the least busy worker. Returns when they are sent, and whether unprocessed.
    fn hand_out(
        &mut self,
        now: Timestamp,
        seed: u64,
        fragments: &[Fragment<SimPayload>],
    ) -> (Timestamp, bool) {
        let idlest = self.workers.iter_mut().min_by_key(|worker| worker.until);
        let worker = idlest.expect("there is at least one worker");
        if worker.until <= now {
            *worker = Worker { until: now, hangs: false };
        }
        if worker.hangs {
            return (worker.until, true);
        }
        for fragment in fragments {
            let time = match self.setup.of(seed, fragment.event, fragment.source) {
                Processing::NotWanted => Nanos::ZERO,
                Processing::Made | Processing::Fails => {
                    self.setup.time_of(seed, fragment.event, fragment.source)
                }
                Processing::Hangs => self.setup.time_limit,
            };
            // A call that exceeds the time limit counts as one that hangs.
            worker.hangs = time >= self.setup.time_limit;
            worker.until += time.min(self.setup.time_limit);
            if worker.hangs {
                break;
            }
        }
        (worker.until, worker.hangs)
    }

    /// Returns whether answers are being processed.
    pub(super) fn is_busy(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Finishes an answer, with the processed fragments unless it is to be sent unprocessed. Returns it, with the number of bytes
    /// saved and added.
    fn take(&mut self, number: u64, options: &Options) -> Option<(Transmit<SimPayload>, (u64, u64))> {
        let (mut transmit, is_raw) = self.pending.remove(&number)?;
        let mut difference = (0, 0);
        if let Body::SuperFragments(parts) = &mut transmit.message.body {
            for errand in parts.entries.iter().flat_map(|entry| errands(transmit.to, *entry)) {
                self.outstanding.remove(&errand);
            }
            for fragment in parts.fragments.iter_mut().filter(|_| !is_raw) {
                if self.setup.of(options.seed, fragment.event, fragment.source) == Processing::Made {
                    let raw = fragment.payload;
                    let made = options.processed(raw.event, fragment.source);
                    difference.0 += u64::from(raw.length.saturating_sub(made.length));
                    difference.1 += u64::from(made.length.saturating_sub(raw.length));
                    fragment.checksum = fragment.checksum.map(|_| made.sum());
                    (fragment.payload, fragment.processed) = (made, true);
                }
            }
        }
        Some((transmit, difference))
    }
}

fn errands(to: NodeId, entry: SuperFragment) -> impl Iterator<Item = Errand> {
    entry.events().map(move |event| (to, event, entry.attempt, entry.part))
}

impl Cluster {
    /// Handles a worker of a readout unit that has finished an answer, or is given up with it.
    pub(super) fn happen_processed(&mut self, index: usize, session: SessionId, number: u64) {
        let node = &mut self.readouts[index];
        if node.host.session != session {
            return;
        }
        let (Some(unit), Some(preprocessing)) = (&mut node.unit, &mut node.preprocessing) else { return };
        if let Some((transmit, (saved, added))) = preprocessing.take(number, &self.options) {
            unit.note_saved(saved);
            unit.note_added(added);
            node.send(&mut self.post, transmit);
        }
        self.settle_readout(index);
    }
}
