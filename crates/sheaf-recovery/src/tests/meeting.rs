//! Connections between nodes and their sessions.

use super::small;
use super::world::{Change, End, Faults, World, messages};
use crate::{Down, Refused, Settings};
use sheaf_wire::datagram::GreetingRefusal;
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId};

/// The second end dies, and lives again with these.
fn restart(world: &mut World, run: u32, session: u64, settings: &Settings) {
    world.ends[1] = End::new(NodeId::builder(0), run, session, NodeId::readout(0), settings, world.now);
}

#[test]
fn a_later_session_takes_the_link_over_and_nothing_of_the_earlier_one_arrives() {
    let mut world = World::met(1, small(), Faults { loss: 100, ..Faults::default() });
    world.recorded = Some(Vec::new());
    world.carry(0, &messages(1, 20, 4_000));
    for message in messages(2, 10, 16_000) {
        assert!(world.send(0, &message).is_ok());
    }
    let settings = world.settings;
    restart(&mut world, 7, 201, &settings);
    world.until("the new life", |world| world.ends.iter().all(|end| end.link.is_up()));
    assert_eq!(world.ends[0].changes, [Change::Up, Change::Down(Down::Replaced), Change::Up]);
    assert!(world.counts()[0].messages_lost > 0);
    // Everything from the earlier session is replayed.
    for (to, rail, bytes) in world.recorded.take().unwrap_or_default() {
        world.inject(to, rail, &bytes);
    }
    assert!(world.ends[1].received.is_empty(), "nothing of the earlier life");
    assert!(world.counts()[1].stale > 10 && world.counts()[0].stale > 0);
    assert!(world.ends.iter().all(|end| end.link.is_up()), "the link stays up");
    world.carry(0, &messages(3, 20, 4_000));
}

#[test]
fn an_earlier_session_is_refused() {
    let mut world = World::met(1, small(), Faults::default());
    let settings = world.settings;
    restart(&mut world, 7, 199, &settings);
    world.pass(Nanos::from_millis(100));
    let refused =
        Refused::Greeting { why: GreetingRefusal::Stale, run: RunNumber(7), session: SessionId(199) };
    assert!(world.ends[1].changes.contains(&Change::Refused(refused)));
    assert!(!world.ends[1].link.is_up());
    assert_eq!(world.ends[0].changes, [Change::Up]);
}

#[test]
fn nodes_that_do_not_fit_say_why() {
    let settings = small();
    let cases = [
        (8, settings, GreetingRefusal::WrongRun),
        (7, Settings { rails: 2, ..settings }, GreetingRefusal::WrongRails),
        (7, Settings { datagram_bytes: 500, ..settings }, GreetingRefusal::WrongDatagramBytes),
    ];
    for (run, other, why) in cases {
        let mut world = World::new(1, settings, Faults::default());
        restart(&mut world, run, 200, &other);
        world.pass(Nanos::from_millis(200));
        let said = |change: &Change| matches!(change, Change::Refused(Refused::Greeting { why: told, .. }) if *told == why);
        for end in &world.ends {
            assert!(end.changes.iter().any(said), "{:?}", end.changes);
            assert!(!end.link.is_up());
        }
    }
}

#[test]
fn a_path_that_only_short_datagrams_pass_is_told() {
    let mut world = World::new(1, small(), Faults { narrow: 300, ..Faults::default() });
    world.pass(Nanos::from_secs(20));
    let told = Change::Refused(Refused::FullSize { rail: 0, bytes: 512 });
    for end in &world.ends {
        assert_eq!(end.changes, [told], "once");
    }
    world.faults.narrow = 0;
    world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
}

#[test]
fn who_may_not_ask_yet_answers_all_the_same_and_asks_when_it_may() {
    let mut world = World::new(1, small(), Faults::default());
    let later = world.now + Nanos::from_secs(1);
    world.ends[0].link.ask_not_before(later);
    world.recorded = Some(Vec::new());
    world.pass(Nanos::from_millis(990));
    let sent = world.recorded.take().unwrap_or_default();
    let size = world.settings.datagram_bytes;
    assert!(sent.iter().any(|(to, _, bytes)| *to == 1 && bytes.len() < size), "answers");
    assert!(!sent.iter().any(|(to, _, bytes)| *to == 1 && bytes.len() >= size), "no questions");
    world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
    assert!(world.now >= later, "a link is up when both have asked");
}

#[test]
fn a_silent_peer_is_lost_and_met_again_when_it_is_heard() {
    let settings = Settings { dead_peer: Nanos::from_secs(1), ..small() };
    let mut world = World::met(1, settings, Faults::default());
    world.pass(Nanos::from_secs(10));
    assert!(world.ends.iter().all(|end| end.changes == [Change::Up]), "silence without messages is no death");
    assert!(world.send(0, &messages(1, 1, 100)[0]).is_ok());
    world.faults.loss = 1000;
    world.until("both to notice", |world| world.ends.iter().all(|end| !end.link.is_up()));
    world.faults.loss = 0;
    world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
    for end in &world.ends {
        assert_eq!(end.changes, [Change::Up, Change::Down(Down::Lost), Change::Up]);
    }
    assert_eq!(world.counts()[0].messages_lost, 1);
    world.carry(0, &messages(2, 50, 4_000));
    assert_eq!(world.ends[1].link.counts().links_up, 2);
}

#[test]
fn one_end_that_takes_the_other_for_lost_is_met_again() {
    let settings = Settings { dead_peer: Nanos::from_secs(1), ..small() };
    for loser in [0, 1] {
        let mut world = World::met(1, settings, Faults::default());
        let now = world.now;
        world.ends[loser].link.abandon(now);
        assert!(world.ends[loser].link.is_over(), "this end is gone for good");
        world.until("the other to notice", |world| !world.ends[1 - loser].link.is_up());
    }
}

#[test]
fn a_node_that_was_held_up_itself_does_not_take_its_peer_for_lost() {
    let settings = Settings { dead_peer: Nanos::from_secs(1), ..small() };
    let mut world = World::met(1, settings, Faults::default());
    world.now += Nanos::from_secs(5);
    world.step(Nanos::from_millis(1));
    world.pass(Nanos::from_millis(100));
    assert!(world.ends.iter().all(|end| end.changes == [Change::Up]));
}
