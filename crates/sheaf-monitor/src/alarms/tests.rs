//! When alarms are raised, and when they go.

use super::*;
use crate::state::{Books, Cause, Culprit, DeadTime, Drop, Run, Standby};
use std::collections::BTreeMap;

/// A run at this time with nothing wrong.
pub(crate) fn state(time_ms: u64) -> State {
    State {
        time_ms,
        age_ms: Some(0),
        run: Run { number: Some(1), phase: "running".into(), ..Run::default() },
        ..State::default()
    }
}

pub(crate) fn node(name: &str) -> NodeState {
    NodeState {
        name: name.into(),
        role: "builder".into(),
        agent: None,
        up: true,
        age_ms: Some(0),
        restarts: 0,
        excluded: false,
        output_failing: false,
        fill: BTreeMap::new(),
    }
}

fn with_dead_time(time_ms: u64, live: f64, of_bu0: f64, of_nobody: f64) -> State {
    let cause = Cause {
        cause: "builder_credit",
        text: String::new(),
        remedy: "",
        seconds: of_bu0 + of_nobody,
        vetoed: 0,
        culprits: vec![Culprit { node: "bu0".into(), seconds: of_bu0 }],
    };
    let dead_time =
        DeadTime { live_seconds: live, dead_seconds: of_bu0 + of_nobody, now: None, causes: vec![cause] };
    State { books: Books { dead_time, ..Books::default() }, ..state(time_ms) }
}

fn codes(alarms: &[Alarm]) -> Vec<&str> {
    alarms.iter().map(|alarm| alarm.code).collect()
}

#[test]
fn a_run_in_which_nothing_is_wrong_raises_none() {
    let mut alarms = Alarms::default();
    for time_ms in (0..30_000).step_by(100) {
        assert_eq!(alarms.judge(&state(time_ms)), []);
    }
}

#[test]
fn dead_time_names_cause_and_culprit_and_ends_with_the_window() {
    let mut alarms = Alarms::default();
    alarms.judge(&with_dead_time(0, 0.0, 0.0, 0.0));
    assert_eq!(codes(&alarms.judge(&with_dead_time(1_000, 0.96, 0.04, 0.0))), [""; 0], "4 % are ordinary");
    let raised = alarms.judge(&with_dead_time(2_000, 1.5, 0.3, 0.2));
    assert_eq!((codes(&raised), raised[0].culprit.as_deref()), (vec!["dead-time"], Some("bu0")));
    assert!(raised[0].text.contains("25 % dead time"), "{}", raised[0].text);
    assert!(raised[0].remedy.contains("builder units"));
    for second in 3..=12 {
        alarms.judge(&with_dead_time(second * 1_000, second as f64 - 0.5, 0.3, 0.2));
    }
    assert_eq!(alarms.judge(&with_dead_time(13_000, 12.5, 0.3, 0.2)), []);
}

#[test]
fn a_run_whose_standby_does_not_come_back_is_unprotected() {
    let with_standby = |time_ms, ready| {
        let mut state = state(time_ms);
        state.run.standby = Some(Standby { ready, ..Standby::default() });
        state
    };
    let mut alarms = Alarms::default();
    assert_eq!(alarms.judge(&with_standby(0, true)), []);
    assert_eq!(alarms.judge(&with_standby(1_000, false)), [], "it may join in a moment");
    assert_eq!(alarms.judge(&with_standby(3_900, false)), []);
    assert_eq!(codes(&alarms.judge(&with_standby(4_000, false))), ["run-unprotected"]);
    assert_eq!(alarms.judge(&with_standby(4_100, true)), []);
    let mut starting = with_standby(10_000, false);
    starting.run.phase = "starting".into();
    alarms.judge(&starting);
    starting.time_ms = 20_000;
    assert_eq!(alarms.judge(&starting), [], "the run waits for it");
}

#[test]
fn readout_units_without_mirrors_are_named() {
    let with_units = |phase: &str, units: Option<&[&str]>| {
        let mut state = state(1_000);
        state.run.phase = phase.into();
        state.run.unmirrored = units.map(|units| units.iter().map(|unit| (*unit).to_owned()).collect());
        state
    };
    let mut alarms = Alarms::default();
    assert_eq!(alarms.judge(&with_units("running", None)), [], "they are to have none");
    assert_eq!(alarms.judge(&with_units("running", Some(&[]))), []);
    let one = alarms.judge(&with_units("running", Some(&["ru1"])));
    assert_eq!(codes(&one), ["unit-unprotected"]);
    assert_eq!(one[0].text, "ru1 has no mirror any more: if it dies now, its fragments are lost");
    let two = alarms.judge(&with_units("paused", Some(&["ru0", "ru1"])));
    assert!(
        two[0].text.starts_with("ru0, ru1 have no mirror any more: if one of them dies"),
        "{}",
        two[0].text
    );
    assert_eq!(alarms.judge(&with_units("closed", Some(&["ru1"]))), [], "nothing can be lost any more");
}

/// Builder units are full of events that wait for it: more builder units would not help.
#[test]
fn dead_time_by_a_silent_source_names_the_source() {
    let mut alarms = Alarms::default();
    alarms.judge(&with_dead_time(0, 0.0, 0.0, 0.0));
    let mut stuck = with_dead_time(2_000, 1.0, 0.0, 1.0);
    stuck.sources = vec![SourceState {
        source: 17,
        name: Some("ecal-3".into()),
        node: Some("ru0".into()),
        last_seen_seconds: Some(5.5),
        held_back: false,
        behind: true,
        missing: Vec::new(),
    }];
    let raised = alarms.judge(&stuck);
    assert_eq!((raised[0].code, raised[0].culprit.as_deref()), ("dead-time", Some("ecal-3")));
    assert!(raised[0].text.ends_with("events wait for source ecal-3"), "{}", raised[0].text);
    assert!(raised[0].remedy.contains("sheaf ctl exclude"));
}

/// Judges a run whose builder units are full for this reason: half of 2 s is dead time, 1,000 of 2,000 triggers were taken.
fn full(holdup: Holdup, held: u64) -> Alarm {
    full_with(holdup, held, 64)
}

/// Does the same for builder units with this number of slots each.
fn full_with(holdup: Holdup, held: u64, slots: u64) -> Alarm {
    let mut alarms = Alarms::default();
    alarms.judge(&with_dead_time(0, 0.0, 0.0, 0.0));
    for time_ms in (100..2_000).step_by(100) {
        alarms.add_reasons(time_ms, BTreeSet::from([holdup.clone()]));
    }
    let mut now = with_dead_time(2_000, 1.0, 0.0, 1.0);
    now.books.triggers.offered = 2_000;
    now.books.events.stored = 1_000;
    let fill = crate::state::Fill { value: held, limit: slots, unit: "events" };
    now.nodes =
        ["bu0", "bu1"].map(|name| NodeState { fill: BTreeMap::from([("slots", fill)]), ..node(name) }).into();
    alarms.judge(&now).swap_remove(0)
}

#[test]
fn dead_time_of_full_builder_units_names_what_their_events_wait_for() {
    let of_source = full(Holdup::Source { source: "ecal".into(), readout: "ru0".into() }, 64);
    assert_eq!(of_source.culprit.as_deref(), Some("ecal"));
    let of_readout = full(Holdup::Readout("ru1".into()), 64);
    assert_eq!(of_readout.culprit.as_deref(), Some("ru1"));
    assert!(of_readout.text.ends_with("events wait for fragments of ru1"), "{}", of_readout.text);
    let of_link = full(Holdup::Link { readout: "ru1".into(), builder: "bu0".into() }, 64);
    assert_eq!(of_link.culprit.as_deref(), Some("ru1-bu0"));
    let of_filter = full(Holdup::Filter, 64);
    assert_eq!(of_filter.culprit, None);
    assert!(of_filter.text.contains("128 slots, and an event takes 256 ms"), "{}", of_filter.text);
    assert!(of_filter.remedy.contains("filter workers"), "{}", of_filter.remedy);
}

/// 500 events end in a second, and 10 are held: an event takes 20 ms. 1,000 triggers a second need 20 slots, and 30 with a reserve, in two
/// builder units.
#[test]
fn too_few_slots_are_told_from_a_slow_network() {
    let few = full(Holdup::Fragments, 5);
    assert!(few.text.contains("too few slots: 128 slots, and an event takes 20 ms"), "{}", few.text);
    assert!(few.remedy.starts_with("raise `builder.slots` to 65 or more"), "{}", few.remedy);
    let slow = full(Holdup::Fragments, 64);
    assert!(slow.text.contains("fragments of several readout units"), "{}", slow.text);
    assert!(slow.remedy.starts_with("look at what"), "{}", slow.remedy);
}

/// An event at a time is stored and reported before the next one is built: the filter may be fast.
#[test]
fn few_slots_are_the_reason_although_events_are_built() {
    let few = full_with(Holdup::Filter, 8, 8);
    assert!(few.text.contains("too few slots: 16 slots, and an event takes 32 ms"), "{}", few.text);
}

/// A pause of 20 s in a run of 10 Hz raises no alarm, neither while it lasts nor after it; dead time beside it does.
#[test]
fn a_pause_is_no_alarm() {
    let paused = |time_ms: u64, live: f64, paused: f64, other: f64| {
        let mut state = with_dead_time(time_ms, live, other, 0.0);
        let pause = Cause {
            cause: "paused",
            seconds: paused,
            culprits: Vec::new(),
            ..state.books.dead_time.causes[0].clone()
        };
        state.books.dead_time.causes.push(pause);
        state.books.dead_time.dead_seconds += paused;
        state
    };
    let mut alarms = Alarms::default();
    for tick in 0..400_u32 {
        let live = 0.1 * f64::from(tick.min(50) + tick.saturating_sub(250));
        let pause = 0.1 * f64::from(tick.clamp(50, 250) - 50);
        let mut now = paused(u64::from(tick) * 100, live, pause, 0.0);
        now.run.phase = if (50..250).contains(&tick) { "paused" } else { "running" }.into();
        assert_eq!(alarms.judge(&now), [], "{tick}");
    }
    let raised = alarms.judge(&paused(40_000, 20.0, 20.0, 2.0));
    assert_eq!((codes(&raised), raised[0].culprit.as_deref()), (vec!["dead-time"], Some("bu0")));
}

#[test]
fn a_loss_stays_and_what_was_configured_is_none() {
    let drop = |reason: &str, account| Drop { reason: reason.into(), count: 3, account };
    let mut alarms = Alarms::default();
    let mut now = state(5);
    now.books.events.drops = vec![drop("builder_lost", "loss"), drop("incomplete", "as configured")];
    let raised = alarms.judge(&now);
    assert_eq!((codes(&raised), raised[0].since_ms), (vec!["loss"], 5));
    now.time_ms = 90_000;
    now.run.phase = "closed".into();
    assert_eq!(alarms.judge(&now)[0].since_ms, 5, "the loss is as old as before");
    now.run.number = Some(2);
    now.books = Books::default();
    assert_eq!(alarms.judge(&now), []);
}

#[test]
fn nodes_that_fall_silent_or_end_are_named() {
    let mut alarms = Alarms::default();
    let mut now = state(0);
    let silent = NodeState { age_ms: Some(2_500), ..node("bu1") };
    let gone = NodeState { up: false, ..node("ru0") };
    let absent = NodeState { up: false, age_ms: None, ..node("ru1") };
    let left_out = NodeState { up: false, excluded: true, ..node("ru1") };
    now.nodes = vec![node("bu0"), silent, gone, absent, left_out];
    assert_eq!(codes(&alarms.judge(&now)), ["node-silent"], "nodes may end a moment before the run");
    now.time_ms = 1_000;
    let raised = alarms.judge(&now);
    let named: Vec<_> = raised.iter().map(|alarm| (alarm.code, alarm.culprit.as_deref())).collect();
    assert_eq!(named, [("node-silent", Some("bu1")), ("node-gone", Some("ru0"))]);
    now.run.phase = "closed".into();
    assert_eq!(alarms.judge(&now), [], "nodes end with their run");
}

#[test]
fn an_output_that_is_out_of_room_for_a_moment_is_ordinary() {
    let mut alarms = Alarms::default();
    let at =
        |time_ms| State { nodes: vec![NodeState { output_failing: true, ..node("bu0") }], ..state(time_ms) };
    assert_eq!(alarms.judge(&at(0)), []);
    assert_eq!(alarms.judge(&at(900)), []);
    assert_eq!(codes(&alarms.judge(&at(1_000))), ["output-failing"]);
    assert_eq!(alarms.judge(&state(1_100)), []);
    assert_eq!(alarms.judge(&at(1_200)), [], "it begins anew");
}

#[test]
fn every_alarm_has_a_code_in_the_list() {
    let listed: Vec<_> = CODES.iter().map(|(code, _)| *code).collect();
    let source = [include_str!("../alarms.rs"), include_str!("absent.rs"), include_str!("hosts.rs")].concat();
    let raised = source.split("alarm(\"").skip(1).filter_map(|rest| rest.split('"').next());
    for code in raised {
        assert!(listed.contains(&code), "{code}");
    }
}

/// An alarm is a message of the log, too.
#[test]
fn every_alarm_is_a_code_of_messages() {
    for (code, _) in CODES {
        assert!(sheaf_telemetry::codes::find(code).is_some(), "{code} is no code of messages");
    }
}

#[test]
fn the_page_about_watching_a_run_explains_every_alarm() {
    let page = include_str!("../../../../docs/operating/monitor.md");
    let table = page.split_once("| alarm | raised when |").expect("the page has the table").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let explained: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(explained, CODES.map(|(code, _)| code));
}

/// A source that its readout unit holds back is not to blame, and neither is one that gives again at once when there is room.
#[test]
fn a_source_is_silent_only_while_there_is_room_for_its_fragments() {
    let mut alarms = Alarms::default();
    let at = |time_ms, held_back, seconds| {
        let mut state = state(time_ms);
        state.sources = vec![SourceState {
            source: 17,
            name: None,
            node: None,
            last_seen_seconds: Some(seconds),
            held_back,
            behind: true,
            missing: Vec::new(),
        }];
        state
    };
    assert_eq!(alarms.judge(&at(0, true, 18.0)), []);
    assert_eq!(alarms.judge(&at(2_000, true, 20.0)), []);
    assert_eq!(alarms.judge(&at(2_100, false, 20.1)), []);
    assert_eq!(alarms.judge(&at(2_200, false, 0.0)), []);
    assert_eq!(alarms.judge(&at(8_000, false, 5.8)), []);
    let raised = alarms.judge(&at(9_000, false, 6.8));
    let named: Vec<_> = raised.iter().map(|alarm| (alarm.code, alarm.culprit.as_deref())).collect();
    assert_eq!(named, [("source-silent", Some("17"))]);
}
