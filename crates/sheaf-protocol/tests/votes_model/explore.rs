//! Breadth-first search.

use crate::world::{Action, Model, Setup, State};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a search.
pub(crate) struct Exploration {
    /// Number of states.
    pub(crate) states: usize,
    /// Number of actions that led to another state.
    pub(crate) actions: usize,
    /// The violated invariant and the way to it.
    pub(crate) violation: Option<String>,
    /// Maximum number of decided configurations in a state.
    pub(crate) decided: usize,
}

/// Visits every state of a world, up to the first violation.
pub(crate) fn explore(setup: Setup) -> Exploration {
    let (mut model, first) = Model::new(setup);
    let (mut bytes, mut seen) = (Vec::new(), FxHashSet::default());
    seen.insert(fingerprint(&first, &mut bytes));
    // For each state: the one before it and the action.
    let mut ways: Vec<(u32, Option<Action>)> = vec![(0, None)];
    let mut queue = VecDeque::from([(0_u32, first)]);
    let mut found = Exploration { states: 1, actions: 0, violation: None, decided: 0 };
    while let Some((number, state)) = queue.pop_front() {
        found.decided = found.decided.max(state.decided_configurations());
        for action in model.actions(&state) {
            match catch_unwind(AssertUnwindSafe(|| model.apply(&state, action))) {
                Ok(None) => {}
                Ok(Some(next)) => {
                    found.actions += 1;
                    if seen.insert(fingerprint(&next, &mut bytes)) {
                        let next_number = u32::try_from(ways.len()).expect("fewer states fit into memory");
                        ways.push((number, Some(action)));
                        queue.push_back((next_number, next));
                        found.states += 1;
                    }
                }
                Err(cause) => {
                    let mut violation = describe(cause.as_ref());
                    for step in way_to(&ways, number).into_iter().chain([action]) {
                        let _ = write!(violation, "\n  {}", model.describe(step));
                    }
                    found.violation = Some(violation);
                    return found;
                }
            }
        }
    }
    found
}

/// Returns the actions that lead to a state.
fn way_to(ways: &[(u32, Option<Action>)], mut number: u32) -> Vec<Action> {
    let mut actions = Vec::new();
    while let (before, Some(action)) = ways[number as usize] {
        actions.push(action);
        number = before;
    }
    actions.reverse();
    actions
}

/// Returns the message of a panic.
pub(crate) fn describe(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// Two independent hashes stand for a state, since the states themselves would not fit into memory.
fn fingerprint(state: &State, bytes: &mut Vec<u8>) -> u128 {
    bytes.clear();
    state.write(bytes);
    let hash = |seed: &[u8]| {
        let mut hasher = DefaultHasher::new();
        hasher.write(seed);
        hasher.write(bytes);
        hasher.finish()
    };
    u128::from(hash(b"one")) << 64 | u128::from(hash(b"two"))
}
