//! One cycle: credits come back, hosts hand over messages, free outputs are given away, and every flit moves that can.

use super::allocation::{Allocation, Waiter};
use super::fabric::{ENDLESS, Fabric, Messages, NONE, Passing};
use super::options::{Kind, Options};
use super::{FlitRun, SAMPLE_CYCLES, deadlock};
use crate::engine::Limit;
use crate::engine::arbitration::Contender;
use crate::engine::clocked::Hosts;
use crate::meter::{Cause, Meter};
use crate::network::{LinkEnd, LinkId, Network};
use crate::routing::Router;
use crate::traffic::Traffic;
use crate::units::Picos;
use sheaf_wire::mix::GOLDEN_GAMMA;

/// A host that does not send.
#[derive(Clone, Copy, Debug)]
struct Pausing {
    host: u32,
    /// Until when it may not.
    until: Picos,
    /// The message that was handed over already and has not begun.
    starting: Option<u32>,
}

/// Things that happen some cycles from now: a ring of lists.
#[derive(Clone, Debug)]
struct Later<E> {
    ring: Vec<Vec<E>>,
    present: usize,
    pending: usize,
}

impl<E> Later<E> {
    fn new(most: u32) -> Self {
        Self { ring: (0..=most).map(|_| Vec::new()).collect(), present: 0, pending: 0 }
    }

    /// Schedules `what` after a number of cycles: at least 1, at most the size of the ring.
    #[inline]
    fn push(&mut self, cycles: u32, what: E) {
        // No division: this is done for every flit.
        let ahead = self.present + cycles as usize;
        let place = if ahead < self.ring.len() { ahead } else { ahead - self.ring.len() };
        self.ring[place].push(what);
        self.pending += 1;
    }

    /// Takes the events of this cycle; give the list back with [`restore`](Self::restore).
    fn take(&mut self) -> Vec<E> {
        let due = std::mem::take(&mut self.ring[self.present]);
        self.pending -= due.len();
        due
    }

    fn restore(&mut self, mut list: Vec<E>) {
        list.clear();
        self.ring[self.present] = list;
    }

    /// The next cycle begins. Cycles may be left out where nothing is pending.
    fn go_on(&mut self) {
        self.present = if self.present + 1 < self.ring.len() { self.present + 1 } else { 0 };
    }
}

/// A flit at the end of a link.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    channel: u32,
    /// The number of the message whose first flit it is, or [`NONE`].
    head: u32,
    /// Whether it is the last of its message.
    tail: bool,
}

/// Links that need several cycles for a flit: when each is free again, in 1024ths of a cycle.
struct Pace {
    per_flit: Vec<u64>,
    free_at: Vec<u64>,
    all_full: bool,
}

impl Pace {
    fn new(network: &Network, options: &Options) -> Self {
        let per_flit: Vec<u64> = network
            .links
            .iter()
            .map(|link| {
                let cycles = (u128::from(options.rate.0) << 10).div_ceil(u128::from(link.rate.0.max(1)));
                u64::try_from(cycles).unwrap_or(u64::MAX)
            })
            .collect();
        let all_full = per_flit.iter().all(|&cycles| cycles <= 1 << 10);
        Self { free_at: vec![0; per_flit.len()], per_flit, all_full }
    }

    /// Takes a flit of `link` in `cycle`, if it is free; returns whether it was.
    fn take(&mut self, link: u32, cycle: u64) -> bool {
        let (free_at, now) = (&mut self.free_at[link as usize], cycle << 10);
        if *free_at > now {
            return false;
        }
        // The rest of the last cycle is not lost to a link that continues without a pause.
        let from = if *free_at + (1 << 10) > now { *free_at } else { now };
        *free_at = from.saturating_add(self.per_flit[link as usize]);
        true
    }
}

/// A run.
pub(super) struct Run<'a> {
    network: &'a Network,
    options: &'a Options,
    hosts: Hosts<'a>,
    fabric: Fabric,
    messages: Messages,
    allocation: Allocation,
    router: Router,
    pausing: Vec<Pausing>,
    credits: Later<u32>,
    arrivals: Later<Arrival>,
    /// Cycles that a flit is on the way through each cable; empty where it is nowhere any.
    cables: Vec<u32>,
    pace: Pace,
    /// For each link, the lane behind the one that moved last.
    lane_turn: Vec<u32>,
    /// For each link, the last cycle in which a flit left the buffers at its end.
    drained: Vec<u64>,
    moves: Vec<u32>,
    /// For each stage: flits in the buffers at the last sample.
    sampled: Vec<u64>,
    cycle: u64,
    now: Picos,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        network: &'a Network,
        options: &'a Options,
        limit: Limit,
        traffic: &'a mut dyn Traffic,
        meter: &'a mut Meter,
    ) -> Self {
        let length = time_of(options, 1).0.max(1);
        let mut cables: Vec<u32> = network
            .links
            .iter()
            .map(|link| u32::try_from(link.delay.0.div_ceil(length)).unwrap_or(u32::MAX).min(1 << 20))
            .collect();
        let longest = cables.iter().copied().max().unwrap_or(0);
        if longest == 0 {
            cables.clear();
        }
        let links = network.links.len();
        let senders = (0_u32..).zip(&network.injection).filter(|(_, links)| !links.is_empty());
        Self {
            network,
            options,
            hosts: Hosts::new(network.endpoints(), traffic, meter, limit),
            fabric: Fabric::new(network, options),
            messages: Messages::default(),
            allocation: Allocation::new(links, options),
            router: Router::new(options.routes, network, options.seed),
            pausing: senders.map(|(host, _)| Pausing { host, until: Picos::ZERO, starting: None }).collect(),
            credits: Later::new(options.credit_cycles.max(1) + longest),
            arrivals: Later::new(longest + 1),
            cables,
            pace: Pace::new(network, options),
            lane_turn: vec![0; links],
            drained: vec![u64::MAX; links],
            moves: Vec::new(),
            sampled: vec![0; usize::from(network.stages)],
            cycle: 0,
            now: Picos::ZERO,
        }
    }

    pub(super) fn run(mut self) -> FlitRun {
        while !self.hosts.is_over(self.now) {
            if !self.step() && !self.step_over() {
                break;
            }
        }
        self.sample(true);
        let course = self.hosts.finish(self.cycle, self.now);
        let deadlock = if course.stuck { deadlock::find(&self.fabric, &self.allocation) } else { None };
        FlitRun { course, deadlock }
    }

    /// One cycle. Returns whether anything moved or is on its way.
    fn step(&mut self) -> bool {
        self.hosts.timers(self.now);
        self.return_credits();
        self.take_arrivals();
        self.feed();
        self.allocate();
        let can_move = self.choose_moves();
        let end = time_of(self.options, self.cycle + 1);
        let moves = std::mem::take(&mut self.moves);
        for &channel in &moves {
            self.go(channel, end);
        }
        let busy = can_move || self.credits.pending + self.arrivals.pending > 0;
        self.moves = moves;
        if self.cycle.is_multiple_of(SAMPLE_CYCLES) {
            self.sample(false);
        }
        self.credits.go_on();
        self.arrivals.go_on();
        self.cycle += 1;
        self.now = end;
        busy
    }

    /// Advances to the next cycle in which a host does something; returns `false` if none ever does.
    fn step_over(&mut self) -> bool {
        let pausing = self.pausing.iter();
        let starts =
            pausing.map(|one| if one.starting.is_some() { one.until } else { self.asked(one) }).min();
        let instants = [starts.filter(|&at| at < Picos::MAX), self.hosts.next_timer()];
        let Some(at) = self.hosts.not_beyond_the_end(instants.into_iter().flatten().min()) else {
            return false;
        };
        let cycle = u128::from(at.0) * u128::from(self.options.rate.0);
        let cycle = cycle.div_ceil(u128::from(self.options.flit_bytes) * 8 * 1_000_000_000_000);
        self.cycle = self.cycle.max(u64::try_from(cycle).unwrap_or(u64::MAX));
        self.now = time_of(self.options, self.cycle);
        true
    }

    /// When a host that does not send will be asked.
    fn asked(&self, pausing: &Pausing) -> Picos {
        self.hosts.ask_at(pausing.host as usize).max(pausing.until)
    }

    fn return_credits(&mut self) {
        let due = self.credits.take();
        for &channel in &due {
            self.fabric.credit(channel);
            self.allocation.room(self.fabric.link_of(channel));
        }
        self.credits.restore(due);
    }

    fn take_arrivals(&mut self) {
        if self.arrivals.pending > 0 {
            let due = self.arrivals.take();
            for &arrival in &due {
                self.arrive(arrival, self.now);
            }
            self.arrivals.restore(due);
        }
    }

    /// Hosts that do not send hand over a message if they have one.
    fn feed(&mut self) {
        let mut index = 0;
        while index < self.pausing.len() {
            let Pausing { host, until, starting } = self.pausing[index];
            if until > self.now {
                index += 1;
                continue;
            }
            match starting {
                Some(number) => {
                    self.pausing.swap_remove(index);
                    self.enter(host, number);
                }
                None => match self.hosts.next(host as usize, self.now) {
                    None => index += 1,
                    Some(message) => {
                        let journey = self.router.begin(message.source, message.destination);
                        let flits = self.options.flits(message.bytes);
                        let number = self.messages.insert(Passing { message, journey, flits });
                        // Examined again at once: without a delay it enters in this cycle.
                        let until = self.now + self.options.start;
                        self.pausing[index] = Pausing { host, until, starting: Some(number) };
                    }
                },
            }
        }
    }

    /// The message is in the network interface of `host` and wants its link.
    fn enter(&mut self, host: u32, number: u32) {
        let passing = *self.messages.get(number);
        let interface = self.fabric.interface(host as usize);
        let channel = &mut self.fabric.channels[interface as usize];
        (channel.content, channel.left, channel.flits) = (passing.flits, passing.flits, passing.flits);
        self.fabric.queues[interface as usize].push_back(number);
        let (fabric, allocation) = (&self.fabric, &self.allocation);
        let free = |link: LinkId| fabric.is_free(link.0) && allocation.is_unwanted(link);
        let link = self.router.rail(self.network, &passing.journey, free).expect("a sender has a link");
        self.wait(interface, 0, link, passing.flits);
    }

    /// The message `number` is the first in the buffer of `channel` and wants its way on.
    fn request(&mut self, channel: u32, number: u32) {
        let passing = *self.messages.get(number);
        let link = self.fabric.link_of(channel);
        let LinkEnd::Switch(switch) = self.network.links[link as usize].to else {
            return;
        };
        let (fabric, allocation) = (&self.fabric, &self.allocation);
        let free = |link: LinkId| fabric.is_free(link.0) && allocation.is_unwanted(link);
        let way = self.router.choose(self.network, switch, &passing.journey, free);
        let way = way.expect("a compiled network has a way to every destination");
        self.wait(channel, self.fabric.input_number[link as usize], way, passing.flits);
    }

    fn wait(&mut self, channel: u32, input: u32, link: LinkId, flits: u32) {
        let contender = Contender { input, since: self.cycle };
        self.allocation.request(link, Waiter { channel, contender, from: self.now, flits });
    }

    fn allocate(&mut self) {
        let (network, hosts, now) = (self.network, &mut self.hosts, self.now);
        self.allocation.allocate(&mut self.fabric, |link, waiter| {
            let stage = network.links[link as usize].stage;
            hosts.meter().waited(Cause(stage), waiter.from, now);
        });
    }

    /// Over which channels a flit goes in this cycle: all that are ready, if there is one lane and every link is fast.
    /// Returns whether any is ready.
    fn choose_moves(&mut self) -> bool {
        self.moves.clear();
        self.fabric.ready.append_to(&mut self.moves);
        let can_move = !self.moves.is_empty();
        if self.fabric.lanes > 1 {
            self.one_lane_each();
        }
        if !self.pace.all_full {
            let (pace, fabric, cycle) = (&mut self.pace, &self.fabric, self.cycle);
            self.moves.retain(|&channel| pace.take(fabric.link_of(channel), cycle));
        }
        can_move
    }

    /// Of the lanes of a link one moves, and of those at the end of a link one is emptied: in turn.
    fn one_lane_each(&mut self) {
        let (fabric, lanes, cycle) = (&self.fabric, self.fabric.lanes, self.cycle);
        let (turns, drained) = (&mut self.lane_turn, &mut self.drained);
        // The first one has more to choose from: begin at another position in every cycle.
        let count = self.moves.len().max(1) as u64;
        let start = (cycle.wrapping_mul(GOLDEN_GAMMA) % count) as usize;
        let start = self.moves[start.min(self.moves.len())..].first().map_or(0, |&channel| channel / lanes);
        let split = self.moves.partition_point(|&channel| channel / lanes < start);
        self.moves.rotate_left(split);
        let mut chosen = Vec::with_capacity(self.moves.len());
        for ready in self.moves.chunk_by(|a, b| a / lanes == b / lanes) {
            let link = ready[0] / lanes;
            let from = turns[link as usize];
            let free = |&&channel: &&u32| {
                let owner = fabric.channels[channel as usize].owner;
                fabric.host_of(owner).is_some() || drained[fabric.link_of(owner) as usize] != cycle
            };
            let in_turn = |&&channel: &&u32| (channel % lanes + lanes - from) % lanes;
            let Some(&channel) = ready.iter().filter(free).min_by_key(in_turn) else {
                continue;
            };
            turns[link as usize] = (channel + 1) % lanes;
            let owner = fabric.channels[channel as usize].owner;
            if fabric.host_of(owner).is_none() {
                drained[fabric.link_of(owner) as usize] = cycle;
            }
            chosen.push(channel);
        }
        self.moves = chosen;
    }

    /// A flit goes over `channel`; it is behind it at `end`.
    #[inline]
    fn go(&mut self, channel: u32, end: Picos) {
        let link = self.fabric.link_of(channel);
        let owner = self.fabric.channels[channel as usize].owner;
        let sender = &mut self.fabric.channels[owner as usize];
        let is_head = sender.left == sender.flits;
        sender.left -= 1;
        sender.content -= 1;
        let (tail, is_empty) = (sender.left == 0, sender.content == 0);
        if owner < self.fabric.of_links {
            let back = self.cable_of(self.fabric.link_of(owner));
            self.credits.push(self.options.credit_cycles + back, owner);
        }
        let head = if is_head { self.fabric.queues[owner as usize][0] } else { NONE };
        let receiver = &mut self.fabric.channels[channel as usize];
        if receiver.credits != ENDLESS {
            receiver.credits -= 1;
        }
        if tail {
            receiver.owner = NONE;
            self.fabric.ready.remove(channel);
            self.leave(owner, end);
            self.allocation.freed(link);
        } else if is_empty || receiver.credits == 0 {
            self.fabric.ready.remove(channel);
        }
        let arrival = Arrival { channel, head, tail };
        match self.cable_of(link) {
            0 => self.arrive(arrival, end),
            cable => self.arrivals.push(1 + cable, arrival),
        }
    }

    /// Cycles that a flit is on the way through the cable of `link`.
    #[inline]
    fn cable_of(&self, link: u32) -> u32 {
        self.cables.get(link as usize).copied().unwrap_or(0)
    }

    /// The last flit of the first message has left the buffer of `channel`.
    fn leave(&mut self, channel: u32, end: Picos) {
        let number = self.fabric.queues[channel as usize].pop_front().expect("what has left was there");
        self.fabric.channels[channel as usize].out = NONE;
        if let Some(host) = self.fabric.host_of(channel) {
            let message = self.messages.get(number).message;
            self.hosts.sent(&message, end);
            self.pausing.push(Pausing { host, until: end + self.options.overhead, starting: None });
        } else {
            self.bring_to_front(channel);
        }
    }

    /// A flit is at the end of its link.
    #[inline]
    fn arrive(&mut self, arrival: Arrival, at: Picos) {
        let Arrival { channel, head, tail } = arrival;
        let buffer = &mut self.fabric.channels[channel as usize];
        if buffer.credits == ENDLESS {
            if head != NONE || tail {
                self.arrive_at_host(arrival, at);
            }
            return;
        }
        buffer.content += 1;
        buffer.most = buffer.most.max(buffer.content);
        let (content, out) = (buffer.content, buffer.out);
        if content == 1 && out != NONE {
            self.fabric.update(out);
        }
        if head != NONE || tail {
            self.arrive_at_switch(arrival);
        }
    }

    /// The first or last flit of a message is at a host.
    fn arrive_at_host(&mut self, arrival: Arrival, at: Picos) {
        let queue = &mut self.fabric.queues[arrival.channel as usize];
        if arrival.head != NONE {
            queue.push_back(arrival.head);
        }
        if arrival.tail {
            let number = queue.pop_front().expect("the first flit came before the last");
            let message = self.messages.remove(number);
            self.hosts.delivered(&message, at);
        }
    }

    /// The first or last flit of a message is in the buffer of a switch.
    fn arrive_at_switch(&mut self, arrival: Arrival) {
        let Arrival { channel, head, tail } = arrival;
        let queue = &mut self.fabric.queues[channel as usize];
        let first = head != NONE;
        if first {
            queue.push_back(head);
        }
        let alone = queue.len() == 1;
        self.fabric.incoming[channel as usize] = !tail;
        if alone && (first || self.options.kind == Kind::StoreAndForward) {
            self.bring_to_front(channel);
        }
    }

    /// The first message in the buffer of `channel`, if there is one, wants its way on as soon as it may.
    fn bring_to_front(&mut self, channel: u32) {
        let index = channel as usize;
        let Some(&number) = self.fabric.queues[index].front() else {
            return;
        };
        let is_whole = self.fabric.queues[index].len() > 1 || !self.fabric.incoming[index];
        if self.options.kind == Kind::StoreAndForward && !is_whole {
            return;
        }
        let flits = self.messages.get(number).flits;
        let buffer = &mut self.fabric.channels[index];
        (buffer.left, buffer.flits) = (flits, flits);
        self.request(channel, number);
    }

    /// Reports the content of the buffers to the meter; at the `end` also the maximum of each.
    fn sample(&mut self, end: bool) {
        // Hosts keep nothing: only links to switches have content.
        let mut content = vec![(0_u64, 0_u32); self.sampled.len()];
        let lanes = self.fabric.lanes as usize;
        for (link, buffers) in self.network.links.iter().zip(self.fabric.channels.chunks(lanes)) {
            let (now, most) = &mut content[usize::from(link.stage)];
            for buffer in buffers {
                *now += u64::from(buffer.content);
                *most = (*most).max(buffer.most);
            }
        }
        let flit = u64::from(self.options.flit_bytes);
        let stages = usize::from(self.network.stages.saturating_sub(1));
        for (stage, (&(now, most), before)) in (0..).zip(content.iter().zip(&mut self.sampled)).take(stages) {
            let kind = Cause(stage);
            let most = if end { u64::from(most) * flit } else { 0 };
            self.hosts.meter().filled(kind, now.saturating_sub(*before) * flit, most, self.now);
            self.hosts.meter().drained(kind, before.saturating_sub(now) * flit, self.now);
            *before = now;
        }
    }
}

/// When `cycle` begins.
fn time_of(options: &Options, cycle: u64) -> Picos {
    let bits = u128::from(cycle) * u128::from(options.flit_bytes) * 8 * 1_000_000_000_000;
    Picos(u64::try_from(bits / u128::from(options.rate.0.max(1))).unwrap_or(u64::MAX))
}
