//! Telemetry as oracle: whatever was dropped or missing must have a cause that was injected.

use super::Evidence;
use crate::options::{Options, TriggerOptions};
use crate::violation::{Violation, violation};
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::ledger::Counter;
use sheaf_wire::{DropReason, MissingReason, Nanos, Timestamp};

/// Facts of the run that can be a cause.
struct Causes<'a> {
    evidence: &'a Evidence<'a>,
    /// The network or a node did something wrong.
    disturbed: bool,
    /// Sources may be slower than the readout units wait for them.
    slow_sources: bool,
    /// Triggers and the fragments of their events may not go together.
    stray_events: bool,
}

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let causes = Causes::new(evidence);
    for (reason, count) in &evidence.fragment_books().dropped {
        if !causes.explain_fragment(*reason) {
            violations.push(violation!(
                "{count} fragments were dropped as {reason}, and nothing injected explains it"
            ));
        }
    }
    for (reason, count) in &evidence.manager.ledger().dropped {
        if !causes.explain_event(*reason) {
            violations.push(violation!(
                "{count} events were dropped as {reason}, and nothing injected explains it"
            ));
        }
    }
    for (reason, count) in &evidence.watch.missing {
        if !causes.explain_missing(*reason) {
            violations.push(violation!(
                "{count} sources are missing as {reason}, and nothing injected explains it"
            ));
        }
    }
    let strangers = evidence.fragment_books().dropped.get(&DropReason::UnknownSource).copied().unwrap_or(0);
    if evidence.watch.faults.readout_crashes == 0 && strangers != evidence.watch.strangers {
        violations
            .push(violation!("{} strangers were sent, {strangers} are booked", evidence.watch.strangers));
    }
    // Builders that have not finished when the time to do so is over are given up, too.
    let explained = causes.disturbed || causes.explain_event(DropReason::Stopped);
    if evidence.watch.faults.given_up > 0 && !explained {
        violations.push("a builder was given up, and nothing injected explains it".into());
    }
    if let Some(count) = evidence.counters().get(&Counter::UnexpectedMessages) {
        violations.push(violation!("{count} messages had no use for their receivers"));
    }
    let is_calm = evidence.options.is_fault_free() && evidence.watch.faults.injected() == 0;
    if is_calm && evidence.options.is_patient() {
        without_faults(evidence, violations);
    }
}

impl<'a> Causes<'a> {
    fn new(evidence: &'a Evidence<'a>) -> Self {
        let (network, faults, defects) = (evidence.network, evidence.watch.faults, evidence.defects);
        let noise = network.lost + network.duplicated + network.reordered + network.clogged;
        let crashes = faults.readout_crashes + faults.builder_crashes + faults.output_crashes;
        let nodes = crashes + faults.stalls + faults.links;
        let disturbed = noise + nodes + faults.absent_at_start + faults.failed_starts > 0;
        let dropped = evidence.manager.ledger().dropped_total() > 0;
        let is_off = evidence.options.has_sources_off();
        let slow_sources = disturbed
            || is_off
            || dropped
            || defects.out_of_order + defects.pauses + evidence.watch.held_back > 0
            || faults.freezes + faults.programs > 0
            || !evidence.options.is_patient();
        let fewer = evidence.manager.ledger().received < evidence.options.events;
        let stray_events = evidence.options.sources.surplus
            + defects.unknown_events
            + faults.stops
            + faults.requirement_stops
            > 0
            || fewer
            || is_off;
        Self { evidence, disturbed, slow_sources, stray_events }
    }

    fn explain_fragment(&self, reason: DropReason) -> bool {
        let (options, defects) = (self.evidence.options, self.evidence.defects);
        if options.has_trigger_windows() {
            return self.explain_window(reason);
        }
        match reason {
            // A fragment that is overtaken by its source's repair may come to an event that has one.
            DropReason::Duplicate => defects.duplicates > 0 || options.repairs() && defects.out_of_order > 0,
            DropReason::Renumbered => options.repairs() && !self.evidence.manager.shifts().is_empty(),
            // An event may be rejected before sources that it was not judged by have come to it.
            DropReason::Late => self.slow_sources || defects.duplicates > 0 || options.is_selective(),
            DropReason::UnknownEvent => options.times.orphan.is_some(),
            DropReason::TooLarge => defects.oversize > 0,
            DropReason::UnknownSource => defects.unknown_sources > 0,
            DropReason::NeverTriggered => match options.triggers {
                TriggerOptions::Free | TriggerOptions::Driven { .. } => self.stray_events,
                TriggerOptions::Announced { reference_only, .. } => {
                    self.stray_events || self.disturbed || reference_only
                }
            },
            // Also fragments whose request a readout unit has lost in a crash, and hits whose request was withdrawn while they were held
            // back.
            DropReason::NotRequested => {
                // And those of an event with a wrong number far ahead that was built while its readout unit was excluded.
                options.is_selective()
                    || self.evidence.watch.faults.readout_crashes > 0
                    || !options.node_exclusions.is_empty()
            }
            DropReason::EventDropped => self.evidence.manager.ledger().dropped_total() > 0,
            DropReason::NotBuilt => {
                let watch = self.evidence.watch;
                watch.missing.contains_key(&MissingReason::ReadoutSilent) || watch.silent_in_parts
            }
            DropReason::Excluded => options.excludes(),
            // Nothing here computes checksums, and the others are reasons of events.
            _ => false,
        }
    }

    /// Sources give nothing but what is requested, and nothing after its event has ended, except hits that were held back.
    fn explain_window(&self, reason: DropReason) -> bool {
        match reason {
            // Hits that were requested before their source was excluded.
            DropReason::Excluded => self.evidence.options.excludes(),
            DropReason::NotRequested => self.evidence.watch.windows.too_late > 0,
            // A unit that was started again hears after its first requests which events have ended.
            DropReason::Late => self.evidence.watch.faults.readout_crashes > 0,
            DropReason::EventDropped => self.evidence.manager.ledger().dropped_total() > 0,
            DropReason::NotBuilt => self.evidence.watch.missing.contains_key(&MissingReason::ReadoutSilent),
            _ => false,
        }
    }

    fn explain_event(&self, reason: DropReason) -> bool {
        let (options, faults) = (self.evidence.options, self.evidence.watch.faults);
        match reason {
            DropReason::Incomplete => options.policy == IncompletePolicy::Drop && self.has_missing_sources(),
            DropReason::BuilderOutOfMemory => options.some_events_fit_nowhere(),
            // Nobody is given up for a time in which all stood still.
            DropReason::BuilderLost => self.disturbed,
            // Where a stop is planned, the time to finish may be short, also for a run that ends before it.
            DropReason::Stopped => {
                !options.stops.is_empty()
                    || faults.stops + faults.requirement_stops + faults.failed_starts > 0
            }
            DropReason::StorageFailed => options.storage.fail.is_possible(),
            DropReason::ContentMismatch => options.storage.mismatch.is_possible(),
            // The others are reasons of fragments.
            _ => false,
        }
    }

    fn explain_missing(&self, reason: MissingReason) -> bool {
        let (options, defects) = (self.evidence.options, self.evidence.defects);
        match reason {
            MissingReason::SourceSilent => self.has_missing_sources(),
            MissingReason::SourceEnded | MissingReason::SourceAbsent => self.sources_end(),
            MissingReason::SourceSkipped => self.sources_end() || self.has_missing_sources(),
            MissingReason::FragmentRefused => defects.oversize > 0,
            MissingReason::WindowExpired => options.windows.is_some_and(|it| it.expired.is_possible()),
            MissingReason::WindowOffTimeline => options.windows.is_some_and(|it| it.zero > Timestamp::ZERO),
            MissingReason::ReadoutSilent => self.disturbed || self.slow_sources,
            MissingReason::ReadoutRestarted => {
                let faults = self.evidence.watch.faults;
                faults.readout_crashes + faults.absent_at_start > 0 || !options.node_exclusions.is_empty()
            }
            MissingReason::SourceGone => {
                let faults = self.evidence.watch.faults;
                faults.programs + faults.readout_crashes + faults.absent_at_start > 0
            }
            MissingReason::Renumbered => options.repairs() && !self.evidence.manager.shifts().is_empty(),
            MissingReason::Excluded => options.excludes(),
            MissingReason::ReadoutLost => false,
        }
    }

    fn sources_end(&self) -> bool {
        let options = self.evidence.options;
        let ends = matches!(options.triggers, TriggerOptions::Announced { .. });
        ends || options.feed.is_some() || options.sources.end || options.sources.early_end.is_some()
    }

    fn has_missing_sources(&self) -> bool {
        let defects = self.evidence.defects;
        // An id that one source alone has made is an event where ids are announced.
        let refused = self.evidence.options.windows.is_some_and(|windows| !windows.has_all());
        defects.silent + defects.unknown_events + defects.oversize + defects.ended > 0
            || refused
            || self.slow_sources
    }
}

/// A run in which nothing went wrong shows nothing.
fn without_faults(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let (ledger, options) = (evidence.manager.ledger(), evidence.options);
    if ledger.received != options.events {
        violations.push(violation!("{} triggers of {} were accepted", ledger.received, options.events));
    }
    let harmless = |reason: &DropReason| match reason {
        DropReason::NeverTriggered => options.sources.surplus > 0,
        DropReason::NotRequested => options.is_selective(),
        DropReason::Excluded => options.excludes(),
        DropReason::Late if options.is_selective() => true,
        // The remaining fragments of an event that did not fit arrive too late.
        DropReason::BuilderOutOfMemory | DropReason::EventDropped | DropReason::Late => {
            options.some_events_fit_nowhere()
        }
        _ => false,
    };
    let fragments = evidence.fragment_books();
    let dropped = ledger.dropped.iter().chain(&fragments.dropped).filter(|(reason, _)| !harmless(reason));
    for (reason, count) in dropped {
        violations.push(violation!("nothing went wrong, and {count} were dropped as {reason}"));
    }
    if evidence.watch.missing.keys().any(|reason| reason.is_loss()) {
        violations
            .push(violation!("nothing went wrong, and sources are missing: {:?}", evidence.watch.missing));
    }
    if evidence.watch.faults.given_up + evidence.watch.faults.fences > 0 {
        violations.push("nothing went wrong, and a builder was given up".into());
    }
    // At worst, all events wait for each other at one builder.
    if evidence.watch.latency_max.0 >= options.patience().0.saturating_mul(options.events) {
        violations.push(violation!("nothing went wrong, and an event took {}", evidence.watch.latency_max));
    }
}

impl Options {
    /// Whether readout units wait for longer than sources, disks and the network can be apart where nothing goes
    /// wrong: then nothing may be missing.
    #[must_use]
    pub fn is_patient(&self) -> bool {
        self.times.merge >= self.pause()
            && !self.feed.is_some_and(|setup| setup.declines)
            && self.times.event.0 >= 2 * self.patience().0
    }

    /// The longest time that a source which sends all the time takes from one fragment to the next, and that a trigger takes to
    /// it. One that pauses for less is on its way to what is waited for, however far that is.
    #[must_use]
    pub fn pause(&self) -> Nanos {
        let trigger = match self.triggers {
            TriggerOptions::Driven { period, .. } => period.0,
            _ => 0,
        };
        let slowness = self.sources.slow.map_or(1, |(_, factor)| factor);
        // The largest draw is 45 times the mean.
        Nanos(48 * (trigger + self.sources.period.0 * slowness) + 20 * self.timer_slack.0 + self.feeding().0)
    }

    /// Longest time of an event from its assignment, where nothing goes wrong.
    #[must_use]
    pub fn patience(&self) -> Nanos {
        let slots = u64::from(self.bounds.slots);
        let slowness = self.storage.slow_builder.map_or(1, |(_, factor)| factor);
        let farm = self.farm.map_or(0, |farm| farm.turn().0 * (slots + 2));
        let judge = 9 * self.steps.judge.0 + farm + 4 * self.processing_of_one().0;
        let uploads = self.uploads.map_or(0, |setup| setup.quiet.min(setup.rotate).0 + 100 * setup.time.0);
        let late = if self.storage.late.is_possible() { self.storage.late_time.0 } else { 0 };
        let write = self.storage.write.0 * slowness + self.storage.report.0 + late;
        let disk = match self.storage.queue_events {
            None => write * slots + uploads,
            // Each event waits for all before it to be durable, at an output node for those of all builders.
            Some(_) => (write + uploads) * slots * u64::from(self.system.builders),
        };
        Nanos(self.gathering_time().0 + 2 * (judge + disk))
    }

    /// Longest time of an event from its assignment until its fragments are together, where nothing goes wrong and nobody works on
    /// them.
    #[must_use]
    pub fn gathering_time(&self) -> Nanos {
        let slots = u64::from(self.bounds.slots) * u64::from(self.system.builders);
        let slow_source = self.sources.slow.map_or(1, |(_, factor)| factor);
        let period = match self.triggers {
            TriggerOptions::Driven { period, .. } => period.0 + 4 * self.sources.period.0 * slow_source,
            _ => self.sources.period.0 * slow_source,
        };
        // Sources that go by themselves drift apart like a random walk.
        let apart = slots + self.bounds.queue_events as u64 + 8 * self.events.isqrt() + 8;
        let way = (self.network.delay_min.0 + 20 * self.network.jitter_mean.0) * self.network.spread;
        let nodes = 20 * self.timer_slack.0 + 8 * self.times.batch.0;
        let windows = self.windows_in_turn().0;
        Nanos(2 * (period * apart + self.feeding().0 * apart + 8 * way + nodes + windows))
    }

    /// Whether the memory of a builder is less than one event can need. What is only more than it has room for just now is not
    /// lost.
    #[must_use]
    pub fn some_events_fit_nowhere(&self) -> bool {
        self.bounds.memory.0 < self.sources.largest.0 * u64::from(self.source_count())
    }
}
