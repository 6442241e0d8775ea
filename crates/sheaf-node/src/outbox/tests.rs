//! Repetitions that a slow link is spared.

use super::*;
use sheaf_protocol::Identity;
use sheaf_wire::message::Command;
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

/// Numbers and acknowledgements that arrive of those that were sent while the link took nothing.
fn arrived(sent: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let link = Arc::new(Mutex::new(Line::default()));
    let mut outbox = Outbox::new(Box::new(Narrow(link.clone())));
    for (sequence, acknowledged) in sent {
        outbox.send(transmit(*sequence, *acknowledged));
    }
    link.lock().expect("nobody panicked").room = 100;
    outbox.flush();
    assert_eq!(outbox.stats().dropped_frames, 0);
    let took = std::mem::take(&mut link.lock().expect("nobody panicked").took);
    took.into_iter()
        .map(|frame| <Bytes as Arriving>::decode(frame).expect("it was a message").header)
        .map(|header| (header.sequence, header.acknowledged))
        .collect()
}

#[test]
fn a_repeated_message_that_waits_still_replaces_itself() {
    assert_eq!(arrived(&[(1, 0), (2, 0), (1, 4), (3, 4), (2, 5), (1, 6)]), [(1, 6), (2, 5), (3, 4)]);
}

#[test]
fn of_acknowledgements_that_follow_on_one_another_the_last_is_sent() {
    assert_eq!(arrived(&[(0, 1), (0, 2), (1, 2), (0, 3), (0, 4)]), [(0, 2), (1, 2), (0, 4)]);
}
