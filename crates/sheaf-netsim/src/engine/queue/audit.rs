//! Self-checks at the end of a run: everything is walked through and counted again.

use super::frames::{Fifo, Frames};
use super::ports::Port;
use super::scheme::Scheme;
use super::simulation::Simulation;
use crate::report::Check;
use std::fmt::Write as _;

impl Simulation<'_> {
    /// All self-checks of this engine.
    pub(super) fn audit(&self) -> Vec<Check> {
        let deadlock = self.find_deadlock();
        vec![
            self.check_conservation(),
            self.check_buffers(),
            Check {
                name: "deadlock",
                pass: deadlock.is_none(),
                detail: deadlock
                    .map_or_else(|| "every buffer can empty".to_owned(), |deadlock| deadlock.to_string()),
            },
        ]
    }

    /// Checks that the frames in all queues of the network are those that messages lack, and that the messages in
    /// flight are those that were offered and neither arrived nor were lost.
    fn check_conservation(&self) -> Check {
        let under_way = self.messages.iter().filter(|(_, entry)| !entry.lost).count() as u64;
        let booked = self.meter.in_flight();
        let queued: usize =
            self.ports.iter().map(|port| port.incoming.len as usize + port.queue.len as usize).sum();
        let mut seen = std::collections::BTreeMap::<u32, u32>::new();
        for port in &self.ports {
            for id in walk(&self.frames, &port.incoming, &port.queue) {
                *seen.entry(self.frames.get(id).message).or_default() += 1;
            }
        }
        let wrong = self
            .messages
            .iter()
            .find(|(id, entry)| entry.open != entry.uncut + seen.get(id).copied().unwrap_or(0))
            .map(|(_, entry)| entry.message);
        let mut detail = format!(
            "{under_way} messages under way were found in the network and its interfaces, {booked} by counting; {queued} \
             frames in queues of {} in all",
            self.frames.live()
        );
        if let Some(message) = wrong {
            let (source, destination) = (message.source.0, message.destination.0);
            let _ = write!(detail, "; frames of a message from {source} to {destination} are missing");
        }
        Check {
            name: "frames found again",
            pass: under_way == booked && queued == self.frames.live() && wrong.is_none(),
            detail,
        }
    }

    /// Checks that no buffer exceeds its capacity, and that the counted contents are right.
    fn check_buffers(&self) -> Check {
        let wrong = (0u32..).zip(&self.ports).find(|&(_, port)| !self.is_sound(port));
        let shared = match self.scheme {
            Scheme::OutputQueues { memory_bytes, .. } => self.check_memory(memory_bytes),
            Scheme::InputBuffers { .. } => None,
        };
        let detail = match (wrong, shared) {
            (Some((link, _)), _) => {
                format!("a buffer at link {link} does not hold what is booked, or too much")
            }
            (None, Some(switch)) => format!("the memory of switch {switch} does not hold what is booked"),
            (None, None) => "every buffer holds what is booked, and no more than it may".to_owned(),
        };
        Check { name: "buffers", pass: wrong.is_none() && shared.is_none(), detail }
    }

    fn is_sound(&self, port: &Port) -> bool {
        let bytes =
            |fifo: &Fifo| self.frames.walk(fifo).map(|id| u64::from(self.frames.get(id).wire)).sum::<u64>();
        match self.scheme {
            Scheme::InputBuffers { frames, .. } => {
                let held = port.incoming.len + u32::from(port.reading);
                port.switch == super::frames::NONE || (held <= frames && held + port.room <= frames)
            }
            Scheme::OutputQueues { .. } => {
                let leaving =
                    if port.busy && port.sender == super::frames::NONE { port.leaving.into() } else { 0 };
                bytes(&port.queue) + leaving == port.queued_bytes
            }
        }
    }

    /// A switch whose memory does not add up.
    fn check_memory(&self, bound: u64) -> Option<usize> {
        (0..self.memory.len()).find(|&switch| {
            let outputs = self.network.switches[switch].outputs.clone();
            let held: u64 = outputs.map(|link| self.ports[link as usize].queued_bytes).sum();
            let within = held <= bound || self.scheme.pauses();
            held != self.memory[switch] || !within
        })
    }
}

fn walk<'a>(frames: &'a Frames, first: &Fifo, second: &Fifo) -> impl Iterator<Item = u32> + use<'a> {
    frames.walk(first).chain(frames.walk(second))
}
