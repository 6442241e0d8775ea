use super::*;
use crate::scenario::{Assignment, Placement, SizeModel, Window};
use crate::traffic::push::Push;
use crate::traffic::tests::{Ideal, RATE, events};

fn framed(payload: Option<u32>, overhead: u32) -> Ideal<Frames<Push>> {
    let apart = Placement::Apart { readouts: 1, builders: 1 };
    let traffic = events(apart, SizeModel::Fixed(2500), Assignment::RoundRobin);
    let push = Push::new(&traffic, Window { events: 1 }, 2, 7).unwrap();
    let mut ideal = Ideal::new(Frames::new(push, 2, payload, overhead), 2, RATE, Picos::from_nanos(100));
    ideal.run_until(Picos::from_micros(5));
    ideal
}

#[test]
fn a_message_is_there_when_its_last_frame_is() {
    let ideal = framed(Some(1000), 40);
    let frames: Vec<_> = ideal.messages.iter().map(|(frame, at)| (frame.bytes, *at)).collect();
    let at = Picos::from_nanos;
    // The next event begins when the last of the 2620 bytes has arrived.
    assert_eq!(
        frames,
        [
            (1040, at(0)),
            (1040, at(1040)),
            (540, at(2080)),
            (1040, at(2720)),
            (1040, at(3760)),
            (540, at(4800))
        ]
    );
    assert_eq!(ideal.traffic.complete_events(), 1);
}

#[test]
fn without_a_limit_a_message_is_one_frame() {
    let ideal = framed(None, 40);
    assert!(ideal.messages.iter().all(|(frame, _)| frame.bytes == 2540));
    assert_eq!(ideal.traffic.complete_events(), 1);
}
