//! The hosts of an engine with equal time steps: when to ask each sender, timers, and the counts of messages handed
//! over and delivered. The slotted and the flit-level engine share this.

use super::Limit;
use crate::meter::{Cause, Meter};
use crate::network::EndpointId;
use crate::traffic::{Message, Next, Traffic, Wake};
use crate::units::Picos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Result of a clock-driven engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Steps of the clock.
    pub steps: u64,
    /// When it ended.
    pub end: Picos,
    /// Whether messages were in the network, and neither the network nor any sender could make progress.
    pub stuck: bool,
}

/// The hosts.
pub(crate) struct Hosts<'a> {
    traffic: &'a mut dyn Traffic,
    meter: &'a mut Meter,
    /// When each sender is asked next; [`Picos::MAX`] while it sleeps.
    ask_at: Vec<Picos>,
    timers: BinaryHeap<Reverse<Picos>>,
    wake: Wake,
    limit: Limit,
}

impl<'a> Hosts<'a> {
    /// Makes the hosts of `senders` endpoints, and announces the beginning of the run to the traffic.
    pub(crate) fn new(
        senders: usize,
        traffic: &'a mut dyn Traffic,
        meter: &'a mut Meter,
        limit: Limit,
    ) -> Self {
        let mut hosts = Self {
            traffic,
            meter,
            ask_at: vec![Picos::ZERO; senders],
            timers: BinaryHeap::new(),
            wake: Wake::default(),
            limit,
        };
        hosts.traffic.begin(&mut hosts.wake);
        hosts.wake_up(Picos::ZERO);
        hosts
    }

    /// Calls the timers that are due.
    pub(crate) fn timers(&mut self, now: Picos) {
        while self.timers.peek().is_some_and(|&Reverse(at)| at <= now) {
            self.timers.pop();
            self.traffic.timer(now, &mut self.wake);
            self.wake_up(now);
        }
    }

    /// Returns whether `sender` may have something to send.
    pub(crate) fn may_send(&self, sender: usize, now: Picos) -> bool {
        self.ask_at[sender] <= now
    }

    /// Returns the message that `sender` hands over now, if any.
    pub(crate) fn next(&mut self, sender: usize, now: Picos) -> Option<Message> {
        if !self.may_send(sender, now) {
            return None;
        }
        let id = EndpointId(u32::try_from(sender).expect("endpoints are numbered by 32 bits"));
        match self.traffic.next(id, now) {
            Next::Send(message) => {
                self.meter.offered(&message);
                return Some(message);
            }
            Next::At(at) => self.ask_at[sender] = at,
            Next::Sleep => self.ask_at[sender] = Picos::MAX,
        }
        None
    }

    /// Returns the meter.
    pub(crate) fn meter(&mut self) -> &mut Meter {
        self.meter
    }

    /// The last byte of `message` has left its host.
    pub(crate) fn sent(&mut self, message: &Message, now: Picos) {
        self.traffic.sent(message, now, &mut self.wake);
        self.wake_up(now);
    }

    /// The last byte of `message` has arrived.
    pub(crate) fn delivered(&mut self, message: &Message, now: Picos) {
        self.meter.delivered(message, now);
        self.traffic.delivered(message, now, &mut self.wake);
        self.wake_up(now);
    }

    /// `message` is lost, because of `cause`.
    pub(crate) fn lost(&mut self, message: &Message, cause: Cause, now: Picos) {
        self.meter.lost(message, cause);
        self.traffic.lost(message, now, &mut self.wake);
        self.wake_up(now);
    }

    /// Returns whether the run is over at `now`.
    pub(crate) fn is_over(&self, now: Picos) -> bool {
        now >= self.limit.end
            || self.limit.is_reached(self.meter.delivered_messages(), || self.traffic.complete_events())
    }

    /// The next instant at which a sender or a timer does something, or the run ends; `None`: never, unless the network
    /// delivers something.
    pub(crate) fn next_instant(&self) -> Option<Picos> {
        let asked = self.ask_at.iter().copied().min().filter(|&at| at < Picos::MAX);
        self.not_beyond_the_end([asked, self.next_timer()].into_iter().flatten().min())
    }

    /// When `sender` will be asked; [`Picos::MAX`] while it sleeps.
    pub(crate) fn ask_at(&self, sender: usize) -> Picos {
        self.ask_at[sender]
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Picos> {
        self.timers.peek().map(|&Reverse(at)| at)
    }

    /// `instant`, or the end of the run where that comes first.
    pub(crate) fn not_beyond_the_end(&self, instant: Option<Picos>) -> Option<Picos> {
        instant.map(|at| at.min(self.limit.end))
    }

    /// Messages that are in the network.
    pub(crate) fn in_flight(&self) -> u64 {
        self.meter.in_flight()
    }

    /// Ends the run at `now`, after `steps` steps: because it is over, or because nothing happens any more.
    pub(crate) fn finish(self, steps: u64, now: Picos) -> Course {
        let over = self.is_over(now);
        let stuck = !over && self.in_flight() > 0;
        Course { steps, end: if over { now } else { self.limit.end_after(now) }, stuck }
    }

    /// Applies the wake-ups that the traffic requested in its last call.
    fn wake_up(&mut self, now: Picos) {
        if self.wake.is_empty() {
            return;
        }
        for sender in self.wake.drain() {
            let at = &mut self.ask_at[sender.index()];
            *at = (*at).min(now);
        }
        self.timers.extend(self.wake.drain_timers().map(Reverse));
    }
}
