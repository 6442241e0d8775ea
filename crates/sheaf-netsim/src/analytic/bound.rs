//! Upper bounds for every run of a scenario, and exact results for some scenarios.

use super::banyan::unbuffered;
use super::load::{Demand, is_static, link_load, shift_conflicts, walk};
use super::saturation::{EXACT_PORTS, saturation, saturation_exponential};
use crate::engine::flit::{mean, size_of};
use crate::network::Network;
use crate::routing::Router;
use crate::scenario::{
    Assignment, BarrelShifter, EventTraffic, InputQueue, Placement, Scenario, SizeModel, Switching, Topology,
    TrafficModel,
};
use std::fmt;

/// Number of pairs of source and destination up to which links are examined one by one.
const MOST_PAIRS: u64 = 1 << 21;

/// The limit of the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The links of the receivers.
    Receivers,
    /// The sources do not offer more.
    Load,
    /// Overhead of the sending hosts.
    Overhead,
    /// Memory or bus of the hosts.
    Bus,
    /// The slots of the barrel shifter.
    Slots,
    /// Head-of-line blocking: the first message of a queue blocks those behind it (Karol, Hluchyj and Morgan 1987).
    HeadOfLine,
    /// Of several messages for one output one passes (Patel 1981).
    Unbuffered,
    /// The links of this stage together: a cut through the network.
    Stage(u16),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receivers => write!(f, "links of the receivers"),
            Self::Load => write!(f, "offered load"),
            Self::Overhead => write!(f, "overhead of the senders"),
            Self::Bus => write!(f, "memory or bus of the hosts"),
            Self::Slots => write!(f, "slots of the barrel shifter"),
            Self::HeadOfLine => write!(f, "head-of-line blocking"),
            Self::Unbuffered => write!(f, "switches without buffers"),
            Self::Stage(0) => write!(f, "links of the senders"),
            Self::Stage(stage) => write!(f, "links behind layer {stage}"),
        }
    }
}

/// An efficiency, and why it is not more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Delivered bytes as a fraction of the capacity of the receivers' links.
    pub efficiency: f64,
    /// The limit.
    pub limit: Limit,
}

/// Returns an upper bound of the efficiency of any long run of `scenario` on `network`. It is the least of:
///
/// - the offered load of the sources, by load, event rate, overhead or slots, and the throughput of buses; with faults
///   not by load and event rate: data held back by a fault come later, in addition to the load offered then;
/// - the capacity of all links of a stage, divided by the number of times that a message crosses them; with static
///   routes also that of the most loaded links of all. Sources may share it as is best for the sum. Only if every
///   source sends to its destinations equally often, and up to 2 million pairs of them;
/// - for random traffic from one queue in each host: the saturation of an ideal switch with that number of ports (of
///   20, if there are more: it falls with the number of ports), and Patel's formula for switches without buffers.
///
/// For long runs only: in a short one, random draws may be better than average.
#[must_use]
pub fn bound(network: &Network, scenario: &Scenario) -> Bound {
    let endpoints = u32::try_from(network.endpoints()).expect("a network bounds its endpoints");
    let mut least = Bound { efficiency: 1.0, limit: Limit::Receivers };
    let mut at_most = |efficiency: f64, limit: Limit| {
        if efficiency < least.efficiency {
            least = Bound { efficiency, limit };
        }
    };
    let Ok(demand) = Demand::of(scenario, endpoints) else {
        return least;
    };
    let (senders, receivers) = (demand.sources.len() as f64, demand.receivers().max(1) as f64);
    let per_receiver = senders / receivers;
    for (efficiency, limit) in offered(scenario, per_receiver).into_iter().flatten() {
        if limit != Limit::Load || scenario.faults.is_empty() {
            at_most(efficiency, limit);
        }
    }
    if let Some(bus) = scenario.endpoint.bus {
        let ports = if is_both(&scenario.traffic) { receivers / 2.0 } else { senders.min(receivers) };
        let port = scenario.link.rate.bytes_per_second() * f64::from(scenario.endpoint.rails);
        at_most(ports * bus.bytes_per_second() / (receivers * port), Limit::Bus);
    }
    if let Some((efficiency, limit)) = random(endpoints, scenario) {
        at_most(efficiency, limit);
    }
    if has_even_shares(&scenario.traffic) && demand.pairs() <= MOST_PAIRS {
        for (efficiency, stage) in Cuts::new(network, scenario, &demand).bounds() {
            at_most(efficiency, Limit::Stage(stage));
        }
    }
    least
}

/// Returns the exact result of a run of `scenario`, where theory has one.
///
/// One switch with queues at its inputs under random traffic (up to 20 ports, or exponential sizes), switches without
/// buffers, output queues under random traffic, and barrel shifters of fixed blocks whose shifts do not disturb one
/// another.
#[must_use]
pub fn exact(network: &Network, scenario: &Scenario) -> Option<Bound> {
    let calm = scenario.faults.is_empty() && scenario.endpoint.bus.is_none() && scenario.endpoint.rails == 1;
    let plain = scenario.link.frame_payload.is_none() && scenario.link.frame_overhead == 0;
    if !calm || !plain || scenario.endpoint.overhead.0 > 0 || scenario.endpoint.start.0 > 0 {
        return None;
    }
    let endpoints = u32::try_from(network.endpoints()).ok()?;
    let of = |efficiency: f64, limit: Limit| Some(Bound { efficiency, limit });
    match &scenario.traffic {
        TrafficModel::Random { size, load } => match (scenario.switching, &scenario.topology) {
            (Switching::Unbuffered, _) => {
                random(endpoints, scenario).and_then(|(efficiency, limit)| of(efficiency, limit))
            }
            (Switching::OutputQueued { buffer_bytes: None, .. }, Topology::Crossbar { .. }) => {
                of(load.min(1.0), Limit::Load)
            }
            (switching, Topology::Crossbar { .. }) if *load >= 1.0 && !scenario.endpoint.look_ahead => {
                let value = match (size, switching) {
                    (SizeModel::Fixed(_), _) => saturation(endpoints, takes(switching)?)?,
                    (SizeModel::Exponential(_), Switching::Wormhole { .. }) => {
                        saturation_exponential(endpoints)
                    }
                    _ => return None,
                };
                of(value, Limit::HeadOfLine)
            }
            _ => None,
        },
        TrafficModel::Barrel(events, shifter) => {
            let fixed = shifter.block_bytes > 0 || matches!(events.size, SizeModel::Fixed(_));
            let all_both = events.placement == Placement::Both && shifter.start_skew.0 == 0;
            let free = || {
                (0..endpoints)
                    .all(|shift| shift_conflicts(network, scenario.routes, scenario.seed, shift) == 0)
            };
            let known = fixed && all_both && shifter.clock_ppm == 0 && events.event_rate.is_none();
            let one_way =
                network.longest_way <= 2 || is_static(scenario.routes) || is_delta(&scenario.topology);
            let small = u64::from(endpoints) * u64::from(endpoints) <= MOST_PAIRS;
            let lossless = !matches!(scenario.switching, Switching::Unbuffered);
            if known && one_way && small && lossless && free() {
                let slots = slot_share(scenario, events, shifter).unwrap_or(1.0);
                return of(slots.min(1.0), Limit::Slots);
            }
            None
        }
        _ => None,
    }
}

fn is_delta(topology: &Topology) -> bool {
    matches!(topology, Topology::Crossbar { .. } | Topology::Delta { .. })
}

/// Returns the number of messages that an output of one switch takes in a slot, if only the first message of an input
/// may be sent.
fn takes(switching: Switching) -> Option<u32> {
    match switching {
        Switching::InputQueued { queue: InputQueue::Fifo, speed_up, .. } => Some(speed_up),
        Switching::Wormhole { .. } | Switching::SlottedBuffered { .. } => Some(1),
        _ => None,
    }
}

/// Random traffic: losses by queues and by switches without buffers.
fn random(endpoints: u32, scenario: &Scenario) -> Option<(f64, Limit)> {
    let TrafficModel::Random { load, .. } = scenario.traffic else {
        return None;
    };
    if scenario.switching == Switching::Unbuffered {
        let (radix, stages) = match scenario.topology {
            Topology::Crossbar { ports } => (ports, 1),
            Topology::Delta { radix, stages, .. } => (radix, stages),
            _ => return None,
        };
        return Some((unbuffered(radix, stages, load.min(1.0)), Limit::Unbuffered));
    }
    let one_queue = match scenario.switching {
        // Messages that hold their chain of links, with no room on the way, are at most as good as an ideal switch.
        Switching::Wormhole { buffer_bytes: 0 } => Some(1),
        switching if matches!(scenario.topology, Topology::Crossbar { .. }) => takes(switching),
        _ => None,
    };
    if scenario.endpoint.rails > 1 || scenario.endpoint.look_ahead || scenario.flits.lanes > 1 {
        return None;
    }
    Some((saturation(endpoints.min(EXACT_PORTS), one_queue?)?, Limit::HeadOfLine))
}

/// Returns the load that the sources offer.
fn offered(scenario: &Scenario, per_receiver: f64) -> [Option<(f64, Limit)>; 3] {
    let mean = f64::from(mean(size_of(&scenario.traffic)));
    let link = scenario.link.rate.bytes_per_second();
    let rails = f64::from(scenario.endpoint.rails);
    let framed = scenario.link.frame_payload.is_some() || scenario.link.frame_overhead > 0;
    if framed {
        // The overhead of frames depends on sizes of which only the mean is known.
        return [None; 3];
    }
    let overhead = scenario.endpoint.overhead.as_secs_f64() * link;
    let gap = (overhead > 0.0).then(|| (per_receiver * mean / (mean + overhead), Limit::Overhead));
    let rate = |events: &EventTraffic| {
        events.event_rate.map(|rate| (per_receiver * rate * mean / (link * rails), Limit::Load))
    };
    match &scenario.traffic {
        TrafficModel::Random { load, .. } => [gap, Some((load.min(1.0), Limit::Load)), None],
        TrafficModel::Push(events, _) | TrafficModel::Replay { traffic: events, .. } => {
            [gap, rate(events), None]
        }
        TrafficModel::Barrel(events, shifter) => {
            let slots =
                slot_share(scenario, events, shifter).map(|share| (per_receiver * share, Limit::Slots));
            // Blocks are not fragments: an event rate would have to be counted in fragments.
            [gap, if shifter.block_bytes == 0 { rate(events) } else { None }, slots]
        }
        TrafficModel::Pull { .. } | TrafficModel::Roles(_) => [None; 3],
    }
}

/// The part of its slot that a block of a slotted barrel shifter fills, where clocks may run fast.
fn slot_share(scenario: &Scenario, events: &EventTraffic, shifter: &BarrelShifter) -> Option<f64> {
    let bytes = if shifter.block_bytes > 0 { shifter.block_bytes } else { mean(events.size) };
    let port = scenario.link.rate.bytes_per_second() * f64::from(scenario.endpoint.rails);
    let slot = shifter.slot?.as_secs_f64() * port;
    Some(f64::from(bytes) / slot * (1.0 + f64::from(shifter.clock_ppm) * 1e-6))
}

fn is_both(traffic: &TrafficModel) -> bool {
    match traffic {
        TrafficModel::Random { .. } => true,
        TrafficModel::Push(events, _)
        | TrafficModel::Pull { events, .. }
        | TrafficModel::Barrel(events, _)
        | TrafficModel::Replay { traffic: events, .. } => events.placement == Placement::Both,
        TrafficModel::Roles(roles) => roles.placement == Placement::Both,
    }
}

/// Returns whether every source sends to its destinations equally often in the long run. Assignment of events to
/// builders by load, or by request, may prevent that.
fn has_even_shares(traffic: &TrafficModel) -> bool {
    match traffic {
        TrafficModel::Random { .. } | TrafficModel::Barrel(..) => true,
        TrafficModel::Push(events, _) | TrafficModel::Replay { traffic: events, .. } => {
            events.assignment != Assignment::LeastLoaded
        }
        TrafficModel::Pull { .. } | TrafficModel::Roles(_) => false,
    }
}

/// Cuts: sets of links, and how often each source crosses them.
struct Cuts<'a> {
    network: &'a Network,
    scenario: &'a Scenario,
    demand: &'a Demand,
    /// Load of each link if every source sends at the rate of its links, and the capacity of the link; in units of the
    /// scenario's link rate.
    load: Vec<f64>,
    capacity: Vec<f64>,
}

impl<'a> Cuts<'a> {
    fn new(network: &'a Network, scenario: &'a Scenario, demand: &'a Demand) -> Self {
        let rate = scenario.link.rate.bytes_per_second();
        Self {
            network,
            scenario,
            demand,
            load: link_load(network, scenario.routes, scenario.seed, demand),
            capacity: network.links.iter().map(|link| link.rate.bytes_per_second() / rate).collect(),
        }
    }

    /// Efficiencies that no traffic through a cut exceeds, and the stages of the cuts.
    fn bounds(&self) -> Vec<(f64, u16)> {
        let stage = |link: usize| self.network.links[link].stage;
        let mut bounds: Vec<(f64, u16)> =
            (0..self.network.stages).map(|cut| (self.through(|link| stage(link) == cut), cut)).collect();
        if is_static(self.scenario.routes) {
            let fullness = |link: usize| self.load[link] / self.capacity[link];
            let most = (0..self.load.len()).map(fullness).fold(0.0, f64::max);
            let is_fullest = |link: usize| fullness(link) > most * (1.0 - 1e-9);
            if let Some(first) = (0..self.load.len()).find(|&link| is_fullest(link)) {
                bounds.push((self.through(is_fullest), stage(first)));
            }
        }
        bounds
    }

    /// The efficiency if the links of the cut are full, and sources that cross it less often go first.
    fn through(&self, is_in: impl Fn(usize) -> bool) -> f64 {
        let links = (0..self.load.len()).filter(|&link| is_in(link) && self.load[link] > 0.0);
        let mut room: f64 = links.map(|link| self.capacity[link]).sum();
        let mut router = Router::new(self.scenario.routes, self.network, self.scenario.seed);
        let mut crossings: Vec<(f64, f64)> = Vec::with_capacity(self.demand.sources.len());
        for (number, &(source, _)) in self.demand.sources.iter().enumerate() {
            let destinations = self.demand.of_source(number);
            let mut crossed = 0_u64;
            for &destination in destinations {
                walk(self.network, &mut router, (source, destination), |link| {
                    crossed += u64::from(is_in(link.index()));
                });
            }
            let own = self.network.injection[source.index()].clone();
            let most: f64 = own.map(|link| self.capacity[link as usize]).sum();
            crossings.push((crossed as f64 / destinations.len() as f64, most));
        }
        crossings.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sent = 0.0;
        for (times, most) in crossings {
            let rate = if times > 0.0 { most.min(room / times) } else { most };
            sent += rate;
            room -= rate * times;
        }
        sent / (self.demand.receivers() as f64 * f64::from(self.scenario.endpoint.rails))
    }
}

#[cfg(test)]
mod tests;
