//! Exhaustive exploration of votes about the active replica of the event manager: every order of messages, losses, repetitions and
//! restarts, within bounds.
//!
//! The voters and proposers are the real ones. Each state is visited once, breadth first, so that a violation is shown by a shortest
//! way to it. Checked in every state: configurations that replicas know to be decided form a chain of allowed changes, no two of them
//! have the same term, a change leaves its own replica active, and no voter goes back to a lower ballot.

mod explore;
mod intern;
mod sabotage;
mod walks;
mod world;

use explore::{Exploration, explore};
use sabotage::Sabotage;
use sheaf_wire::message::Ballot;
use world::{Answers, Budget, Setup};

/// Each replica proposes one change.
const ONE_CHANGE_EACH: Budget = Budget { changes: [1, 1], restarts: 0, restorations: 0, crashes: 0 };

/// Three founded voters, and the two changes that compete.
fn setup(highest: u64, budget: Budget) -> Setup {
    Setup {
        voters: 3,
        budget,
        highest: Ballot(highest),
        answers: Answers::AtOnce,
        competes: true,
        head_start: [0, 0],
        is_founded: true,
        lives_on: false,
        sabotage: Sabotage::None,
    }
}

/// A replica prepares ballot 5. A voter forgets its promise, and is restored by ballot 2. Then ballot 4 is decided.
fn forgotten_promise() -> Setup {
    Setup { head_start: [0, 1], ..setup(5, Budget { restarts: 1, restorations: 1, ..ONE_CHANGE_EACH }) }
}

#[expect(clippy::print_stdout, reason = "the numbers of states belong to the result")]
fn assert_safe(setup: Setup) -> Exploration {
    let found = explore(setup);
    println!("{} states, {} actions: {setup:?}", found.states, found.actions);
    if let Some(violation) = &found.violation {
        panic!("{violation}");
    }
    found
}

#[test]
fn changes_that_compete_form_a_chain() {
    let found = assert_safe(setup(5, ONE_CHANGE_EACH));
    assert!(found.decided >= 2, "the foundation and the change that was first: {}", found.decided);
}

#[test]
fn any_changes_of_both_replicas_form_a_chain() {
    let found = assert_safe(Setup { competes: false, ..setup(3, ONE_CHANGE_EACH) });
    assert!(found.decided >= 2, "{}", found.decided);
}

#[test]
fn voters_restart_while_changes_compete() {
    let found = assert_safe(setup(3, Budget { restarts: 2, ..ONE_CHANGE_EACH }));
    assert!(found.decided >= 2, "{}", found.decided);
}

/// A mirror votes for a readout unit, which was only frozen and votes as well.
#[test]
fn a_voter_is_replaced_whose_earlier_life_goes_on_to_vote() {
    let found = assert_safe(Setup { lives_on: true, ..forgotten_promise() });
    assert!(found.decided >= 2, "{}", found.decided);
}

#[test]
fn a_voter_that_has_forgotten_a_promise_is_restored() {
    let found = assert_safe(forgotten_promise());
    assert!(found.decided >= 2, "{}", found.decided);
}

#[test]
fn a_replica_restarts_while_changes_compete() {
    let found = assert_safe(setup(3, Budget { crashes: 1, ..ONE_CHANGE_EACH }));
    assert!(found.decided >= 2, "{}", found.decided);
}

#[test]
fn the_first_configuration_is_founded_once() {
    let founding = |budget, highest| Setup { is_founded: false, ..setup(highest, budget) };
    // With two restarts all voters may be blank again: two have restarted, and one was not confirmed. Then another session of the
    // replica may found again.
    let restarts = Budget { changes: [3, 0], restarts: 1, restorations: 0, crashes: 1 };
    assert_safe(founding(restarts, 1));
    let found = assert_safe(founding(ONE_CHANGE_EACH, 3));
    assert!(
        found.decided >= 2,
        "a standby takes over as soon as there is a configuration: {}",
        found.decided
    );
}

#[test]
fn one_voter_decides_alone() {
    let found = assert_safe(Setup {
        voters: 1,
        competes: false,
        answers: Answers::Whenever,
        ..setup(5, Budget { crashes: 1, ..ONE_CHANGE_EACH })
    });
    assert!(found.decided >= 2, "{}", found.decided);
}

/// Takes minutes with optimisation: 8,612,412 states in all.
#[test]
fn larger_worlds_are_safe() {
    if std::env::var_os("SHEAF_NIGHTLY").is_none() {
        println!("skipped: takes minutes; set SHEAF_NIGHTLY=1 and build with --release");
        return;
    }
    let faults = Budget { restarts: 1, restorations: 1, crashes: 1, ..ONE_CHANGE_EACH };
    let restarts = Budget { restarts: 2, restorations: 2, ..ONE_CHANGE_EACH };
    assert_safe(setup(5, faults));
    assert_safe(Setup { head_start: [0, 2], ..setup(7, restarts) });
    assert_safe(Setup { lives_on: true, ..setup(5, restarts) });
    assert_safe(Setup { answers: Answers::Whenever, ..setup(3, ONE_CHANGE_EACH) });
    assert_safe(Setup { competes: false, ..setup(5, Budget { changes: [2, 1], ..ONE_CHANGE_EACH }) });
}

#[test]
fn planted_bugs_are_found() {
    let restart = setup(5, Budget { restarts: 1, ..ONE_CHANGE_EACH });
    let mut bugs = vec![
        (Sabotage::VotesAfterRestart, restart),
        (Sabotage::RestoredUnprepared, restart),
        (Sabotage::NamesNoLives, forgotten_promise()),
        (Sabotage::AcceptsBelowPromise, setup(3, ONE_CHANGE_EACH)),
        (Sabotage::ForgetsAccepted, setup(3, ONE_CHANGE_EACH)),
        (Sabotage::OneVoterSuffices, setup(3, ONE_CHANGE_EACH)),
    ];
    if std::env::var_os("SHEAF_NIGHTLY").is_some() {
        // These need 884,341 and 2,369,809 states.
        let crash = setup(5, Budget { changes: [1, 2], crashes: 1, ..ONE_CHANGE_EACH });
        let restarts = setup(5, Budget { restarts: 2, restorations: 1, ..ONE_CHANGE_EACH });
        bugs.extend([(Sabotage::MixesReplicaLives, crash), (Sabotage::RestoredByOldMessage, restarts)]);
    }
    for (sabotage, setup) in bugs {
        let found = explore(Setup { sabotage, ..setup });
        println!("{sabotage:?}: found after {} states", found.states);
        assert!(found.violation.is_some(), "{sabotage:?} was not found in {} states", found.states);
    }
}

#[test]
fn long_walks_among_five_voters_are_safe() {
    let walks = if std::env::var_os("SHEAF_NIGHTLY").is_some() { 100_000 } else { 200 };
    let budget = Budget { changes: [8, 8], restarts: 4, restorations: 4, crashes: 2 };
    let setup = Setup { voters: 5, competes: false, answers: Answers::Whenever, ..setup(80, budget) };
    let mut decided = 0;
    for seed in 0..walks {
        let answers = if seed % 2 == 0 { Answers::Whenever } else { Answers::AtOnce };
        let lives_on = seed % 4 < 2;
        let walk = walks::walk(Setup { answers, lives_on, ..setup }, seed, 800);
        decided += walk.unwrap_or_else(|violation| panic!("{violation}"));
    }
    println!("{walks} walks, {decided} decided configurations");
    assert!(
        decided > walks as usize + walks as usize / 2,
        "changes were decided after the foundation: {decided}"
    );
}
