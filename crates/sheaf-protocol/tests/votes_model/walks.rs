//! Long random walks, where there are too many states to visit all.

use crate::explore::describe;
use crate::world::{Action, Model, Setup};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Splitmix.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % limit as u64) as usize
    }
}

/// Walks until nothing more can happen, or for a number of actions. Returns the number of decided configurations.
///
/// # Errors
/// The violated invariant and the way to it.
pub(crate) fn walk(setup: Setup, seed: u64, most_actions: usize) -> Result<usize, String> {
    let (mut model, mut state) = Model::new(setup);
    let mut dice = Dice(seed);
    let mut way = Vec::new();
    for _ in 0..most_actions {
        let mut actions = model.actions(&state);
        // Messages come more often than anything else, so that ballots come to an end.
        let others = |action: &Action| {
            !matches!(action, Action::Deliver(_) | Action::DeliverInVain(_) | Action::DeliverToEarlier(_))
        };
        if actions.iter().any(|action| !others(action)) && dice.below(4) > 0 {
            actions.retain(|action| !others(action));
        }
        if actions.is_empty() {
            break;
        }
        let action = actions[dice.below(actions.len())];
        match catch_unwind(AssertUnwindSafe(|| model.apply(&state, action))) {
            Ok(None) => {}
            Ok(Some(next)) => {
                way.push(action);
                state = next;
            }
            Err(cause) => {
                let mut violation = format!("seed {seed}: {}", describe(cause.as_ref()));
                for step in way.into_iter().chain([action]) {
                    let _ = write!(violation, "\n  {}", model.describe(step));
                }
                return Err(violation);
            }
        }
    }
    Ok(state.decided_configurations())
}
