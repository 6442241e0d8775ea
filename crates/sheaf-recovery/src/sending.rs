//! Messages that are not all received, cut into datagrams.

use super::rail::{Ending, Piece, Rail};
use super::{Counts, NotTaken, SPAN, Settings, cost, expand, low_bits, low_half};
use sheaf_wire::datagram::{
    self, Greeting, HEAD_BYTES, Head, Key, Kind, LEAST_DATAGRAM_BYTES, MAX_HEADS_BYTES, PART_BYTES, Part,
    RailReport, Report,
};
use sheaf_wire::{ByteCount, Nanos, Timestamp};
use std::collections::VecDeque;

/// A message is not cut for less than this, if it would fit whole into the next datagram.
const LEAST_CUT_BYTES: usize = 256;

/// Number of unanswered probes after which a rail is abandoned, if another one has received something since.
const PROBES_TO_LEAVE: u32 = 3;

/// A message that waits, or is under way.
#[derive(Debug)]
struct Entry<M> {
    /// Until all of it was received.
    message: Option<M>,
    head_bytes: u32,
    total: u32,
    /// Number of its bytes that were cut into datagrams.
    cut: u32,
    /// Pieces of it that are in a datagram, or to be sent again.
    open: u32,
    is_begun: bool,
}

impl<M> Entry<M> {
    fn is_cut(&self) -> bool {
        self.is_begun && self.cut == self.total
    }
}

/// The sender's side of a link, in one life.
#[derive(Debug)]
pub(super) struct Sending<M> {
    settings: Settings,
    messages: VecDeque<Entry<M>>,
    /// The number of the first of them.
    first: u64,
    /// Number of these at the front that are cut.
    cut: usize,
    /// Messages and bytes that are not received.
    live: usize,
    held: u64,
    /// Bytes of messages that are not cut.
    uncut: u64,
    /// Up to where the peer lets messages begin, and where the next begins.
    granted: u64,
    begun: u64,
    /// Flight that the peer grants; 0 until it is known.
    flight: u64,
    message_bytes: u64,
    again: VecDeque<Piece>,
    again_bytes: u64,
    pub(super) rails: Vec<Rail>,
    /// Time at which the peer is asked for its grant, if it is silent.
    ask_at: Option<Timestamp>,
    /// The pieces of the datagram that was made last.
    pieces: Vec<Piece>,
}

impl<M> Sending<M> {
    pub(super) fn new(settings: &Settings, now: Timestamp) -> Self {
        Self {
            settings: *settings,
            messages: VecDeque::new(),
            first: 0,
            cut: 0,
            live: 0,
            held: 0,
            uncut: 0,
            granted: 0,
            begun: 0,
            flight: 0,
            message_bytes: settings.message_bytes.0,
            again: VecDeque::new(),
            again_bytes: 0,
            rails: (0..settings.rails).map(|_| Rail::new(now)).collect(),
            ask_at: None,
            pieces: Vec::new(),
        }
    }

    /// Records the limits of the peer.
    pub(super) fn greeted(&mut self, greeting: &Greeting) {
        self.granted = self.granted.max(greeting.granted);
        self.flight = greeting.flight_bytes.into();
        self.message_bytes = self.settings.message_bytes.0.min(greeting.message_bytes.into());
    }

    /// Takes a message of `total` bytes.
    pub(super) fn push(&mut self, message: M, head_bytes: usize, total: usize) -> Result<(), (NotTaken, M)> {
        let bytes = total as u64;
        let (Ok(head_bytes), Ok(total)) = (u32::try_from(head_bytes), u32::try_from(total)) else {
            return Err((NotTaken::TooLarge(ByteCount(self.message_bytes)), message));
        };
        if bytes > self.message_bytes {
            return Err((NotTaken::TooLarge(ByteCount(self.message_bytes)), message));
        }
        let is_full = self.live >= self.settings.queue_messages
            || self.live > 0 && self.held + bytes > self.settings.queue.0
            || self.messages.len() >= SPAN;
        if is_full {
            return Err((NotTaken::Full, message));
        }
        self.live += 1;
        self.held += bytes;
        self.uncut += bytes;
        let entry = Entry { message: Some(message), head_bytes, total, cut: 0, open: 0, is_begun: false };
        self.messages.push_back(entry);
        Ok(())
    }

    /// Returns the number of messages that are not received.
    pub(super) fn unfinished(&self) -> usize {
        self.live
    }

    /// Returns the number of bytes that could be sent if the flight allowed it.
    pub(super) fn waiting(&self) -> u64 {
        // An empty message, too, is something to send.
        let more = self.messages.len() - self.cut;
        self.again_bytes + self.uncut + (self.again.len() + more) as u64
    }

    /// Returns whether a datagram may be sent now.
    pub(super) fn may_send(&self) -> bool {
        let in_flight: u64 = self.rails.iter().map(Rail::in_flight).sum();
        let fits = in_flight == 0 || in_flight + self.settings.datagram_bytes as u64 <= self.flight;
        fits && (!self.again.is_empty() || self.may_begin()) && self.rail().is_some()
    }

    /// Returns whether there is a message to be cut that was begun or is within the window.
    fn may_begin(&self) -> bool {
        let next = self.messages.get(self.cut);
        next.is_some_and(|entry| entry.is_begun || self.begun + cost(entry.total.into()) <= self.granted)
    }

    /// The rail for the next datagram: one that answers, with the least on the way.
    fn rail(&self) -> Option<usize> {
        let usable = |rail: &&Rail| rail.is_proven && rail.has_room();
        let best = self.rails.iter().filter(usable).min_by_key(|rail| (rail.probes(), rail.in_flight()))?;
        self.rails.iter().position(|rail| std::ptr::eq(rail, best))
    }

    /// Makes the next datagram, of at most `most` bytes: its head in `buffer`, its pieces in [`Self::pieces`]. The rail, if
    /// there is one to send.
    pub(super) fn cut(
        &mut self,
        now: Timestamp,
        key: Key,
        most: usize,
        buffer: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> Option<usize> {
        buffer.clear();
        self.pieces.clear();
        let ping = self.rails.iter().position(|rail| rail.ping && rail.is_proven && rail.has_room());
        let rail = match ping {
            Some(rail) => rail,
            None if self.may_send() => self.rail()?,
            None => return None,
        };
        let head = Head {
            kind: Kind::Data,
            number: low_half(self.rails[rail].next()),
            behind: self.rails[rail].behind(),
        };
        datagram::begin(buffer, key, head);
        if ping.is_none() {
            self.fill(most, buffer, counts);
        }
        datagram::seal(buffer, key);
        let bytes: u64 = self.pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
        counts.datagrams_sent += 1;
        counts.bytes_sent += bytes;
        self.rails[rail].send(now, (buffer.len() as u64 + bytes) as u32, &self.pieces);
        self.ask_at = None;
        Some(rail)
    }

    fn fill(&mut self, most: usize, buffer: &mut Vec<u8>, counts: &mut Counts) {
        let mut room = self.settings.datagram_bytes.min(most.max(LEAST_DATAGRAM_BYTES)) - HEAD_BYTES;
        let end = HEAD_BYTES + MAX_HEADS_BYTES;
        while room >= PART_BYTES && buffer.len() + PART_BYTES <= end {
            let fits = room - PART_BYTES;
            let Some(piece) = self.next_again(fits, counts).or_else(|| self.next_new(fits)) else { return };
            let entry = &self.messages[(piece.message - self.first) as usize];
            let part = Part {
                message: low_bits(piece.message),
                total: entry.total,
                offset: piece.offset,
                bytes: piece.bytes as u16,
                head_bytes: (piece.offset == 0).then_some(entry.head_bytes),
            };
            datagram::append_part(buffer, &part);
            self.pieces.push(piece);
            room = fits - piece.bytes as usize;
        }
    }

    /// Returns whether a piece of `bytes` should be cut to fit.
    fn is_worth_it(&self, fits: usize) -> bool {
        self.pieces.is_empty() || fits >= LEAST_CUT_BYTES
    }

    /// The next piece that was lost, or as much of it as fits.
    fn next_again(&mut self, fits: usize, counts: &mut Counts) -> Option<Piece> {
        let next = *self.again.front()?;
        let piece = if next.bytes as usize <= fits {
            self.again.pop_front();
            next
        } else {
            if !self.is_worth_it(fits) {
                return None;
            }
            let front = self.again.front_mut()?;
            front.offset += fits as u32;
            front.bytes -= fits as u32;
            self.messages[(next.message - self.first) as usize].open += 1;
            Piece { bytes: fits as u32, ..next }
        };
        self.again_bytes -= u64::from(piece.bytes);
        counts.bytes_repeated += u64::from(piece.bytes);
        Some(piece)
    }

    /// Returns the next piece that was never sent.
    fn next_new(&mut self, fits: usize) -> Option<Piece> {
        if !self.again.is_empty() || !self.may_begin() {
            return None;
        }
        let whole = self.messages.get(self.cut).map(|entry| (entry.total - entry.cut) as usize)?;
        if whole > fits && !self.is_worth_it(fits) {
            return None;
        }
        let message = self.first + self.cut as u64;
        let entry = self.messages.get_mut(self.cut)?;
        if !entry.is_begun {
            entry.is_begun = true;
            self.begun += cost(entry.total.into());
        }
        let piece = Piece { message, offset: entry.cut, bytes: whole.min(fits) as u32 };
        entry.cut += piece.bytes;
        entry.open += 1;
        self.uncut -= u64::from(piece.bytes);
        self.cut += usize::from(entry.is_cut());
        Some(piece)
    }

    /// The pieces of the datagram that [`Self::cut`] made, in the order of its parts.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (&M, std::ops::Range<usize>)> {
        self.pieces.iter().filter_map(|piece| {
            let entry = &self.messages[(piece.message - self.first) as usize];
            let start = piece.offset as usize;
            Some((entry.message.as_ref()?, start..start + piece.bytes as usize))
        })
    }

    /// Handles a report. Received messages are passed to `done`. Returns `false` if it is invalid.
    pub(super) fn handle_report(
        &mut self,
        now: Timestamp,
        report: &Report,
        counts: &mut Counts,
        mut done: impl FnMut(M),
    ) -> bool {
        let is_possible = |said: &RailReport| {
            let rail = self.rails.get(usize::from(said.rail))?;
            let end = expand(said.end, rail.next());
            (end <= rail.next()).then_some(())
        };
        if report.rails.iter().any(|rail| is_possible(rail).is_none()) {
            return false;
        }
        self.granted = self.granted.max(report.granted);
        let mut round_trip: Option<(Nanos, usize)> = None;
        for said in &report.rails {
            let Self { rails, messages, first, again, again_bytes, live, held, .. } = self;
            let rail = &mut rails[usize::from(said.rail)];
            let end = expand(said.end, rail.next());
            let mut gaps = said.gaps.iter().map(|gap| {
                let first = expand(gap.first, end);
                (first, first + u64::from(gap.count))
            });
            let mut gap = gaps.next();
            let is_missing = |number| {
                while gap.is_some_and(|(_, end)| end <= number) {
                    gap = gaps.next();
                }
                gap.is_some_and(|(first, _)| first <= number)
            };
            let settled = rail.settle(now, end, report.waited, is_missing, |ending, piece| match ending {
                Ending::GivenUp => {
                    *again_bytes += u64::from(piece.bytes);
                    again.push_back(piece);
                }
                Ending::Received => {
                    let entry = &mut messages[(piece.message - *first) as usize];
                    entry.open -= 1;
                    if entry.open == 0
                        && entry.is_cut()
                        && let Some(message) = entry.message.take()
                    {
                        *live -= 1;
                        *held -= u64::from(entry.total);
                        done(message);
                    }
                }
            });
            counts.datagrams_lost += settled.given_up;
            let measured = settled.age.map(|age| (age, usize::from(said.rail)));
            round_trip = round_trip.into_iter().chain(measured).min();
        }
        // The report waited since the youngest datagram of all rails arrived. Those of other rails arrived earlier: with
        // lost reports, seconds earlier.
        if let Some((age, rail)) = round_trip {
            self.rails[rail].measure(age);
        }
        while self.messages.front().is_some_and(|entry| entry.message.is_none()) {
            self.messages.pop_front();
            self.first += 1;
            self.cut -= 1;
        }
        true
    }

    /// Gives up all that is on the way by a rail, which is left.
    fn leave(&mut self, rail: usize, counts: &mut Counts) {
        let Self { rails, again, again_bytes, .. } = self;
        counts.datagrams_lost += rails[rail].give_up_all(|piece| {
            *again_bytes += u64::from(piece.bytes);
            again.push_back(piece);
        });
        rails[rail].is_proven = false;
        counts.rails_down += 1;
    }

    /// Gives up the oldest datagram of a rail; its content is the next to be sent.
    fn give_up_oldest(&mut self, rail: usize, counts: &mut Counts) {
        let Self { rails, again, again_bytes, .. } = self;
        counts.datagrams_lost += rails[rail].give_up_oldest(|piece| {
            *again_bytes += u64::from(piece.bytes);
            again.push_front(piece);
        });
    }

    /// Gives up overdue datagrams, and probes silent rails; returns the rails that are abandoned.
    pub(super) fn handle_timeout(&mut self, now: Timestamp, counts: &mut Counts) -> Vec<usize> {
        let mut left = Vec::new();
        for place in 0..self.rails.len() {
            while self.rails[place].overdue_at().is_some_and(|at| at <= now) {
                self.give_up_oldest(place, counts);
            }
            if self.probe_at(place).is_none_or(|at| at > now) {
                continue;
            }
            let silent_since = self.rails[place].progress_at();
            let others_live =
                self.rails.iter().enumerate().any(|(other, rail)| {
                    other != place && rail.is_proven && rail.progress_at() > silent_since
                });
            if self.rails[place].probes() >= PROBES_TO_LEAVE && others_live {
                self.leave(place, counts);
                left.push(place);
                continue;
            }
            counts.probes += 1;
            self.rails[place].probe(now);
            self.give_up_oldest(place, counts);
            // A retransmission uses another rail if there is one, and so does not probe this one. Without anything to
            // send, a question is needed as well.
            self.rails[place].ping = self.rails.len() > 1 || self.again.is_empty();
        }
        if self.ask_at.is_some_and(|at| at <= now)
            && let Some(rail) = self.rail()
        {
            self.rails[rail].ping = true;
            self.ask_at = None;
        }
        left
    }

    fn probe_at(&self, rail: usize) -> Option<Timestamp> {
        let rail = self.rails.get(rail).filter(|rail| rail.is_proven)?;
        rail.probe_at(self.settings.report_after, self.settings.probe_min)
    }

    /// When something is given up or probed.
    fn look_at(&self, rail: usize) -> Option<Timestamp> {
        self.probe_at(rail).into_iter().chain(self.rails[rail].overdue_at()).min()
    }

    /// If messages wait for a grant and nothing is in flight, a lost grant would not be noticed: then the peer is
    /// asked.
    pub(super) fn note_waiting(&mut self, now: Timestamp) {
        let waits = !self.messages.is_empty() && self.rails.iter().all(Rail::is_idle) && !self.may_send();
        self.ask_at = waits.then(|| self.ask_at.unwrap_or(now + self.settings.probe_min));
    }

    /// Asks the peer for a report by a rail that reaches it, whether or not there is something to send.
    pub(super) fn ping(&mut self) {
        if let Some(rail) = self.rails.iter_mut().find(|rail| rail.is_proven) {
            rail.ping = true;
        }
    }

    /// Returns whether a ping would ask the peer something: it is reached, and was not asked yet.
    pub(super) fn may_ping(&self) -> bool {
        let is_reached = self.rails.iter().any(|rail| rail.is_proven && rail.has_room());
        is_reached && self.rails.iter().all(|rail| rail.is_idle() && !rail.ping)
    }

    /// Returns whether a rail is to be asked for a report now.
    pub(super) fn has_ping(&self) -> bool {
        self.rails.iter().any(|rail| rail.ping && rail.is_proven && rail.has_room())
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        let ask_at = self.ask_at.filter(|_| self.rail().is_some());
        (0..self.rails.len()).filter_map(|rail| self.look_at(rail)).chain(ask_at).min()
    }
}
