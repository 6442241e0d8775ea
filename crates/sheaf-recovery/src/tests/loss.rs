//! Whatever is lost: every message, once, as it was sent.

use super::small;
use super::world::{Dice, Faults, Message, World, messages};
use crate::{MESSAGE_COST, NotTaken, Settings};
use proptest::prelude::*;
use sheaf_wire::datagram::HEAD_BYTES;
use sheaf_wire::datagram::layout::HEADS_UNIT;
use sheaf_wire::{ByteCount, Nanos};

fn faults() -> impl Strategy<Value = Faults> {
    (0..700_u64, 0..300_u64, 0..500_u64, 0..50_u64).prop_map(|(loss, duplicate, reorder, damage)| Faults {
        loss,
        duplicate,
        reorder,
        damage,
        ..Faults::default()
    })
}

proptest! {
    #[test]
    fn whatever_a_peer_sends_a_link_stays_within_its_bounds(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        crate::fuzz::fuzz_link(&bytes);
    }
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(24))]

    #[test]
    fn every_message_arrives_once_and_as_it_was_sent(
        seed in any::<u64>(), faults in faults(), rails in 1..4_usize, count in 1..150_u64, cuts: bool,
    ) {
        carry_all(World::met(seed, Settings { rails, ..small() }, faults), seed, count, cuts);
    }

    #[test]
    fn both_directions_at_once_settle_and_then_nothing_more_is_sent(seed in any::<u64>(), faults in faults()) {
        let mut world = World::met(seed, small(), faults);
        for message in messages(seed, 40, 1_000) {
            prop_assert_eq!(world.send(0, &message), Ok(()));
            prop_assert_eq!(world.send(1, &message), Ok(()));
        }
        world.until("all", |world| world.ends.iter().all(|end| end.received.len() == 40));
        world.until("all to be reported", |world| world.ends.iter().all(|end| end.link.unfinished() == 0));
        world.faults = Faults::default();
        world.pass(Nanos::from_millis(500));
        let before = world.counts();
        world.pass(Nanos::from_millis(1_500));
        for (before, after) in before.iter().zip(world.counts()) {
            prop_assert_eq!(before.datagrams_sent, after.datagrams_sent);
            prop_assert_eq!(before.reports_sent, after.reports_sent, "an idle link is silent");
        }
    }
}

/// Sends `count` messages one way and half as many the other way.
fn carry_all(mut world: World, seed: u64, count: u64, cuts: bool) {
    world.cuts = cuts;
    world.carry(0, &messages(seed, count, 16_000));
    world.carry(1, &messages(seed ^ 1, count / 2, 16_000));
    let most = world.settings.window.0 as usize;
    for end in &world.ends {
        assert!(end.most_held <= most, "{} bytes were held, {most} granted", end.most_held);
        assert_eq!(end.link.unfinished(), 0);
    }
    assert_eq!(world.ends[0].done as u64, count);
}

/// Two datagrams of three are lost.
#[test]
fn three_rails_that_lose_most_of_everything_stay_up() {
    let faults = Faults { loss: 659, duplicate: 233, reorder: 24, damage: 43, ..Faults::default() };
    let (seed, settings) = (4_533_990_834_599_636_573, Settings { rails: 3, ..small() });
    carry_all(World::met(seed, settings, faults), seed, 147, false);
}

/// Eight signs of life in 20 s, of which each arrives with a probability of 0.3, are all lost once in 17 times.
#[test]
fn an_idle_link_that_loses_most_of_everything_stays_up() {
    for rails in 1..=3 {
        let settings = Settings { rails, ..small() };
        let mut world = World::met(rails as u64, settings, Faults { loss: 700, ..Faults::default() });
        world.pass(Nanos::from_secs(20_000));
        let counts = world.counts();
        assert!(counts.iter().all(|end| end.links_down == 0), "{counts:?}");
    }
}

/// Bytes lost, retransmitted, and retransmitted in vain, of `messages` messages at a loss rate in thousandths.
fn repeated_over_lost(loss: u64, messages: u64) -> (u64, u64, u64) {
    let settings = Settings {
        datagram_bytes: 8_972,
        message_bytes: ByteCount::kib(64),
        flight: ByteCount::kib(512),
        window: ByteCount::mib(2),
        queue_messages: 1_000,
        queue: ByteCount::mib(2),
        ..small()
    };
    let mut world = World::met(9, settings, Faults { loss, ..Faults::default() });
    world.bytes_lost = 0;
    let messages: Vec<Message> =
        (0..messages).map(|seed| Message { seed, head: 40, payload: 2_048 }).collect();
    for batch in messages.chunks(500) {
        world.carry(0, batch);
    }
    (world.bytes_lost, world.counts()[0].bytes_repeated, world.counts()[1].bytes_in_vain)
}

#[test]
fn about_what_was_lost_is_repeated_and_little_else() {
    // At night also the loss that takes many messages to see.
    let nightly = std::env::var_os("SHEAF_NIGHTLY").map(|_| [(10, 20_000), (100, 20_000)]);
    for (loss, messages) in nightly.into_iter().flatten().chain([(100, 2_500)]) {
        let (lost, repeated, in_vain) = repeated_over_lost(loss, messages);
        assert!(lost > 300_000, "{lost} bytes lost");
        assert!(repeated >= lost - in_vain, "{repeated} of {lost} bytes repeated");
        assert!(10 * repeated <= 13 * lost, "{repeated} bytes repeated for {lost} lost, {in_vain} in vain");
    }
}

#[test]
fn nothing_is_repeated_where_nothing_is_lost() {
    let mut world = World::met(3, small(), Faults::default());
    world.carry(0, &messages(3, 2_000, 16_000));
    let [sender, receiver] = world.counts();
    assert_eq!((sender.bytes_repeated, sender.datagrams_lost, sender.probes), (0, 0, 0));
    assert_eq!((receiver.duplicates, receiver.bytes_in_vain), (0, 0));
    assert_eq!(sender.datagrams_sent, receiver.datagrams_received);
    assert!(receiver.reports_sent < sender.datagrams_sent / 4, "reports are few: {receiver:?}");
}

#[test]
fn datagrams_that_overtake_one_another_a_little_are_not_repeated() {
    let mut world = World::met(3, small(), Faults::default());
    // Each datagram may be two places late: half a step of the network's fifty microseconds.
    world.carry(0, &messages(4, 300, 16_000));
    let before = world.counts()[0].bytes_repeated;
    assert_eq!(before, 0);
}

#[test]
fn a_message_does_not_wait_for_another_that_is_not_whole() {
    let mut world = World::met(5, small(), Faults::default());
    let large = Message { seed: 1, head: 10, payload: 10_000 };
    assert_eq!(world.send(0, &large), Ok(()));
    world.faults.loss = 1000;
    world.step(Nanos(1));
    world.faults.loss = 0;
    let small = Message { seed: 2, head: 10, payload: 100 };
    assert_eq!(world.send(0, &small), Ok(()));
    world.until("both", |world| world.ends[1].received.len() == 2);
    let sizes: Vec<usize> = world.ends[1].received.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(sizes, [110, 10_010], "the later message was not held up");
}

#[test]
fn small_messages_share_a_datagram_and_large_ones_fill_theirs() {
    let settings = Settings { datagram_bytes: 8_972, ..small() };
    let mut world = World::met(5, settings, Faults::default());
    for seed in 0..60 {
        assert_eq!(world.send(0, &Message { seed, head: 8, payload: 92 }), Ok(()));
    }
    world.until("all", |world| world.ends[0].done == 60);
    assert_eq!(world.counts()[0].datagrams_sent, 1);
    for seed in 0..30 {
        assert_eq!(world.send(0, &Message { seed, head: 8, payload: 2_040 }), Ok(()));
    }
    world.until("all", |world| world.ends[1].received.len() == 90);
    let ideal = 30 * (2_048 + 16_u64).div_ceil(8_972 - 16);
    assert!(world.counts()[0].datagrams_sent - 1 <= ideal, "{:?}", world.counts()[0]);
}

#[test]
fn what_a_driver_does_not_take_is_bounded_and_goes_on_when_it_does() {
    let mut world = World::met(6, small(), Faults { loss: 100, ..Faults::default() });
    world.ends[1].takes = false;
    let mut messages = messages(6, 10_000, 4_000).into_iter();
    let mut waiting = messages.next();
    let mut sent = 0;
    for _ in 0..3_000 {
        while let Some(message) = waiting {
            match world.send(0, &message) {
                Ok(()) => {
                    sent += 1;
                    waiting = messages.next();
                }
                Err(NotTaken::Full) => break,
                Err(why) => panic!("{why}"),
            }
        }
        world.step(Nanos::from_millis(10));
    }
    let window = world.settings.window.0 as usize;
    assert!(world.ends[1].most_held <= window);
    assert!(world.ends[1].most_held > window / 2, "the window is used");
    world.ends[1].takes = true;
    world.until("the rest", |world| world.ends[1].received.len() == sent);
}

#[test]
fn without_memory_nothing_more_is_granted_and_with_it_all_goes_on() {
    let mut world = World::met(6, small(), Faults::default());
    world.ends[1].grants = false;
    let all = messages(8, 200, 4_000);
    let mut next = 0;
    for _ in 0..2_000 {
        while next < all.len() && world.send(0, &all[next]).is_ok() {
            next += 1;
        }
        world.step(Nanos::from_millis(10));
    }
    let taken: u64 = world.ends[1].received.iter().map(|(_, it)| it.len() as u64 + MESSAGE_COST).sum();
    assert!(taken <= world.settings.window.0, "{taken} bytes were taken without a grant");
    assert!(world.ends[1].link.is_withholding());
    world.ends[1].grants = true;
    world.until("the rest", |world| {
        while next < all.len() && world.send(0, &all[next]).is_ok() {
            next += 1;
        }
        world.ends[1].received.len() == all.len()
    });
}

#[test]
fn a_grant_that_is_lost_does_not_stop_the_link() {
    let mut world = World::met(6, small(), Faults::default());
    world.ends[1].grants = false;
    let all = messages(8, 400, 4_000);
    let mut next = 0;
    for _ in 0..500 {
        while next < all.len() && world.send(0, &all[next]).is_ok() {
            next += 1;
        }
        world.step(Nanos::from_millis(1));
    }
    assert!(next < all.len(), "the window is used up");
    world.faults.loss = 1000;
    world.ends[1].grants = true;
    world.pass(Nanos::from_millis(300));
    world.faults.loss = 0;
    world.until("the rest", |world| {
        while next < all.len() && world.send(0, &all[next]).is_ok() {
            next += 1;
        }
        world.ends[1].received.len() == all.len()
    });
}

#[test]
fn refused_messages_are_given_back_with_the_reason() {
    let mut world = World::new(1, small(), Faults::default());
    let message = Message { seed: 1, head: 0, payload: 10 };
    assert_eq!(world.send(0, &message), Err(NotTaken::NotUp));
    world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
    let most = world.settings.message_bytes;
    let large = Message { payload: most.as_usize() + 1, ..message };
    assert_eq!(world.send(0, &large), Err(NotTaken::TooLarge(most)));
    for _ in 0..world.settings.queue_messages {
        assert_eq!(world.send(0, &message), Ok(()));
    }
    assert_eq!(world.send(0, &message), Err(NotTaken::Full));
}

#[test]
fn the_same_seed_makes_the_same_datagrams() {
    let run = |seed| {
        let mut world = World::new(seed, small(), Faults { loss: 200, reorder: 200, ..Faults::default() });
        world.recorded = Some(Vec::new());
        world.until("both to be up", |world| world.ends.iter().all(|end| end.link.is_up()));
        world.carry(0, &messages(seed, 200, 8_000));
        world.recorded
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}

#[test]
fn any_datagram_decides_nothing_unless_it_is_the_peers() {
    let mut world = World::met(13, small(), Faults::default());
    world.recorded = Some(Vec::new());
    world.carry(0, &messages(13, 50, 4_000));
    let recorded = world.recorded.take().unwrap_or_default();
    let mut dice = Dice(5);
    for (to, rail, bytes) in recorded {
        // Damaged in one bit of its heads, cut short, and as it was: none of it does anything, nor stops the link.
        let mut damaged = bytes.clone();
        let heads = HEAD_BYTES + usize::from(bytes[1]) * HEADS_UNIT;
        let bit = dice.below(8 * heads as u64);
        damaged[(bit / 8) as usize] ^= 1 << (bit % 8);
        world.inject(to, rail, &damaged);
        world.inject(to, rail, &bytes[..dice.below(bytes.len() as u64) as usize]);
        world.inject(to, rail, &bytes);
    }
    assert!(world.ends.iter().all(|end| end.received.is_empty() && end.link.is_up()));
    let [_, receiver] = world.counts();
    assert!(receiver.duplicates > 0 && receiver.damaged > 0 && receiver.malformed > 0, "{receiver:?}");
    world.carry(0, &messages(14, 50, 4_000));
}
