//! The key of a run: a node without it, with another one, or with a recording gets nothing.

use super::small;
use super::world::{Change, End, Faults, Mixer, World, messages};
use crate::{Down, Origin, Refused, Sender};
use sheaf_wire::datagram::{GreetingRefusal, HEAD_BYTES, Kind, View};
use sheaf_wire::{Nanos, NodeId, SessionId};

/// A stranger's datagrams come from elsewhere.
const ELSEWHERE: Origin = Origin { rail: 0, is_home: false, ends_earlier: false };

/// The second end is another one from now on, with this session and key.
fn replace(world: &mut World, session: u64, key: Option<u64>) {
    let (settings, now) = (world.settings, world.now);
    let mut end = End::new(NodeId::builder(0), 7, session, NodeId::readout(0), &settings, now);
    if let Some(key) = key {
        end = end.with_key(Mixer(key), session);
    }
    world.ends[1] = end;
}

fn keyed(seed: u64, faults: Faults) -> World {
    let mut world = World::new(seed, small(), faults).with_key(Mixer(5));
    world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
    world
}

#[test]
fn two_that_have_the_key_meet_and_carry_messages_whatever_the_network_does() {
    for seed in 0..20 {
        let faults = Faults { loss: 150, duplicate: 100, reorder: 200, ..Faults::default() };
        let mut world = keyed(seed, faults);
        world.carry(0, &messages(seed, 20, 4_000));
        world.carry(1, &messages(seed + 1, 20, 4_000));
        assert!(world.ends.iter().all(|end| end.ways() == [Change::Up]));
    }
}

#[test]
fn without_the_key_or_with_another_one_nobody_meets_and_both_are_told_why() {
    let cases = [(None, GreetingRefusal::KeyOnOneSide), (Some(6), GreetingRefusal::WrongKey)];
    for (key, why) in cases {
        let mut world = World::new(1, small(), Faults::default()).with_key(Mixer(5));
        replace(&mut world, 200, key);
        world.pass(Nanos::from_secs(2));
        let told = |change: &Change| matches!(change, Change::Refused(Refused::Greeting { why: it, .. }) if *it == why);
        for end in &world.ends {
            assert!(!end.changes.is_empty() && end.changes.iter().all(told), "{:?}", end.changes);
            assert!(end.link.counts().refused > 0);
        }
    }
}

#[test]
fn a_stranger_of_any_session_does_not_disturb_a_link_that_is_up() {
    for key in [None, Some(6)] {
        let mut world = keyed(1, Faults::default());
        let mut stranger = World::new(2, small(), Faults::default());
        stranger.recorded = Some(Vec::new());
        replace(&mut stranger, u64::MAX, key);
        stranger.pass(Nanos::from_secs(1));
        let said: Vec<_> = stranger.recorded.take().unwrap_or_default();
        assert!(said.iter().any(|(to, ..)| *to == 0));
        for (_, _, bytes) in said.iter().filter(|(to, ..)| *to == 0) {
            for origin in [ELSEWHERE, Origin::home(0)] {
                assert_eq!(world.inject_from(0, origin, bytes), Sender::Unknown, "no answer goes there");
            }
        }
        world.carry(0, &messages(1, 20, 4_000));
        assert_eq!(world.ends[0].ways(), [Change::Up], "the link stays up");
        assert!(world.counts()[0].refused > 0, "and it is counted");
    }
}

#[test]
fn what_was_recorded_changes_nothing_in_this_life_or_a_later_one() {
    let mut world = World::new(1, small(), Faults::default()).with_key(Mixer(5));
    world.recorded = Some(Vec::new());
    world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
    world.carry(1, &messages(1, 20, 4_000));
    let mut recorded = world.recorded.take().unwrap_or_default();
    for life in 0..2 {
        let before = world.counts();
        for (to, rail, bytes) in recorded.iter().filter(|(to, ..)| *to == 0) {
            let sender = world.inject_from(*to, Origin { rail: *rail, ..ELSEWHERE }, bytes);
            assert_ne!(sender, Sender::IsPeer, "nothing is sent where a recording came from");
        }
        assert!(world.ends[0].received.is_empty(), "no message comes twice");
        assert!(world.counts()[0].stale > before[0].stale);
        world.carry(0, &messages(2, 5, 4_000));
        assert!(world.ends[0].link.is_up());
        if life == 0 {
            // The recorded node has gone, and its peer has a new session.
            let (settings, now) = (world.settings, world.now);
            let anew = End::new(NodeId::readout(0), 7, 300, NodeId::builder(0), &settings, now);
            world.ends[0] = anew.with_key(Mixer(5), 300);
            for (to, rail, bytes) in recorded.iter().filter(|(to, ..)| *to == 0) {
                let sender = world.inject_from(*to, Origin::home(*rail), bytes);
                assert_ne!(sender, Sender::IsPeer, "a recording meets nobody");
            }
            assert!(world.ends[0].changes.is_empty() && !world.ends[0].link.is_up());
            world.until("the new life", |world| world.ends.iter().all(|end| end.link.is_up()));
            recorded.truncate(recorded.len());
        }
    }
}

#[test]
fn a_proof_covers_everything_that_is_said_and_to_whom() {
    let mut world = World::new(1, small(), Faults::default()).with_key(Mixer(5));
    world.recorded = Some(Vec::new());
    world.step(Nanos::from_micros(1));
    let recorded = world.recorded.take().unwrap_or_default();
    let question = recorded.into_iter().find(|(to, ..)| *to == 0).expect("it asks").2;
    let heads = View::new(&question).map(|view| question.len() - view.body().len()).expect("a question");
    for at in HEAD_BYTES..heads {
        let mut changed = question[..heads].to_vec();
        changed[at] ^= 1;
        sheaf_wire::datagram::fuzz::reseal(&mut changed, sheaf_wire::datagram::Key::OPEN);
        assert_eq!(world.inject_from(0, ELSEWHERE, &changed), Sender::Unknown, "byte {at}");
    }
    assert_eq!(world.inject_from(0, ELSEWHERE, &question[..heads]), Sender::Asks);
    let reflected = world.inject_from(1, ELSEWHERE, &question[..heads]);
    assert_eq!(reflected, Sender::Unknown, "it was not for its maker");
}

#[test]
fn a_question_that_proves_nothing_gets_an_answer_no_longer_than_itself() {
    let mut world = World::new(1, small(), Faults::default()).with_key(Mixer(5));
    world.step(Nanos::from_micros(1));
    world.recorded = Some(Vec::new());
    world.pass(Nanos::from_secs(1));
    let recorded = world.recorded.take().unwrap_or_default();
    let of = |kind: Kind| {
        let bytes =
            recorded.iter().filter(move |it| View::new(&it.2).is_ok_and(|view| view.head().kind == kind));
        bytes.map(|it| it.2.len())
    };
    let shortest = of(Kind::Question).min().expect("questions");
    assert!(of(Kind::Answer).all(|bytes| bytes <= shortest));
}

#[test]
fn a_live_link_keeps_its_place_until_the_peer_is_proven_dead() {
    for key in [None, Some(5)] {
        let mut world = match key {
            Some(key) => World::new(1, small(), Faults::default()).with_key(Mixer(key)),
            None => World::new(1, small(), Faults::default()),
        };
        world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
        // The same node is started a second time, elsewhere.
        let (settings, now) = (world.settings, world.now);
        let mut rival = End::new(NodeId::builder(0), 7, 201, NodeId::readout(0), &settings, now);
        if let Some(key) = key {
            rival = rival.with_key(Mixer(key), 201);
        }
        rival.is_elsewhere = true;
        world.rival = Some(rival);
        world.pass(Nanos::from_secs(10));
        assert_eq!(world.ends[0].ways(), [Change::Up], "the first keeps its place");
        let in_use = |change: &Change| {
            matches!(change, Change::Refused(Refused::Greeting { why: GreetingRefusal::InUse, .. }))
        };
        let rival = world.rival.as_ref().expect("it asks on");
        assert!(rival.changes.iter().all(in_use) && !rival.changes.is_empty(), "{:?}", rival.changes);
        world.carry(0, &messages(1, 20, 4_000));
        // The first dies without a farewell: the second takes its place.
        world.ends[1] = world.rival.take().expect("it asks on");
        let began = world.now;
        world.until("the second", |world| world.ends.iter().all(|end| end.link.is_up()));
        assert_eq!(world.ends[0].ways(), [Change::Up, Change::Down(Down::Replaced), Change::Up]);
        assert!(world.now.since(began) < settings.dead_peer, "sooner than by silence alone");
        world.carry(0, &messages(2, 20, 4_000));
    }
}

#[test]
fn a_session_of_the_far_future_is_refused_and_shuts_nobody_out() {
    for key in [None, Some(5)] {
        let mut world = World::new(1, small(), Faults::default());
        if let Some(key) = key {
            world = world.with_key(Mixer(key));
        }
        world.ends[0].link.bound_sessions(SessionId(1_000));
        replace(&mut world, 5_000, key);
        world.pass(Nanos::from_secs(1));
        let future = |change: &Change| {
            matches!(change, Change::Refused(Refused::Greeting { why: GreetingRefusal::Future, .. }))
        };
        assert!(world.ends.iter().all(|end| end.changes.iter().any(future) && !end.link.is_up()));
        replace(&mut world, 300, key);
        world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
    }
}
