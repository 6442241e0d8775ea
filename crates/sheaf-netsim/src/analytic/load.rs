//! Traffic that each link of a network has to carry, and the permutations that it passes without conflict.

use crate::network::{EndpointId, LinkEnd, LinkId, Network, SwitchId};
use crate::routing::Router;
use crate::scenario::{Placement, Routes, Scenario, TrafficModel};
use crate::traffic::placement::{PlacementError, Roster};

/// Pairs of senders and receivers: every source sends to each of its destinations equally often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Sources, and which of `destinations` is each one's.
    pub sources: Vec<(EndpointId, u32)>,
    /// Sets of destinations.
    pub destinations: Vec<Vec<EndpointId>>,
}

impl Demand {
    /// Everybody sends to everybody, itself included: all-to-all, or random traffic.
    #[must_use]
    pub fn all_to_all(endpoints: u32) -> Self {
        Self {
            sources: (0..endpoints).map(|source| (EndpointId(source), 0)).collect(),
            destinations: vec![(0..endpoints).map(EndpointId).collect()],
        }
    }

    /// Returns the long-term demand of the traffic of `scenario`.
    ///
    /// # Errors
    /// A placement that does not fit the network.
    pub fn of(scenario: &Scenario, endpoints: u32) -> Result<Self, PlacementError> {
        match &scenario.traffic {
            TrafficModel::Random { .. } => Ok(Self::all_to_all(endpoints)),
            TrafficModel::Push(events, _)
            | TrafficModel::Pull { events, .. }
            | TrafficModel::Barrel(events, _)
            | TrafficModel::Replay { traffic: events, .. } => Self::placed(&events.placement, endpoints),
            TrafficModel::Roles(roles) => Self::placed(&roles.placement, endpoints),
        }
    }

    fn placed(placement: &Placement, endpoints: u32) -> Result<Self, PlacementError> {
        let roster = Roster::new(placement, endpoints)?;
        let mut demand = Self { sources: Vec::new(), destinations: Vec::new() };
        let mut last = None;
        for (number, &source) in (0..).zip(roster.sources()) {
            let builders = roster.builders_of(number);
            if last.as_ref() != Some(&builders) {
                let endpoints = &roster.builders()[builders.start as usize..builders.end as usize];
                demand.destinations.push(endpoints.to_vec());
                last = Some(builders);
            }
            let set = u32::try_from(demand.destinations.len() - 1).expect("no more sets than sources");
            demand.sources.push((source, set));
        }
        Ok(demand)
    }

    /// The destinations of the source `number`.
    #[must_use]
    pub fn of_source(&self, number: usize) -> &[EndpointId] {
        &self.destinations[self.sources[number].1 as usize]
    }

    /// Returns the number of pairs of source and destination.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        (0..self.sources.len()).map(|number| self.of_source(number).len() as u64).sum()
    }

    /// All receivers, each once.
    #[must_use]
    pub fn receivers(&self) -> usize {
        let mut all: Vec<EndpointId> = self.destinations.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }
}

/// Returns whether `routes` always use the same links from one source to one destination.
#[must_use]
pub const fn is_static(routes: Routes) -> bool {
    matches!(routes, Routes::Hash | Routes::SourceDigit | Routes::DestinationDigit)
}

/// Calls `visit` with every link on the way from `source` to `destination`: the way of static routes, otherwise the
/// first of all.
pub(super) fn walk(
    network: &Network,
    router: &mut Router,
    (source, destination): (EndpointId, EndpointId),
    mut visit: impl FnMut(LinkId),
) {
    let journey = router.begin(source, destination);
    let Some(mut link) = router.rail(network, &journey, |_| true) else {
        return;
    };
    visit(link);
    while let LinkEnd::Switch(switch) = network.end(link) {
        let Some(next) = router.choose(network, switch, &journey, |_| true) else {
            return;
        };
        link = next;
        visit(link);
    }
}

/// Returns the load of each link if every source sends at the rate 1. With static routes, the traffic of a pair takes
/// one way; otherwise it is split evenly among all ways.
#[must_use]
pub fn link_load(network: &Network, routes: Routes, seed: u64, demand: &Demand) -> Vec<f64> {
    let mut load = vec![0.0; network.links.len()];
    if is_static(routes) {
        let mut router = Router::new(routes, network, seed);
        for (number, &(source, _)) in demand.sources.iter().enumerate() {
            let destinations = demand.of_source(number);
            let share = 1.0 / destinations.len() as f64;
            for &destination in destinations {
                walk(network, &mut router, (source, destination), |link| load[link.index()] += share);
            }
        }
        return load;
    }
    for (set, destinations) in (0..).zip(&demand.destinations) {
        let share = 1.0 / destinations.len() as f64;
        let sources = || demand.sources.iter().filter(|one| one.1 == set).map(|one| one.0);
        for &destination in destinations {
            spread(network, destination, sources(), share, &mut load);
        }
    }
    load
}

/// Adds to `load` the load of the share `share` of every source on all paths to `destination`, one step of all paths at
/// a time.
fn spread(
    network: &Network,
    destination: EndpointId,
    sources: impl Iterator<Item = EndpointId>,
    share: f64,
    load: &mut [f64],
) {
    let mut at = vec![0.0; network.switches.len()];
    let mut active: Vec<SwitchId> = Vec::new();
    let arrive = |link: LinkId, mass: f64, at: &mut Vec<f64>, active: &mut Vec<SwitchId>| {
        if let LinkEnd::Switch(switch) = network.end(link) {
            if at[switch.index()] == 0.0 {
                active.push(switch);
            }
            at[switch.index()] += mass;
        }
    };
    for source in sources {
        let rails = network.injection[source.index()].clone();
        let each = share / rails.len() as f64;
        for link in rails {
            load[link as usize] += each;
            arrive(LinkId(link), each, &mut at, &mut active);
        }
    }
    while !active.is_empty() {
        for switch in std::mem::take(&mut active) {
            // Arrivals of this step; what returns to a switch is counted in a later one.
            let mass = std::mem::take(&mut at[switch.index()]);
            let ways = network.ways(switch, destination);
            let each = mass / f64::from(ways.len());
            for link in ways.iter() {
                load[link.index()] += each;
                arrive(link, each, &mut at, &mut active);
            }
        }
    }
}

/// Returns the number of messages in excess of one per link if every pair sends one at the same time, by static routes:
/// 0 if no two pairs share a link.
#[must_use]
pub fn conflicts(
    network: &Network,
    routes: Routes,
    seed: u64,
    pairs: impl IntoIterator<Item = (EndpointId, EndpointId)>,
) -> u32 {
    let mut router = Router::new(routes, network, seed);
    let mut users = vec![0_u32; network.links.len()];
    for pair in pairs {
        walk(network, &mut router, pair, |link| users[link.index()] += 1);
    }
    users.iter().map(|&users| users.saturating_sub(1)).sum()
}

/// [`conflicts`] of the cyclic shift by `shift`: endpoint *i* sends to *i* + `shift`.
#[must_use]
pub fn shift_conflicts(network: &Network, routes: Routes, seed: u64, shift: u32) -> u32 {
    let endpoints = u32::try_from(network.endpoints()).expect("a network bounds its endpoints");
    let to = |source: u32| (u64::from(source) + u64::from(shift)) % u64::from(endpoints);
    let to = |source: u32| EndpointId(u32::try_from(to(source)).expect("below the number of endpoints"));
    conflicts(network, routes, seed, (0..endpoints).map(|source| (EndpointId(source), to(source))))
}

#[cfg(test)]
mod tests;
