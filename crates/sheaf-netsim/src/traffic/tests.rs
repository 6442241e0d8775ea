//! An ideal network for the tests of workloads, and the common requirements on them.

mod conservation;
mod documents;

use super::{Message, Next, Summary, Traffic, Wake};
use crate::network::EndpointId;
use crate::scenario::{Assignment, EventTraffic, Placement, SizeModel};
use crate::units::{Picos, Rate};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Sent(usize),
    Ended(usize),
    Timer,
    Ask(u32),
}

/// A network without obstacles: every sender has its own link, a receiver takes everything.
pub(super) struct Ideal<T> {
    pub(super) traffic: T,
    rate: Rate,
    delay: Picos,
    /// Which messages are lost, by their number.
    loses: fn(usize) -> bool,
    now: Picos,
    agenda: BinaryHeap<Reverse<(Picos, u64, Step)>>,
    order: u64,
    busy: Vec<bool>,
    wake: Wake,
    /// All messages, with the instants at which they were sent and have ended.
    pub(super) messages: Vec<(Message, Picos)>,
    pub(super) ended: usize,
}

impl<T: Traffic> Ideal<T> {
    pub(super) fn new(traffic: T, endpoints: u32, rate: Rate, delay: Picos) -> Self {
        let mut ideal = Self {
            traffic,
            rate,
            delay,
            loses: |_| false,
            now: Picos::ZERO,
            agenda: BinaryHeap::new(),
            order: 0,
            busy: vec![false; endpoints as usize],
            wake: Wake::default(),
            messages: Vec::new(),
            ended: 0,
        };
        ideal.traffic.begin(&mut ideal.wake);
        ideal.obey();
        for endpoint in 0..endpoints {
            ideal.ask(EndpointId(endpoint));
        }
        ideal
    }

    pub(super) fn losing(mut self, loses: fn(usize) -> bool) -> Self {
        self.loses = loses;
        self
    }

    fn plan(&mut self, at: Picos, step: Step) {
        self.order += 1;
        self.agenda.push(Reverse((at, self.order, step)));
    }

    fn obey(&mut self) {
        let (senders, timers): (Vec<_>, Vec<_>) =
            (self.wake.drain().collect(), self.wake.drain_timers().collect());
        for at in timers {
            self.plan(at.max(self.now), Step::Timer);
        }
        for sender in senders {
            self.ask(sender);
        }
    }

    fn ask(&mut self, sender: EndpointId) {
        if self.busy[sender.index()] {
            return;
        }
        match self.traffic.next(sender, self.now) {
            Next::Send(message) => {
                assert_eq!(message.source, sender);
                assert!(message.bytes > 0);
                self.busy[sender.index()] = true;
                let left = self.now + self.rate.time_for(u64::from(message.bytes));
                let number = self.messages.len();
                self.messages.push((message, self.now));
                self.plan(left, Step::Sent(number));
                self.plan(left + self.delay, Step::Ended(number));
            }
            Next::At(at) => {
                assert!(at > self.now, "asked again at the same instant for ever");
                self.plan(at, Step::Ask(sender.0));
            }
            Next::Sleep => {}
        }
    }

    pub(super) fn run_until(&mut self, end: Picos) {
        while let Some(Reverse((at, _, step))) = self.agenda.peek().copied() {
            if at > end {
                break;
            }
            self.agenda.pop();
            self.now = at;
            match step {
                Step::Sent(number) => {
                    let message = self.messages[number].0;
                    self.traffic.sent(&message, at, &mut self.wake);
                    self.busy[message.source.index()] = false;
                    self.ask(message.source);
                }
                Step::Ended(number) => {
                    let message = self.messages[number].0;
                    self.ended += 1;
                    if (self.loses)(number) {
                        self.traffic.lost(&message, at, &mut self.wake);
                    } else {
                        self.traffic.delivered(&message, at, &mut self.wake);
                    }
                }
                Step::Timer => self.traffic.timer(at, &mut self.wake),
                Step::Ask(sender) => self.ask(EndpointId(sender)),
            }
            self.obey();
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let summary = self.traffic.summary();
        for check in &summary.checks {
            assert!(check.pass, "{}: {}", check.name, check.detail);
        }
        summary
    }

    /// Payload handed over by each sender.
    pub(super) fn bytes_of(&self, sender: u32) -> u64 {
        let own = self.messages.iter().filter(|(message, _)| message.source.0 == sender);
        own.map(|(message, _)| u64::from(message.bytes)).sum()
    }
}

/// 8 Gbit/s: a byte is a nanosecond.
pub(super) const RATE: Rate = Rate::from_gigabits(8);

pub(super) fn events(placement: Placement, size: SizeModel, assignment: Assignment) -> EventTraffic {
    EventTraffic { placement, size, correlation: 0.0, assignment, event_rate: None }
}
