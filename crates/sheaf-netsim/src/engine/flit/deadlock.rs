//! The loop that holds a run which cannot go on.

use super::allocation::Allocation;
use super::fabric::{Fabric, NONE};
use crate::network::LinkId;

/// The links of a loop: each is held by a message whose way on is the next one, and the last by one that waits for the
/// first. `None` if what waits is not held by a loop.
pub(super) fn find(fabric: &Fabric, allocation: &Allocation) -> Option<Vec<LinkId>> {
    let mut way: Vec<u32> = Vec::new();
    let mut link = allocation.any_wanted().or_else(|| fabric.any_without_room())?;
    loop {
        if let Some(first) = way.iter().position(|&before| before == link) {
            return Some(way[first..].iter().map(|&link| LinkId(link)).collect());
        }
        way.push(link);
        // Somebody holds a lane of it, or its buffer has no room: what is first in that buffer waits, or is held up
        // itself, for the next link.
        let lanes = link * fabric.lanes..(link + 1) * fabric.lanes;
        link = lanes.clone().find_map(|lane| match fabric.channels[lane as usize].out {
            NONE => allocation.wanted_by(lane),
            out => Some(fabric.link_of(out)),
        })?;
    }
}
