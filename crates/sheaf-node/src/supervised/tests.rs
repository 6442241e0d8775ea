//! Tests of the time for which a run waits for its trigger supervisor.

use super::*;

/// A supervisor that is connected, and neither stops nor gives its account.
struct Hanging;

impl TriggerInput for Hanging {
    fn exchange(
        &mut self,
        _now: Timestamp,
        _phase: Phase,
        _role: &mut EventManager<Bytes>,
        _most: usize,
    ) -> LinkState {
        LinkState { has_supervisor: true, expects_triggers: true, ..LinkState::default() }
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        None
    }

    fn report(&self, _now: Timestamp) -> LinkReport {
        LinkReport::default()
    }

    fn address(&self) -> String {
        "nowhere".to_owned()
    }
}

fn hanging() -> Supervised {
    let mut supervised = Supervised::new(Box::new(Hanging), None);
    supervised.state.expects_triggers = true;
    supervised
}

const END: Timestamp = Timestamp(1_000);

#[test]
fn a_supervisor_that_does_not_stop_is_awaited_for_a_time_and_then_no_more() {
    let mut supervised = hanging();
    assert!(!supervised.has_ended(END, Some(END)));
    assert_eq!(supervised.poll_timeout(), Some(END + PATIENCE));
    assert!(supervised.has_ended(END + PATIENCE, Some(END)));
    // A deadline in the past would keep the event manager's thread busy until the run is over.
    assert_eq!(supervised.poll_timeout(), None);
}

#[test]
fn a_supervisor_is_not_given_up_for_time_in_which_this_process_was_stopped() {
    let mut supervised = hanging();
    assert!(!supervised.has_ended(END, Some(END)));
    assert_eq!(supervised.wait_at_end(END), Some(END + PATIENCE));
    let stall = Nanos(2 * PATIENCE.0);
    supervised.handle_stall(stall);
    assert!(!supervised.has_ended(END + stall, Some(END)));
    assert_eq!(supervised.wait_at_end(END + stall), Some(END + stall + PATIENCE));
    assert!(supervised.has_ended(END + stall + PATIENCE, Some(END)));
}
