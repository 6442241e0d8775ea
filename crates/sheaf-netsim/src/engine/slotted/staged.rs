//! Layers of switches in slots.
//!
//! Without buffers (Patel 1981): a message passes all layers in one slot or is lost where another one takes its output.
//!
//! With buffers at each input (Jenq, IEEE J. Sel. Areas Commun. 1(6), 1983): layers move from the last to the first, so
//! that the room which a message leaves is used by the one behind it in the same slot.

use super::{Options, SlottedError};
use crate::dice::{Dice, Purpose};
use crate::engine::arbitration::{Contender, Turn};
use crate::engine::clocked::{Course, Hosts};
use crate::meter::{Cause, Names};
use crate::network::{EndpointId, LinkEnd, LinkId, Network};
use crate::routing::{Journey, Router};
use crate::traffic::Message;
use crate::units::Picos;
use std::collections::VecDeque;

pub(super) fn names(network: &Network, buffer_messages: Option<u32>, message_bytes: u64) -> Names {
    let of_layers =
        |name: &str| (1..network.stages).map(|layer| format!("{name} of layer {layer}")).collect();
    let Some(messages) = buffer_messages else {
        return Names {
            waiting: Vec::new(),
            losses: of_layers("output taken by another message, output"),
            buffers: Vec::new(),
        };
    };
    let size = u64::from(messages.max(1)) * message_bytes;
    let inputs_of = |stage: u16| network.links.iter().filter(|link| link.stage == stage).count();
    let buffers = (1..network.stages)
        .map(|layer| {
            let count = u32::try_from(inputs_of(layer - 1)).expect("links are numbered by 32 bits");
            (format!("inputs of layer {layer}"), count, Some(size))
        })
        .collect();
    Names { waiting: of_layers("output or room behind it, output"), losses: Vec::new(), buffers }
}

/// A message at an input of a switch, with the output that it wants.
#[derive(Clone, Copy, Debug)]
struct Held {
    message: Message,
    journey: Journey,
    /// The slot in which it arrived at this input.
    since: u64,
}

/// The network as a sequence of layers, and the contenders of one slot.
struct Layers<'a> {
    network: &'a Network,
    router: Router,
    /// Switches that are reached, by layer: the stage of their inputs.
    switches: Vec<Vec<u32>>,
    /// For each switch the links that lead to it.
    inputs: Vec<Vec<u32>>,
    turns: Vec<Turn>,
    dice: Dice,
    /// For each link, its contenders in this slot: (number of the input at its switch, link of that input).
    contenders: Vec<Vec<Contender>>,
    options: &'a Options,
}

impl<'a> Layers<'a> {
    fn new(network: &'a Network, options: &'a Options) -> Result<Self, SlottedError> {
        let mut inputs = vec![Vec::new(); network.switches.len()];
        for (number, link) in (0_u32..).zip(&network.links) {
            if let LinkEnd::Switch(switch) = link.to {
                inputs[switch.index()].push(number);
            }
        }
        let mut switches = vec![Vec::new(); usize::from(network.stages)];
        for (number, (switch, into)) in (0_u32..).zip(network.switches.iter().zip(&inputs)) {
            let stages = |links: &mut dyn Iterator<Item = u32>| {
                let stages: Vec<u16> = links.map(|link| network.links[link as usize].stage).collect();
                (stages.iter().copied().min(), stages.iter().copied().max())
            };
            let (_, Some(last_in)) = stages(&mut into.iter().copied()) else {
                continue;
            };
            if let (Some(first_out), _) = stages(&mut switch.outputs.clone())
                && first_out <= last_in
            {
                return Err(SlottedError::NotLayered { switch: number, from: last_in, to: first_out });
            }
            switches[usize::from(last_in)].push(number);
        }
        Ok(Self {
            network,
            router: Router::new(options.routes, network, options.seed),
            switches,
            inputs,
            turns: vec![Turn::default(); network.links.len()],
            dice: Dice::new(options.seed, Purpose::Arbiter, 0),
            contenders: vec![Vec::new(); network.links.len()],
            options,
        })
    }

    /// Enters the messages that `first` returns for each input of `switch` as contenders: the message that may advance
    /// and since when it waits.
    fn contend(&mut self, switch: u32, mut first: impl FnMut(u32) -> Option<(Journey, u64)>) {
        let at = crate::network::SwitchId(switch);
        for (number, &input) in (0_u32..).zip(&self.inputs[switch as usize]) {
            if let Some((journey, since)) = first(input) {
                // A path without contenders so far counts as free.
                let contenders = &mut self.contenders;
                let free = |link: LinkId| contenders[link.index()].is_empty();
                let output = self.router.choose(self.network, at, &journey, free);
                let output = output.expect("a compiled network has a way to every destination");
                contenders[output.index()].push(Contender { input: number, since });
            }
        }
    }

    /// Returns the link whose message gets `output`, if there are contenders.
    fn winner(&mut self, switch: u32, output: u32) -> Option<u32> {
        let contenders = &self.contenders[output as usize];
        if contenders.is_empty() {
            return None;
        }
        let turn = &mut self.turns[output as usize];
        let index = turn.choose(self.options.arbiter, contenders, &mut self.dice);
        Some(self.inputs[switch as usize][contenders[index].input as usize])
    }

    fn clear(&mut self, output: u32) {
        self.contenders[output as usize].clear();
    }
}

/// The journey of a new message, and the link that it enters the network by; the first that `free` allows.
fn enter(layers: &mut Layers<'_>, message: &Message, free: impl FnMut(LinkId) -> bool) -> (Journey, LinkId) {
    let journey = layers.router.begin(message.source, message.destination);
    let link = layers.router.rail(layers.network, &journey, free);
    (journey, link.expect("a sender has a link"))
}

/// Runs the traffic of `hosts` with the loss of messages that do not get their output.
pub(super) fn run_unbuffered(
    network: &Network,
    options: &Options,
    mut hosts: Hosts<'_>,
) -> Result<Course, SlottedError> {
    let mut layers = Layers::new(network, options)?;
    let mut on_link: Vec<Option<Held>> = vec![None; network.links.len()];
    let (mut slot, mut now) = (0_u64, Picos::ZERO);
    while !hosts.is_over(now) {
        hosts.timers(now);
        let end = now + options.slot;
        for sender in 0..network.endpoints() {
            if !network.injection[sender].is_empty()
                && let Some(message) = hosts.next(sender, now)
            {
                let (journey, link) = enter(&mut layers, &message, |_| true);
                on_link[link.index()] = Some(Held { message, journey, since: slot });
                hosts.sent(&message, end);
            }
        }
        let idle = hosts.in_flight() == 0;
        for stage in 0..layers.switches.len() {
            for index in 0..layers.switches[stage].len() {
                let switch = layers.switches[stage][index];
                layers
                    .contend(switch, |input| on_link[input as usize].map(|held| (held.journey, held.since)));
                for output in network.switches[switch as usize].outputs.clone() {
                    if let Some(input) = layers.winner(switch, output) {
                        on_link[output as usize] = on_link[input as usize].take();
                        layers.clear(output);
                    }
                }
                for &input in &layers.inputs[switch as usize] {
                    if let Some(held) = on_link[input as usize].take() {
                        hosts.lost(
                            &held.message,
                            Cause(u16::try_from(stage).expect("stages have 16 bits")),
                            end,
                        );
                    }
                }
            }
        }
        for (link, held) in network.links.iter().zip(&mut on_link) {
            if matches!(link.to, LinkEnd::Endpoint(_))
                && let Some(held) = held.take()
            {
                hosts.delivered(&held.message, end);
            }
        }
        (slot, now) = (slot + 1, end);
        if idle && !step_over(&hosts, options.slot, &mut slot, &mut now) {
            break;
        }
    }
    Ok(hosts.finish(slot, now))
}

/// Advances to the next slot in which a host sends; returns `false` if none ever does.
fn step_over(hosts: &Hosts<'_>, length: Picos, slot: &mut u64, now: &mut Picos) -> bool {
    let Some(at) = hosts.next_instant() else {
        return false;
    };
    *slot = (*slot).max(at.0.div_ceil(length.0));
    *now = Picos(slot.saturating_mul(length.0));
    true
}

/// Runs the traffic of `hosts` with `buffer_messages` at each input of each switch.
pub(super) fn run_buffered(
    network: &Network,
    options: &Options,
    buffer_messages: u32,
    mut hosts: Hosts<'_>,
) -> Result<Course, SlottedError> {
    let mut layers = Layers::new(network, options)?;
    let mut buffers = Buffers {
        queues: vec![VecDeque::new(); network.links.len()],
        room: buffer_messages.max(1) as usize,
        network,
    };
    let (mut slot, mut now) = (0_u64, Picos::ZERO);
    while !hosts.is_over(now) {
        hosts.timers(now);
        for sender in 0..network.endpoints() {
            if network.injection[sender].clone().any(|link| buffers.has_room(link))
                && let Some(message) = hosts.next(sender, now)
            {
                let (journey, link) = enter(&mut layers, &message, |link| buffers.has_room(link.0));
                buffers.push(link.0, Held { message, journey, since: slot }, &mut hosts, now);
            }
        }
        let end = now + options.slot;
        let mut moved = false;
        for stage in (0..layers.switches.len()).rev() {
            for index in 0..layers.switches[stage].len() {
                let switch = layers.switches[stage][index];
                let first = |input: u32| {
                    let held = buffers.queues[input as usize].front()?;
                    Some((held.journey, held.since))
                };
                layers.contend(switch, first);
                for output in network.switches[switch as usize].outputs.clone() {
                    if buffers.has_room(output)
                        && let Some(input) = layers.winner(switch, output)
                    {
                        buffers.go_on(input, output, (slot, options.slot), &mut hosts);
                        moved = true;
                    }
                    layers.clear(output);
                }
            }
        }
        (slot, now) = (slot + 1, end);
        if !moved {
            if hosts.in_flight() > 0 {
                // Layers have no loops: a message that cannot move now never can.
                break;
            }
            if !step_over(&hosts, options.slot, &mut slot, &mut now) {
                break;
            }
        }
    }
    Ok(hosts.finish(slot, now))
}

/// The queue at the end of each link; messages that arrive at an endpoint are consumed at once.
struct Buffers<'a> {
    queues: Vec<VecDeque<Held>>,
    room: usize,
    network: &'a Network,
}

impl Buffers<'_> {
    fn has_room(&self, link: u32) -> bool {
        self.queues[link as usize].len() < self.room
    }

    fn push(&mut self, link: u32, held: Held, hosts: &mut Hosts<'_>, now: Picos) {
        let queue = &mut self.queues[link as usize];
        queue.push_back(held);
        let bytes = u64::from(held.message.bytes);
        let kind = Cause(self.network.links[link as usize].stage);
        hosts.meter().filled(kind, bytes, queue.len() as u64 * bytes, now);
    }

    /// Moves the first message at the end of `input` to the end of `output`, in the slot (number, length).
    fn go_on(&mut self, input: u32, output: u32, slot: (u64, Picos), hosts: &mut Hosts<'_>) {
        let held = self.queues[input as usize].pop_front().expect("what has won is in the queue");
        let stage = self.network.links[input as usize].stage;
        let now = Picos(slot.0.saturating_mul(slot.1.0));
        let end = now + slot.1;
        hosts.meter().drained(Cause(stage), u64::from(held.message.bytes), now);
        hosts.meter().waited(Cause(stage), Picos(held.since.saturating_mul(slot.1.0)), now);
        if stage == 0 {
            hosts.sent(&held.message, end);
        }
        match self.network.links[output as usize].to {
            LinkEnd::Endpoint(EndpointId(_)) => hosts.delivered(&held.message, end),
            LinkEnd::Switch(_) => self.push(output, Held { since: slot.0 + 1, ..held }, hosts, now),
        }
    }
}
