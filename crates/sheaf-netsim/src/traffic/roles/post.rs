//! Messages on their way, and those that wait for a network interface.

use super::agenda::{Agenda, Happening};
use super::settings::Settings;
use super::{Descriptor, length, picos, timestamp};
use crate::network::EndpointId;
use crate::traffic::placement::Roster;
use crate::traffic::{Message as Frame, Next, Wake};
use crate::units::Picos;
use sheaf_protocol::Transmit;
use sheaf_shaping::Lanes;
use sheaf_wire::message::{Body, Message};
use sheaf_wire::{ByteCount, NodeId, Role, Timestamp};
use std::collections::VecDeque;

/// A message that has not arrived.
#[derive(Debug)]
struct Parcel {
    to: NodeId,
    message: Message<Descriptor>,
}

/// Parcels that wait for the network interface of one endpoint.
#[derive(Clone, Debug, Default)]
struct Outgoing {
    /// Without payload: they go first.
    control: VecDeque<u32>,
    data: VecDeque<u32>,
    /// In place of that: super-fragments that wait for their slot, by builder unit.
    lanes: Option<Lanes<u32>>,
    /// It had nothing to send when it was asked.
    is_asleep: bool,
}

impl Outgoing {
    /// The parcel that goes next.
    fn next(&mut self, now: Timestamp) -> Option<u32> {
        if let Some(parcel) = self.control.pop_front() {
            return Some(parcel);
        }
        match &mut self.lanes {
            Some(lanes) => {
                let (builder, parcel, wire) = lanes.pop(now)?;
                lanes.sent(now, builder, wire);
                Some(parcel)
            }
            None => self.data.pop_front(),
        }
    }

    /// Everything that waits.
    fn take_all(&mut self) -> Vec<u32> {
        let mut all: Vec<u32> = self.control.drain(..).chain(self.data.drain(..)).collect();
        if let Some(lanes) = &mut self.lanes {
            (0..lanes.peers()).for_each(|peer| all.extend(lanes.take(peer)));
        }
        all
    }
}

/// The parcel that a message of the network carries.
pub(super) fn parcel_of(frame: &Frame) -> u32 {
    u32::try_from(frame.token).expect("messages carry the tokens that they were given")
}

#[derive(Debug)]
pub(super) struct Post {
    roster: Roster,
    /// One-way time of a network for everything but super-fragments.
    control: Option<Picos>,
    /// Endpoint of the event manager.
    manager: Option<EndpointId>,
    parcels: Vec<Option<Parcel>>,
    free: Vec<u32>,
    /// By endpoint.
    outgoing: Vec<Outgoing>,
    frames: Frames,
}

/// Division of messages into frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frames {
    /// Bytes on the wire of a frame that are not payload.
    pub(super) overhead: u32,
    /// The largest payload of a frame.
    pub(super) payload: Option<u32>,
}

impl Frames {
    /// Returns the bytes that a message of `bytes` occupies on the wire.
    pub(super) fn wire(self, bytes: u64) -> u64 {
        let frames = self.payload.map_or(1, |payload| bytes.div_ceil(u64::from(payload.max(1))));
        bytes + frames * u64::from(self.overhead)
    }
}

impl Post {
    pub(super) fn new(roster: Roster, control: Option<Picos>) -> Self {
        let outgoing = vec![Outgoing::default(); roster.endpoints()];
        let manager = control.is_none().then(|| free_endpoint(&roster));
        let frames = Frames::default();
        Self { roster, control, manager, parcels: Vec::new(), free: Vec::new(), outgoing, frames }
    }

    /// Messages are cut to these frames, and those of readout units wait for their slots where there are any.
    pub(super) fn shape_frames(&mut self, frames: Frames, settings: &Settings) {
        self.frames = frames;
        let Some(config) = settings.shaper(|bytes| frames.wire(bytes)) else {
            return;
        };
        for index in 0..settings.readouts {
            let endpoint = self.endpoint_of(NodeId::readout(index));
            let lanes = Lanes::new(config, usize::from(settings.builders), usize::from(index));
            self.outgoing[endpoint.index()].lanes = Some(lanes);
        }
    }

    /// Sets the shaping of a readout unit from now on.
    pub(super) fn shape(
        &mut self,
        node: NodeId,
        turning: bool,
        epoch: Timestamp,
        now: Picos,
        wake: &mut Wake,
    ) {
        let endpoint = self.endpoint_of(node);
        if let Some(lanes) = &mut self.outgoing[endpoint.index()].lanes {
            lanes.shaper().turn_barrel(timestamp(now), turning);
            lanes.shaper().set_epoch(epoch);
            wake.sender(endpoint);
        }
    }

    /// The endpoint that the event manager sends from; nothing where control has a network of its own.
    pub(super) fn manager_at(&self) -> Option<EndpointId> {
        self.manager
    }

    /// The readout unit and the builder unit at an endpoint, as indices.
    pub(super) fn nodes_at(&self, endpoint: EndpointId) -> (Option<usize>, Option<usize>) {
        let index = |number: Option<u32>| number.map(|number| number as usize);
        (index(self.roster.source_at(endpoint)), index(self.roster.builder_at(endpoint)))
    }

    fn endpoint_of(&self, node: NodeId) -> EndpointId {
        match node.role {
            Role::Readout => self.roster.sources()[usize::from(node.index)],
            Role::Builder => self.roster.builders()[usize::from(node.index)],
            Role::Manager => {
                self.manager.expect("with a control network nothing is sent to the event manager's endpoint")
            }
            Role::Output | Role::Mirror => unreachable!("a simulated system has no output nodes or mirrors"),
        }
    }

    /// Takes a message of a machine.
    pub(super) fn send(
        &mut self,
        transmit: Transmit<Descriptor>,
        now: Picos,
        agenda: &mut Agenda,
        wake: &mut Wake,
    ) {
        let Transmit { to, message } = transmit;
        let from = message.header.sender;
        let is_data = matches!(message.body, Body::SuperFragments(_));
        let bytes = length::of(&message.body);
        let parcel = self.keep(Parcel { to, message });
        match self.control {
            Some(time) if !is_data => agenda.plan(now + time, Happening::Arrival(parcel)),
            _ => {
                let endpoint = self.endpoint_of(from);
                let outgoing = &mut self.outgoing[endpoint.index()];
                match &mut outgoing.lanes {
                    Some(lanes) if is_data => {
                        let wire = ByteCount(self.frames.wire(u64::from(bytes)));
                        lanes.push(timestamp(now), usize::from(to.index), parcel, wire);
                    }
                    _ if is_data => outgoing.data.push_back(parcel),
                    _ => outgoing.control.push_back(parcel),
                }
                if std::mem::take(&mut outgoing.is_asleep) {
                    wake.sender(endpoint);
                }
            }
        }
    }

    fn keep(&mut self, parcel: Parcel) -> u32 {
        if let Some(index) = self.free.pop() {
            self.parcels[index as usize] = Some(parcel);
            return index;
        }
        self.parcels.push(Some(parcel));
        u32::try_from(self.parcels.len() - 1).expect("messages on their way are far fewer than 2^32")
    }

    /// Removes a parcel that has arrived; returns its destination and its message.
    pub(super) fn take(&mut self, index: u32) -> (NodeId, Message<Descriptor>) {
        let parcel = self.parcels[index as usize].take().expect("a parcel comes to its end once");
        self.free.push(index);
        (parcel.to, parcel.message)
    }

    /// Returns the next parcel for the network interface of `sender`.
    pub(super) fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        let outgoing = &mut self.outgoing[sender.index()];
        let Some(index) = outgoing.next(timestamp(now)) else {
            outgoing.is_asleep = true;
            let slot = outgoing.lanes.as_ref().and_then(Lanes::poll_timeout);
            // Slots have whole nanoseconds; the network's time is finer.
            return slot.map_or(Next::Sleep, |at| Next::At(picos(at).max(now + Picos(1))));
        };
        let Parcel { to, message } =
            self.parcels[index as usize].as_ref().expect("what waits has not arrived");
        let bytes = length::of(&message.body);
        #[cfg(test)]
        assert_eq!(bytes, encoded_bytes(message), "{message:?}");
        let destination = self.endpoint_of(*to);
        Next::Send(Frame { source: sender, destination, bytes, token: u64::from(index), born: now })
    }

    /// Drops everything that waits for the network interface of a dead host.
    pub(super) fn forget(&mut self, endpoint: EndpointId) {
        for index in self.outgoing[endpoint.index()].take_all() {
            self.take(index);
        }
    }
}

/// The first endpoint that is neither source nor builder, or else the first of all.
fn free_endpoint(roster: &Roster) -> EndpointId {
    let is_free = |endpoint: &EndpointId| {
        roster.source_at(*endpoint).is_none() && roster.builder_at(*endpoint).is_none()
    };
    let endpoints = u32::try_from(roster.endpoints()).expect("endpoints are numbered by u32");
    (0..endpoints).map(EndpointId).find(is_free).unwrap_or(EndpointId(0))
}

/// Returns the encoded size of a message: the measure of [`length::of`].
#[cfg(test)]
fn encoded_bytes(message: &Message<Descriptor>) -> u32 {
    let (mut head, mut payload) = (Vec::new(), 0);
    message.clone().encode(&mut head, |piece: Descriptor| payload += piece.bytes);
    u32::try_from(head.len()).expect("heads are short") + payload
}
