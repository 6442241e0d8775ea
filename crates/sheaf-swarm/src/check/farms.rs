//! Farms: an event is tried as often as is said, alone after its first try, and without a verdict only for its own sake or
//! because its processors were killed by plan.

use crate::filter::{Conduct, conduct};
use crate::options::{FarmOptions, Options};
use sheaf_protocol::farm::{Departure, FarmCounts, Quarantine, Seat};
use sheaf_wire::EventId;
use std::collections::{BTreeMap, HashSet};

/// The record of one farm: what went into its dispatcher and came out of it.
#[derive(Clone, Debug, Default)]
pub struct FarmWatch {
    /// Number of times that each event was given to a processor.
    tries: BTreeMap<EventId, u16>,
    /// Who has which event.
    at: BTreeMap<EventId, Seat>,
    /// Who failed last with which event.
    failed_at: BTreeMap<EventId, Seat>,
    /// Seats that are over.
    over: HashSet<Seat>,
    /// Words that came from these.
    stale_words: u64,
    /// Processors that were killed by plan.
    pub(crate) kills: u16,
}

impl FarmWatch {
    /// An event is given to a processor.
    ///
    /// # Errors
    /// Why it may not be.
    pub(crate) fn give(
        &mut self,
        farm: &FarmOptions,
        event: EventId,
        seat: Seat,
        present: usize,
    ) -> Result<(), String> {
        let neighbours: Vec<EventId> =
            self.at.iter().filter(|(_, at)| **at == seat).map(|(event, _)| *event).collect();
        if neighbours.len() >= farm.ahead as usize {
            return Err(format!("event {event} is given to {seat}, which has {neighbours:?} already"));
        }
        if present > 1 && self.failed_at.get(&event) == Some(&seat) {
            return Err(format!("event {event} is given to {seat} again, of {present} that are there"));
        }
        let tries = self.tries.entry(event).or_default();
        *tries += 1;
        if *tries > farm.retries + 1 {
            return Err(format!(
                "event {event} is given for the {tries}th time, with {} retries",
                farm.retries
            ));
        }
        let is_suspect = |event: &EventId| self.tries[event] > 1;
        if !neighbours.is_empty() && (is_suspect(&event) || neighbours.iter().any(is_suspect)) {
            return Err(format!(
                "event {event} is given to {seat}, which has {neighbours:?}: one failed before"
            ));
        }
        if let Some(before) = self.at.insert(event, seat) {
            return Err(format!("event {event} is given to {seat}, and {before} has it"));
        }
        Ok(())
    }

    /// A processor says something.
    pub(crate) fn hear(&mut self, seat: Seat) {
        self.stale_words += u64::from(self.over.contains(&seat));
    }

    /// A processor says that its filter failed with an event; `None`: with one that it does not have.
    pub(crate) fn fail(&mut self, event: Option<EventId>, seat: Seat) {
        self.hear(seat);
        if let Some(event) = event.filter(|event| self.at.get(event) == Some(&seat)) {
            self.at.remove(&event);
            self.failed_at.insert(event, seat);
        }
    }

    /// A processor leaves in good order: what it has was not tried.
    pub(crate) fn leave(&mut self, seat: Seat) {
        self.hear(seat);
        for (event, _) in self.at.iter().filter(|(_, at)| **at == seat) {
            self.tries.entry(*event).and_modify(|tries| *tries -= 1);
        }
        self.at.retain(|_, at| *at != seat);
        self.over.insert(seat);
    }

    /// A seat is over. Its events have failed there, and may go to whoever failed with them before.
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

    /// A seat is over because the dispatcher says so; `speaks`: its processor had no event and says in time what it
    /// owes.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn end_by_will(&mut self, seat: Seat, why: Departure, speaks: bool) -> Result<(), String> {
        self.end(seat);
        if why == Departure::Silent && speaks {
            return Err(format!("{seat} is given up as silent, and waits for an event"));
        }
        Ok(())
    }

    /// Whether all words of seats that are over were counted.
    ///
    /// # Errors
    /// The two counts.
    pub(crate) fn check_stale(&self, counts: &FarmCounts) -> Result<(), String> {
        let (came, counted) = (self.stale_words, counts.stale_words);
        let is_equal = came == counted;
        is_equal
            .then_some(())
            .ok_or_else(|| format!("{came} words came from seats that were over, {counted} are counted"))
    }

    /// An event has its verdict.
    ///
    /// # Errors
    /// Why it cannot have one.
    pub(crate) fn judge(&mut self, event: EventId) -> Result<(), String> {
        self.at.remove(&event);
        self.failed_at.remove(&event);
        let given = self.tries.remove(&event).is_some();
        given.then_some(()).ok_or_else(|| format!("event {event} has a verdict and was given to nobody"))
    }

    /// An event leaves without a verdict.
    ///
    /// # Errors
    /// Why it need not have.
    pub(crate) fn quarantine(
        &mut self,
        options: &Options,
        farm: &FarmOptions,
        event: EventId,
        why: &Quarantine,
    ) -> Result<(), String> {
        self.at.remove(&event);
        self.failed_at.remove(&event);
        let tries = self.tries.remove(&event).unwrap_or_default();
        if *why == Quarantine::Unattended {
            let explained = !farm.is_patient();
            return explained.then_some(()).ok_or_else(|| {
                format!("event {event} is given up for lack of processors, which come back sooner")
            });
        }
        if tries != farm.retries + 1 {
            return Err(format!("event {event} is given up after {tries} tries: {why}"));
        }
        let conduct = conduct(options, farm, event);
        let by_its_own_fault = match why {
            Quarantine::Failed(_) => matches!(conduct, Conduct::Fails | Conduct::Contradicts),
            _ => !conduct.has_verdict(),
        };
        // The first try it shares with others. In each later one it is alone, and nobody else's end is its own: only a kill by
        // plan, or a processor that had fallen silent before it came.
        let by_others = self.kills >= farm.retries
            || farm.falls_silent.is_possible()
            || farm.contradicts.is_possible()
            || !farm.is_patient();
        let explained = by_its_own_fault || (by_others && !matches!(why, Quarantine::Failed(_)));
        explained.then_some(()).ok_or_else(|| format!("event {event} can be judged, and is given up: {why}"))
    }
}

/// Whether a dispatcher's counts add up.
///
/// # Errors
/// Which do not.
pub(crate) fn check_counts(counts: &FarmCounts, (held, given): (usize, usize)) -> Result<(), String> {
    let FarmCounts { judged, quarantined, failed, abandoned, returned, .. } = *counts;
    let (held, given) = (held as u64, given as u64);
    if counts.offered != judged + quarantined + held {
        return Err(format!("{held} events are held by a farm with {counts:?}"));
    }
    if counts.given != judged + failed + abandoned + returned + given {
        return Err(format!("{given} events are at the processors of a farm with {counts:?}"));
    }
    Ok(())
}
