//! From a wiring as plain data to a compiled [`Network`].
//!
//! | module | holds |
//! |---|---|
//! | `plane` | the wiring of one rail, while it is being made |
//! | `staged` | crossbar, delta and layered networks: lines whose digits are exchanged layer by layer |
//! | `clos` | three stages in a row, and folded; a chassis |
//! | `table` | links as listed, with ways found by breadth-first search; rows of Clos units |
//!
//! Several rails are several planes: each endpoint has a link into each, and they meet nowhere else. So a message stays
//! on the rail on which it was sent.

mod clos;
mod plane;
mod staged;
mod table;

use crate::network::{Link, LinkEnd, LinkId, Network, SwitchId};
use crate::numbering::{self, NumberingError};
use crate::scenario::{LinkModel, Numbering, Topology};
use plane::{End, Plane};
use thiserror::Error;

/// The most endpoints, and the most links of one plane, that a network may have. It bounds the memory that a scenario
/// can ask for.
pub const MOST: u32 = 1 << 22;

/// Reason why a network is not possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileError {
    /// A number is out of range.
    #[error("topology: {what} is {value}, but must be {right}")]
    Range {
        /// Which one.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The remedy.
        right: String,
    },
    /// It would not fit in memory.
    #[error("topology: more than {MOST} endpoints or links")]
    TooLarge,
    /// The digits of a delta network are not a permutation.
    #[error("topology: digits {digits:?} of a delta network must name each of 0 to {last} once")]
    Digits {
        /// As given.
        digits: Vec<u32>,
        /// The highest digit.
        last: u32,
    },
    /// A link of a table has an end that does not exist.
    #[error("topology: link {link} of the table: {end:?} does not exist")]
    NoSuchEnd {
        /// Which link, from 0.
        link: usize,
        /// Which end.
        end: LinkEnd,
    },
    /// A link of a table joins two endpoints.
    #[error("topology: link {link} of the table joins two endpoints; there must be a switch between")]
    NoSwitch {
        /// Which link, from 0.
        link: usize,
    },
    /// An endpoint of a table sends into several links.
    #[error(
        "topology: endpoint {endpoint} of the table sends into {links} links; use rails for more than one"
    )]
    SeveralLinks {
        /// Which endpoint.
        endpoint: u32,
        /// Number of links.
        links: usize,
    },
    /// No way.
    #[error("topology: no way leads from endpoint {from} to endpoint {to}")]
    NoWay {
        /// From this position.
        from: u32,
        /// To this one.
        to: u32,
    },
    /// A path that is too long for the arrays of an engine.
    #[error("topology: the shortest way from endpoint {from} to endpoint {to} has more than {most} links")]
    TooFar {
        /// From this position.
        from: u32,
        /// To this one.
        to: u32,
        /// The most.
        most: u16,
    },
    /// The numbering does not fit.
    #[error(transparent)]
    Numbering(#[from] NumberingError),
}

/// Makes the network of `topology`, with `rails` planes.
///
/// # Errors
/// [`CompileError`] where the numbers make no network.
pub fn compile(
    topology: &Topology,
    numbering: &Numbering,
    link: &LinkModel,
    rails: u32,
) -> Result<Network, CompileError> {
    in_range("rails", rails, 1, 64)?;
    in_range("link rate in bits per second", link.rate.0, 1, u64::MAX)?;
    let plane = wire(topology, link)?;
    let endpoints = u32::try_from(plane.entry.len()).map_err(|_| CompileError::TooLarge)?;
    let position = numbering::positions(numbering, &digits(topology), endpoints)?;
    Ok(assemble(&plane, position, link, rails))
}

/// Returns the number of endpoints of `topology`.
///
/// # Errors
/// [`CompileError::TooLarge`].
pub fn endpoints(topology: &Topology) -> Result<u32, CompileError> {
    let count = match *topology {
        Topology::Crossbar { ports } => Some(ports),
        Topology::Delta { radix, stages, .. } | Topology::Layered { radix, stages, .. } => {
            radix.checked_pow(stages)
        }
        Topology::Clos { leaves, ports, .. } | Topology::FoldedClos { leaves, ports, .. } => {
            leaves.checked_mul(ports)
        }
        Topology::ClosOfClos { units, endpoints, .. } => units.checked_mul(endpoints),
        Topology::Chassis { slots, ports, .. } => slots.checked_mul(ports),
        Topology::Table(ref table) => Some(table.endpoints),
    };
    count.filter(|&count| count <= MOST).ok_or(CompileError::TooLarge)
}

/// The radices of an endpoint's place, least significant first: a place in a folded Clos network is a port of a leaf.
fn digits(topology: &Topology) -> Vec<u32> {
    match *topology {
        Topology::Delta { radix, stages, .. } | Topology::Layered { radix, stages, .. } => {
            vec![radix; stages as usize]
        }
        Topology::Clos { leaves, ports, .. } | Topology::FoldedClos { leaves, ports, .. } => {
            vec![ports, leaves]
        }
        Topology::ClosOfClos { units, endpoints, .. } => vec![endpoints, units],
        Topology::Chassis { slots, ports, .. } => vec![ports, slots],
        Topology::Crossbar { .. } | Topology::Table(_) => Vec::new(),
    }
}

fn wire(topology: &Topology, link: &LinkModel) -> Result<Plane, CompileError> {
    let rate = link.rate;
    endpoints(topology)?;
    match *topology {
        Topology::Crossbar { ports } => staged::crossbar(ports, rate),
        Topology::Delta { radix, stages, ref digits } => staged::delta(radix, stages, digits, rate),
        Topology::Layered { radix, stages, spreading } => staged::layered(radix, stages, spreading, rate),
        Topology::Clos { leaves, ports, middles } => clos::three_stages(leaves, ports, middles, rate),
        Topology::FoldedClos { leaves, ports, spines, uplinks, uplink_rate } => {
            let shape =
                clos::Folded { leaves, ports, spines, uplinks, uplink_rate: uplink_rate.unwrap_or(rate) };
            clos::folded(shape, rate)
        }
        Topology::Chassis { slots, ports, backplane } => {
            let shape = clos::Folded { leaves: slots, ports, spines: 1, uplinks: 1, uplink_rate: backplane };
            clos::folded(shape, rate)
        }
        Topology::ClosOfClos { units, leaves, ports, spines, endpoints } => {
            table::clos_of_clos(table::Boxes { units, leaves, ports, spines, endpoints }, rate)
        }
        Topology::Table(ref table) => table::from_links(table, rate),
    }
}

/// Numbers the links, and repeats the plane for each rail.
fn assemble(plane: &Plane, position: Vec<u32>, link: &LinkModel, rails: u32) -> Network {
    let number = |value: usize| u32::try_from(value).expect("MOST bounds what is numbered");
    let planes = rails as usize;
    let mut links = Vec::with_capacity(planes * (plane.entry.len() + plane.outputs.len()));
    let mut injection = Vec::with_capacity(position.len());
    let mut at_position = vec![0; position.len()];
    let switches_of_plane = number(plane.switches.len());
    for (endpoint, &place) in (0_u32..).zip(&position) {
        at_position[place as usize] = endpoint;
        let first = number(links.len());
        if let Some((switch, rate)) = plane.entry[place as usize] {
            let from = LinkEnd::Endpoint(crate::network::EndpointId(endpoint));
            links.extend((0..rails).map(|rail| {
                let to = LinkEnd::Switch(SwitchId(rail * switches_of_plane + switch));
                Link { from, to, rate, delay: link.delay, stage: 0 }
            }));
        }
        injection.push(first..number(links.len()));
    }
    let mut switches = Vec::with_capacity(planes * plane.switches.len());
    for rail in 0..rails {
        let first_switch = rail * switches_of_plane;
        let first_link = number(links.len());
        for (local, switch) in (0_u32..).zip(&plane.switches) {
            let from = LinkEnd::Switch(SwitchId(first_switch + local));
            let outputs = &plane.outputs[switch.outputs.start as usize..switch.outputs.end as usize];
            links.extend(outputs.iter().map(|output| {
                let to = match output.to {
                    End::Position(place) => {
                        LinkEnd::Endpoint(crate::network::EndpointId(at_position[place as usize]))
                    }
                    End::Switch(next) => LinkEnd::Switch(SwitchId(first_switch + next)),
                };
                Link { from, to, rate: output.rate, delay: link.delay, stage: output.stage }
            }));
            switches.push(switch.moved_by(first_link));
        }
    }
    let stages = links.iter().map(|link| link.stage + 1).max().unwrap_or(0);
    Network { switches, links, injection, position, stages, longest_way: stages.max(plane.longest) }
}

fn in_range(what: &'static str, value: impl Into<u64>, least: u64, most: u64) -> Result<(), CompileError> {
    let value = value.into();
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let right =
        if most == u64::MAX { format!("{least} or more") } else { format!("between {least} and {most}") };
    Err(CompileError::Range { what, value, right })
}

/// The links that lead to `endpoint`, one for each rail: where a slow receiver is felt.
#[must_use]
pub fn links_into(network: &Network, endpoint: crate::network::EndpointId) -> Vec<LinkId> {
    let into = |link: &Link| link.to == LinkEnd::Endpoint(endpoint);
    (0_u32..).zip(&network.links).filter(|(_, link)| into(link)).map(|(number, _)| LinkId(number)).collect()
}

#[cfg(test)]
mod tests;
