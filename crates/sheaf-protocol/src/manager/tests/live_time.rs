//! Live time and dead time add up to the time of the run, and each is booked at the time at which it happened.

use super::*;
use proptest::prelude::*;

/// No node falls silent in these tests.
fn world(triggers: Triggers, adjust: impl FnOnce(&mut ManagerConfig)) -> World {
    World::new(triggers, |config| {
        config.patience =
            Patience { absence: Nanos::from_secs(1_000_000), silence: Nanos::from_secs(1_000_000) };
        adjust(config);
    })
}

impl World {
    fn trigger_at(&mut self, time: u64) -> Result<EventId, Veto> {
        self.manager.handle_trigger(self.now, Timestamp(time), TriggerType(0))
    }

    fn set_behind(&mut self, output_behind: bool) {
        self.say(NodeId::builder(0), Body::Request(Request { output_behind, ..Request::default() }));
    }

    /// Returns live time, dead time and vetoes at this moment.
    fn books(&self) -> (u64, BTreeMap<DeadTimeCause, u64>, u64) {
        let dead_time = self.manager.dead_time(self.now);
        assert!(dead_time.is_balanced(), "{dead_time:?}");
        let time = dead_time.time.iter().map(|(cause, time)| (*cause, time.0)).collect();
        (dead_time.live.0, time, dead_time.vetoed_total())
    }
}

/// The driver was stalled from 0 to 1,000. Triggers of that time are booked at the time at which they happened.
#[test]
fn triggers_that_are_handed_over_late_make_dead_time_from_when_they_happened() {
    let mut world = world(Triggers::Driven, |config| config.queue_events = 2);
    world.now = Timestamp(1_000);
    let taken = (100..=900).step_by(100).filter(|time| world.trigger_at(*time).is_ok()).count();
    assert_eq!(taken, 2);
    world.grant(0, 5);
    world.now = Timestamp(1_500);
    let dead = BTreeMap::from([(DeadTimeCause::BuilderCredit, 800)]);
    assert_eq!(world.books(), (700, dead, 7), "shut from 200, when the queue was full, to 1,000");
}

#[test]
fn a_full_queue_is_dead_time_although_no_trigger_comes() {
    let mut world = world(Triggers::Driven, |config| config.queue_events = 1);
    world.now = Timestamp(40);
    assert!(world.trigger_at(40).is_ok());
    world.now = Timestamp(100);
    let dead = BTreeMap::from([(DeadTimeCause::BuilderCredit, 60)]);
    assert_eq!(world.books(), (40, dead, 0));
}

/// Builders had credit, but the event manager was stalled and did not assign events.
#[test]
fn an_event_manager_that_was_held_up_is_itself_the_cause() {
    let mut world = world(Triggers::Driven, |config| config.queue_events = 2);
    world.grant(0, 10);
    world.now = Timestamp(500);
    assert!(world.trigger_at(100).is_ok() && world.trigger_at(200).is_ok());
    assert_eq!(world.trigger_at(300), Err(Veto::Busy(DeadTimeCause::EventManager)));
    world.drain();
    let dead = BTreeMap::from([(DeadTimeCause::EventManager, 300)]);
    assert_eq!(world.books(), (200, dead, 1));
}

/// A driver that was stalled may report the end late. Triggers before the end belong to the run.
#[test]
fn the_time_of_a_run_ends_with_its_triggers_and_not_with_the_report_of_their_end() {
    let mut world = world(Triggers::Driven, |config| config.queue_events = 1);
    world.now = Timestamp(5_000);
    assert!(world.trigger_at(600).is_ok());
    assert!(world.trigger_at(999).is_err());
    world.manager.handle_end_of_triggers(world.now, Timestamp(1_000));
    assert!(!world.manager.takes_triggers());
    world.drain();
    world.now = Timestamp(9_000);
    let dead = BTreeMap::from([(DeadTimeCause::BuilderCredit, 400)]);
    assert_eq!(world.books(), (600, dead, 1));
    assert_eq!(world.manager.dead_time(world.now).run(), Nanos(1_000));
}

#[test]
fn the_last_trigger_of_a_number_ends_the_time_of_the_run() {
    let mut world = world(Triggers::Driven, |config| config.max_events = Some(2));
    world.now = Timestamp(900);
    assert!(world.trigger_at(100).is_ok() && world.trigger_at(300).is_ok());
    assert_eq!(world.trigger_at(500), Err(Veto::NotRunning));
    world.drain();
    assert_eq!(world.books(), (300, BTreeMap::new(), 0));
}

/// Waiting for credit is the normal pace of free triggers; waiting for a disk that is behind is dead time.
#[test]
fn free_triggers_are_dead_only_while_something_is_behind_or_missing() {
    let mut world = world(Triggers::Free, |_| {});
    world.grant(0, 1);
    world.now = Timestamp(100);
    world.set_behind(true);
    world.now = Timestamp(300);
    world.set_behind(false);
    world.now = Timestamp(1_000);
    assert_eq!(world.books(), (800, BTreeMap::from([(DeadTimeCause::Output, 200)]), 0));
}

/// Of two disks that are behind, neither is the only cause.
#[test]
fn dead_time_has_a_culprit_where_one_node_alone_is_the_reason() {
    let mut world = world(Triggers::Driven, |config| config.queue_events = 1);
    assert!(world.trigger_at(0).is_ok());
    world.drain();
    for (time, builder, output_behind) in [(100, 1, true), (300, 0, true), (700, 1, false), (1_500, 0, false)]
    {
        world.now = Timestamp(time);
        world.say(NodeId::builder(builder), Body::Request(Request { output_behind, ..Request::default() }));
    }
    world.now = Timestamp(3_100);
    let time = [(DeadTimeCause::BuilderCredit, 1_700), (DeadTimeCause::Output, 1_400)];
    assert_eq!(world.books(), (0, BTreeMap::from(time), 0));
    let culprits = [(1, 200), (0, 800)]
        .map(|(builder, time)| ((DeadTimeCause::Output, NodeId::builder(builder)), Nanos(time)));
    assert_eq!(world.manager.dead_time(world.now).culprits, BTreeMap::from(culprits));
}

#[test]
fn announced_triggers_are_never_refused() {
    let mut world = world(Triggers::Announced, |config| config.queue_events = 1);
    let announcement = |event| Announcement { event: EventId(event), time: START };
    world.say(NodeId::readout(0), Body::Announce((0..9).map(announcement).collect()));
    world.now = Timestamp(100);
    assert_eq!(world.books(), (100, BTreeMap::new(), 0));
}

#[test]
fn a_run_that_never_began_has_no_time() {
    let mut world = World::empty(Triggers::Driven, |_| {});
    world.now = Timestamp(100);
    world.manager.handle_stop(world.now);
    world.now = Timestamp(200);
    assert_eq!(world.books(), (0, BTreeMap::new(), 0));
}

/// A stop after the triggers have ended without a request is the first one, which lets events in flight finish.
#[test]
fn the_first_stop_after_the_end_of_triggers_cuts_nothing_short() {
    let mut world = world(Triggers::Driven, |_| {});
    world.grant(0, 1);
    assert!(world.trigger_at(0).is_ok());
    world.drain();
    world.manager.handle_end_of_triggers(world.now, world.now);
    world.manager.handle_stop(world.now);
    world.drain();
    world.finish(0, 1, 1, Outcome::Stored, None);
    assert_eq!(world.manager.ledger().stored, 1);
}

/// Random triggers sample the gate: the fraction that is vetoed is the fraction of dead time, however rarely the driver
/// drains the machine.
#[test]
fn random_triggers_are_vetoed_as_often_as_time_is_dead() {
    for (rounds, every) in [(200_000, 1_000), (20_000, 10_000), (2_000, 100_000)] {
        let mut world = world(Triggers::Driven, |config| config.queue_events = 8);
        let (mut next, mut seed) = (0.0_f64, 1_u64);
        let (mut vetoed, mut offered) = (0.0, 0.0);
        for round in 1..=rounds {
            world.now = Timestamp(round * every);
            while next < (round * every) as f64 {
                offered += 1.0;
                vetoed += f64::from(u8::from(world.trigger_at(next as u64).is_err()));
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let uniform = ((seed >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
                // A trigger each 1,500 ns, on average.
                next -= uniform.ln() * 1_500.0;
            }
            // An event each 5,000 ns is built.
            for _ in (round - 1) * every / 5_000..round * every / 5_000 {
                world.grant(0, 1);
            }
            world.manager.handle_timeout(world.now);
            world.drain();
            world.said.clear();
        }
        let dead_time = world.manager.dead_time(world.now);
        assert!(dead_time.is_balanced());
        let dead = dead_time.dead().0 as f64 / dead_time.run().0 as f64;
        let fraction: f64 = vetoed / offered;
        assert!((fraction - dead).abs() < 0.02, "every {every} ns: {fraction} vetoed, {dead} dead");
        assert!(dead > 0.5, "{dead}");
    }
}

/// Input between two drains.
#[derive(Clone, Debug)]
enum Step {
    /// Time passes, with triggers at these fractions of it.
    Pass(u64, Vec<u64>),
    Grant(u32),
    Behind(bool),
    Pause(bool),
    Silence,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..1_000_u64, prop::collection::vec(0..1_000_u64, 0..6)).prop_map(|(span, mut parts)| {
            parts.sort_unstable();
            Step::Pass(span, parts)
        }),
        (0..5_u32).prop_map(Step::Grant),
        any::<bool>().prop_map(Step::Behind),
        any::<bool>().prop_map(Step::Pause),
        Just(Step::Silence),
    ]
}

/// Sums live and dead time independently of the machine, from the state of the gate.
#[derive(Default)]
struct Onlooker {
    since: u64,
    shut: Option<DeadTimeCause>,
    live: u64,
    dead: BTreeMap<DeadTimeCause, u64>,
}

impl Onlooker {
    fn look(&mut self, at: u64, shut: Option<DeadTimeCause>) {
        let passed = at - self.since;
        match self.shut {
            Some(cause) if passed > 0 => *self.dead.entry(cause).or_default() += passed,
            Some(_) => {}
            None => self.live += passed,
        }
        (self.since, self.shut) = (at, shut);
    }
}

proptest! {
    #[test]
    fn all_time_is_booked_and_as_an_onlooker_sees_it(
        steps in prop::collection::vec(step(), 1..60), queue in 1..5_usize, kind in 0..3_u8, tail in 0..500_u64,
    ) {
        let triggers = [Triggers::Driven, Triggers::Free, Triggers::Announced][usize::from(kind)];
        let mut world = world(triggers, |config| config.queue_events = queue);
        let mut onlooker = Onlooker { shut: world.manager.gate(), ..Onlooker::default() };
        let (mut offered, mut vetoed) = (0, 0);
        for step in steps {
            let (was_paused, received) = (world.manager.is_paused(), world.manager.ledger().received);
            match step {
                Step::Pass(span, parts) => {
                    let before = world.now.0;
                    world.now = Timestamp(before + span);
                    for part in parts.into_iter().filter(|_| triggers == Triggers::Driven) {
                        let time = before + span * part / 1_000;
                        let was_shut = onlooker.shut;
                        let veto = world.trigger_at(time).err();
                        prop_assert_eq!(veto, was_shut.map(Veto::Busy));
                        onlooker.look(time, was_shut.or(world.manager.gate()));
                        offered += 1;
                        vetoed += u64::from(veto.is_some());
                    }
                    world.manager.handle_timeout(world.now);
                    world.drain();
                }
                Step::Grant(slots) => world.grant(0, slots),
                Step::Behind(behind) => world.set_behind(behind),
                Step::Pause(paused) => {
                    world.manager.handle_pause(world.now, paused);
                    prop_assert_eq!(world.manager.is_paused(), paused && triggers != Triggers::Announced);
                    onlooker.look(world.now.0, world.manager.gate());
                    world.drain();
                }
                Step::Silence => world.drain(),
            }
            onlooker.look(world.now.0, world.manager.gate());
            let gate_is_paused = world.manager.gate() == Some(DeadTimeCause::Paused);
            prop_assert_eq!(gate_is_paused, world.manager.is_paused());
            if was_paused && world.manager.is_paused() {
                prop_assert_eq!(world.manager.ledger().received, received);
            }
        }
        let end = world.now.0.saturating_sub(tail).max(onlooker.since);
        world.now = Timestamp(world.now.0 + tail);
        world.manager.handle_end_of_triggers(world.now, Timestamp(end));
        onlooker.look(end, None);
        world.drain();
        prop_assert_eq!(world.books(), (onlooker.live, onlooker.dead, vetoed));
        prop_assert_eq!(world.manager.dead_time(world.now).run(), Nanos(end));
        prop_assert_eq!(world.manager.ledger().received + vetoed, offered + if triggers == Triggers::Free { world.manager.ledger().received } else { 0 });
    }
}
