//! Nodes of the run that have never published.

use super::alarm;
use crate::state::{Alarm, NodeState, Severity, State};

/// Time of a run after which a node that has published nothing is silent.
const FIRST_MS: u64 = 10_000;

/// Longest time between two states that counts: a monitor that was stopped has not watched, and nodes are not to blame.
const STEP_MS: u64 = 500;

const REMEDY: &str = "its process hangs, was not started, or does not reach the host of the run: look at its host and its log; `sheaf ctl recover` starts it again, and `sheaf ctl exclude` leaves it out";

/// The time for which nodes were expected to publish.
#[derive(Debug, Default)]
pub(super) struct Absent {
    last_ms: Option<u64>,
    watched_ms: u64,
}

impl Absent {
    /// Takes a state of a run in progress, and returns the conditions of nodes that have published nothing.
    pub(super) fn judge(&mut self, state: &State) -> Vec<Alarm> {
        let passed_ms = self.last_ms.map_or(0, |last_ms| state.time_ms.saturating_sub(last_ms));
        self.last_ms = Some(state.time_ms);
        // A start that waits says for whom. When it has waited, the nodes have their whole time to publish.
        if state.run.phase == "starting" && state.run.waits_for.is_some() {
            self.watched_ms = 0;
            return Vec::new();
        }
        self.watched_ms += passed_ms.min(STEP_MS);
        if self.watched_ms < FIRST_MS {
            return Vec::new();
        }
        let absent = || state.nodes.iter().filter(|node| node.age_ms.is_none() && !node.excluded);
        // Only the event manager knows which nodes are excluded.
        let has_no_manager = absent().any(is_manager);
        absent().filter(|node| !has_no_manager || is_manager(node)).map(of_node).collect()
    }
}

fn is_manager(node: &NodeState) -> bool {
    node.role == "manager"
}

fn of_node(node: &NodeState) -> Alarm {
    let text = format!("{} has published nothing since the run began", node.name);
    alarm("node-silent", Severity::Error, text, Some(&node.name), REMEDY)
}

#[cfg(test)]
mod tests {
    use crate::alarms::Alarms;
    use crate::alarms::tests::{node, state};
    use crate::state::{NodeState, State};

    /// A run in which `ru1` has published nothing.
    fn at(time_ms: u64) -> State {
        let absent = NodeState { up: false, age_ms: None, ..node("ru1") };
        State { nodes: vec![manager(), node("bu0"), absent], ..state(time_ms) }
    }

    fn manager() -> NodeState {
        NodeState { role: "manager".into(), ..node("evm") }
    }

    /// Judges a state every 100 ms up to a time in milliseconds, and returns who is silent then.
    fn watch(alarms: &mut Alarms, (from_ms, to_ms): (u64, u64), at: impl Fn(u64) -> State) -> Vec<String> {
        let mut silent = Vec::new();
        for time_ms in (from_ms..=to_ms).step_by(100) {
            let raised = alarms.judge(&at(time_ms));
            assert!(raised.iter().all(|alarm| alarm.code == "node-silent"), "{raised:?}");
            silent = raised.into_iter().filter_map(|alarm| alarm.culprit).collect();
        }
        silent
    }

    #[test]
    fn a_node_that_has_never_published_is_silent_after_ten_seconds() {
        let mut alarms = Alarms::default();
        assert_eq!(watch(&mut alarms, (0, 9_900), at), [""; 0]);
        let raised = alarms.judge(&at(10_000));
        assert_eq!(raised[0].text, "ru1 has published nothing since the run began");
        assert!(raised[0].remedy.contains("`sheaf ctl recover`"), "{}", raised[0].remedy);
        let here = |time_ms| State { nodes: vec![manager(), node("ru1")], ..state(time_ms) };
        assert_eq!(alarms.judge(&here(10_100)), [], "it has published");
    }

    #[test]
    fn an_excluded_node_is_not_missed() {
        let excluded = |time_ms| {
            let mut state = at(time_ms);
            state.nodes[2].excluded = true;
            state
        };
        assert_eq!(watch(&mut Alarms::default(), (0, 30_000), excluded), [""; 0]);
    }

    #[test]
    fn time_in_which_the_monitor_was_stopped_does_not_count() {
        let mut alarms = Alarms::default();
        assert_eq!(watch(&mut alarms, (0, 1_000), at), [""; 0]);
        assert_eq!(alarms.judge(&at(60_000)), [], "it has watched for 1.5 s");
        assert_eq!(watch(&mut alarms, (60_100, 68_400), at), [""; 0]);
        assert_eq!(watch(&mut alarms, (68_500, 68_500), at), ["ru1"]);
    }

    #[test]
    fn a_start_that_waits_for_a_node_says_so_and_the_node_has_its_time_after_it() {
        let waits = |time_ms| {
            let mut state = at(time_ms);
            (state.run.phase, state.run.waits_for) = ("starting".into(), Some("waiting for ru1".into()));
            state
        };
        let mut alarms = Alarms::default();
        assert_eq!(watch(&mut alarms, (0, 60_000), waits), [""; 0]);
        assert_eq!(watch(&mut alarms, (60_100, 69_900), at), [""; 0]);
        assert_eq!(watch(&mut alarms, (70_000, 70_000), at), ["ru1"], "the run has started without it");
    }

    /// Nobody says what such a start waits for, nor which nodes are excluded.
    #[test]
    fn an_event_manager_that_has_never_published_is_the_only_one_that_is_named() {
        let without = |time_ms| {
            let mut state = at(time_ms);
            (state.run.number, state.run.phase) = (None, "starting".into());
            state.nodes[0] = NodeState { up: false, age_ms: None, ..manager() };
            state
        };
        assert_eq!(watch(&mut Alarms::default(), (0, 10_000), without), ["evm"]);
    }

    #[test]
    fn the_next_run_has_its_own_time() {
        let mut alarms = Alarms::default();
        assert_eq!(watch(&mut alarms, (0, 10_000), at), ["ru1"]);
        let closed = |time_ms| {
            let mut state = at(time_ms);
            state.run.phase = "closed".into();
            state
        };
        assert_eq!(watch(&mut alarms, (10_100, 11_000), closed), [""; 0]);
        assert_eq!(watch(&mut alarms, (11_100, 21_000), at), [""; 0]);
        assert_eq!(watch(&mut alarms, (21_100, 21_100), at), ["ru1"]);
    }
}
