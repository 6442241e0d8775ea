//! Farms: an event is tried the configured number of times, alone after its first attempt. It has no verdict only for reasons of its
//! own, or because its processors were killed deliberately.

use crate::filter::{Conduct, conduct};
use crate::options::{FarmOptions, Options};
use crate::violation::{Violation, violation};
use sheaf_protocol::farm::{Departure, FarmCounts, Quarantine, Seat};
use sheaf_wire::{EventId, Nanos};
use std::collections::{BTreeMap, HashSet};

/// Record of one farm: the inputs and outputs of its dispatcher.
#[derive(Clone, Debug, Default)]
pub struct FarmWatch {
    /// Number of deliveries of each event.
    tries: BTreeMap<EventId, u16>,
    /// Seat that has each event.
    at: BTreeMap<EventId, Seat>,
    /// Seat that failed last with each event.
    failed_at: BTreeMap<EventId, Seat>,
    /// Seats that have ended.
    over: HashSet<Seat>,
    /// Number of messages from these seats.
    stale_words: u64,
    /// Processors that were killed deliberately.
    pub(crate) kills: u16,
}

impl FarmWatch {
    /// Records the delivery of an event to a processor.
    ///
    /// # Errors
    /// If the delivery violates a rule.
    pub(crate) fn give(
        &mut self,
        farm: &FarmOptions,
        event: EventId,
        seat: Seat,
        present: usize,
    ) -> Result<(), Violation> {
        let neighbours: Vec<EventId> =
            self.at.iter().filter(|(_, at)| **at == seat).map(|(event, _)| *event).collect();
        if neighbours.len() >= farm.ahead as usize {
            return Err(violation!("event {event} is given to {seat}, which has {neighbours:?} already"));
        }
        if present > 1 && self.failed_at.get(&event) == Some(&seat) {
            return Err(violation!("event {event} is given to {seat} again, of {present} that are there"));
        }
        let tries = self.tries.entry(event).or_default();
        *tries += 1;
        if *tries > farm.retries + 1 {
            return Err(violation!(
                "event {event} is given for the {tries}th time, with {} retries",
                farm.retries
            ));
        }
        let is_suspect = |event: &EventId| self.tries[event] > 1;
        if !neighbours.is_empty() && (is_suspect(&event) || neighbours.iter().any(is_suspect)) {
            return Err(violation!(
                "event {event} is given to {seat}, which has {neighbours:?}: one failed before"
            ));
        }
        if let Some(before) = self.at.insert(event, seat) {
            return Err(violation!("event {event} is given to {seat}, and {before} has it"));
        }
        Ok(())
    }

    /// Records a message of a processor.
    pub(crate) fn note_alive(&mut self, seat: Seat) {
        self.stale_words += u64::from(self.over.contains(&seat));
    }

    /// Records that a filter failed with an event; `None` if the processor does not have the event.
    pub(crate) fn fail(&mut self, event: Option<EventId>, seat: Seat) {
        self.note_alive(seat);
        if let Some(event) = event.filter(|event| self.at.get(event) == Some(&seat)) {
            self.at.remove(&event);
            self.failed_at.insert(event, seat);
        }
    }

    /// Records that a processor leaves in an orderly way. Its events were not tried.
    pub(crate) fn leave(&mut self, seat: Seat) {
        self.note_alive(seat);
        for (event, _) in self.at.iter().filter(|(_, at)| **at == seat) {
            self.tries.entry(*event).and_modify(|tries| *tries -= 1);
        }
        self.at.retain(|_, at| *at != seat);
        self.over.insert(seat);
    }

    /// Records the end of a seat. Its events have failed there, and may return to a processor that failed with them before.
    pub(crate) fn end(&mut self, seat: Seat) {
        let Self { at, failed_at, .. } = self;
        at.retain(|event, at| {
            if *at == seat {
                failed_at.remove(event);
            }
            *at != seat
        });
        self.over.insert(seat);
    }

    /// Records that the dispatcher ends a seat. `speaks`: the processor had no event and sends its requests in time.
    ///
    /// # Errors
    /// If the end violates a rule.
    pub(crate) fn end_by_will(&mut self, seat: Seat, why: Departure, speaks: bool) -> Result<(), Violation> {
        self.end(seat);
        if why == Departure::Silent && speaks {
            return Err(violation!("{seat} is given up as silent, and waits for an event"));
        }
        Ok(())
    }

    /// Checks that all messages of ended seats were counted.
    ///
    /// # Errors
    /// If the counts differ.
    pub(crate) fn check_stale(&self, counts: &FarmCounts) -> Result<(), Violation> {
        let (came, counted) = (self.stale_words, counts.stale_words);
        let is_equal = came == counted;
        is_equal
            .then_some(())
            .ok_or_else(|| violation!("{came} words came from seats that were over, {counted} are counted"))
    }

    /// Records the verdict of an event.
    ///
    /// # Errors
    /// If the event cannot have one.
    pub(crate) fn judge(&mut self, event: EventId) -> Result<(), Violation> {
        self.at.remove(&event);
        self.failed_at.remove(&event);
        let given = self.tries.remove(&event).is_some();
        given
            .then_some(())
            .ok_or_else(|| violation!("event {event} has a verdict and was not given to a processor"))
    }

    /// Records an event that leaves without a verdict.
    ///
    /// # Errors
    /// If there is no reason for that.
    pub(crate) fn quarantine(
        &mut self,
        options: &Options,
        farm: &FarmOptions,
        event: EventId,
        why: &Quarantine,
    ) -> Result<(), Violation> {
        self.at.remove(&event);
        self.failed_at.remove(&event);
        let tries = self.tries.remove(&event).unwrap_or_default();
        if *why == Quarantine::Unattended {
            // Processors that are killed or frozen while they load their filter do not begin the patience anew.
            let is_disturbed = !options.faults.is_empty() && farm.load > Nanos::ZERO;
            let explained = !farm.is_patient() || farm.dies_loading.is_possible() || is_disturbed;
            return explained.then_some(()).ok_or_else(|| {
                violation!("event {event} is given up for lack of processors, which come back sooner")
            });
        }
        if tries != farm.retries + 1 {
            return Err(violation!("event {event} is given up after {tries} tries: {why}"));
        }
        let conduct = conduct(options, farm, event);
        let by_its_own_fault = match why {
            Quarantine::Failed(_) => matches!(conduct, Conduct::Fails | Conduct::Contradicts),
            _ => !conduct.has_verdict(),
        };
        // In the first attempt it is together with others. In each later one it is alone, and only a deliberate kill, or a processor
        // that had fallen silent before, can end it without a fault of the event.
        let by_others = self.kills >= farm.retries
            || farm.falls_silent.is_possible()
            || farm.contradicts.is_possible()
            || !farm.is_patient();
        let explained = by_its_own_fault || (by_others && !matches!(why, Quarantine::Failed(_)));
        explained
            .then_some(())
            .ok_or_else(|| violation!("event {event} can be judged, and is given up: {why}"))
    }
}

/// Checks that a dispatcher's counts add up.
///
/// # Errors
/// If they do not.
pub(crate) fn check_counts(counts: &FarmCounts, (held, given): (usize, usize)) -> Result<(), Violation> {
    let FarmCounts { judged, quarantined, failed, abandoned, returned, .. } = *counts;
    let (held, given) = (held as u64, given as u64);
    if counts.offered != judged + quarantined + held {
        return Err(violation!("{held} events are held by a farm with {counts:?}"));
    }
    if counts.given != judged + failed + abandoned + returned + given {
        return Err(violation!("{given} events are at the processors of a farm with {counts:?}"));
    }
    Ok(())
}
