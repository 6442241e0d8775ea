//! Arrivals, and messages that are being reassembled.

use super::coverage::Coverage;
use super::numbers::{Arrival, Numbers};
use super::{Arrived, Counts, PartRange, SPAN, Settings, cost, expand_message};
use sheaf_wire::datagram::{Part, Report};
use sheaf_wire::{Nanos, Timestamp};
use std::collections::VecDeque;

/// Number of received datagrams after which a report is due.
const REPORT_DATAGRAMS: u32 = 16;

/// Minimum number of new datagrams for a report about gaps, so that heavy loss does not cause a report for each.
const REPORT_GAPS_DATAGRAMS: u32 = 2;

/// A datagram of data with its number.
#[derive(Debug)]
pub(super) struct Numbered<I> {
    /// The rail that it came by.
    pub(super) rail: usize,
    /// The lower half of its number there.
    pub(super) number: u32,
    /// Numbers that are lower than the highest by more than this are not expected any more.
    pub(super) behind: u16,
    /// Its parts of messages.
    pub(super) parts: I,
}

/// A message of which something has arrived.
#[derive(Debug)]
struct Assembly<A> {
    total: u32,
    head_bytes: Option<u32>,
    coverage: Coverage,
    memory: Option<A>,
}

/// A message that has partly arrived.
#[derive(Debug)]
enum MessageState<A> {
    Unseen,
    Begun(Assembly<A>),
    Whole,
}

/// The receiver's side of a link, in one life.
#[derive(Debug)]
pub(super) struct Receiving<A> {
    settings: Settings,
    rails: Vec<Numbers>,
    /// Messages from the first that is not whole on.
    messages: VecDeque<MessageState<A>>,
    first: u64,
    /// Cost of the messages that were begun, and the parts of it that were taken and granted anew.
    begun: u64,
    taken: u64,
    /// Taken, but not granted anew yet.
    withheld: u64,
    /// Taken as of the last report.
    reported: u64,
    unreported: u32,
    unreported_bytes: u64,
    has_gap: bool,
    youngest_at: Timestamp,
    report_at: Option<Timestamp>,
}

impl<A> Receiving<A> {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            settings: *settings,
            rails: vec![Numbers::default(); settings.rails],
            messages: VecDeque::new(),
            first: 0,
            begun: 0,
            taken: 0,
            withheld: 0,
            reported: 0,
            unreported: 0,
            unreported_bytes: 0,
            has_gap: false,
            youngest_at: Timestamp::ZERO,
            report_at: None,
        }
    }

    /// Handles a datagram of data. `store` is called with the destination of the bytes of each new part; messages
    /// completed by it are passed to `whole`. Returns `false` if it is invalid.
    pub(super) fn handle_data(
        &mut self,
        now: Timestamp,
        datagram: Numbered<impl Iterator<Item = Part>>,
        counts: &mut Counts,
        mut store: impl FnMut(&mut Option<A>, PartRange),
        mut whole: impl FnMut(Arrived<A>),
    ) -> bool {
        let Numbered { rail, number, behind, parts } = datagram;
        let Some(numbers) = self.rails.get(rail) else { return false };
        let number = numbers.expand(number);
        match numbers.look(number) {
            Arrival::New => {}
            Arrival::Duplicate => {
                counts.duplicates += 1;
                counts.bytes_in_vain += parts.map(|part| u64::from(part.bytes)).sum::<u64>();
                // The report of it may have been lost.
                self.report_within(now, self.settings.report_after);
                return true;
            }
            Arrival::TooFar => {
                counts.beyond_window += 1;
                return true;
            }
        }
        let (mut at, mut taken) = (0, true);
        for part in parts {
            let bytes = usize::from(part.bytes);
            match self.take(&part, at..at + bytes, counts, &mut store, &mut whole) {
                Some(true) => {}
                Some(false) => taken = false,
                None => return false,
            }
            at += bytes;
        }
        if !taken {
            counts.beyond_window += 1;
            return true;
        }
        counts.datagrams_received += 1;
        let oldest = number.saturating_sub(behind.into());
        self.has_gap |= self.rails[rail].add(number, oldest);
        self.youngest_at = now;
        self.unreported += 1;
        self.unreported_bytes += at as u64;
        let is_due = self.unreported >= REPORT_DATAGRAMS
            || self.unreported_bytes >= self.settings.flight.0 / 4
            || self.has_gap && self.unreported >= REPORT_GAPS_DATAGRAMS;
        self.report_within(now, if is_due { Nanos::ZERO } else { self.settings.report_after });
        true
    }

    /// Takes a part. Returns `Some(false)` if it cannot be taken now, and `None` if it contradicts earlier ones.
    fn take(
        &mut self,
        part: &Part,
        at: std::ops::Range<usize>,
        counts: &mut Counts,
        store: &mut impl FnMut(&mut Option<A>, PartRange),
        whole: &mut impl FnMut(Arrived<A>),
    ) -> Option<bool> {
        let number = expand_message(part.message, self.first);
        let Some(ahead) = number.checked_sub(self.first) else {
            counts.bytes_in_vain += u64::from(part.bytes);
            return Some(true);
        };
        let ahead = usize::try_from(ahead).ok().filter(|ahead| *ahead < SPAN);
        let Some(ahead) = ahead else { return Some(false) };
        if ahead >= self.messages.len() {
            self.messages.resize_with(ahead + 1, || MessageState::Unseen);
        }
        let slot = &mut self.messages[ahead];
        if let MessageState::Unseen = slot {
            let after = self.begun + cost(part.total.into());
            let is_granted = after - self.taken <= self.settings.granted_window();
            if !is_granted || u64::from(part.total) > self.settings.message_bytes.0 {
                return Some(false);
            }
            self.begun = after;
            *slot = MessageState::Begun(Assembly {
                total: part.total,
                head_bytes: None,
                coverage: Coverage::default(),
                memory: None,
            });
        }
        let MessageState::Begun(assembly) = slot else {
            counts.bytes_in_vain += u64::from(part.bytes);
            return Some(true);
        };
        if assembly.total != part.total
            || part.head_bytes.is_some_and(|it| assembly.head_bytes.unwrap_or(it) != it)
        {
            return None;
        }
        assembly.head_bytes = assembly.head_bytes.or(part.head_bytes);
        let new = assembly.coverage.add(part.offset, part.offset + u32::from(part.bytes));
        counts.bytes_in_vain += u64::from(u32::from(part.bytes) - new);
        if new > 0 {
            let place = PartRange { total: part.total as usize, offset: part.offset as usize, at };
            store(&mut assembly.memory, place);
        }
        if let Some(head_bytes) = assembly.head_bytes.filter(|_| assembly.coverage.is_whole(assembly.total)) {
            let (memory, bytes) = (assembly.memory.take(), assembly.total as usize);
            *slot = MessageState::Whole;
            whole(Arrived { memory, head_bytes: head_bytes as usize, bytes });
            while let Some(MessageState::Whole) = self.messages.front() {
                self.messages.pop_front();
                self.first += 1;
            }
        }
        Some(true)
    }

    /// The driver has taken a message.
    pub(super) fn taken(&mut self, bytes: usize) {
        self.withheld += cost(bytes as u64);
    }

    /// Grants anew what was taken.
    pub(super) fn open(&mut self, now: Timestamp) {
        if self.withheld > 0 {
            self.taken += std::mem::take(&mut self.withheld);
            let is_due = self.taken - self.reported >= self.settings.granted_window() / 4;
            self.report_within(now, if is_due { Nanos::ZERO } else { self.settings.report_after });
        }
    }

    /// Returns whether something was taken and not granted anew.
    pub(super) fn is_withholding(&self) -> bool {
        self.withheld > 0
    }

    /// Makes a report due.
    pub(super) fn report_within(&mut self, now: Timestamp, time: Nanos) {
        let at = now + time;
        self.report_at = Some(self.report_at.map_or(at, |report_at| report_at.min(at)));
    }

    /// When a report is due.
    pub(super) fn report_at(&self) -> Option<Timestamp> {
        self.report_at
    }

    /// Up to where the peer may begin messages.
    pub(super) fn granted(&self) -> u64 {
        self.taken + self.settings.granted_window()
    }

    /// The report, which is sent now.
    pub(super) fn report(&mut self, now: Timestamp) -> Report {
        self.report_at = None;
        self.unreported = 0;
        self.unreported_bytes = 0;
        self.has_gap = false;
        self.reported = self.taken;
        let heard = self.rails.iter().filter(|rail| !rail.is_empty()).count();
        let room = Report::room_for_gaps(self.settings.datagram_bytes, heard) / heard.max(1);
        let rails = (0..).zip(&self.rails).filter(|(_, rail)| !rail.is_empty());
        let rails = rails.map(|(rail, numbers)| numbers.report(rail, room)).collect();
        Report { granted: self.granted(), waited: now.since(self.youngest_at), rails }
    }
}
