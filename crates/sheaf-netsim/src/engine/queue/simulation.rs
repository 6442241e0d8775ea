//! The state of a run and the loop that drives it: common to all kinds of switches.
//!
//! All events planned for an instant happen first: frames leave, credits arrive. Then hosts are asked, arrived frames
//! are examined, and only then outputs choose among the waiting frames, stage by stage from the senders on. So the
//! choice does not depend on the order in which the links of a network are numbered, and what leaves at an instant
//! makes room for what arrives at the same instant.

use super::Setup;
use super::arbiter::Waiters;
use super::causes::{Causes, LossKind};
use super::frames::{Frames, Messages, NONE};
use super::ports::Port;
use super::rails::{Host, Rail};
use super::scheme::Scheme;
use super::timeline::Timeline;
use crate::faults::Faults;
use crate::meter::Meter;
use crate::network::{EndpointId, LinkId, Network};
use crate::routing::Router;
use crate::traffic::{Traffic, Wake};
use crate::units::Picos;

/// Something that is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The last byte of the frame on this link leaves its sender.
    Left(u32),
    /// The next frame on this link is at its far end: its head, where switches cut through, else its last byte.
    Landed(u32),
    /// One more frame has room behind this link, and its sender knows now.
    Room(u32),
    /// The sender into this link has to stop.
    Stop(u32),
    /// The sender into this link may continue.
    Go(u32),
    /// This link's interface has rested, or its message is ready.
    Feed(u32),
    /// This host wants to be asked for its next message.
    Ask(u32),
    /// The traffic wants to be called.
    Timer,
    /// Something breaks or heals.
    Fault,
}

/// A run.
pub(super) struct Simulation<'a> {
    pub(super) network: &'a Network,
    pub(super) traffic: &'a mut dyn Traffic,
    pub(super) meter: &'a mut Meter,
    pub(super) router: Router,
    pub(super) faults: Faults,
    pub(super) scheme: Scheme,
    pub(super) causes: Causes,
    pub(super) setup: Setup,
    pub(super) events: Timeline<Event>,
    pub(super) now: Picos,
    pub(super) ports: Vec<Port>,
    pub(super) hosts: Vec<Host>,
    /// For each link that leaves a host, the state of its interface.
    pub(super) rails: Vec<Rail>,
    pub(super) frames: Frames,
    pub(super) messages: Messages,
    pub(super) waiters: Waiters,
    /// Bytes in the memory of each switch, where its outputs share one.
    pub(super) memory: Vec<u64>,
    pub(super) agenda: Agenda,
    wake: Wake,
}

/// Work to do at the present instant, after the events planned for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    /// Hosts to ask.
    asks: Vec<u32>,
    /// Links with a frame at their far end.
    pub(super) landed: Vec<u32>,
    /// Links whose far end has a head that has to find its way.
    pub(super) heads: Vec<u32>,
    /// For each stage, outputs that might choose.
    touched: Vec<Vec<u32>>,
    /// The first of those lists that may not be empty.
    lowest: usize,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(
        network: &'a Network,
        setup: Setup,
        faults: Faults,
        traffic: &'a mut dyn Traffic,
        meter: &'a mut Meter,
    ) -> Self {
        let links = network.links.len();
        let leaving_hosts = network.injection.iter().map(|rails| rails.end).max().unwrap_or(0);
        Self {
            router: Router::new(setup.routes, network, setup.seed),
            faults,
            scheme: setup.scheme,
            causes: Causes::new(network.stages, setup.scheme),
            events: Timeline::default(),
            now: Picos::ZERO,
            ports: Port::all(network, setup.scheme.room()),
            hosts: network.injection.iter().map(|rails| Host::new(rails.clone())).collect(),
            rails: (0..leaving_hosts).map(|_| Rail::default()).collect(),
            frames: Frames::default(),
            messages: Messages::default(),
            waiters: Waiters::new(setup.arbiter, links, setup.seed),
            memory: vec![0; network.switches.len()],
            agenda: Agenda {
                touched: vec![Vec::new(); usize::from(network.stages)],
                lowest: usize::from(network.stages),
                ..Agenda::default()
            },
            wake: Wake::default(),
            network,
            traffic,
            meter,
            setup,
        }
    }

    /// Runs until `stop` (called after every instant) returns `true`, no event is left, or `limit` is over. Returns the
    /// time of the end.
    pub(super) fn run(&mut self, limit: Picos, mut stop: impl FnMut(&dyn Traffic, &Meter) -> bool) -> Picos {
        self.traffic.begin(&mut self.wake);
        self.heed();
        for (number, rails) in (0u32..).zip(&self.network.injection) {
            if !rails.is_empty() {
                self.agenda.asks.push(number);
            }
        }
        self.plan_fault();
        let ended = loop {
            self.settle();
            if stop(self.traffic, self.meter) {
                break self.now;
            }
            let at = self.events.next_at();
            if at == Picos::MAX {
                // What waits now waits for the rest of the time, too.
                let last = self.now;
                if limit < Picos::MAX {
                    self.now = limit;
                }
                break last;
            }
            if at > limit {
                break limit;
            }
            self.now = at;
        };
        self.now = self.now.max(ended);
        self.close();
        ended
    }

    /// All that belongs to this instant.
    fn settle(&mut self) {
        loop {
            while self.events.next_at() == self.now
                && let Some(event) = self.events.pop()
            {
                self.handle(event);
            }
            if let Some(host) = self.agenda.asks.pop() {
                self.ask(host);
            } else if !self.agenda.landed.is_empty() {
                self.each(|agenda| &mut agenda.landed, Self::land);
            } else if !self.agenda.heads.is_empty() {
                self.each(|agenda| &mut agenda.heads, Self::look_for_output);
            } else if self.agenda.lowest < self.agenda.touched.len() {
                let stage = self.agenda.lowest;
                self.agenda.lowest += 1;
                self.each(|agenda| &mut agenda.touched[stage], Self::arbitrate);
            } else {
                return;
            }
        }
    }

    /// Calls `act` for everything on a list of the agenda, in order, including entries added meanwhile.
    #[inline]
    fn each(&mut self, list: impl Fn(&mut Agenda) -> &mut Vec<u32>, act: impl Fn(&mut Self, u32)) {
        let mut done = 0;
        while let Some(&item) = list(&mut self.agenda).get(done) {
            act(self, item);
            done += 1;
        }
        list(&mut self.agenda).clear();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Left(link) => self.left(link),
            Event::Landed(link) => self.agenda.landed.push(link),
            Event::Room(link) => self.gain_room(link),
            Event::Stop(link) => self.stop(link),
            Event::Go(link) => self.go(link),
            Event::Feed(link) => self.feed(link),
            Event::Ask(host) => self.agenda.asks.push(host),
            Event::Timer => {
                self.traffic.timer(self.now, &mut self.wake);
                self.heed();
            }
            Event::Fault => {
                self.faults.advance(self.now);
                self.plan_fault();
            }
        }
    }

    /// Accounts for everything that still waits at the end: otherwise a wait without end would not be counted at all.
    fn close(&mut self) {
        for rail in &self.rails {
            if rail.blocked < self.now {
                self.meter.waited(self.causes.held_up(0), rail.blocked, self.now);
            }
        }
        for link in 0..super::frames::index(self.ports.len()) {
            let Port { wanted, asked, held_before, queue, .. } = self.ports[link as usize];
            if wanted != NONE && self.scheme.has_input_buffers() {
                let held = self.ports[wanted as usize].held_up(self.now).since(held_before);
                self.book_waiting(wanted, asked, held);
            } else if wanted != NONE {
                let stage = self.ports[wanted as usize].stage;
                self.meter.waited(self.causes.full(stage), asked, self.now);
            }
            let held_up = self.ports[link as usize].held_up(self.now);
            let mut id = queue.head;
            for _ in 0..queue.len {
                let frame = self.frames.get(id);
                let (since, held) = (frame.since, held_up.since(frame.held_before));
                id = self.frames.after(id);
                self.book_waiting(link, since, held);
            }
        }
    }

    fn plan_fault(&mut self) {
        if let Some(at) = self.faults.next_change() {
            self.events.push(at, Event::Fault);
        }
    }

    /// Applies the requests of the traffic's last call.
    #[inline]
    pub(super) fn heed(&mut self) {
        if !self.wake.is_empty() {
            self.agenda.asks.extend(self.wake.drain().map(|sender| sender.0));
            for at in self.wake.drain_timers() {
                self.events.push(at, Event::Timer);
            }
        }
    }

    /// Calls the traffic, and applies its requests.
    #[inline]
    pub(super) fn tell(&mut self, call: impl FnOnce(&mut dyn Traffic, Picos, &mut Wake)) {
        call(self.traffic, self.now, &mut self.wake);
        self.heed();
    }

    /// `host` is asked again at this instant.
    #[inline]
    pub(super) fn ask_soon(&mut self, host: u32) {
        self.agenda.asks.push(host);
    }

    /// Marks `output` as possibly able to choose among the frames that wait for it.
    #[inline]
    pub(super) fn touch(&mut self, output: u32) {
        let port = &self.ports[output as usize];
        if port.may_send() && !self.waiters.is_empty(output) {
            let stage = usize::from(port.stage);
            self.agenda.touched[stage].push(output);
            self.agenda.lowest = self.agenda.lowest.min(stage);
        }
    }

    /// Frame `id` begins to leave through `link`.
    #[inline]
    pub(super) fn begin_sending(&mut self, link: u32, id: u32) {
        let port = &mut self.ports[link as usize];
        let frame = self.frames.get_mut(id);
        let mut time = port.time_for(frame.wire);
        let mut lost = false;
        if !self.faults.is_quiet() {
            if port.receiver != NONE {
                time = self.faults.receiving_time(EndpointId(port.receiver), time);
            }
            lost = self.faults.is_dead(LinkId(link)) | self.faults.loses_frame();
        }
        let mut end = self.now + time;
        if let Some(bus) = self.setup.endpoint.bus {
            let host = if port.sender == NONE { port.receiver } else { port.sender };
            if let Some(host) = self.hosts.get_mut(host as usize) {
                host.bus_busy_until = host.bus_busy_until.max(self.now) + bus.time_for(frame.wire.into());
                end = end.max(host.bus_busy_until);
            }
        }
        if port.feeder != NONE {
            // The last byte cannot leave a switch before it has come there.
            end = end.max(frame.tail);
        }
        port.busy = true;
        port.leaving = frame.wire;
        frame.tail = if lost { Picos::MAX } else { end + port.delay };
        self.frames.push(&mut port.incoming, id);
        if port.coming == NONE {
            port.coming = id;
        }
        self.events.push(end, Event::Left(link));
        if port.switch != NONE && self.scheme.cuts_through() {
            if port.delay == Picos::ZERO {
                self.agenda.landed.push(link);
            } else {
                self.events.push(self.now + port.delay, Event::Landed(link));
            }
        } else if port.delay > Picos::ZERO {
            self.events.push(end + port.delay, Event::Landed(link));
        }
        if port.room != u32::MAX {
            port.room -= 1;
        }
        port.keep_clock(self.now);
    }

    /// The last byte of the frame on `link` has left its sender.
    fn left(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.busy = false;
        port.keep_clock(self.now);
        if port.delay == Picos::ZERO && !(port.switch != NONE && self.scheme.cuts_through()) {
            self.agenda.landed.push(link);
        }
        if port.sender != NONE {
            self.left_host(link);
        } else if port.feeder != NONE {
            let input = std::mem::replace(&mut port.feeder, NONE);
            let bytes = port.leaving;
            self.left_input(input, bytes);
            self.touch(link);
        } else {
            self.left_queue(link);
        }
    }

    /// The next frame on `link` is at its far end.
    fn land(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        let id = port.coming;
        port.coming = self.frames.after(id);
        let frame = self.frames.get_mut(id);
        let by_chance = frame.tail == Picos::MAX;
        if by_chance || (!self.faults.is_quiet() && self.faults.is_dead(LinkId(link))) {
            let position = port.arrived;
            self.frames.take(&mut port.incoming, position);
            let kind = if self.faults.is_dead(LinkId(link)) { LossKind::Dead } else { LossKind::Chance };
            let stage = port.stage;
            if port.switch != NONE {
                self.free_room(link);
            }
            self.lose(id, stage, kind);
            return;
        }
        if port.receiver != NONE {
            self.frames.pop(&mut port.incoming);
            self.deliver(id);
            return;
        }
        frame.since = self.now;
        port.arrived += 1;
        if self.scheme.has_input_buffers() {
            port.arrived_bytes += u64::from(frame.wire);
            self.meter.filled(self.causes.input(port.stage), frame.wire.into(), port.arrived_bytes, self.now);
            if port.arrived == 1 && !port.reading {
                self.agenda.heads.push(link);
            }
        } else if port.arrived == 1 {
            self.admit(link);
        } else {
            let bytes = frame.wire;
            self.pile_up(link, bytes);
        }
    }
}
