//! Requests for fragments: those that are ready to send, and those that wait for credit.

use super::assembly::{Assemblies, Assembly};
use super::pull::Pull;
use super::scope::{Ask, Question};
use super::{Asking, BuilderConfig, MESSAGE_EVENTS, append, index_u16};
use sheaf_wire::message::{EventRange, Shape};
use sheaf_wire::{ByteCount, Payload, Timestamp};
use std::collections::VecDeque;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Asks {
    readouts: u16,
    /// Requests that are ready to send, independent of credit.
    ready: VecDeque<Question>,
    /// Requests that wait for credit. `None` if the bytes in flight are not bounded.
    pull: Option<Pull>,
    /// Credit while the barrel shifter is stopped. `None` without a barrel shifter.
    barrel: Option<ByteCount>,
    /// Time of the latest shaping message, by the clock of the event manager.
    shaped_at: Timestamp,
}

impl Asks {
    /// Creates the requests of builder `me`. Its number decides with which readout unit it begins.
    pub(super) fn new(config: &BuilderConfig, me: u16) -> Self {
        let (credit, barrel) = match config.asking {
            Asking::Paced(credit) => (Some(credit), None),
            Asking::Barrel(credit) => (Some(credit), Some(credit)),
            Asking::AtOnce | Asking::Unasked => (None, None),
        };
        Self {
            readouts: index_u16(config.readouts.len()),
            ready: VecDeque::new(),
            pull: credit.map(|credit| Pull::new(config.readouts.len(), me, credit)),
            barrel,
            shaped_at: Timestamp::ZERO,
        }
    }

    /// Returns whether requests may wait for credit.
    pub(super) fn is_bounded(&self) -> bool {
        self.pull.is_some()
    }

    /// Returns the requested bytes that have not been answered. Counted only if a bound is configured.
    pub(super) fn in_flight(&self) -> ByteCount {
        self.pull.as_ref().map_or(ByteCount::ZERO, Pull::in_flight)
    }

    /// Records whether the barrel shifter is running. While it runs, all requests may be in flight; otherwise
    /// the credit limits them.
    pub(super) fn note_shape(&mut self, shape: Shape) {
        if shape.clock < self.shaped_at {
            return;
        }
        self.shaped_at = shape.clock;
        if let (Some(pull), Some(credit)) = (&mut self.pull, self.barrel) {
            pull.set_credit(if shape.turning { ByteCount(u64::MAX) } else { credit });
        }
    }

    /// Sets the expected size of an event, used until sizes have been measured.
    pub(super) fn expect(&mut self, expected: u64) {
        if let Some(pull) = &mut self.pull {
            pull.expect(expected);
        }
    }

    /// Asks all readout units for whole events of an expected size, but for those that are excluded from all of them.
    pub(super) fn ask_all(
        &mut self,
        ranges: &[EventRange],
        expected: u64,
        is_excluded: impl Fn(u16) -> bool,
    ) {
        if let Some(pull) = &mut self.pull {
            pull.add(ranges, expected);
            return;
        }
        for readout in (0..self.readouts).filter(|readout| !is_excluded(*readout)) {
            self.ready.push_back(Question {
                readout,
                ask: Ask::default(),
                is_repeat: false,
                ranges: ranges.to_vec(),
            });
        }
    }

    /// Asks a readout unit for an event, or a part of one.
    pub(super) fn ask(&mut self, readout: u16, ask: Ask, range: EventRange) {
        match &mut self.pull {
            Some(pull) => pull.add_one(readout, ask, range),
            None => self.ask_at_once(readout, ask, range),
        }
    }

    /// Repeats the request to a readout unit for an event.
    pub(super) fn ask_again<P: Payload>(&mut self, readout: u16, assembly: &mut Assembly<P>) {
        let range = EventRange::one(assembly.event, assembly.attempt);
        let (ask, charge) = (assembly.ask(usize::from(readout)), assembly.uncharge_to_repeat(readout));
        match &mut self.pull {
            Some(pull) => {
                pull.settle(usize::from(readout), charge);
                pull.add_again(readout, ask, range);
            }
            // One message for each readout unit and round: events that are retried together share it.
            None => self.put(readout, ask, range, true),
        }
    }

    /// Sends a request without regard to credit. Events with equal requests share a message.
    pub(super) fn ask_at_once(&mut self, readout: u16, ask: Ask, range: EventRange) {
        self.put(readout, ask, range, false);
    }

    fn put(&mut self, readout: u16, ask: Ask, range: EventRange, repeat: bool) {
        let events = |ranges: &[EventRange]| ranges.iter().map(|range| u64::from(range.count)).sum::<u64>();
        let same = self.ready.iter_mut().rev().find(|question| {
            question.readout == readout && question.ask == ask && events(&question.ranges) < MESSAGE_EVENTS
        });
        let Some(Question { ranges, is_repeat, .. }) = same else {
            self.ready.push_back(Question { readout, ask, is_repeat: repeat, ranges: vec![range] });
            return;
        };
        *is_repeat |= repeat;
        append(ranges, range);
    }

    /// Records a readout unit's answer with this many bytes of payload.
    #[inline]
    pub(super) fn note_answer<P: Payload>(
        &mut self,
        readout: u16,
        assembly: &mut Assembly<P>,
        bytes: ByteCount,
    ) {
        if let Some(pull) = &mut self.pull {
            pull.settle(usize::from(readout), assembly.uncharge(readout));
            pull.learn(readout, assembly.part, bytes.0);
        }
    }

    /// Records that a readout unit's answer is no longer awaited.
    pub(super) fn give_up<P: Payload>(&mut self, readout: u16, assembly: &mut Assembly<P>) {
        if let Some(pull) = &mut self.pull {
            pull.settle(usize::from(readout), assembly.uncharge(readout));
        }
    }

    /// Records that the data in flight of an event are no longer needed.
    #[inline]
    pub(super) fn give_up_all<P: Payload>(&mut self, assembly: &mut Assembly<P>) {
        if let Some(pull) = &mut self.pull {
            for (readout, charge) in assembly.take_charges() {
                pull.settle(readout, charge);
            }
        }
    }

    /// Returns the next request to send.
    pub(super) fn next<P: Payload>(
        &mut self,
        now: Timestamp,
        assemblies: &mut Assemblies<P>,
    ) -> Option<Question> {
        self.ready.pop_front().or_else(|| self.pull.as_mut()?.next(now, assemblies))
    }
}
