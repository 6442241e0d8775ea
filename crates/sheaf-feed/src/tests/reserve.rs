//! Fragments that are written in place.

use super::{MAX_FRAGMENT, Unit, WAYS, Way, beside, expected, fragment, options, payload};
use crate::{FeedError, SourceClient};
use proptest::prelude::*;
use sheaf_wire::{EventId, SessionId, Timestamp};

/// Call of a program for the next fragment of a source.
#[derive(Clone, Copy, Debug)]
enum Call {
    Send,
    /// Reserves as many bytes more than the fragment has.
    Commit(usize),
    CommitMore(usize),
    /// A reservation that is not used.
    GiveUp(usize),
}

fn calls() -> impl Strategy<Value = Vec<(usize, Call)>> {
    let more = 0..1_000_usize;
    let call = prop_oneof![
        1 => Just(Call::Send),
        2 => more.clone().prop_map(Call::Commit),
        4 => more.clone().prop_map(Call::CommitMore),
        1 => more.prop_map(Call::GiveUp),
    ];
    prop::collection::vec((0..2_usize, call), 1..400)
}

/// Writes the payload of an event into reserved room. Returns its length.
fn write(client: &mut SourceClient, source: usize, event: u64, more: usize) -> usize {
    let payload = payload(event);
    let room = client.reserve(source, payload.len() + more).expect("connected");
    assert_eq!(room.len(), payload.len() + more);
    room[..payload.len()].copy_from_slice(&payload);
    payload.len()
}

fn call(client: &mut SourceClient, source: usize, event: u64, call: Call) -> bool {
    let (id, time) = (EventId(event), Timestamp(event));
    match call {
        Call::Send => client.send(source, fragment(event, &payload(event))).expect("connected"),
        Call::Commit(more) => {
            let bytes = write(client, source, event, more);
            client.commit(id, time, bytes).expect("it is reserved");
        }
        Call::CommitMore(more) => {
            let bytes = write(client, source, event, more);
            client.commit_more(id, time, bytes).expect("it is reserved");
        }
        Call::GiveUp(more) => {
            client.reserve(source, more).expect("connected").fill(0xff);
            return false;
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn committed_fragments_arrive_in_order_among_those_that_are_sent(calls in calls(), shared: bool, keep: bool) {
        let mut unit = Unit::new(2, 40);
        unit.start();
        let way = if shared { Way::Shared } else { Way::Network };
        let sent = beside(&mut unit, way, |socket| {
            let options = crate::ClientOptions { keep, ..options(&[0, 1]) };
            let mut client = SourceClient::connect(&socket, options).expect("it accepts clients");
            let mut next = [0_u64; 2];
            for (source, what) in calls {
                next[source] += u64::from(call(&mut client, source, next[source], what));
            }
            // The end of a source follows its last fragment, although that has not been sent.
            (0..2).for_each(|source| client.end(source).expect("connected"));
            assert!(client.drain().expect("connected"));
            next
        });
        unit.work_until(|unit| unit.ended == [true; 2]);
        for (accepted, next) in unit.accepted.iter().zip(sent) {
            prop_assert_eq!(accepted, &expected(0..next));
        }
    }
}

#[test]
fn a_commit_needs_a_reservation_of_its_size() {
    for way in WAYS {
        let mut unit = Unit::new(1, 40);
        unit.start();
        beside(&mut unit, way, |socket| {
            let mut client = SourceClient::connect(&socket, options(&[0])).expect("it accepts clients");
            assert!(client.wait_for_start(None).expect("connected"));
            let commit =
                |client: &mut SourceClient, event, bytes| client.commit(EventId(event), Timestamp(0), bytes);
            assert!(matches!(commit(&mut client, 0, 0), Err(FeedError::NothingReserved)));
            let room = client.reserve(0, 10).expect("connected");
            room[..4].copy_from_slice(&[3; 4]);
            let error = commit(&mut client, 3, 11).expect_err("only 10 are reserved");
            assert_eq!(
                error.to_string(),
                "a fragment of 11 bytes was committed, and 10 bytes are reserved for it"
            );
            commit(&mut client, 3, 3).expect("it is still reserved");
            assert!(matches!(commit(&mut client, 4, 0), Err(FeedError::NothingReserved)));
            client.reserve(0, 10).expect("connected");
            client.wait(std::time::Duration::ZERO).expect("connected");
            assert!(
                matches!(commit(&mut client, 4, 0), Err(FeedError::NothingReserved)),
                "any call gives it up"
            );
            let large = client.reserve(0, MAX_FRAGMENT as usize + 1);
            assert!(matches!(large, Err(FeedError::TooLarge { .. })));
            assert!(client.drain().expect("connected"));
        });
        assert_eq!(unit.accepted[0], expected(3..4));
    }
}

#[test]
fn room_is_refused_beyond_the_window_and_other_sources_have_theirs() {
    for way in WAYS {
        let mut unit = Unit::new(2, 10);
        unit.start();
        unit.most = 0;
        let client = beside(&mut unit, way, |socket| {
            let mut client = SourceClient::connect(&socket, options(&[0, 1])).expect("it accepts clients");
            assert!(client.wait_for_start(None).expect("connected"));
            for source in 0..2 {
                let mut sent = 0;
                while client.try_reserve(source, 1).expect("connected").is_some() {
                    client.commit_more(EventId(sent), Timestamp(0), 1).expect("it is reserved");
                    sent += 1;
                }
                assert_eq!(sent, 10);
            }
            client
        });
        assert_eq!((client.progress(0), client.progress(1)), ((10, 0), (10, 0)));
    }
}

#[test]
fn committed_fragments_go_to_the_next_session_of_the_readout_unit() {
    for way in WAYS {
        let mut unit = Unit::new(1, 500);
        unit.start();
        unit.held = Some(0);
        let mut client = beside(&mut unit, way, |socket| {
            let mut client = SourceClient::connect(&socket, options(&[0])).expect("it accepts clients");
            for event in 0..300 {
                let what = if event % 7 == 0 { Call::Commit(9) } else { Call::CommitMore(0) };
                call(&mut client, 0, event, what);
            }
            client
        });
        let directory = unit.directory.clone();
        let address = unit.address.clone();
        drop(unit);
        let mut unit = Unit::of_session_at(SessionId(2), (1, 500), directory, &address);
        unit.start();
        beside(&mut unit, way, move |_| assert!(client.drain().expect("the next session accepts it")));
        assert_eq!(unit.accepted[0], expected(0..300));
    }
}
