//! Runs whose start is held, and that are paused.

use super::world::{EVENTS, World};
use sheaf_node::trigger::TriggerRate;
use sheaf_protocol::manager::DeadTimeCause;
use sheaf_wire::Nanos;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

impl World {
    fn hold(&self, held: bool) {
        self.controls.hold.store(held, Ordering::Relaxed);
    }

    fn pause_triggers(&self, paused: bool) {
        self.controls.pause.store(paused, Ordering::Relaxed);
    }

    fn phase(&self) -> &'static str {
        self.gauges.snapshot().phase
    }

    fn step_times(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }
}

#[test]
fn a_run_that_is_held_waits_for_longer_than_its_limit_and_starts_when_it_is_released() {
    let mut world = World::new(|_| {});
    world.hold(true);
    world.run_until(|world| world.phase() == "ready");
    world.step_times(5_000);
    assert_eq!((world.phase(), world.disk().events().len()), ("ready", 0));
    world.hold(false);
    world.step_times(2);
    assert_eq!(world.phase(), "running");
    world.run_to_end();
    assert_eq!((&*world.errors, world.report().ledger.stored), (&[][..], EVENTS));
}

#[test]
fn a_run_that_is_held_can_be_stopped() {
    let mut world = World::new(|_| {});
    world.hold(true);
    world.run_until(|world| world.phase() == "ready");
    world.interrupt();
    world.run_to_end();
    let report = world.report();
    assert_eq!((&*world.errors, report.ledger.received, report.dead_time.run()), (&[][..], 0, Nanos::ZERO));
}

/// Triggers come each 2 ms for 200 ms of run time, of which 400 ms are paused: the duration of the run does not pass meanwhile.
#[test]
fn the_duration_of_a_run_does_not_pass_during_a_pause() {
    let mut world = World::new(|setup| {
        (setup.events, setup.duration) = (None, Some(Nanos::from_millis(200)));
        setup.rate = Some(TriggerRate::Fixed { rate_hz: 500.0 });
    });
    world.run_until(|world| world.disk().events().len() >= 30);
    world.pause_triggers(true);
    world.step_times(20);
    let (stored, phase) = (world.disk().events().len(), world.phase());
    assert_eq!(
        (phase, world.gauges.snapshot().in_flight),
        ("paused", 0),
        "events before the pause are built"
    );
    world.step_times(380);
    assert_eq!((world.phase(), world.disk().events().len()), ("paused", stored));
    world.pause_triggers(false);
    world.run_to_end();
    let (report, millis) = (world.report(), Nanos::from_millis);
    assert_eq!(world.errors, []);
    assert_eq!(report.dead_time.time, BTreeMap::from([(DeadTimeCause::Paused, millis(400))]));
    assert_eq!(report.dead_time.vetoed, BTreeMap::from([(DeadTimeCause::Paused, 200)]));
    assert_eq!((report.dead_time.live, report.dead_time.run()), (millis(200), millis(600)));
    assert_eq!((report.ledger.received, report.ledger.stored), (100, 100));
    assert_eq!(report.offered, Some(300));
}

#[test]
fn a_stop_ends_a_paused_run() {
    let mut world = World::new(|setup| setup.rate = Some(TriggerRate::Fixed { rate_hz: 500.0 }));
    world.run_until(|world| world.disk().events().len() >= 10);
    world.pause_triggers(true);
    world.step_times(50);
    world.interrupt();
    world.run_to_end();
    let report = world.report();
    assert_eq!(world.errors, []);
    assert!(report.dead_time.is_balanced() && report.ledger.is_balanced());
    assert_eq!(report.dead_time.time, BTreeMap::from([(DeadTimeCause::Paused, Nanos::from_millis(50))]));
    assert_eq!((report.ledger.stored, report.ledger.in_flight), (report.ledger.received, 0));
}

/// The event manager is stalled for 100 ms, at whose end it hears of a pause. Triggers of that time belong to the time before.
#[test]
fn triggers_before_a_pause_are_taken_even_if_they_are_handed_over_late() {
    let mut world = World::new(|setup| {
        (setup.events, setup.duration) = (None, Some(Nanos::from_millis(200)));
        setup.rate = Some(TriggerRate::Fixed { rate_hz: 500.0 });
    });
    world.run_until(|world| world.disk().events().len() >= 10);
    world.pause_triggers(true);
    world.pause(Nanos::from_millis(20));
    world.step_times(100);
    world.pause_triggers(false);
    world.run_to_end();
    let report = world.report();
    assert_eq!(report.ledger.received, 100);
    assert_eq!(report.dead_time.time.get(&DeadTimeCause::Paused), Some(&Nanos::from_millis(100)));
}
