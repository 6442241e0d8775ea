//! Wirings that no rule describes: from a table in a file, and rows of Clos units. The ways are all shortest ones.

use super::plane::{End, Output, Plane};
use super::{CompileError, MOST, in_range};
use crate::network::{Forwarding, LinkEnd};
use crate::scenario::TableTopology;
use crate::units::Rate;
use std::collections::{BTreeMap, VecDeque};

/// Farther than any switch.
const UNREACHED: u32 = u32::MAX;

/// The most links of a way: engines keep those of each message.
const MOST_LINKS: u16 = 1_000;

/// Two rows of boxes, each a folded Clos network.
#[derive(Clone, Copy)]
pub(super) struct Boxes {
    /// Boxes in each row.
    pub(super) units: u32,
    pub(super) leaves: u32,
    /// Ports of one leaf that lead out of the box.
    pub(super) ports: u32,
    pub(super) spines: u32,
    /// Endpoints of one lower box.
    pub(super) endpoints: u32,
}

/// Cables out of each switch: their ends and rates.
type Cables = Vec<Vec<(End, Rate)>>;

/// The links of a table, in its order: those that leave one switch become its outputs.
pub(super) fn from_links(table: &TableTopology, rate: Rate) -> Result<Plane, CompileError> {
    in_range("endpoints of the table", table.endpoints, 1, u64::MAX)?;
    in_range("switches of the table", table.switches, 1, u64::from(MOST))?;
    let mut cables: Cables = vec![Vec::new(); table.switches as usize];
    let mut entry = vec![Vec::new(); table.endpoints as usize];
    for (number, link) in table.links.iter().enumerate() {
        for end in [link.from, link.to] {
            let (index, limit) = match end {
                LinkEnd::Endpoint(endpoint) => (endpoint.0, table.endpoints),
                LinkEnd::Switch(switch) => (switch.0, table.switches),
            };
            if index >= limit {
                return Err(CompileError::NoSuchEnd { link: number, end });
            }
        }
        let own = link.rate.unwrap_or(rate);
        in_range("rate of a link in bits per second", own.0, 1, u64::MAX)?;
        match (link.from, link.to) {
            (LinkEnd::Endpoint(_), LinkEnd::Endpoint(_)) => {
                return Err(CompileError::NoSwitch { link: number });
            }
            (LinkEnd::Endpoint(endpoint), LinkEnd::Switch(switch)) => {
                entry[endpoint.index()].push((switch.0, own))
            }
            (LinkEnd::Switch(switch), LinkEnd::Endpoint(endpoint)) => {
                cables[switch.index()].push((End::Position(endpoint.0), own));
            }
            (LinkEnd::Switch(switch), LinkEnd::Switch(next)) => {
                cables[switch.index()].push((End::Switch(next.0), own))
            }
        }
    }
    let one = |(endpoint, links): (u32, Vec<(u32, Rate)>)| match links[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(CompileError::SeveralLinks { endpoint, links: links.len() }),
    };
    let entry = (0_u32..).zip(entry).map(one).collect::<Result<Vec<_>, _>>()?;
    shortest_ways(entry, &cables)
}

/// A lower box has its endpoints at its first outer ports; the others lead to the boxes of the upper row in turn. In the
/// upper row the cables of lower box *b* are side by side, so that they begin at the same leaves.
pub(super) fn clos_of_clos(shape: Boxes, rate: Rate) -> Result<Plane, CompileError> {
    let Boxes { units, leaves, ports, spines, endpoints } = shape;
    in_range("units of a row", units, 1, u64::from(MOST))?;
    in_range("leaves of a unit", leaves, 1, u64::from(MOST))?;
    in_range("outer ports of a leaf", ports, 1, u64::from(MOST))?;
    in_range("spines of a unit", spines, 1, u64::from(MOST))?;
    let outer = leaves.checked_mul(ports).ok_or(CompileError::TooLarge)?;
    let of_unit = leaves.checked_add(spines).ok_or(CompileError::TooLarge)?;
    let switches = of_unit.checked_mul(2 * units).filter(|&all| all <= MOST).ok_or(CompileError::TooLarge)?;
    if u64::from(switches) * u64::from(leaves.max(ports + spines)) > u64::from(MOST) {
        return Err(CompileError::TooLarge);
    }
    in_range("endpoints of a unit", endpoints, 1, u64::from(outer))?;
    if (outer - endpoints) % units != 0 {
        let right = format!("{outer} outer ports less a multiple of the {units} units");
        return Err(CompileError::Range { what: "endpoints of a unit", value: endpoints.into(), right });
    }
    let trunks = (outer - endpoints) / units;
    let upper = |unit: u32| (units + unit) * of_unit;
    let mut cables: Cables = vec![Vec::new(); switches as usize];
    for unit in 0..units {
        for port in 0..outer {
            let lower_leaf = unit * of_unit + port / ports;
            if port < endpoints {
                cables[lower_leaf as usize].push((End::Position(unit * endpoints + port), rate));
            } else {
                let trunk = port - endpoints;
                let upper_leaf = upper(trunk % units) + (unit * trunks + trunk / units) / ports;
                cables[lower_leaf as usize].push((End::Switch(upper_leaf), rate));
                cables[upper_leaf as usize].push((End::Switch(lower_leaf), rate));
            }
        }
    }
    for first in (0..2 * units).map(|unit| unit * of_unit) {
        for leaf in first..first + leaves {
            for spine in first + leaves..first + of_unit {
                cables[leaf as usize].push((End::Switch(spine), rate));
                cables[spine as usize].push((End::Switch(leaf), rate));
            }
        }
    }
    let entry = (0..units * endpoints)
        .map(|place| Some((place / endpoints * of_unit + place % endpoints / ports, rate)))
        .collect();
    shortest_ways(entry, &cables)
}

/// Finds all shortest ways, from each destination backwards, and numbers the stages by the switches' distance from
/// the senders.
fn shortest_ways(entry: Vec<Option<(u32, Rate)>>, cables: &Cables) -> Result<Plane, CompileError> {
    let places = u32::try_from(entry.len()).map_err(|_| CompileError::TooLarge)?;
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); cables.len()];
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); entry.len()];
    for (switch, outputs) in (0_u32..).zip(cables) {
        for &(to, _) in outputs {
            match to {
                End::Position(place) => into[place as usize].push(switch),
                End::Switch(next) => before[next as usize].push(switch),
            }
        }
    }
    let mut tables = vec![WaySets::default(); cables.len()];
    let mut first_output = Vec::with_capacity(cables.len());
    let mut outputs = 0;
    for own in cables {
        first_output.push(outputs);
        outputs += u32::try_from(own.len()).map_err(|_| CompileError::TooLarge)?;
    }
    let mut ways = Vec::new();
    let mut longest = 0;
    for place in 0..places {
        let distance = distances(&into[place as usize], &before);
        for (switch, own) in cables.iter().enumerate() {
            ways.clear();
            let closer = |to: End| match to {
                End::Position(end) => end == place,
                End::Switch(next) => distance[next as usize] < distance[switch],
            };
            let direct = own.iter().any(|&(to, _)| to == End::Position(place));
            let wanted = |to: End| if direct { to == End::Position(place) } else { closer(to) };
            ways.extend(
                (first_output[switch]..).zip(own).filter(|(_, (to, _))| wanted(*to)).map(|(way, _)| way),
            );
            tables[switch].add(&ways);
        }
        let stuck =
            |sender: &Option<(u32, Rate)>| sender.is_some_and(|(at, _)| distance[at as usize] == UNREACHED);
        // An endpoint that nothing leads to only sends.
        let reached = !into[place as usize].is_empty();
        if let Some(from) = entry.iter().position(|sender| reached && stuck(sender)) {
            let from = u32::try_from(from).map_err(|_| CompileError::TooLarge)?;
            return Err(CompileError::NoWay { from, to: place });
        }
        for (from, &(at, _)) in
            (0_u32..).zip(&entry).filter_map(|(from, sender)| Some((from, sender.as_ref()?)))
        {
            let links = distance[at as usize].saturating_add(1);
            if reached && links > u32::from(MOST_LINKS) {
                return Err(CompileError::TooFar { from, to: place, most: MOST_LINKS });
            }
            longest = longest.max(if reached { links } else { 0 });
        }
    }
    let depth = depths(&entry, cables);
    let deepest = depth.iter().copied().max().unwrap_or(0);
    let longest = u16::try_from(longest).map_err(|_| CompileError::TooLarge)?;
    let mut plane = Plane { entry, longest, ..Plane::default() };
    for (switch, own) in cables.iter().enumerate() {
        let layer = depth[switch];
        let WaySets { set, sets, .. } = std::mem::take(&mut tables[switch]);
        let outputs = own.iter().map(|&(to, rate)| {
            let deeper = matches!(to, End::Switch(next) if depth[next as usize] >= layer);
            // Up to the deepest switches and back: the same numbers as those of a folded Clos network.
            let stage = if deeper { layer + 1 } else { 2 * deepest + 1 - layer };
            Output { to, rate, stage }
        });
        plane.switch(layer, Forwarding::Table { set, sets }, 1, outputs)?;
    }
    Ok(plane)
}

/// The ways of one switch: each set of links is kept once.
#[derive(Clone, Debug)]
struct WaySets {
    set: Vec<u32>,
    sets: Vec<Vec<u32>>,
    known: BTreeMap<Vec<u32>, u32>,
}

impl Default for WaySets {
    fn default() -> Self {
        Self { set: Vec::new(), sets: vec![Vec::new()], known: BTreeMap::from([(Vec::new(), 0)]) }
    }
}

impl WaySets {
    /// The ways to the next place.
    fn add(&mut self, ways: &[u32]) {
        let number = if let Some(&number) = self.known.get(ways) {
            number
        } else {
            let number = u32::try_from(self.sets.len()).expect("there are no more sets than places");
            self.sets.push(ways.to_vec());
            self.known.insert(ways.to_vec(), number);
            number
        };
        self.set.push(number);
    }
}

/// Returns the number of links between each switch and the endpoint whose last switches are `last`.
fn distances(last: &[u32], before: &[Vec<u32>]) -> Vec<u32> {
    let mut distance = vec![UNREACHED; before.len()];
    let mut queue = VecDeque::new();
    for &switch in last {
        if distance[switch as usize] == UNREACHED {
            distance[switch as usize] = 1;
            queue.push_back(switch);
        }
    }
    while let Some(switch) = queue.pop_front() {
        for &previous in &before[switch as usize] {
            if distance[previous as usize] == UNREACHED {
                distance[previous as usize] = distance[switch as usize] + 1;
                queue.push_back(previous);
            }
        }
    }
    distance
}

/// Returns the number of switches between each switch and the nearest sender, up to a quarter of the range of a stage;
/// 0 for unreachable switches.
fn depths(entry: &[Option<(u32, Rate)>], cables: &Cables) -> Vec<u16> {
    let mut depth = vec![None; cables.len()];
    let mut queue = VecDeque::new();
    for &(switch, _) in entry.iter().flatten() {
        if depth[switch as usize].is_none() {
            depth[switch as usize] = Some(0_u16);
            queue.push_back(switch);
        }
    }
    while let Some(switch) = queue.pop_front() {
        let below = depth[switch as usize].unwrap_or(0);
        for &(to, _) in &cables[switch as usize] {
            if let End::Switch(next) = to
                && depth[next as usize].is_none()
            {
                depth[next as usize] = Some((below + 1).min(u16::MAX / 4));
                queue.push_back(next);
            }
        }
    }
    depth.into_iter().map(|depth| depth.unwrap_or(0)).collect()
}
