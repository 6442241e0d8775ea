//! A link that is closed in good order.

use super::small;
use super::world::{Change, Faults, World, messages};
use crate::{Down, NotTaken};
use proptest::prelude::*;
use sheaf_wire::Nanos;

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(32))]

    #[test]
    fn closing_delivers_what_was_taken_and_then_says_farewell(
        seed in any::<u64>(), loss in 0..400_u64, reorder in 0..300_u64,
    ) {
        let mut world = World::met(seed, small(), Faults { loss, reorder, ..Faults::default() });
        let mut count = 0;
        for message in messages(seed, 60, 4_000) {
            count += usize::from(world.send(0, &message).is_ok());
        }
        let now = world.now;
        world.ends[0].link.close(now);
        prop_assert_eq!(world.send(0, &messages(1, 1, 10)[0]), Err(NotTaken::NotUp));
        world.until("the farewell", |world| world.ends[0].link.is_over() && !world.ends[1].link.is_up());
        prop_assert_eq!(world.ends[1].received.len(), count);
        for end in &world.ends {
            prop_assert_eq!(end.ways(), [Change::Up, Change::Down(Down::Closed)]);
            prop_assert_eq!(end.link.counts().messages_lost, 0);
        }
    }

    #[test]
    fn closing_both_ends_at_once_delivers_both_ways(seed in any::<u64>(), loss in 0..400_u64) {
        close_both_ends(seed, loss);
    }
}

fn close_both_ends(seed: u64, loss: u64) {
    let mut world = World::met(seed, small(), Faults { loss, ..Faults::default() });
    let mut counts = [0; 2];
    for message in messages(seed, 60, 4_000) {
        for (end, count) in counts.iter_mut().enumerate() {
            *count += usize::from(world.send(end, &message).is_ok());
        }
    }
    let now = world.now;
    world.ends.iter_mut().for_each(|end| end.link.close(now));
    world.until("both to be over", |world| world.ends.iter().all(|end| end.link.is_over()));
    for (end, sent) in [(0, counts[1]), (1, counts[0])] {
        assert_eq!(world.ends[end].received.len(), sent);
        assert_eq!(world.ends[end].ways(), [Change::Up, Change::Down(Down::Closed)]);
        assert_eq!(world.counts()[end].messages_lost, 0);
    }
}

/// Ten farewells of one end were lost while the other still had messages to send.
#[test]
fn an_end_whose_farewells_are_lost_waits_for_a_peer_that_still_sends() {
    close_both_ends(3_704_934_920_173_750_762, 355);
}

#[test]
fn a_link_that_was_never_up_closes_at_once() {
    let mut world = World::new(1, small(), Faults { loss: 1000, ..Faults::default() });
    world.pass(Nanos::from_millis(10));
    let now = world.now;
    world.ends[0].link.close(now);
    assert!(world.ends[0].link.is_over());
    assert!(world.ends[0].changes.is_empty());
}

#[test]
fn closing_ends_although_the_peer_has_died() {
    let mut world = World::met(1, small(), Faults::default());
    assert!(world.send(0, &messages(1, 1, 100)[0]).is_ok());
    world.faults.loss = 1000;
    let now = world.now;
    world.ends[0].link.close(now);
    world.until("the end", |world| world.ends[0].link.is_over());
    assert_eq!(world.ends[0].changes, [Change::Up, Change::Down(Down::Lost)]);
    assert_eq!(world.counts()[0].messages_lost, 1);
}
