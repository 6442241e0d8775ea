//! Buffers that wait for one another in a loop.
//!
//! A buffer is stuck if its first frame waits for room in other buffers and every one of those is stuck. Nothing
//! elsewhere can change that, so it is sufficient to check when a run ends: a buffer that is stuck then stays so for
//! ever.

use super::frames::NONE;
use super::scheme::Scheme;
use super::simulation::Simulation;
use crate::network::{LinkEnd, LinkId};
use std::fmt;

/// A buffer of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Behind a link.
    Input {
        /// The link.
        link: LinkId,
        /// End of the link.
        at: LinkEnd,
    },
    /// In front of a link.
    Queue {
        /// The link.
        link: LinkId,
        /// Beginning of the link.
        at: LinkEnd,
    },
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (side, link, at) = match self {
            Self::Input { link, at } => ("input behind link", link, at),
            Self::Queue { link, at } => ("queue for link", link, at),
        };
        match at {
            LinkEnd::Switch(switch) => write!(f, "{side} {} at switch {}", link.0, switch.0),
            LinkEnd::Endpoint(endpoint) => write!(f, "{side} {} at endpoint {}", link.0, endpoint.0),
        }
    }
}

/// Frames that can never move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each of these waits for room in the next, and the last for room in the first.
    pub cycle: Vec<Buffer>,
    /// Number of stuck buffers, in the circle or behind it.
    pub stuck: usize,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for buffer in &self.cycle {
            write!(f, "{buffer} waits for ")?;
        }
        match self.cycle.first() {
            Some(first) => write!(f, "{first}; {} buffers are stuck", self.stuck),
            None => write!(f, "nothing"),
        }
    }
}

/// State of a buffer in the search for a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// It moves, or is empty, or will be examined.
    Moves,
    /// For room in any of these.
    Waits(Vec<usize>),
}

impl Simulation<'_> {
    /// The buffers that are stuck, if there are any.
    pub(super) fn find_deadlock(&self) -> Option<Deadlock> {
        let links = self.ports.len();
        let states: Vec<State> =
            (0..links).map(|link| self.input(link)).chain((0..links).map(|link| self.queue(link))).collect();
        let stuck = stuck(&states);
        let mut at = stuck.iter().position(|&stuck| stuck)?;
        let mut trail = Vec::new();
        let start = loop {
            if let Some(start) = trail.iter().position(|&seen| seen == at) {
                break start;
            }
            trail.push(at);
            let State::Waits(others) = &states[at] else { return None };
            at = *others.iter().find(|&&other| stuck[other])?;
        };
        let cycle = trail[start..].iter().map(|&node| self.buffer(node)).collect();
        Some(Deadlock { cycle, stuck: stuck.iter().filter(|&&stuck| stuck).count() })
    }

    /// Inputs have the numbers of their links; queues follow.
    fn buffer(&self, node: usize) -> Buffer {
        let links = self.ports.len();
        let link = LinkId(super::frames::index(node % links));
        if node < links {
            Buffer::Input { link, at: self.network.links[link.index()].to }
        } else {
            Buffer::Queue { link, at: self.network.links[link.index()].from }
        }
    }

    fn input(&self, link: usize) -> State {
        let port = &self.ports[link];
        if port.arrived == 0 || port.reading || port.wanted == NONE {
            return State::Moves;
        }
        let output = port.wanted as usize;
        match self.scheme {
            Scheme::InputBuffers { frames, .. } => {
                let next = &self.ports[output];
                // Credits that are under way count as room.
                let taken = next.incoming.len + u32::from(next.reading);
                if next.busy || next.room > 0 || taken < frames {
                    return State::Moves;
                }
                State::Waits(vec![output])
            }
            Scheme::OutputQueues { queue_bytes, memory_bytes, .. } => {
                // A frame that would fit waits too, behind the larger one that the arbiter has chosen: until that one
                // moves, no other is asked.
                let next = &self.ports[output];
                if next.queued_bytes == 0 {
                    return State::Moves;
                }
                let bytes = u64::from(self.frames.get(port.incoming.head).wire);
                if memory_bytes == u64::MAX || next.queued_bytes.saturating_add(bytes) > queue_bytes {
                    return State::Waits(vec![self.ports.len() + output]);
                }
                let outputs = self.network.switches[next.source_switch as usize].outputs.clone();
                let filled =
                    outputs.map(|other| other as usize).filter(|&other| self.ports[other].queued_bytes > 0);
                State::Waits(filled.map(|other| self.ports.len() + other).collect())
            }
        }
    }

    fn queue(&self, link: usize) -> State {
        let port = &self.ports[link];
        if port.queue.len > 0 && !port.busy && port.stopped && port.sender_paused {
            return State::Waits(vec![link]);
        }
        State::Moves
    }
}

/// Which nodes are stuck: those from which no way leads to one that moves.
fn stuck(states: &[State]) -> Vec<bool> {
    let mut stuck: Vec<bool> = states.iter().map(|state| *state != State::Moves).collect();
    let mut behind = vec![Vec::new(); states.len()];
    for (node, state) in states.iter().enumerate() {
        if let State::Waits(others) = state {
            others.iter().for_each(|&other| behind[other].push(node));
        }
    }
    let mut moving: Vec<usize> = (0..states.len()).filter(|&node| !stuck[node]).collect();
    while let Some(node) = moving.pop() {
        for &waits in &behind[node] {
            if std::mem::replace(&mut stuck[waits], false) {
                moving.push(waits);
            }
        }
    }
    stuck
}

#[cfg(test)]
mod tests;
