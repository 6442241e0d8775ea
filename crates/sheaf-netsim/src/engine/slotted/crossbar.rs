//! One switch with a queue at each input.
//!
//! In every slot each input takes at most one message from its host, each input sends at most one message to an output,
//! and each output sends at most one message to its host. Without speed-up an output also takes at most one; with a
//! speed-up of *L* it takes up to *L* and keeps the rest in a queue of its own. With virtual output queues the speed-up
//! is that of the whole switch: it makes *L* matchings in a slot, so that an input may send *L* messages as well (a
//! switch with combined input and output queues).

use super::Options;
use super::matching::{Held, Islip, Rounds};
use crate::dice::{Dice, Purpose};
use crate::engine::clocked::{Course, Hosts};
use crate::meter::{Cause, Names};
use crate::scenario::InputQueue;
use crate::traffic::Message;
use crate::units::Picos;
use std::collections::VecDeque;

/// The only thing that a message waits for.
const OUTPUT: Cause = Cause(0);
const INPUTS: Cause = Cause(0);
const OUTPUTS: Cause = Cause(1);

/// Buffers of the switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    pub(super) queue: InputQueue,
    /// Maximum number of messages that one input holds. Without a bound, queues examined from the front hold as many
    /// messages as are examined, and the rest waits in the host; that does not change which messages are sent.
    pub(super) messages: Option<u32>,
    pub(super) speed_up: u32,
}

pub(super) fn names(ports: usize, messages: Option<u32>, message_bytes: u64) -> Names {
    let ports = u32::try_from(ports).expect("a network bounds its endpoints");
    let size = messages.map(|messages| u64::from(messages) * message_bytes);
    Names {
        waiting: vec!["output, taken by another message".into()],
        losses: Vec::new(),
        buffers: vec![("inputs".into(), ports, size), ("outputs".into(), ports, None)],
    }
}

/// The queues of all inputs.
enum Inputs {
    /// One queue for each input, of which the first `window` messages are examined.
    Single { queues: Vec<VecDeque<Held>>, rounds: Rounds },
    /// A queue for each pair: `input * ports + output`.
    Virtual { queues: Vec<VecDeque<Held>>, held: Vec<u32>, islip: Islip, pairs: Vec<(usize, usize)> },
}

impl Inputs {
    fn new(ports: usize, queue: InputQueue) -> Self {
        let window = match queue {
            InputQueue::Fifo => 1,
            InputQueue::Window(window) => window.max(1),
            InputQueue::VirtualOutput(iterations) => {
                return Self::Virtual {
                    queues: vec![VecDeque::new(); ports * ports],
                    held: vec![0; ports],
                    islip: Islip::new(ports, iterations.max(1)),
                    pairs: Vec::with_capacity(ports),
                };
            }
        };
        Self::Single { queues: vec![VecDeque::new(); ports], rounds: Rounds::new(ports, window as usize) }
    }

    /// Returns the number of messages that `input` holds.
    fn held(&self, input: usize) -> usize {
        match self {
            Self::Single { queues, .. } => queues[input].len(),
            Self::Virtual { held, .. } => held[input] as usize,
        }
    }

    fn push(&mut self, input: usize, held: Held) {
        match self {
            Self::Single { queues, .. } => queues[input].push_back(held),
            Self::Virtual { queues, held: count, islip, .. } => {
                let output = held.message.destination.index();
                let queue = &mut queues[input * count.len() + output];
                queue.push_back(held);
                count[input] += 1;
                islip.wants(input, output);
            }
        }
    }

    /// Moves the messages of one slot from inputs to outputs into `moved`.
    fn slot(&mut self, options: &Options, speed_up: u32, dice: &mut Dice, moved: &mut Vec<Held>) {
        match self {
            Self::Single { queues, rounds } => {
                rounds.slot(queues, speed_up, options.arbiter, dice, |queue, index| {
                    moved.push(queue.remove(index).expect("what has won is in the queue"));
                });
            }
            Self::Virtual { queues, held, islip, pairs } => {
                for _ in 0..speed_up {
                    islip.matching(pairs);
                    for &(input, output) in &*pairs {
                        let queue = &mut queues[input * held.len() + output];
                        moved.push(
                            queue.pop_front().expect("a virtual queue that was asked for is not empty"),
                        );
                        held[input] -= 1;
                        if queue.is_empty() {
                            islip.wants_no_more(input, output);
                        }
                    }
                }
            }
        }
    }
}

/// Runs the traffic of `hosts` over a switch with `ports` inputs and outputs.
pub(super) fn run(ports: usize, options: &Options, buffers: Buffers, mut hosts: Hosts<'_>) -> Course {
    let mut inputs = Inputs::new(ports, buffers.queue);
    let room = match (buffers.messages, buffers.queue) {
        (Some(messages), _) => messages.max(1) as usize,
        (None, InputQueue::VirtualOutput(_)) => usize::MAX,
        (None, InputQueue::Window(window)) => window.max(1) as usize,
        (None, InputQueue::Fifo) => 1,
    };
    let mut outputs: Vec<VecDeque<Message>> = vec![VecDeque::new(); ports];
    let mut dice = Dice::new(options.seed, Purpose::Arbiter, 0);
    let mut moved = Vec::with_capacity(ports);
    let (mut slot, mut now) = (0_u64, Picos::ZERO);
    while !hosts.is_over(now) {
        hosts.timers(now);
        for input in 0..ports {
            if inputs.held(input) < room
                && let Some(message) = hosts.next(input, now)
            {
                inputs.push(input, Held { message, since: slot });
                let content = inputs.held(input) as u64 * u64::from(message.bytes);
                hosts.meter().filled(INPUTS, u64::from(message.bytes), content, now);
            }
        }
        inputs.slot(options, buffers.speed_up.max(1), &mut dice, &mut moved);
        let end = now + options.slot;
        for Held { message, since } in moved.drain(..) {
            let arrived = Picos(since.saturating_mul(options.slot.0));
            let bytes = u64::from(message.bytes);
            hosts.meter().waited(OUTPUT, arrived, now);
            hosts.meter().drained(INPUTS, bytes, now);
            let output = &mut outputs[message.destination.index()];
            output.push_back(message);
            hosts.meter().filled(OUTPUTS, bytes, output.len() as u64 * bytes, now);
            hosts.sent(&message, end);
        }
        for output in &mut outputs {
            if let Some(message) = output.pop_front() {
                hosts.meter().drained(OUTPUTS, u64::from(message.bytes), end);
                hosts.delivered(&message, end);
            }
        }
        slot += 1;
        now = end;
        if hosts.in_flight() == 0 {
            // Nothing moves until a host sends: advance to that slot.
            let Some(at) = hosts.next_instant() else {
                break;
            };
            slot = slot.max(at.0.div_ceil(options.slot.0));
            now = Picos(slot.saturating_mul(options.slot.0));
        }
    }
    hosts.finish(slot, now)
}
