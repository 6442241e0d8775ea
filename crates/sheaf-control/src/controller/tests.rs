//! Effects of single commands. Whole histories are in `tests/simulation.rs`.

use super::*;
use crate::record::RunCommand;
use crate::request::{Command, Role};
use crate::sequence::{Row, Rule, SequenceAction, SequenceRequest, SequenceState, Table};
use sheaf_wire::Nanos;

fn at(ms: u64) -> Timestamp {
    Timestamp(ms * 1_000_000)
}

fn operator(name: &str, role: Role) -> Operator {
    Operator::new(name, role)
}

fn request(command: Command, name: &str) -> Request {
    Request { command, name: name.into(), settings: RunSettings::default(), now: false, revision: None }
}

fn ask(controller: &mut Controller, now: u64, command: Command, name: &str) -> Result<Accepted, Refusal> {
    controller.handle_request(at(now), &operator("alice", Role::Operator), &request(command, name))
}

fn report(order: u64, state: RunState) -> Report {
    Report { order, state, run: Some(7), ..Report::default() }
}

/// A controller whose first run is running, with an empty list of effects.
fn running() -> (Controller, Launch) {
    let mut controller = Controller::new(Limits::default());
    assert!(ask(&mut controller, 1, Command::Start, "a").is_ok());
    let launch = controller.launch().expect("it was launched");
    controller.handle_link(at(2), launch, true);
    controller.handle_report(at(3), launch, report(1, RunState::Running));
    while controller.poll_effect().is_some() {}
    (controller, launch)
}

#[test]
fn a_start_from_nothing_launches_a_run_that_is_not_held() {
    let mut controller = Controller::new(Limits::default());
    let accepted = ask(&mut controller, 1, Command::Start, "a").expect("it is idle");
    assert!(matches!(controller.poll_effect(), Some(Effect::Launch { held: false, .. })));
    assert_eq!((controller.state(), controller.target()), (State::Configuring, Target::Running));
    let launch = controller.launch().expect("it was launched");
    controller.handle_link(at(2), launch, true);
    assert!(matches!(
        controller.poll_effect(),
        Some(Effect::Send { order: Order { wish: Wish::Run, .. }, .. })
    ));
    controller.handle_report(at(3), launch, report(0, RunState::Running));
    assert!(controller.view().operation.is_some(), "the run does not follow the order yet");
    controller.handle_report(at(4), launch, report(1, RunState::Running));
    let operation = controller.operation(accepted.operation).expect("it is kept");
    assert_eq!(operation.end.as_ref().map(|end| end.text.as_str()), Some("run 7 is running"));
}

#[test]
fn a_request_that_comes_again_has_no_second_effect_even_when_the_state_has_changed() {
    let (mut controller, _) = running();
    let again = ask(&mut controller, 5, Command::Start, "a").expect("it was accepted");
    assert!(again.again);
    let other = ask(&mut controller, 6, Command::Stop, "a").expect_err("the name is taken");
    assert_eq!(other.code, RefusalCode::State);
}

/// The next controller has not reached the run yet, and knows what it does.
#[test]
fn a_controller_that_begins_takes_the_commands_that_its_predecessor_would_have_taken() {
    let (controller, launch) = running();
    let mut next = Controller::restore(controller.save(), Limits::default(), at(10));
    assert_eq!(next.state(), State::Running);
    assert!(ask(&mut next, 11, Command::Pause, "b").is_ok());
    assert!(next.view().operation.is_some(), "the run has not followed the order");
    next.handle_link(at(12), launch, true);
    let order = Order { number: 2, wish: Wish::Pause, ..controller.run.expect("it runs").order().clone() };
    assert_eq!(next.poll_effect(), Some(Effect::Send { launch, order }));
    next.handle_report(at(13), launch, report(2, RunState::Paused));
    assert_eq!(next.view().operation, None);
}

#[test]
fn a_run_that_was_accepted_and_not_launched_is_launched_by_the_next_controller_unless_it_is_to_end() {
    let mut controller = Controller::new(Limits::default());
    let accepted = ask(&mut controller, 1, Command::Configure, "a").expect("it is idle");
    let launched = controller.poll_effect();
    let mut next = Controller::restore(controller.save(), Limits::default(), at(10));
    next.handle_unlaunched(at(10));
    assert_eq!(next.poll_effect(), launched);
    assert!(ask(&mut controller, 2, Command::Stop, "b").is_ok());
    let mut last = Controller::restore(controller.save(), Limits::default(), at(10));
    last.handle_unlaunched(at(10));
    assert_eq!((last.poll_effect(), last.state()), (None, State::Idle));
    let superseded = last.operation(accepted.operation).and_then(|operation| operation.end.clone());
    assert_eq!(superseded.map(|end| end.result), Some(Outcome::Superseded));
}

#[test]
fn who_has_seen_an_old_state_is_refused() {
    let (mut controller, _) = running();
    let old = Request { revision: Some(0), ..request(Command::Stop, "b") };
    let refusal =
        controller.handle_request(at(5), &operator("alice", Role::Operator), &old).expect_err("old");
    assert_eq!(refusal.code, RefusalCode::Stale);
    let new = Request { revision: Some(controller.view().revision), ..old };
    assert!(controller.handle_request(at(5), &operator("alice", Role::Operator), &new).is_ok());
}

#[test]
fn a_stop_ends_a_run_that_hangs_by_dropping_its_events_and_then_by_killing_it() {
    let (mut controller, launch) = running();
    assert!(ask(&mut controller, 10, Command::Stop, "b").is_ok());
    assert!(matches!(
        controller.poll_effect(),
        Some(Effect::Send { order: Order { wish: Wish::Stop, .. }, .. })
    ));
    let drain = controller.poll_timeout().expect("a limit");
    assert_eq!(drain, at(10) + Limits::default().drain);
    controller.handle_timeout(drain);
    assert!(matches!(
        controller.poll_effect(),
        Some(Effect::Send { order: Order { wish: Wish::Cut, .. }, .. })
    ));
    let cut = controller.poll_timeout().expect("a limit");
    controller.handle_timeout(cut);
    assert_eq!(controller.poll_effect(), Some(Effect::Kill { launch }));
    let codes: Vec<_> = controller.view().faults.iter().map(|fault| fault.code).collect();
    assert_eq!(codes, [FaultCode::StopCut, FaultCode::Killed]);
    controller.handle_gone(cut + Nanos::from_millis(1), launch, &Gone::default());
    assert_eq!(controller.state(), State::Idle);
    let view = controller.view();
    assert_eq!(view.faults.len(), 2, "it did not die by itself");
    assert_eq!(view.last_run.map(|last| last.text).as_deref(), Some("run 7 was killed"));
}

#[test]
fn a_run_that_dies_is_a_fault() {
    let (mut controller, launch) = running();
    let gone = Gone { result: None, how: "signal: 11".into(), look: "see its log".into() };
    controller.handle_gone(at(20), launch, &gone);
    let view = controller.view();
    assert_eq!(view.faults[0].code, FaultCode::RunDied);
    assert_eq!(view.faults[0].text, "the process of run 7 died: signal: 11");
    assert_eq!((view.state, view.target), (State::Idle, Target::Idle));
    assert!(ask(&mut controller, 21, Command::Start, "c").is_ok(), "a fault is no state");
}

#[test]
fn the_lock_keeps_others_away_until_it_ends_and_only_an_admin_takes_it() {
    let (mut controller, _) = running();
    let (alice, bob, carol) =
        (operator("alice", Role::Operator), operator("bob", Role::Operator), operator("carol", Role::Admin));
    controller.handle_lock(at(5), &alice, false).expect("it is free");
    let stop = request(Command::Stop, "b");
    let refusal = controller.handle_request(at(6), &bob, &stop).expect_err("it is locked");
    assert_eq!(refusal.code, RefusalCode::Locked);
    assert_eq!(controller.handle_lock(at(6), &bob, true).expect_err("no admin").code, RefusalCode::Role);
    assert_eq!(controller.handle_lock(at(6), &carol, false).expect_err("no force").code, RefusalCode::Locked);
    controller.handle_lock(at(6), &carol, true).expect("an admin");
    assert!(controller.handle_request(at(7), &alice, &stop).is_err());
    let end = at(6) + Limits::default().lock;
    controller.handle_timeout(end);
    assert!(controller.handle_request(end, &bob, &stop).is_ok());
}

#[test]
fn commands_say_why_they_cannot_be_given() {
    let controller = Controller::new(Limits::default());
    let allowed: Vec<_> = controller.view().commands.into_iter().map(|command| command.allowed).collect();
    assert_eq!(allowed, [true, true, false, false, false, false, true]);
    let (mut controller, launch) = running();
    let no_pause = Some("its triggers come from its data".to_owned());
    controller.handle_report(at(9), launch, Report { no_pause, ..report(1, RunState::Running) });
    let pause = &controller.view().commands[2];
    assert_eq!(pause.why.as_deref(), Some("run 7 cannot be paused: its triggers come from its data"));
}

fn sequence(name: &str, rows: usize) -> SequenceRequest {
    let row = |index: usize| Row { values: vec![index.to_string()], comment: None };
    let table = Table { columns: vec!["filter.busy_us".into()], rows: (0..rows).map(row).collect() };
    SequenceRequest {
        request: name.into(),
        name: name.into(),
        table: Arc::new(table),
        rule: Rule::Pause,
        repeats: 0,
        resume: false,
        revision: None,
    }
}

#[test]
fn nobody_starts_a_run_between_two_rows() {
    let mut controller = Controller::new(Limits::default());
    let alice = operator("alice", Role::Operator);
    controller.handle_sequence(at(1), &alice, &sequence("scan", 2)).expect("it is idle");
    assert!(controller.is_row_due());
    let refusal = ask(&mut controller, 2, Command::Start, "a").expect_err("a row is due");
    assert_eq!(refusal.text, "the sequence scan is about to begin a row");
    controller.handle_row(at(3));
    assert!(
        matches!(controller.poll_effect(), Some(Effect::Launch { settings, .. }) if settings.sequence.is_some())
    );
    controller.handle_sequence_action(at(4), &alice, (SequenceAction::Pause, None), None).expect("it runs");
    assert!(!controller.is_row_due());
}

#[test]
fn a_sequence_pauses_at_a_row_while_somebody_else_has_the_lock() {
    let mut controller = Controller::new(Limits::default());
    let (alice, bob) = (operator("alice", Role::Operator), operator("bob", Role::Operator));
    controller.handle_sequence(at(1), &alice, &sequence("scan", 1)).expect("it is idle");
    controller.handle_lock(at(2), &bob, false).expect("it is free");
    controller.handle_row(at(3));
    let view = controller.view().sequence.expect("it is shown");
    assert_eq!(view.state, SequenceState::Paused);
    assert!(view.reason.is_some_and(|reason| reason.starts_with("bob has the lock")));
    controller.handle_sequence_action(at(4), &bob, (SequenceAction::Resume, None), None).expect("he may");
    controller.handle_row(at(5));
    assert!(matches!(controller.poll_effect(), Some(Effect::Launch { by, .. }) if by == "bob"));
}

#[test]
fn tables_that_make_no_sense_are_refused() {
    let mut controller = Controller::new(Limits::default());
    let alice = operator("alice", Role::Operator);
    let mut wrong = vec![sequence("", 1), sequence("a b", 1), sequence("scan", 0), sequence("scan", 10_001)];
    wrong.push(SequenceRequest { repeats: 101, ..sequence("scan", 1) });
    wrong.push(SequenceRequest { request: String::new(), ..sequence("scan", 1) });
    for request in wrong {
        let refusal = controller.handle_sequence(at(1), &alice, &request).expect_err("it is wrong");
        assert_eq!(refusal.code, RefusalCode::Invalid, "{refusal}");
    }
    let resume = SequenceRequest { resume: true, ..sequence("scan", 1) };
    let refusal = controller.handle_sequence(at(1), &alice, &resume).expect_err("there was none");
    assert_eq!(refusal.code, RefusalCode::State);
}

#[test]
fn time_limits_that_change_apply_to_what_begins_afterwards() {
    let (mut controller, launch) = running();
    let drain = Nanos::from_secs(7);
    controller.set_limits(Limits { drain, ..Limits::default() });
    assert!(ask(&mut controller, 10, Command::Stop, "b").is_ok());
    assert_eq!(controller.poll_timeout(), Some(Timestamp(at(10).0 + drain.0)));
    controller.handle_timeout(Timestamp(at(10).0 + drain.0));
    while let Some(effect) = controller.poll_effect() {
        assert!(!matches!(effect, Effect::Kill { .. }), "{effect:?} of {launch:?}");
    }
}

#[test]
fn a_run_that_ends_says_what_it_waits_for() {
    let (mut controller, launch) = running();
    assert!(ask(&mut controller, 10, Command::Stop, "b").is_ok());
    let waits_for = Some("hook copy (after_stop)".to_owned());
    controller.handle_report(at(11), launch, Report { waits_for, ..report(2, RunState::Stopping) });
    let progress = controller.view().operation.and_then(|operation| operation.progress);
    assert_eq!(progress.as_deref(), Some("ends, and waits for hook copy (after_stop)"));
}

/// Returns the commands in the record of the run, each with its result.
fn recorded(controller: &Controller) -> Vec<String> {
    let commands = controller.commands().map(|(_, log)| log.commands.clone()).unwrap_or_default();
    let line = |command: RunCommand| {
        let target = command.target.map_or_else(String::new, |target| format!(" {target}"));
        let end =
            command.end.map_or_else(|| "open".to_owned(), |end| format!("{:?}: {}", end.result, end.text));
        format!("{} {}{target}: {end}", command.by, command.command)
    };
    commands.into_iter().map(line).collect()
}

#[test]
fn the_record_of_a_run_has_what_was_asked_for_before_it_and_during_it_once_with_results() {
    let mut controller = Controller::new(Limits::default());
    let (alice, carol) = (operator("alice", Role::Operator), operator("carol", Role::Admin));
    controller.handle_lock(at(1), &operator("bob", Role::Operator), false).expect("it is free");
    controller.handle_lock(at(2), &carol, true).expect("an admin");
    controller.handle_unlock(at(3), &carol);
    let exclude = |controller: &mut Controller, now, included| {
        controller.handle_exclusion(at(now), &alice, (Excludable::Source(3), included), None)
    };
    exclude(&mut controller, 4, false).expect("nobody has the lock");
    exclude(&mut controller, 5, false).expect("without effect");
    ask(&mut controller, 6, Command::Start, "a").expect("it is idle");
    let launch = controller.launch().expect("it was launched");
    controller.handle_link(at(7), launch, true);
    controller.handle_report(at(8), launch, report(1, RunState::Running));
    controller.handle_recover(at(9), &alice, ("ru1", "r"), None).expect("its nodes are processes");
    controller.handle_recover(at(9), &alice, ("ru1", "r"), None).expect("the same request");
    let pause = Request {
        settings: RunSettings { comment: Some("beam lost".into()), ..RunSettings::default() },
        ..request(Command::Pause, "b")
    };
    controller.handle_request(at(10), &alice, &pause).expect("it takes triggers");
    exclude(&mut controller, 11, true).expect("nobody has the lock");
    let mut done = report(4, RunState::Paused);
    done.recovered.insert("ru1".into(), 2);
    let before = recorded(&controller);
    assert!(before.iter().skip(3).all(|line| line.ends_with("open")), "{before:?}");
    controller.handle_report(at(12), launch, done);
    assert_eq!(
        recorded(&controller),
        [
            "carol lock: Done: taken from bob by force",
            "alice exclude source 3: Done: for the next run",
            "alice start: Done: run 7 is running",
            "alice recover ru1: Done: run 7 started it again",
            "alice pause: Done: run 7 is paused",
            "alice include source 3: Done: run 7 includes it",
        ]
    );
    let comments: Vec<_> = controller.commands().into_iter().flat_map(|(_, log)| &log.commands).collect();
    assert_eq!(comments[4].comment.as_deref(), Some("beam lost"));
    // What comes after its end is of the next run.
    controller.handle_gone(at(13), launch, &Gone::default());
    let (of, log) = controller.take_commands().expect("it had some");
    assert_eq!((of, log.commands.len()), (launch, 6));
    exclude(&mut controller, 14, false).expect("nobody has the lock");
    ask(&mut controller, 15, Command::Start, "c").expect("it is idle");
    assert_eq!(recorded(&controller).len(), 2);
}

#[test]
fn a_run_that_dies_while_it_is_stopped_leaves_the_result_of_the_stop() {
    let (mut controller, launch) = running();
    let bob = operator("bob", Role::Operator).via("Ctrl-C");
    controller.handle_request(at(5), &bob, &request(Command::Stop, "b")).expect("it is running");
    controller.handle_gone(at(6), launch, &Gone { how: "signal: 9".into(), ..Gone::default() });
    let (_, log) = controller.take_commands().expect("it had some");
    let stop = log.commands.last().expect("the stop");
    assert_eq!((stop.by.as_str(), stop.via.as_deref()), ("bob", Some("Ctrl-C")));
    let end = stop.end.as_ref().expect("it has ended");
    assert_eq!((end.result, &*end.text), (Outcome::Done, "the process of run 7 died: signal: 9"));
}

#[test]
fn a_run_like_another_one_says_so_and_what_is_no_run_is_refused() {
    let mut controller = Controller::new(Limits::default());
    let alice = operator("alice", Role::Operator);
    let like = |command, text: &str| Request {
        settings: RunSettings { like: Some(text.into()), ..RunSettings::default() },
        ..request(command, "a")
    };
    for refused in [like(Command::Start, ""), like(Command::Start, &"x".repeat(81)), like(Command::Stop, "7")]
    {
        let refusal = controller.handle_request(at(1), &alice, &refused).expect_err("no run");
        assert_eq!(refusal.code, RefusalCode::Invalid);
    }
    controller.handle_request(at(2), &alice, &like(Command::Start, "7")).expect("it is idle");
    assert_eq!((controller.like(), controller.knows("a"), controller.knows("b")), (Some("7"), true, false));
    assert!(matches!(
        controller.poll_effect(),
        Some(Effect::Launch { settings: RunSettings { like: Some(like), .. }, .. }) if like == "7"
    ));
    assert_eq!(recorded(&controller), ["alice start like 7: open"]);
}
