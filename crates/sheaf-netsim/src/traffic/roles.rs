//! The machines of `sheaf-protocol` as endpoints: readout units, builder units and the event manager, unchanged,
//! exchanging their real messages over a simulated network.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the machines' configurations, from the scenario |
//! | `descriptor` | a payload that has a size and no bytes |
//! | `length` | length of an encoded message |
//! | `post` | messages on their way, and those that wait for a network interface |
//! | `agenda` | actions at given instants: deadlines, triggers, the control network, deaths |
//! | `readouts`, `builders`, `manager` | each machine and its driver |
//!
//! - **Sources**: each readout unit reads one source, whose fragments exist when their event is triggered. A driver
//!   hands them over when a builder asks for them or for a later event: no message depends on whether that is earlier,
//!   and 512 readout units hold no more than the events under construction.
//! - **Builders** store every event at once.
//! - **Triggers** come as fast as credit allows, or at a rate; a trigger that finds the event manager busy is vetoed.
//! - **Sizes on the wire** are those of the encoded messages. Messages without payload are sent first on each network
//!   interface: hosts have a connection for each peer, and small messages do not wait long behind large ones.
//! - **The event manager** has the first endpoint that the placement leaves free, or shares endpoint 0; with a control
//!   network of its own, everything but super-fragments takes that network's time and needs no endpoint.
//! - **Processors** are not modelled: a machine answers at the instant at which it is asked.

mod agenda;
mod builders;
mod descriptor;
mod length;
mod manager;
mod post;
mod readouts;
mod settings;

pub use descriptor::Descriptor;

use super::assignment::Triggers;
use super::book::distribution;
use super::placement::Roster;
use super::sizes::FragmentSizes;
use super::{Message, Next, SetupError, Summary, Traffic, Wake};
use crate::network::EndpointId;
use crate::report::{Check, EventCounts};
use crate::scenario::{Fault, FaultKind, LinkModel, RolesTraffic};
use crate::units::{Picos, Rate};
use agenda::{Agenda, Happening};
use builders::BuilderHost;
use hdrhistogram::Histogram;
use manager::ManagerHost;
use post::{Frames, Post};
use readouts::ReadoutHost;
use settings::Settings;
use sheaf_protocol::ledger::{Ledger, NodeBooks};
use sheaf_wire::{NodeId, Role, RunNumber, Timestamp};

/// All runs of the simulator are this one.
const RUN: RunNumber = RunNumber(1);

/// See the [module](self).
#[derive(Debug)]
pub struct Roles {
    settings: Settings,
    sizes: FragmentSizes,
    post: Post,
    agenda: Agenda,
    manager: ManagerHost,
    readouts: Vec<ReadoutHost>,
    builders: Vec<BuilderHost>,
    triggers: Triggers,
    tally: Tally,
}

/// Counts of the drivers.
#[derive(Debug)]
struct Tally {
    /// Events that have ended, as the event manager knows, and those of them that miss nothing.
    ended: u64,
    complete: u64,
    /// From trigger to built, in picoseconds.
    latency: Histogram<u64>,
    /// Lives of machines that ended before the run.
    deaths: u64,
}

impl Roles {
    /// The machines of a network with `endpoints` endpoints whose links have the rate `rate`. Of `faults` only the
    /// deaths of hosts concern the machines.
    ///
    /// # Errors
    /// Returns the invalid parameter of `traffic` or `faults`.
    pub fn new(
        traffic: &RolesTraffic,
        faults: &[Fault],
        rate: Rate,
        endpoints: u32,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let roster = Roster::new(&traffic.placement, endpoints)?;
        let sizes = FragmentSizes::drawn(traffic.size, 0.0, seed)?;
        super::check_rate(traffic.event_rate)?;
        let settings = Settings::new(traffic, &roster, sizes.mean(), rate)?;
        let mut latency = Histogram::new(3).expect("hdrhistogram takes 0 to 5 digits");
        latency.auto(true);
        let mut roles = Self {
            post: Post::new(roster, traffic.control),
            agenda: Agenda::default(),
            manager: ManagerHost::new(&settings),
            readouts: (0..settings.readouts).map(|index| ReadoutHost::new(&settings, index)).collect(),
            builders: (0..settings.builders).map(|index| BuilderHost::new(&settings, index)).collect(),
            triggers: Triggers::new(traffic.event_rate, seed),
            tally: Tally { ended: 0, complete: 0, latency, deaths: 0 },
            sizes,
            settings,
        };
        roles.plan_deaths(faults, endpoints)?;
        Ok(roles)
    }

    /// Sets the frame size of the links, which determines how much fits into a slot.
    #[must_use]
    pub fn over(mut self, link: &LinkModel) -> Self {
        let frames = Frames { overhead: link.frame_overhead, payload: link.frame_payload };
        self.post.shape_frames(frames, &self.settings);
        self
    }

    /// The event manager's books.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.manager.machine.ledger()
    }

    /// Returns whether the run has closed: all events have ended, and all machines have reported.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.manager.machine.is_finished()
    }

    /// Returns the accounts of all readout units together: fragments, and other counts.
    #[must_use]
    pub fn readout_books(&self) -> NodeBooks {
        add_up(self.readouts.iter().map(ReadoutHost::books))
    }

    /// The counters of all builder units together.
    #[must_use]
    pub fn builder_books(&self) -> NodeBooks {
        add_up(self.builders.iter().map(BuilderHost::books))
    }

    /// Events that each builder unit has built.
    #[must_use]
    pub fn built(&self) -> Vec<u64> {
        self.builders.iter().map(|host| host.built).collect()
    }

    /// Triggers that were vetoed.
    #[must_use]
    pub fn vetoed(&self) -> u64 {
        self.manager.machine.tallies().vetoed
    }

    fn plan_deaths(&mut self, faults: &[Fault], endpoints: u32) -> Result<(), SetupError> {
        for fault in faults {
            let FaultKind::HostDead(endpoint) = fault.what else {
                continue;
            };
            if endpoint >= endpoints {
                return Err(SetupError::NoSuchHost { endpoint, endpoints });
            }
            if self.post.manager_at() == Some(EndpointId(endpoint)) {
                return Err(SetupError::ManagerDies { endpoint });
            }
            self.agenda.plan(fault.from, Happening::Death(EndpointId(endpoint)));
            if let Some(until) = fault.until {
                self.agenda.plan(until, Happening::Back(EndpointId(endpoint)));
            }
        }
        Ok(())
    }

    fn happen(&mut self, happening: Happening, now: Picos, wake: &mut Wake) {
        match happening {
            Happening::Wake(node, planned) => self.wake(node, planned, now, wake),
            Happening::Arrival(parcel) => self.arrive(parcel, now, wake),
            Happening::Trigger => self.trigger(now, wake),
            Happening::Death(endpoint) => self.die(endpoint),
            Happening::Back(endpoint) => self.come_back(endpoint, now, wake),
        }
    }

    fn arrive(&mut self, parcel: u32, now: Picos, wake: &mut Wake) {
        let (to, message) = self.post.take(parcel);
        match to.role {
            Role::Manager => self.arrive_at_manager(message, now, wake),
            Role::Readout => self.arrive_at_readout(usize::from(to.index), message, now, wake),
            Role::Builder => self.arrive_at_builder(usize::from(to.index), message, now, wake),
            Role::Output | Role::Mirror => unreachable!("a simulated system has no output nodes or mirrors"),
        }
    }

    fn wake(&mut self, node: NodeId, planned: Timestamp, now: Picos, wake: &mut Wake) {
        // The run is over: no node waits for anything any more.
        if self.is_closed() {
            return;
        }
        match node.role {
            Role::Manager => self.wake_manager(planned, now, wake),
            Role::Readout => self.wake_readout(usize::from(node.index), planned, now, wake),
            Role::Builder => self.wake_builder(usize::from(node.index), planned, now, wake),
            Role::Output | Role::Mirror => unreachable!("a simulated system has no output nodes or mirrors"),
        }
    }

    fn die(&mut self, endpoint: EndpointId) {
        self.post.forget(endpoint);
        let (readout, builder) = self.post.nodes_at(endpoint);
        let lost_readout = readout.is_some_and(|index| self.readouts[index].die());
        let lost_builder = builder.is_some_and(|index| self.builders[index].die());
        self.tally.deaths += u64::from(lost_readout) + u64::from(lost_builder);
    }

    fn come_back(&mut self, endpoint: EndpointId, now: Picos, wake: &mut Wake) {
        if self.is_closed() {
            return;
        }
        let (readout, builder) = self.post.nodes_at(endpoint);
        if let Some(index) = readout {
            // The source's data of the meantime are lost.
            let triggered = self.manager.triggered();
            self.readouts[index].begin(&self.settings, triggered, now);
            self.settle_readout(index, now, wake);
        }
        if let Some(index) = builder {
            self.builders[index].begin(&self.settings, now);
            self.settle_builder(index, now, wake);
        }
    }

    /// The last event counts when the run has closed, so that a run with a number of events closes its accounts.
    fn countable(&self) -> u64 {
        if self.is_closed() { u64::MAX } else { self.settings.events - 1 }
    }

    fn event_counts(&self) -> EventCounts {
        let ledger = self.ledger();
        let stored_incomplete = self.manager.machine.stored().incomplete;
        EventCounts {
            complete: ledger.stored - stored_incomplete,
            incomplete: stored_incomplete + ledger.rejected + ledger.dropped_total(),
            in_flight: ledger.in_flight,
        }
    }

    /// Checks that the books balance; those of events and of fragments must agree when the run has closed and no dead
    /// node took accounts with it.
    fn checks(&self) -> Vec<Check> {
        let ledger = self.ledger();
        let books = self.readout_books().fragments;
        let say = |ledger: &Ledger| {
            let Ledger { received, stored, in_flight, .. } = ledger;
            format!(
                "{received} received = {stored} stored + {} dropped + {in_flight} in flight",
                ledger.dropped_total()
            )
        };
        let stored = self.manager.machine.stored().fragments;
        let may_differ = !self.is_closed() || self.tally.deaths > 0;
        vec![
            Check { name: "ledger of events", pass: ledger.is_balanced(), detail: say(&ledger) },
            Check { name: "ledger of fragments", pass: books.is_balanced(), detail: say(&books) },
            Check {
                name: "events and fragments agree",
                pass: may_differ || stored == books.stored,
                detail: format!(
                    "stored events have {stored} fragments, readout units booked {} as stored{}",
                    books.stored,
                    if may_differ { " (not comparable: machines died, or the run goes on)" } else { "" }
                ),
            },
        ]
    }
}

impl Traffic for Roles {
    fn begin(&mut self, wake: &mut Wake) {
        self.settle_manager(Picos::ZERO, wake);
        for index in 0..self.readouts.len() {
            self.settle_readout(index, Picos::ZERO, wake);
        }
        for index in 0..self.builders.len() {
            self.settle_builder(index, Picos::ZERO, wake);
        }
        if !self.triggers.are_free() {
            self.agenda.plan(self.triggers.next(), Happening::Trigger);
        }
        self.agenda.arm(wake);
    }

    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        self.post.next(sender, now)
    }

    fn delivered(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        self.arrive(post::parcel_of(message), now, wake);
        self.agenda.arm(wake);
    }

    fn lost(&mut self, message: &Message, _now: Picos, _wake: &mut Wake) {
        self.post.take(post::parcel_of(message));
    }

    fn timer(&mut self, now: Picos, wake: &mut Wake) {
        while let Some(happening) = self.agenda.pop_due(now) {
            self.happen(happening, now, wake);
        }
        self.agenda.rearm(now, wake);
    }

    fn complete_events(&self) -> u64 {
        self.tally.complete.min(self.countable())
    }

    fn ended_events(&self) -> u64 {
        self.tally.ended.min(self.countable())
    }

    fn summary(&self) -> Summary {
        Summary {
            events: Some(self.event_counts()),
            event_latency: distribution(&self.tally.latency),
            checks: self.checks(),
        }
    }
}

fn add_up(books: impl Iterator<Item = NodeBooks>) -> NodeBooks {
    let mut sum = NodeBooks::default();
    for one in books {
        sum.fragments.add(&one.fragments);
        for (counter, value) in one.counters {
            sum.count(counter, value);
        }
    }
    sum
}

/// A machine's clock: nanoseconds. Deadlines are whole nanoseconds too, so that none is early.
fn timestamp(now: Picos) -> Timestamp {
    Timestamp(now.0 / 1_000)
}

fn picos(at: Timestamp) -> Picos {
    Picos::from_nanos(at.0)
}

#[cfg(test)]
mod tests;
