use super::super::link::{Order, Taken};
use super::super::sequence::{Incoming, Outgoing, SequenceError, Window};
use bytes::Bytes;
use proptest::prelude::*;
use sheaf_transport::Frame;
use std::collections::VecDeque;

const WINDOW: Window = Window { frames: 16, bytes: 400 };

fn frame(number: u64) -> Frame {
    let bytes = vec![number as u8; 1 + number as usize % 40];
    Frame::new(Bytes::copy_from_slice(&number.to_le_bytes()), [Bytes::from(bytes)])
}

/// Step of a network with several rails.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The sender has another frame.
    Send,
    /// A rail takes the next frame.
    Load(usize),
    /// The first frame on a rail arrives.
    Arrive(usize),
    /// The receiver acknowledges; the acknowledgement arrives at once, or is lost with its rail.
    Acknowledge(bool),
    /// A rail is lost with all that is on it, and another takes its place.
    Lose(usize),
}

const RAILS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Send),
        8 => (0..RAILS).prop_map(Step::Load),
        8 => (0..RAILS).prop_map(Step::Arrive),
        4 => prop::bool::weighted(0.8).prop_map(Step::Acknowledge),
        1 => (0..RAILS).prop_map(Step::Lose),
    ]
}

struct World {
    outgoing: Outgoing,
    incoming: Incoming,
    rails: Vec<VecDeque<(u64, Frame)>>,
    sent: u64,
    taken: u64,
    wire: u64,
}

impl World {
    fn new() -> Self {
        Self {
            outgoing: Outgoing::new(WINDOW),
            incoming: Incoming::new(WINDOW),
            rails: vec![VecDeque::new(); RAILS],
            sent: 0,
            taken: 0,
            wire: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send => {
                let bytes = frame(self.sent).bytes();
                match self.outgoing.push(frame(self.sent), bytes) {
                    Ok(()) => self.sent += 1,
                    Err(back) => assert_eq!(back, frame(self.sent), "what is refused is given back"),
                }
                assert!(self.outgoing.frames() <= WINDOW.frames as u64);
            }
            Step::Load(rail) => {
                if let Some((number, frame, bytes)) = self.outgoing.next(rail) {
                    assert_eq!(bytes, frame.bytes());
                    self.rails[rail].push_back((number, frame));
                    self.wire += 1;
                }
            }
            Step::Arrive(rail) => {
                if let Some((number, frame)) = self.rails[rail].pop_front() {
                    self.incoming.accept(number, frame).expect("an honest sender stays in the window");
                    self.take();
                }
            }
            Step::Acknowledge(arrives) => {
                if let Some(up_to) = self.incoming.due() {
                    self.incoming.note_reported(up_to);
                    if arrives {
                        self.outgoing.acknowledge(up_to).expect("only what was sent is acknowledged");
                    }
                }
            }
            Step::Lose(rail) => {
                self.rails[rail].clear();
                self.outgoing.rail_lost(rail);
                self.incoming.tell_again();
            }
        }
    }

    fn take(&mut self) {
        while let Some(got) = self.incoming.pop() {
            assert_eq!(got, frame(self.taken), "in order, whole and once");
            self.taken += 1;
        }
    }

    /// Lets the network do its work without further losses.
    fn settle(&mut self) {
        let mut rounds = 0;
        while self.taken < self.sent || !self.outgoing.is_empty() {
            for rail in 0..RAILS {
                self.step(Step::Load(rail));
                self.step(Step::Arrive(rail));
            }
            self.incoming.tell_again();
            self.step(Step::Acknowledge(true));
            rounds += 1;
            assert!(rounds < 1000, "{} of {} arrived", self.taken, self.sent);
        }
    }
}

#[test]
fn a_frame_that_comes_again_while_its_twin_waits_needs_no_room() {
    let mut incoming = Incoming::new(WINDOW);
    let large = || Frame::new(Bytes::new(), [Bytes::from(vec![0; WINDOW.bytes / 2 + 1])]);
    assert_eq!(incoming.accept(3, large()), Ok(true), "it waits for what is before it");
    assert_eq!(incoming.accept(3, large()), Ok(false), "it was resent, because its rail was lost");
    assert!(incoming.accept(4, large()).is_err(), "another one has no room");
}

proptest! {
    #[test]
    fn whatever_rails_are_lost_every_frame_arrives_in_order_and_once(
        steps in prop::collection::vec(step(), 0..600),
    ) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        world.settle();
        prop_assert_eq!(world.taken, world.sent);
        prop_assert!(!world.incoming.is_waiting());
        prop_assert!(world.wire >= world.sent);
    }

    #[test]
    fn no_peer_makes_the_order_panic_or_hold_more_than_its_window(
        frames in prop::collection::vec((0..40_u64, 0..50_usize, any::<bool>()), 0..200),
    ) {
        let mut order = Order { outgoing: Outgoing::new(WINDOW), incoming: Incoming::new(WINDOW) };
        let mut held = 0_usize;
        for (number, bytes, is_acknowledgement) in frames {
            let mut head = Vec::new();
            if is_acknowledgement {
                head.extend(u64::MAX.to_le_bytes());
            }
            head.extend(number.to_le_bytes());
            head.extend(vec![0; bytes]);
            match order.take(Frame::new(Bytes::from(head), [])) {
                Ok(Taken::Held) => held += 1,
                Ok(Taken::InVain | Taken::Acknowledged(_) | Taken::Farewell) => {}
                Err(_) => break,
            }
            while order.incoming.pop().is_some() {
                held -= 1;
            }
            prop_assert!(held <= WINDOW.frames);
        }
    }
}

#[test]
fn what_was_lost_with_a_rail_goes_first() {
    let mut outgoing = Outgoing::new(WINDOW);
    (0..6).for_each(|number| outgoing.push(frame(number), frame(number).bytes()).expect("there is room"));
    let numbers = |outgoing: &mut Outgoing, rail| outgoing.next(rail).map(|(number, ..)| number);
    for (rail, number) in [(0, 0), (1, 1), (0, 2), (1, 3)] {
        assert_eq!(numbers(&mut outgoing, rail), Some(number));
    }
    assert_eq!(outgoing.acknowledge(1), Ok(true));
    assert_eq!(outgoing.rail_lost(0), 1, "frame 0 has arrived; 2 has not");
    assert_eq!(outgoing.rail_lost(0), 0, "it is on no rail now");
    assert_eq!(outgoing.rail_lost(1), 2);
    let next: Vec<_> = std::iter::from_fn(|| numbers(&mut outgoing, 2)).collect();
    assert_eq!(next, [1, 2, 3, 4, 5]);
    assert_eq!(outgoing.acknowledge(6), Ok(true));
    assert!(outgoing.is_empty());
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_is_a_violation() {
    let mut outgoing = Outgoing::new(WINDOW);
    outgoing.push(frame(0), frame(0).bytes()).expect("there is room");
    assert_eq!(outgoing.acknowledge(1), Err(SequenceError::NotSent { up_to: 1, sent: 0 }));
    outgoing.next(0);
    assert_eq!(outgoing.acknowledge(1), Ok(true));
    assert_eq!(outgoing.acknowledge(1), Ok(false), "an old word says nothing new");
}

#[test]
fn a_frame_beyond_the_window_is_a_violation_and_one_from_before_is_not() {
    let mut incoming = Incoming::new(WINDOW);
    assert_eq!(incoming.accept(16, frame(16)), Err(SequenceError::OutsideWindow { number: 16, next: 0 }));
    assert_eq!(incoming.accept(15, frame(15)), Ok(true));
    assert_eq!(incoming.accept(15, frame(15)), Ok(false));
    assert!(incoming.is_waiting() && incoming.pop().is_none());
    assert_eq!(incoming.accept(0, frame(0)), Ok(true));
    assert_eq!(incoming.pop(), Some(frame(0)));
    assert_eq!(incoming.accept(0, frame(0)), Ok(false));
    assert_eq!(incoming.due(), Some(1));
}
