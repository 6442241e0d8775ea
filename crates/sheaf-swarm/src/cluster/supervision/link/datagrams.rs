//! A link of datagrams: they can be lost, repeated and, on the way to the supervisor, overtaken.

use crate::cluster::post::{Happening, Post};
use crate::options::{SupervisorOptions, TriggerDatagramOptions};
use crate::supervisor_link::{Line, SUPERVISOR};
use sheaf_protocol::trigger_link::datagram::{Datagram, DatagramCaller, DatagramDoor};
use sheaf_protocol::trigger_link::{DatagramCounts, Receiver, Supervisor};
use sheaf_wire::trigger_link::{FromManager, FromSupervisor};
use sheaf_wire::{Nanos, Timestamp};

/// Time after which a silent supervisor is gone. It is longer than the longest silence of a simulated link.
const SILENCE: Nanos = Nanos::from_secs(3);

/// Both ends of a link of datagrams, and those on their way.
#[derive(Debug)]
pub(in super::super) struct Datagrams {
    latency: Nanos,
    faults: TriggerDatagramOptions,
    door: DatagramDoor<u16>,
    caller: DatagramCaller,
    /// Number of the supervisor's life.
    life: u64,
    /// Address of the supervisor in this life.
    address: u16,
    /// Whether each life has another address.
    moves: bool,
    there: Line<(u16, Datagram<FromSupervisor>)>,
    /// In no order.
    back: Vec<(Timestamp, u16, Datagram<FromManager>)>,
    /// The next planned deadline.
    planned: Option<Timestamp>,
}

impl Datagrams {
    pub(super) fn new(options: SupervisorOptions, faults: TriggerDatagramOptions) -> Self {
        Self {
            latency: options.latency,
            faults,
            door: DatagramDoor::new(None, SILENCE),
            caller: DatagramCaller::new(Timestamp::ZERO, 1, SUPERVISOR),
            life: 1,
            address: 0,
            moves: options.deaths.is_some_and(|deaths| deaths.moves),
            there: Line::new(),
            back: Vec::new(),
            planned: None,
        }
    }

    pub(super) fn counts(&self) -> DatagramCounts {
        self.door.counts()
    }

    pub(super) fn revive(&mut self, now: Timestamp) {
        self.life += 1;
        self.address += u16::from(self.moves);
        self.caller = DatagramCaller::new(now, self.life, SUPERVISOR);
    }

    pub(super) fn hand_over(&mut self, now: Timestamp, receiver: &mut Receiver) {
        self.door.hand_over(now, receiver);
    }

    pub(super) fn deliver(
        &mut self,
        now: Timestamp,
        mut supervisor: Option<&mut Supervisor>,
        receiver: &mut Receiver,
    ) {
        self.back.sort_by_key(|(at, ..)| *at);
        let arrived = self.back.partition_point(|(at, ..)| *at <= now);
        for (_, address, datagram) in self.back.drain(..arrived) {
            let Some(supervisor) = supervisor.as_mut().filter(|_| address == self.address) else { continue };
            for message in self.caller.handle_input(now, datagram) {
                supervisor.handle_input(now, message);
            }
        }
        while let Some((address, datagram)) = self.there.receive(now) {
            self.door.handle_input(now, address, datagram, receiver);
        }
        self.door.handle_timeout(now, receiver);
    }

    pub(super) fn transmit(
        &mut self,
        post: &mut Post,
        supervisor: Option<&mut Supervisor>,
        receiver: &mut Receiver,
    ) {
        if let Some(supervisor) = supervisor {
            while let Some(datagram) = self.caller.poll_transmit(post.now, supervisor) {
                let has_triggers =
                    datagram.messages.iter().any(|message| matches!(message, FromSupervisor::Triggers(_)));
                for _ in 0..self.copies(post, has_triggers) {
                    let sent = (self.address, datagram.clone());
                    let at = self.there.send(post.now, &mut post.dice, self.latency, sent);
                    post.plan(at, Happening::TriggerLine);
                }
            }
        }
        while let Some((address, datagram)) = self.door.poll_transmit(post.now, receiver) {
            for _ in 0..self.copies(post, false) {
                let at = post.now + Nanos(post.dice.below(self.latency.0 + 1));
                self.back.push((at, address, datagram.clone()));
                post.plan(at, Happening::TriggerLine);
            }
        }
    }

    /// Returns the next deadline of both ends, unless it was returned before.
    pub(super) fn next_deadline(&mut self, now: Timestamp, is_alive: bool) -> Option<Timestamp> {
        let caller = self.caller.poll_timeout().filter(|_| is_alive);
        let next = self.door.poll_timeout().into_iter().chain(caller).min()?.max(now);
        let is_new = self.planned.is_none_or(|planned| planned <= now || planned > next);
        is_new.then(|| *self.planned.insert(next))
    }

    /// Returns how often a datagram arrives.
    fn copies(&self, post: &mut Post, must_arrive: bool) -> usize {
        if !must_arrive && post.dice.chance(self.faults.lost) {
            return 0;
        }
        1 + usize::from(post.dice.chance(self.faults.repeated))
    }
}
