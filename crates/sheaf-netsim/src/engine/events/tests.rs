use super::EventQueue;
use crate::units::Picos;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let span = prop_oneof![Just(0_u64), 0..5_u64, 0..1_000_u64, 0..u64::MAX / 1_000];
    prop::collection::vec(prop_oneof![3 => span.prop_map(Step::Push), 2 => Just(Step::Pop)], 0..300)
}

proptest! {
    #[test]
    fn events_come_out_by_time_and_then_in_the_order_in_which_they_went_in(steps in steps()) {
        let mut queue = EventQueue::default();
        let mut model: Vec<(u64, usize)> = Vec::new();
        let pop = |queue: &mut EventQueue<usize>, model: &mut Vec<(u64, usize)>| {
            let expected = model.iter().min().copied();
            model.retain(|&entry| Some(entry) != expected);
            prop_assert_eq!(queue.pop(), expected.map(|(at, number)| (Picos(at), number)));
            Ok(())
        };
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(span) => {
                    let at = queue.now().0 + span;
                    queue.push(Picos(at), number);
                    model.push((at, number));
                }
                Step::Pop => pop(&mut queue, &mut model)?,
            }
            prop_assert_eq!(queue.len(), model.len());
        }
        while !model.is_empty() {
            pop(&mut queue, &mut model)?;
        }
        prop_assert!(queue.is_empty());
        prop_assert_eq!(queue.pop(), None);
    }
}

#[test]
fn an_event_of_the_past_happens_now() {
    let mut queue = EventQueue::default();
    queue.push(Picos(10), 'a');
    assert_eq!(queue.pop(), Some((Picos(10), 'a')));
    queue.push(Picos(3), 'b');
    assert_eq!(queue.pop(), Some((Picos(10), 'b')));
}
