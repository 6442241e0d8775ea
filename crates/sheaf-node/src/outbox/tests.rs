//! Repetitions that a slow link is spared.

use super::*;
use sheaf_protocol::Identity;
use sheaf_wire::message::{Command, MirrorStep};
use sheaf_wire::{Nanos, RunNumber, SessionId};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// A link that takes a limited number of further frames, and those that it took.
#[derive(Default)]
struct Line {
    room: usize,
    took: Vec<Frame>,
}

struct Narrow(Arc<Mutex<Line>>);

impl Endpoint for Narrow {
    fn node(&self) -> NodeId {
        NodeId::builder(0)
    }

    fn send(&mut self, _to: NodeId, frame: Frame) -> Result<(), SendError> {
        let mut link = self.0.lock().expect("nobody panicked");
        if link.room == 0 {
            return Err(SendError::Full(frame));
        }
        link.room -= 1;
        link.took.push(frame);
        Ok(())
    }

    fn flush(&mut self) {}

    fn poll(&mut self) -> Option<Event> {
        None
    }

    fn wait(&mut self, _timeout: Nanos) {}

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }

    fn stats(&self) -> LinkStats {
        LinkStats::default()
    }

    fn close(&mut self, _linger: Nanos) {}
}

const ME: Identity = Identity { node: NodeId::builder(0), run: RunNumber(1), session: SessionId(1) };

/// A message to the event manager with its sequence number and its acknowledgement.
fn transmit(sequence: u64, acknowledged: u64) -> Transmit<Bytes> {
    let body = if sequence == 0 { Body::Acknowledge } else { Body::Command(Command::Start) };
    let mut message = ME.plain(body);
    (message.header.sequence, message.header.acknowledged) = (sequence, acknowledged);
    Transmit { to: NodeId::MANAGER, message }
}

/// Headers of the messages that arrive of those that were sent while the link took nothing.
fn arrived_of(sent: impl IntoIterator<Item = Transmit<Bytes>>) -> Vec<Message<Bytes>> {
    let link = Arc::new(Mutex::new(Line::default()));
    let mut outbox = Outbox::new(Box::new(Narrow(link.clone())), ME.session);
    sent.into_iter().for_each(|transmit| outbox.send(transmit));
    link.lock().expect("nobody panicked").room = 100;
    outbox.flush();
    assert_eq!(outbox.stats().dropped_frames, 0);
    let took = std::mem::take(&mut link.lock().expect("nobody panicked").took);
    took.into_iter().map(|frame| Arriving::decode(frame).expect("it was a message")).collect()
}

/// Numbers and acknowledgements that arrive of those that were sent while the link took nothing.
fn arrived(sent: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let messages = arrived_of(sent.iter().map(|(sequence, acknowledged)| transmit(*sequence, *acknowledged)));
    messages.iter().map(|message| (message.header.sequence, message.header.acknowledged)).collect()
}

/// A message of the channel with session `receiver` of the peer.
fn numbered(receiver: u64, sequence: u64) -> Transmit<Bytes> {
    let mut transmit = transmit(sequence, 0);
    transmit.message.header.acknowledged_session = SessionId(receiver);
    transmit
}

fn plain(body: Body<Bytes>) -> Transmit<Bytes> {
    Transmit { to: NodeId::MANAGER, message: ME.plain(body) }
}

/// Sessions of the receiver, and numbers, of the messages that arrive of these.
fn channels_of(sent: impl IntoIterator<Item = Transmit<Bytes>>) -> Vec<(u64, u64)> {
    let headers = arrived_of(sent).into_iter().map(|message| message.header);
    headers.map(|header| (header.acknowledged_session.0, header.sequence)).collect()
}

#[test]
fn a_repeated_message_that_waits_still_replaces_itself() {
    assert_eq!(arrived(&[(1, 0), (2, 0), (1, 4), (3, 4), (2, 5), (1, 6)]), [(1, 6), (2, 5), (3, 4)]);
}

#[test]
fn of_acknowledgements_that_follow_on_one_another_the_last_is_sent() {
    assert_eq!(arrived(&[(0, 1), (0, 2), (1, 2), (0, 3), (0, 4)]), [(0, 2), (1, 2), (0, 4)]);
}

#[test]
fn a_message_to_a_new_session_does_not_replace_one_to_the_earlier() {
    let sent = [(5, 1), (5, 2), (6, 1), (6, 2), (6, 1)].map(|(session, number)| numbered(session, number));
    assert_eq!(channels_of(sent), [(5, 1), (5, 2), (6, 1), (6, 2)]);
}

#[test]
fn a_repetition_after_the_peer_was_met_replaces_the_message_that_waits() {
    let sent = [(0, 1), (0, 2), (5, 1), (5, 1)].map(|(session, number)| numbered(session, number));
    assert_eq!(channels_of(sent), [(5, 1), (0, 2)]);
}

#[test]
fn the_end_of_a_session_does_not_wait_behind_its_messages() {
    let fence = || plain(Body::Fence(SessionId(5)));
    let sent = [numbered(5, 1), numbered(5, 2), plain(Body::Command(Command::Close)), fence(), fence()];
    let bodies: Vec<_> = arrived_of(sent).into_iter().map(|message| message.body).collect();
    assert_eq!(bodies, [Body::Command(Command::Close), Body::Fence(SessionId(5))]);
    let sent = [numbered(5, 1), numbered(6, 1), fence(), numbered(6, 2), numbered(6, 1)];
    assert_eq!(channels_of(sent), [(6, 1), (0, 0), (6, 2)]);
}

fn answer(builder: u16) -> Transmit<Bytes> {
    let message = Identity { node: NodeId::readout(0), ..ME }.plain(Body::SuperFragments(Default::default()));
    Transmit { to: NodeId::builder(builder), message }
}

#[test]
fn a_builder_unit_whose_link_is_full_has_room_again_when_frames_have_left() {
    let link = Arc::new(Mutex::new(Line::default()));
    let mut outbox = Outbox::new(Box::new(Narrow(link.clone())), ME.session);
    let mut waiting = 0;
    while outbox.has_room(0) {
        outbox.send(answer(0));
        waiting += 1;
    }
    assert_eq!(waiting, WAITING_ANSWERS);
    assert!(outbox.has_room(1), "another link has room");
    outbox.flush();
    assert!(!outbox.take_room_made(), "nothing has left");
    link.lock().expect("nobody panicked").room = 1;
    outbox.flush();
    assert!(outbox.take_room_made() && outbox.has_room(0));
    assert!(!outbox.take_room_made(), "it was said");
}

#[test]
fn a_step_about_a_readout_unit_and_its_mirror_is_for_the_one_that_has_asked() {
    let (unit, mirror) = (NodeId::readout(0), NodeId::mirror(0));
    let mut outbox = Outbox::new(Box::new(Narrow(Arc::default())), ME.session);
    outbox.know_mirrors(ME);
    let greeting = Identity { node: unit, session: SessionId(5), ..ME }.plain::<Bytes>(Body::Acknowledge);
    assert!(outbox.admit_unit(mirror, greeting).is_some(), "the mirror acts");
    let receiver = |body| outbox.address(Transmit { to: unit, message: ME.plain::<Bytes>(body) }).to;
    assert_eq!(receiver(Body::Acknowledge), mirror);
    assert_eq!(receiver(Body::Mirror(MirrorStep::Superseded)), unit);
}
