use super::*;
use crate::network::EndpointId;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    Push,
    Pop,
    Take(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![3 => Just(Step::Push), 2 => Just(Step::Pop), 1 => (0u32..8).prop_map(Step::Take)];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn a_queue_of_frames_is_a_queue(steps in steps()) {
        let mut frames = Frames::default();
        let mut fifo = Fifo::default();
        let journey = Journey { source: EndpointId(0), destination: EndpointId(1), turn: 0 };
        let mut model = VecDeque::new();
        for (number, step) in (0u32..).zip(steps) {
            let (gone, expected) = match step {
                Step::Push => {
                    let id = frames.insert(Frame::new(number, 1, journey));
                    frames.push(&mut fifo, id);
                    model.push_back(number);
                    continue;
                }
                Step::Pop => (frames.pop(&mut fifo), model.pop_front()),
                Step::Take(position) => (frames.take(&mut fifo, position), model.remove(position as usize)),
            };
            prop_assert_eq!(gone.map(|id| frames.remove(id).message), expected);
            prop_assert_eq!(frames.live(), model.len());
            let seen: Vec<_> = frames.walk(&fifo).map(|id| frames.get(id).message).collect();
            prop_assert_eq!(&seen, &Vec::from(model.clone()));
        }
    }
}
