//! Wormhole switching at the level of messages: a message holds its whole chain of links.
//!
//! The head of a message takes one link after the other. If a link is taken it waits, and keeps all links behind it.
//! When the head has arrived, the body follows at the rate of the slowest link. There are no flits: an event is the end
//! of a message, so that the cost of a message does not depend on its size.
//!
//! Without cable delays and buffers (the limit of messages that are much longer than the content of switches) all links
//! are released at the instant at which the last byte arrives: one event for each message. Otherwise the tail is
//! followed too (`body`): a link is released when the tail has left it for the buffers on the path, of which each
//! switch input has one of `buffer_bytes`. A head that meets the tail of another message in such a buffer waits behind
//! it. One effect is left out: while a message waits behind another one's tail, the room in that one buffer is counted
//! only when the tail has left. The model is exact for messages longer than a buffer, up to a term of second order in
//! their ratio.
//!
//! The endpoint: after a message the link into the network idles for the overhead, and before its first byte for the
//! start, unless the interface holds more than one message and so has the next one ready. A bus limit is shared evenly
//! by the messages that enter and leave a host at the instant at which a message's head arrives.
//!
//! | module | holds |
//! |---|---|
//! | `links` | whether a link is held, the messages that wait for it, and the arbiter |
//! | `messages` | messages under way, and their chains of links |
//! | `body` | position of the tail, with delays and buffers |
//! | `deadlock` | messages that wait for one another in a loop |

mod body;
mod deadlock;
mod links;
mod messages;

use super::events::EventQueue;
use super::{Engine, Limit, Outcome, Setup};
use crate::faults::{FaultError, Faults};
use crate::meter::{Cause, Meter, Names};
use crate::network::{EndpointId, LinkEnd, LinkId, Network};
use crate::report::Check;
use crate::routing::Router;
use crate::scenario::Switching;
use crate::traffic::{Message, Next, Traffic, Wake};
use crate::units::{Picos, Rate};
use body::Bodies;
use links::{Links, Way};
use messages::{Messages, NONE};

/// The engine for [`Switching::Wormhole`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PathEngine;

impl Engine for PathEngine {
    type Error = FaultError;
    const CUTS_FRAMES: bool = false;

    fn simulate(&self, setup: &Setup<'_>, traffic: &mut dyn Traffic) -> Result<Outcome, FaultError> {
        let buffer = match setup.scenario.switching {
            Switching::Wormhole { buffer_bytes } => buffer_bytes,
            _ => 0,
        };
        if buffer == 0 && setup.scenario.link.delay == Picos::ZERO {
            Ok(Simulation::<false>::new(setup, traffic, buffer)?.run())
        } else {
            Ok(Simulation::<true>::new(setup, traffic, buffer)?.run())
        }
    }
}

/// Causes of loss, in the order of their names.
const FAULT: Cause = Cause(0);
const NO_WAY: Cause = Cause(1);

/// Next event of a message.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The traffic of an endpoint has something now.
    Ask(EndpointId),
    /// The last byte of a message arrives.
    Arrive(u32),
    /// The idle time after a message is over.
    Idle(LinkId),
    /// The first byte of a message may leave.
    Start(u32),
    /// The head of a message has reached the end of its last link.
    Head(u32),
    /// The tail of a message leaves the link of this hop.
    Leave(u32, u16),
    /// The traffic has asked for a call.
    Timer,
    /// Something breaks or heals.
    Fault,
}

/// One run. `TAILS`: with delays or buffers, so that tails are followed.
struct Simulation<'a, const TAILS: bool> {
    network: &'a Network,
    traffic: &'a mut dyn Traffic,
    events: EventQueue<Event>,
    links: Links,
    messages: Messages,
    bodies: Bodies,
    router: Router,
    meter: Meter,
    faults: Faults,
    limit: Limit,
    wake: Wake,
    hosts: Vec<Host>,
    /// Whether each endpoint has one rail, so that rails have the numbers of their endpoints.
    single_rails: bool,
    pace: Pace,
    overhead: Picos,
    start: Picos,
    bus: Option<Rate>,
}

#[derive(Clone, Copy, Debug)]
struct Host {
    /// A message waits for a rail: there is no room for another one.
    full: bool,
    /// Messages whose bodies enter or leave, where there is a bus limit.
    streams: u32,
    /// When the traffic is asked again at the latest.
    ask_at: Picos,
}

impl<'a, const TAILS: bool> Simulation<'a, TAILS> {
    fn new(setup: &Setup<'a>, traffic: &'a mut dyn Traffic, buffer: u32) -> Result<Self, FaultError> {
        let Setup { scenario, network, .. } = *setup;
        let seed = scenario.seed;
        let ready = scenario.endpoint.queue_messages > 1;
        let names = Names {
            waiting: waiting_causes(network),
            losses: vec!["fault on the way".into(), "no way to the destination".into()],
            buffers: vec![],
        };
        Ok(Self {
            network,
            events: EventQueue::default(),
            links: Links::new(network, scenario.arbiter, seed),
            messages: Messages::new(network.longest_way),
            bodies: if TAILS {
                Bodies::new(
                    network.longest_way,
                    scenario.link.rate.time_for(buffer.into()),
                    network.links.len(),
                )
            } else {
                Bodies::new(0, Picos::ZERO, 0)
            },
            router: Router::new(scenario.routes, network, seed),
            meter: Meter::new(setup.receives.clone(), setup.senders, setup.port_rate(), names),
            faults: Faults::new(&scenario.faults, network, seed)?,
            limit: Limit::new(scenario.length, setup.senders),
            wake: Wake::default(),
            hosts: vec![Host { full: false, streams: 0, ask_at: Picos::MAX }; network.endpoints()],
            single_rails: network
                .injection
                .iter()
                .enumerate()
                .all(|(number, own)| own.len() == 1 && own.start as usize == number),
            pace: Pace::new(network),
            overhead: scenario.endpoint.overhead,
            start: if ready { Picos::ZERO } else { scenario.endpoint.start },
            bus: scenario.endpoint.bus,
            traffic,
        })
    }

    fn run(mut self) -> Outcome {
        self.traffic.begin(&mut self.wake);
        self.serve_wake(Picos::ZERO);
        self.plan_fault();
        for endpoint in 0..u32::try_from(self.hosts.len()).expect("a network bounds its endpoints") {
            self.ask(EndpointId(endpoint), Picos::ZERO);
        }
        let mut now = Picos::ZERO;
        while !self.limit.is_reached(self.meter.delivered_messages(), || self.traffic.complete_events()) {
            let Some((at, event)) = self.events.pop() else { break };
            if at > self.limit.end {
                now = self.limit.end;
                break;
            }
            now = at;
            self.handle(event, now);
        }
        if self.events.is_empty() {
            now = self.limit.end_after(now);
        }
        self.finish(now)
    }

    #[inline]
    fn handle(&mut self, event: Event, now: Picos) {
        match event {
            Event::Arrive(message) => self.arrive(message, now),
            Event::Leave(message, hop) => self.leave(message, hop, now),
            Event::Head(message) => self.head(message, now),
            Event::Idle(link) => self.idle(link, now),
            Event::Start(message) => self.travel(message, now),
            Event::Ask(endpoint) => {
                let host = &mut self.hosts[endpoint.index()];
                if host.ask_at == now {
                    host.ask_at = Picos::MAX;
                }
                self.ask(endpoint, now);
            }
            Event::Timer => self.traffic.timer(now, &mut self.wake),
            Event::Fault => self.break_or_heal(now),
        }
        self.serve_wake(now);
    }

    /// Applies the requests of the traffic.
    #[inline]
    fn serve_wake(&mut self, now: Picos) {
        while !self.wake.is_empty() {
            let mut wake = std::mem::take(&mut self.wake);
            wake.drain_timers().for_each(|at| self.events.push(at, Event::Timer));
            wake.drain().for_each(|sender| self.ask(sender, now));
            if self.wake.is_empty() {
                self.wake = wake;
            }
        }
    }

    /// Takes messages from the traffic while the network interface of `endpoint` has room.
    #[inline]
    fn ask(&mut self, endpoint: EndpointId, now: Picos) {
        while self.has_room(endpoint) {
            match self.traffic.next(endpoint, now) {
                Next::Send(message) => self.enter(message, now),
                Next::At(at) => {
                    let host = &mut self.hosts[endpoint.index()];
                    if at < host.ask_at {
                        host.ask_at = at;
                        self.events.push(at, Event::Ask(endpoint));
                    }
                    return;
                }
                Next::Sleep => return,
            }
        }
    }

    #[inline]
    fn has_room(&self, endpoint: EndpointId) -> bool {
        if self.single_rails {
            return self.links.is_free(LinkId(endpoint.0));
        }
        let mut rails = self.network.injection[endpoint.index()].clone();
        !self.hosts[endpoint.index()].full && rails.any(|rail| self.links.is_free(LinkId(rail)))
    }

    /// Handles a message that arrives at the network interface.
    #[inline]
    fn enter(&mut self, message: Message, now: Picos) {
        self.meter.offered(&message);
        let journey = self.router.begin(message.source, message.destination);
        let place = self.network.position[message.destination.index()];
        let number = self.messages.add(message, journey.turn, place);
        if TAILS && self.messages.count() > self.bodies.count() {
            self.bodies.grow(self.messages.count());
        }
        let rail = if self.single_rails {
            LinkId(message.source.0)
        } else {
            let links = &self.links;
            let rail = self.router.rail(self.network, &journey, |rail| links.is_free(rail));
            rail.expect("a sender that is asked has a free rail")
        };
        if self.links.take(rail) {
            self.begin(number, rail, now);
        } else {
            self.hosts[message.source.index()].full = true;
            self.wait(number, rail, now);
        }
    }

    /// A message has got its rail.
    #[inline]
    fn begin(&mut self, message: u32, rail: LinkId, now: Picos) {
        let first_byte = now + self.start;
        self.hold(message, rail, first_byte);
        if self.start == Picos::ZERO {
            self.travel(message, now);
        } else {
            self.events.push(first_byte, Event::Start(message));
        }
    }

    /// A message has taken a link, and its head is sent at `now`.
    #[inline]
    fn hold(&mut self, message: u32, link: LinkId, now: Picos) {
        self.messages.hold(message, link);
        if !self.faults.is_quiet() && (self.faults.is_dead(link) || self.faults.loses_frame()) {
            self.messages.doom(message, FAULT);
        }
        if TAILS {
            let own = &self.network.links[link.index()];
            let time = self.pace.time(own.rate, self.messages.get(message).bytes);
            self.bodies.hold(message, self.messages.chain(message), own, time, now);
            self.plan_leaving(message);
        }
    }

    /// Advances the head as far as possible. Without delays it moves at once.
    #[inline]
    fn travel(&mut self, message: u32, now: Picos) {
        if TAILS {
            let delay = self.network.links[self.messages.last_link(message).index()].delay;
            if delay > Picos::ZERO {
                self.events.push(now + delay, Event::Head(message));
            } else {
                self.head(message, now);
            }
            return;
        }
        while let Some(link) = self.choose(message, now) {
            if !self.links.take(link) {
                self.wait(message, link, now);
                return;
            }
            self.hold(message, link, now);
        }
    }

    /// The head is at the end of a link.
    fn head(&mut self, message: u32, now: Picos) {
        if TAILS && !self.bodies.arrive(message, self.messages.last_link(message)) {
            return; // behind the tail of another message
        }
        let Some(link) = self.choose(message, now) else { return };
        if self.links.take(link) {
            self.hold(message, link, now);
            self.travel(message, now);
        } else {
            self.wait(message, link, now);
        }
    }

    /// The link that the head of a message wants next; `None` where the head is at its destination, and the body
    /// follows.
    #[inline]
    fn choose(&mut self, message: u32, now: Picos) -> Option<LinkId> {
        let at = match self.links.way(self.messages.last_link(message), self.messages.place(message)) {
            Way::On(link) => return Some(link),
            Way::Ask(switch) => switch,
            Way::End(_) => {
                self.body_follows(message, now);
                return None;
            }
        };
        let journey = self.messages.journey(message);
        let links = &self.links;
        let link = self.router.choose(self.network, at, &journey, |link| links.is_free(link));
        if link.is_none() {
            // A destination without a path: the switch drops the message.
            self.messages.doom(message, NO_WAY);
            self.body_follows(message, now);
        }
        link
    }

    #[inline]
    fn wait(&mut self, message: u32, link: LinkId, now: Picos) {
        self.messages.wait(message, now);
        self.links.wait(link, message, &mut self.messages);
    }

    /// Nothing is in the way of the body any more.
    #[inline]
    fn body_follows(&mut self, message: u32, now: Picos) {
        let own = self.messages.get(message);
        let mut time = if TAILS {
            self.bodies.time(message)
        } else {
            self.pace.chain_time(self.network, self.messages.chain(message), own.bytes)
        };
        if !self.faults.is_quiet() {
            time = self.faults.receiving_time(own.destination, time);
        }
        if let Some(bus) = self.bus {
            let (source, destination) = (own.source.index(), own.destination.index());
            self.hosts[source].streams += 1;
            self.hosts[destination].streams += 1;
            let streams = self.hosts[source].streams.max(self.hosts[destination].streams);
            time = time.max(bus.time_for(u64::from(own.bytes) * u64::from(streams)));
        }
        if TAILS {
            let arrival = self.bodies.follow(message, self.messages.chain(message).len(), time, now);
            self.plan_leaving(message);
            self.events.push(arrival, Event::Arrive(message));
        } else {
            self.events.push(now + time, Event::Arrive(message));
        }
    }

    /// Plans the end of every link of which it is certain when the tail leaves it.
    fn plan_leaving(&mut self, message: u32) {
        let Self { bodies, events, messages, .. } = self;
        bodies.certain(message, messages.chain(message).len(), |hop, at| {
            events.push(at, Event::Leave(message, hop))
        });
    }

    /// The tail has left the link of this hop.
    fn leave(&mut self, message: u32, hop: u16, now: Picos) {
        let link = self.messages.chain(message)[usize::from(hop)];
        self.messages.leave(message);
        if hop == 0 {
            self.traffic.sent(self.messages.get(message), now, &mut self.wake);
            self.end_injection(link, now);
            return;
        }
        self.give_up(link, now);
        self.drained(message, usize::from(hop) - 1, now);
    }

    /// Handles a tail that has left the buffer at the end of this hop: the next message there may continue.
    fn drained(&mut self, message: u32, hop: usize, now: Picos) {
        let link = self.messages.chain(message)[hop];
        if let Some((next, waits)) = self.bodies.drained(message, link, hop) {
            self.plan_leaving(next);
            if waits {
                self.head(next, now);
            }
        }
    }

    /// The last byte has arrived.
    #[inline]
    fn arrive(&mut self, number: u32, now: Picos) {
        let message = *self.messages.get(number);
        if self.bus.is_some() {
            self.hosts[message.source.index()].streams -= 1;
            self.hosts[message.destination.index()].streams -= 1;
        }
        if !TAILS {
            self.traffic.sent(&message, now, &mut self.wake);
        }
        if let Some(cause) = self.messages.doomed(number) {
            self.meter.lost(&message, cause);
            self.traffic.lost(&message, now, &mut self.wake);
        } else {
            self.meter.delivered(&message, now);
            self.traffic.delivered(&message, now, &mut self.wake);
        }
        if TAILS {
            let last = self.messages.last_link(number);
            if matches!(self.network.end(last), LinkEnd::Switch(_)) {
                self.drained(number, self.messages.chain(number).len() - 1, now);
            }
            self.messages.remove(number);
            return;
        }
        // The link of the last message to begin here is released last: the rail comes after all other links.
        for hop in 1..self.messages.chain(number).len() {
            let link = self.messages.chain(number)[hop];
            self.give_up(link, now);
        }
        let rail = self.messages.chain(number)[0];
        self.messages.remove(number);
        self.end_injection(rail, now);
    }

    /// A link is free for the next one.
    #[inline]
    fn give_up(&mut self, link: LinkId, now: Picos) {
        let winner = self.links.pass_on(link, &mut self.messages);
        if winner == NONE {
            return;
        }
        let cause = Cause(self.links.stage(link));
        self.meter.waited(cause, self.messages.since(winner), now);
        self.hold(winner, link, now);
        self.travel(winner, now);
    }

    /// The tail has left the host.
    #[inline]
    fn end_injection(&mut self, rail: LinkId, now: Picos) {
        if self.overhead == Picos::ZERO {
            self.idle(rail, now);
        } else {
            self.events.push(now + self.overhead, Event::Idle(rail));
        }
    }

    /// A rail is free for the next message.
    #[inline]
    fn idle(&mut self, rail: LinkId, now: Picos) {
        let endpoint = if self.single_rails { EndpointId(rail.0) } else { self.owner(rail) };
        let winner = self.links.pass_on(rail, &mut self.messages);
        if winner != NONE {
            self.meter.waited(Cause(0), self.messages.since(winner), now);
            self.hosts[endpoint.index()].full = false;
            self.begin(winner, rail, now);
        }
        self.ask(endpoint, now);
    }

    fn owner(&self, rail: LinkId) -> EndpointId {
        match self.network.links[rail.index()].from {
            LinkEnd::Endpoint(endpoint) => endpoint,
            LinkEnd::Switch(_) => unreachable!("a rail leaves an endpoint"),
        }
    }

    fn break_or_heal(&mut self, now: Picos) {
        self.faults.advance(now);
        if !self.faults.is_quiet() {
            for (link, holder) in (0..).map(LinkId).zip(self.messages.holders(self.network.links.len())) {
                if holder != NONE && self.faults.is_dead(link) {
                    self.messages.doom(holder, FAULT);
                }
            }
        }
        self.plan_fault();
    }

    fn plan_fault(&mut self) {
        if let Some(at) = self.faults.next_change() {
            self.events.push(at, Event::Fault);
        }
    }

    fn finish(mut self, now: Picos) -> Outcome {
        for link in (0..).map(LinkId).take(self.network.links.len()) {
            for message in self.links.waiting(link, &self.messages) {
                self.meter.waited(Cause(self.links.stage(link)), self.messages.since(message), now);
            }
        }
        let under_way = self.messages.under_way();
        let conservation = Check {
            name: "messages under way",
            pass: under_way == self.meter.in_flight(),
            detail: format!(
                "{under_way} in the network, {} neither arrived nor lost",
                self.meter.in_flight()
            ),
        };
        let deadlock = deadlock::check(self.network, &self.links, &self.messages, &self.bodies);
        Outcome {
            measured: self.meter.finish(now),
            summary: self.traffic.summary(),
            checks: vec![conservation, deadlock],
        }
    }
}

fn waiting_causes(network: &Network) -> Vec<String> {
    let of_layer = |layer: u16| format!("output of layer {layer}, taken by another message");
    let rail = "rail of the sender, taken by its last message".to_owned();
    std::iter::once(rail).chain((1..network.stages).map(of_layer)).collect()
}

/// Transmission times of bodies. A 128-bit division for each message would cost as much as everything else.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The rate of all links, where it is one.
    common: Option<Rate>,
    /// The last question and its answer.
    last: (Rate, u32, Picos),
}

impl Pace {
    fn new(network: &Network) -> Self {
        let first = network.links.first().map_or(Rate(1), |link| link.rate);
        let common = network.links.iter().all(|link| link.rate == first).then_some(first);
        Self { common, last: (first, 0, Picos::ZERO) }
    }

    #[inline]
    fn time(&mut self, rate: Rate, bytes: u32) -> Picos {
        if (self.last.0, self.last.1) != (rate, bytes) {
            self.last = (rate, bytes, rate.time_for(bytes.into()));
        }
        self.last.2
    }

    /// The time on the slowest of `chain`.
    #[inline]
    fn chain_time(&mut self, network: &Network, chain: &[LinkId], bytes: u32) -> Picos {
        let slowest = || chain.iter().map(|link| network.links[link.index()].rate).min().unwrap_or(Rate(1));
        let rate = self.common.unwrap_or_else(slowest);
        self.time(rate, bytes)
    }
}

#[cfg(test)]
mod tests;
