//! Endpoints, switches and directed links.
//!
//! Every link has one sender and one receiver, so a cable is two links. The links that leave one switch have
//! consecutive numbers, so that the ways on from a switch are a range. An endpoint has a sending side and a receiving
//! side: in a network that goes one way (a crossbar, a delta network) endpoint *i* is input *i* and output *i*.

use crate::units::{Picos, Rate};
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
pub enum Place {
    /// An endpoint.
    Endpoint(EndpointId),
    /// A switch.
    Switch(SwitchId),
}

/// A directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who sends.
    pub from: Place,
    /// Who receives.
    pub to: Place,
    /// How fast.
    pub rate: Rate,
    /// How long a byte is on the way.
    pub delay: Picos,
    /// How many links lie before this one on the way from an endpoint: 0 for the link that an endpoint sends into. For
    /// reports: "what waits for what" is told by stage.
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
        /// How many values the digit has.
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
    /// By table, from a file: for each position a range of outputs, counted within this switch's outputs.
    Table(Vec<Range<u32>>),
}

/// A compiled network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// All switches.
    pub switches: Vec<Switch>,
    /// All links: first those that leave endpoints, in the order of the endpoints, then those that leave switches.
    pub links: Vec<Link>,
    /// For each endpoint, the links that it sends into: one for each rail.
    pub injection: Vec<Range<u32>>,
    /// For each endpoint, where it is in the wiring (the numbering of the scenario).
    pub position: Vec<u32>,
}

impl Network {
    /// How many endpoints there are.
    #[must_use]
    pub fn endpoints(&self) -> usize {
        self.injection.len()
    }

    /// The outputs of `at` that lead to `destination`: numbers of links. Empty where there is no way.
    #[must_use]
    pub fn ways(&self, at: SwitchId, destination: EndpointId) -> Range<u32> {
        let switch = &self.switches[at.index()];
        let position = self.position[destination.index()];
        let within = match &switch.forwarding {
            Forwarding::Digit { divisor, radix, width } => {
                let first = position / divisor % radix * width;
                first..first + width
            }
            Forwarding::Any => return switch.outputs.clone(),
            Forwarding::UpDown { own, divisor, width, up } => {
                if own.contains(&position) {
                    let first = (position - own.start) / divisor * width;
                    first..first + width
                } else {
                    up.clone()
                }
            }
            Forwarding::Table(ways) => ways[position as usize].clone(),
        };
        switch.outputs.start + within.start..switch.outputs.start + within.end
    }
}
