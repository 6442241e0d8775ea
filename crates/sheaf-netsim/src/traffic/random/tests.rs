use super::Random;
use crate::network::EndpointId;
use crate::scenario::SizeModel;
use crate::traffic::{Next, SetupError, Traffic};
use crate::units::{Picos, Rate};

/// 1 byte in 1 ns.
const RATE: Rate = Rate::from_gigabits(8);

#[test]
fn a_saturated_sender_always_has_a_message_for_anybody() {
    let mut random = Random::new(SizeModel::Fixed(100), 1.0, RATE, 4, 1).unwrap();
    let mut counts = [0_u32; 4];
    for _ in 0..4_000 {
        let Next::Send(message) = random.next(EndpointId(2), Picos(5)) else { panic!("always") };
        assert_eq!((message.source, message.bytes, message.born), (EndpointId(2), 100, Picos(5)));
        counts[message.destination.index()] += 1;
    }
    assert!(counts.iter().all(|count| count.abs_diff(1_000) < 150), "{counts:?}");
}

#[test]
fn messages_of_a_loaded_sender_come_at_the_rate_of_the_load() {
    let mut random = Random::new(SizeModel::Fixed(100), 0.25, RATE, 4, 1).unwrap();
    let mut now = Picos::ZERO;
    let mut sent = 0_u64;
    while sent < 10_000 {
        match random.next(EndpointId(0), now) {
            Next::Send(message) => {
                assert!(message.born <= now);
                sent += 1;
            }
            Next::At(later) => now = later,
            Next::Sleep => panic!("there is always a next message"),
        }
    }
    // One in 400 ns; the standard deviation of the sum is 1 %.
    assert!(now.0.abs_diff(10_000 * 400_000) < 4 * 40_000_000, "{now}");
}

#[test]
fn a_load_that_is_none_is_refused() {
    for load in [0.0, -1.0, f64::NAN] {
        let refused = Random::new(SizeModel::Fixed(100), load, RATE, 4, 1);
        assert!(matches!(refused, Err(SetupError::Load(_))));
    }
}
