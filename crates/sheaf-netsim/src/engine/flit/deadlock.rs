//! Detection of the loop that blocks a run.

use super::allocation::Allocation;
use super::fabric::{Fabric, NONE};
use crate::network::LinkId;

/// Returns the links of a loop: each is held by a message that needs the next one, and the last by one that needs the
/// first. `None` if the waiting messages are not blocked by a loop.
pub(super) fn find(fabric: &Fabric, allocation: &Allocation) -> Option<Vec<LinkId>> {
    let mut way: Vec<u32> = Vec::new();
    let mut link = allocation.any_wanted().or_else(|| fabric.any_without_room())?;
    loop {
        if let Some(first) = way.iter().position(|&before| before == link) {
            return Some(way[first..].iter().map(|&link| LinkId(link)).collect());
        }
        way.push(link);
        // A message holds a lane of it, or its buffer has no room: the first message in that buffer waits, or is
        // blocked itself, for the next link.
        let lanes = link * fabric.lanes..(link + 1) * fabric.lanes;
        link = lanes.clone().find_map(|lane| match fabric.channels[lane as usize].out {
            NONE => allocation.wanted_by(lane),
            out => Some(fabric.link_of(out)),
        })?;
    }
}
