//! Windows of hits: what is requested of sources, and what they answer.

use crate::options::{Options, PLAIN_TYPE};
use crate::payload::SimPayload;
use crate::violation::{Violation, violation};
use sheaf_wire::message::{SuperFragments, WindowRequest};
use sheaf_wire::{EventId, HitInterval, MissingReason, MissingSource, NodeId, SourceId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Requests in the current life of a readout unit.
#[derive(Clone, Debug, Default)]
struct Life {
    /// All requests that were passed to sources.
    asked: BTreeSet<(SourceId, EventId)>,
    /// Those without an answer that were not withdrawn.
    open: BTreeSet<(EventId, SourceId)>,
    /// Those that were answered without hits.
    refused: BTreeMap<(SourceId, EventId), MissingReason>,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct WindowRecord {
    /// Times of the triggers.
    triggers: BTreeMap<EventId, Timestamp>,
    lives: BTreeMap<NodeId, Life>,
    /// Requests that sources refused in any life of their units, with the time of the first refusal.
    refused: BTreeMap<(SourceId, EventId, MissingReason), Timestamp>,
    /// Requests that were passed to sources.
    pub asked: u64,
    /// Requests that were withdrawn because their events had ended.
    pub withdrawn: u64,
    /// Fragments that were offered again after their requests were withdrawn.
    pub too_late: u64,
}

impl WindowRecord {
    pub(crate) fn see_trigger(&mut self, event: EventId, time: Timestamp) {
        self.triggers.insert(event, time);
    }

    /// Records the begin of a readout unit's life, which knows no requests.
    pub(crate) fn begin(&mut self, readout: NodeId) {
        self.lives.insert(readout, Life::default());
    }

    /// Returns the number of requests in the current life of a readout unit that were passed to sources.
    pub(crate) fn asked_of(&self, readout: NodeId) -> u64 {
        self.lives.get(&readout).map_or(0, |life| life.asked.len() as u64)
    }

    /// Returns the windows in which the hits of an event are.
    fn windows_of(&self, options: &Options, event: EventId) -> Option<Vec<HitInterval>> {
        match options.trigger_windows() {
            Some(windows) => {
                let kind = options.trigger_mix().of(event).unwrap_or(PLAIN_TYPE);
                Some(vec![windows.window(*self.triggers.get(&event)?, kind)])
            }
            None => Some(options.step_windows(event)),
        }
    }

    /// Returns whether the window of an event is not on the timeline.
    pub(crate) fn is_off_timeline(&self, options: &Options, event: EventId) -> bool {
        self.windows_of(options, event).is_some_and(|windows| windows.contains(&HitInterval::NONE))
    }

    fn check_windows(
        &self,
        options: &Options,
        event: EventId,
        windows: &[HitInterval],
    ) -> Result<(), Violation> {
        let right = self.windows_of(options, event);
        if right.as_deref() != Some(windows) {
            return Err(violation!("the windows of event {event} are {right:?}, requested are {windows:?}"));
        }
        Ok(())
    }

    /// Records the arrival of a request of a builder unit.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_request(&self, options: &Options, request: &WindowRequest) -> Result<(), Violation> {
        let has_sources = request.part == 0 || !request.sources.is_empty();
        for wanted in request.events.chunk_by(|one, next| one.event == next.event).filter(|_| has_sources) {
            let windows: Vec<HitInterval> = wanted.iter().map(|wanted| wanted.window).collect();
            self.check_windows(options, wanted[0].event, &windows)?;
        }
        Ok(())
    }

    /// Records that a readout unit passes a request to sources.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_give(
        &mut self,
        options: &Options,
        readout: NodeId,
        event: EventId,
        sources: &[SourceId],
        windows: &[HitInterval],
    ) -> Result<(), Violation> {
        self.check_windows(options, event, windows)?;
        let life = self.lives.entry(readout).or_default();
        for source in sources {
            if !options.is_on_request(*source) || options.readout_of(*source) != readout {
                return Err(violation!("source {source} is asked for windows, which it does not give"));
            }
            if !life.asked.insert((*source, event)) {
                return Err(violation!("source {source} is asked for event {event} again"));
            }
            life.open.insert((event, *source));
        }
        self.asked += sources.len() as u64;
        Ok(())
    }

    /// Records that requests are withdrawn. `has_ended`: whether their event has ended.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_cancelled(
        &mut self,
        readout: NodeId,
        event: EventId,
        has_ended: bool,
    ) -> Result<(), Violation> {
        if !has_ended {
            return Err(violation!(
                "the request for windows of event {event} is cancelled, and the event has not ended"
            ));
        }
        let life = self.lives.entry(readout).or_default();
        let before = life.open.len();
        life.open.retain(|(other, _)| *other != event);
        if life.open.len() == before {
            return Err(violation!(
                "the request for windows of event {event} is cancelled, and no source had one"
            ));
        }
        self.withdrawn += (before - life.open.len()) as u64;
        Ok(())
    }

    /// Records an answer of a source: a fragment, or the reason why there is none.
    pub(crate) fn see_answer(
        &mut self,
        now: Timestamp,
        readout: NodeId,
        (source, event): (SourceId, EventId),
        refusal: Option<MissingReason>,
    ) {
        let life = self.lives.entry(readout).or_default();
        // A fragment that was held back may be offered after its request was withdrawn.
        self.too_late += u64::from(!life.open.remove(&(event, source)));
        if let Some(reason) = refusal {
            life.refused.insert((source, event), reason);
            self.refused.entry((source, event, reason)).or_insert(now);
        }
    }

    /// Checks the reasons why sources that give on request are missing in an answer of their readout unit.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn check_answer(
        &self,
        options: &Options,
        readout: NodeId,
        answer: &SuperFragments<SimPayload>,
    ) -> Result<(), Violation> {
        let refused = self.lives.get(&readout).map(|life| &life.refused);
        let mut missing = answer.missing.iter();
        for entry in &answer.entries {
            for event in entry.events() {
                let its = missing.by_ref().take(usize::from(entry.missing));
                let its = its.filter(|it| it.reason != MissingReason::Excluded);
                for MissingSource { source, reason } in its.filter(|it| options.is_on_request(it.source)) {
                    let said = refused.and_then(|refused| refused.get(&(*source, event)));
                    if said != Some(reason) {
                        return Err(violation!(
                            "source {source} is missing in event {event} as {reason}, and has said {said:?}"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether a source had refused a request for this reason.
    pub(crate) fn has_refused(
        &self,
        (source, event): (SourceId, EventId),
        reason: MissingReason,
        at: Timestamp,
    ) -> bool {
        self.refused.get(&(source, event, reason)).is_some_and(|since| *since <= at)
    }

    /// Records that a readout unit has closed: it awaits nothing but answers to events that have ended.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_closed(
        &self,
        readout: NodeId,
        has_ended: impl Fn(&EventId) -> bool,
    ) -> Result<(), Violation> {
        let open = self.lives.get(&readout).into_iter().flat_map(|life| &life.open);
        match open.map(|(event, _)| event).find(|event| !has_ended(event)) {
            Some(event) => Err(violation!("the unit closes, and event {event} has not ended")),
            None => Ok(()),
        }
    }
}
