//! Endpoints, switches and directed links.
//!
//! Every link has one sender and one receiver, so a cable is two links. The links that leave one switch have
//! consecutive numbers, so that the ways on from a switch are a range. An endpoint has a sending side and a receiving
//! side: in a network that goes one way (a crossbar, a delta network) endpoint *i* is input *i* and output *i*.

use crate::units::{Picos, Rate};
use std::iter::FusedIterator;
use std::ops::Range;

/// A port at the edge of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u32);

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub u32);

/// A directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl EndpointId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl SwitchId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// An endpoint.
    Endpoint(EndpointId),
    /// A switch.
    Switch(SwitchId),
}

/// A directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Sender.
    pub from: LinkEnd,
    /// Receiver.
    pub to: LinkEnd,
    /// Rate of the link.
    pub rate: Rate,
    /// Delay of a byte.
    pub delay: Picos,
    /// Number of links before this one on the way from an endpoint: 0 for the link that an endpoint sends into. Reports
    /// give waiting times by stage. If ways differ in length, the longest counts; in a table, the way up to the
    /// switches that are farthest from all senders, and back.
    pub stage: u16,
}

/// A switch: the links that leave it, and how it finds the way on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Which layer it is in, counted from the senders; for reports and faults.
    pub layer: u16,
    /// The links that leave it.
    pub outputs: Range<u32>,
    /// The ways on.
    pub forwarding: Forwarding,
    /// The weight of the digit by which it chooses among several ways, where the routes go by digits: way
    /// `position / spread % ways`. In a layer that spreads it is the weight of the digit that this layer spreads.
    pub spread: u32,
}

/// Which outputs of a switch lead to a destination. Rules, not tables, where the wiring allows it: 32,768 endpoints
/// and 20,000 switches would need 670 million entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// One way: output `position / divisor % radix`, where `position` is the destination's place in the wiring.
    /// `width` parallel links lead there.
    Digit {
        /// The weight of the digit.
        divisor: u32,
        /// Number of values of the digit.
        radix: u32,
        /// Parallel links for one value.
        width: u32,
    },
    /// Every output will do: a layer that only spreads.
    Any,
    /// Positions in `own` are below this switch and found by the digit; all others by any of the outputs `up`, counted
    /// within this switch's outputs.
    UpDown {
        /// The positions below this switch.
        own: Range<u32>,
        /// The weight of the digit, counted from `own.start`.
        divisor: u32,
        /// Parallel links for one value of the digit.
        width: u32,
        /// The outputs that lead up.
        up: Range<u32>,
    },
    /// By table: wirings from a file, and those that no rule describes.
    Table {
        /// For each position, which of `sets` leads there.
        set: Vec<u32>,
        /// Numbers of links; the first set is empty: no way.
        sets: Vec<Vec<u32>>,
    },
}

/// The links that lead on, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways<'a> {
    first: u32,
    len: u32,
    /// The ports, if they are not consecutive.
    listed: Option<&'a [u32]>,
}

impl<'a> Ways<'a> {
    /// The links from `range.start` to before `range.end`.
    #[must_use]
    pub const fn consecutive(range: &Range<u32>) -> Self {
        Self { first: range.start, len: range.end - range.start, listed: None }
    }

    fn listed(links: &'a [u32]) -> Self {
        let len = u32::try_from(links.len()).expect("links are numbered by 32 bits");
        Self { first: 0, len, listed: Some(links) }
    }

    /// The number of them.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Returns whether there is no path.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns path `index`.
    ///
    /// # Panics
    /// If there are fewer paths.
    #[must_use]
    #[inline]
    pub fn get(self, index: u32) -> LinkId {
        match self.listed {
            Some(links) => LinkId(links[index as usize]),
            None => {
                assert!(index < self.len, "way {index} of {}", self.len);
                LinkId(self.first + index)
            }
        }
    }

    /// All of them.
    pub fn iter(self) -> impl FusedIterator<Item = LinkId> + ExactSizeIterator + 'a {
        (0..self.len).map(move |index| self.get(index))
    }
}

/// A compiled network: see [`compile`](crate::topology::compile).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// All switches.
    pub switches: Vec<Switch>,
    /// All links: first those that leave endpoints, in the order of the endpoints, then those that leave switches.
    pub links: Vec<Link>,
    /// For each endpoint, the links that it sends into: one for each rail. Empty: it only receives.
    pub injection: Vec<Range<u32>>,
    /// For each endpoint, where it is in the wiring (the numbering of the scenario).
    pub position: Vec<u32>,
    /// Number of stages of links: every link's stage is below.
    pub stages: u16,
    /// The links of the longest way from an endpoint to an endpoint.
    pub longest_way: u16,
}

impl Network {
    /// Number of endpoints.
    #[must_use]
    pub fn endpoints(&self) -> usize {
        self.injection.len()
    }

    /// The outputs of `at` that lead to `destination`. Empty where there is no way.
    #[must_use]
    #[inline]
    pub fn ways(&self, at: SwitchId, destination: EndpointId) -> Ways<'_> {
        let switch = &self.switches[at.index()];
        let position = self.position[destination.index()];
        let (first, len) = match &switch.forwarding {
            Forwarding::Digit { divisor, radix, width } => (position / divisor % radix * width, *width),
            Forwarding::Any => return Ways::consecutive(&switch.outputs),
            Forwarding::UpDown { own, divisor, width, up } => {
                if own.contains(&position) {
                    ((position - own.start) / divisor * width, *width)
                } else {
                    (up.start, up.end - up.start)
                }
            }
            Forwarding::Table { set, sets } => return Ways::listed(&sets[set[position as usize] as usize]),
        };
        Ways { first: switch.outputs.start + first, len, listed: None }
    }

    /// The switch or endpoint that `link` leads to.
    #[must_use]
    #[inline]
    pub fn end(&self, link: LinkId) -> LinkEnd {
        self.links[link.index()].to
    }
}
