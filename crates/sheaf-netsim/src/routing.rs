//! Choice among several paths of a message. The network lists the paths, the policy chooses, an engine waits for the
//! link.

use crate::dice::{Dice, Purpose, mix};
use crate::network::{EndpointId, LinkId, Network, SwitchId, Ways};
use crate::scenario::Routes;

/// The layer of the choice of a rail, for the hash; no switch is in it.
const RAILS: u16 = u16::MAX;

/// A message on its way, as far as routing is concerned. An engine keeps it while the message is in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journey {
    /// Sender.
    pub source: EndpointId,
    /// Receiver.
    pub destination: EndpointId,
    /// Which message of its source it is, for routes that are used in turn: see [`Router::begin`].
    pub turn: u32,
}

/// A place that a journey can leave in several ways.
#[derive(Clone, Copy, Debug)]
struct Fork<'a> {
    ways: Ways<'a>,
    /// Number of consecutive endpoints or turns that take the same way.
    spread: u32,
    /// Layer of the switch, or [`RAILS`] at a source: the same journey may go differently in each.
    layer: u16,
}

/// Chooses among several ways.
#[derive(Clone, Debug)]
pub struct Router {
    routes: Routes,
    seed: u64,
    /// Chance of each source; empty for policies that need none.
    dice: Vec<Dice>,
    /// The next turn of each source; empty for policies that need none.
    turns: Vec<u32>,
}

impl Router {
    /// A router for `network`.
    #[must_use]
    pub fn new(routes: Routes, network: &Network, seed: u64) -> Self {
        let sources = 0..u32::try_from(network.endpoints()).expect("a network bounds its endpoints");
        let by_chance = matches!(routes, Routes::Random | Routes::Adaptive);
        Self {
            routes,
            seed: mix(seed),
            dice: if by_chance {
                sources.clone().map(|source| Dice::new(seed, Purpose::Route, source)).collect()
            } else {
                Vec::new()
            },
            turns: if routes == Routes::Cyclic { vec![0; sources.len()] } else { Vec::new() },
        }
    }

    /// A message enters the network. The n-th message of a source has turn n, so that ways that are used in turn are
    /// those of the destination's digit when the destinations are used in turn.
    #[inline]
    pub fn begin(&mut self, source: EndpointId, destination: EndpointId) -> Journey {
        let turn = self.turns.get_mut(source.index()).map_or(0, |next| {
            let turn = *next;
            *next = turn.wrapping_add(1);
            turn
        });
        Journey { source, destination, turn }
    }

    /// Returns the link on which `journey` leaves `at`; `None` if there is no path. `free` returns whether a link could
    /// be used at once; only adaptive routes call it.
    #[inline]
    pub fn choose(
        &mut self,
        network: &Network,
        at: SwitchId,
        journey: &Journey,
        free: impl FnMut(LinkId) -> bool,
    ) -> Option<LinkId> {
        let ways = network.ways(at, journey.destination);
        match ways.len() {
            0 => None,
            1 => Some(ways.get(0)),
            _ => {
                let switch = &network.switches[at.index()];
                let fork = Fork { ways, spread: switch.spread, layer: switch.layer };
                Some(self.pick(network, fork, journey, free))
            }
        }
    }

    /// The link on which `journey` leaves its source, where there are several rails; `None` for an endpoint that only
    /// receives.
    #[inline]
    pub fn rail(
        &mut self,
        network: &Network,
        journey: &Journey,
        free: impl FnMut(LinkId) -> bool,
    ) -> Option<LinkId> {
        let ways = Ways::consecutive(&network.injection[journey.source.index()]);
        match ways.len() {
            0 => None,
            1 => Some(ways.get(0)),
            _ => Some(self.pick(network, Fork { ways, spread: 1, layer: RAILS }, journey, free)),
        }
    }

    fn pick(
        &mut self,
        network: &Network,
        fork: Fork<'_>,
        journey: &Journey,
        mut free: impl FnMut(LinkId) -> bool,
    ) -> LinkId {
        let Fork { ways, spread, layer } = fork;
        let digit = |endpoint: EndpointId| network.position[endpoint.index()] / spread % ways.len();
        let index = match self.routes {
            Routes::Hash => {
                let pair = u64::from(journey.source.0) << 32 | u64::from(journey.destination.0);
                // The high half of the product with the number of ways: even, without a division.
                let hash = mix(pair ^ mix(self.seed.wrapping_add(u64::from(layer)))) >> 32;
                u32::try_from((hash * u64::from(ways.len())) >> 32).expect("below the number of ways")
            }
            Routes::Random => self.dice[journey.source.index()].below(ways.len()),
            Routes::Cyclic => journey.turn / spread % ways.len(),
            Routes::SourceDigit => digit(journey.source),
            Routes::DestinationDigit => digit(journey.destination),
            Routes::Adaptive => {
                // From a random one on: a fixed first choice would let sources that go in step keep out of each
                // other's way, which no network of independent hosts does.
                let first = self.dice[journey.source.index()].below(ways.len());
                let from_first = (first..ways.len()).chain(0..first);
                from_first.into_iter().find(|&index| free(ways.get(index))).unwrap_or(first)
            }
        };
        ways.get(index)
    }
}

#[cfg(test)]
mod tests;
