//! States out of snapshots.

use super::*;
use crate::description::NodeDescription;
use sheaf_telemetry::{Hub, Metric, SeriesList};

/// Adds a node with these values to the hub.
fn publish(hub: &Hub, node: &str, values: &[(&'static Metric, &[&str], u64)]) {
    let mut list = SeriesList::default();
    let ids: Vec<_> = values.iter().map(|(metric, labels, _)| list.add(metric, labels)).collect();
    let mut publisher = list.publish();
    publisher.publish(1, |to| ids.iter().zip(values).for_each(|(id, (.., value))| to.set(*id, *value)));
    hub.add(node, publisher.publication());
}

fn description() -> RunDescription {
    let node = |name: &str, role: &str| NodeDescription { name: name.into(), role: role.into(), agent: None };
    RunDescription {
        number: 7,
        traces: None,
        histograms: None,
        directory: Some("/data/run000007".into()),
        nodes: vec![node("ru0", "readout"), node("bu0", "builder"), node("evm", "manager")],
        sources: [(3, Some("DU3".to_owned())), (4, None)].into(),
    }
}

fn state_of(hub: &Hub) -> State {
    let run = description();
    let context = Context {
        version: "1.2.3",
        time_ms: 9,
        revision: 4,
        run: Some(&run),
        waits_for: None,
        verdict: None,
    };
    compose(&hub.snapshot(), &context)
}

#[test]
fn a_run_that_nobody_has_published_is_starting() {
    let state = state_of(&Hub::default());
    assert_eq!((&*state.run.phase, state.run.number, state.run.sources), ("starting", None, 2));
    assert_eq!(state.nodes.len(), 3);
    assert!(state.nodes.iter().all(|node| !node.up && node.age_ms.is_none()));
    assert_eq!(state.age_ms, None);
}

/// Its thread may hang before its first values.
#[test]
fn a_node_that_has_begun_and_not_published_is_absent_until_it_does_or_ends() {
    let hub = Hub::default();
    let mut publisher = SeriesList::default().publish();
    hub.add("ru0", publisher.publication());
    let node = || state_of(&hub).nodes.swap_remove(0);
    assert_eq!((node().up, node().age_ms), (false, None));
    publisher.publish(1, |_| {});
    assert!(node().up && node().age_ms.is_some());
    hub.add("ru0", SeriesList::default().publish().publication());
    assert!(node().age_ms.is_some(), "it has published before it began again");
    hub.clear();
    hub.add("ru0", SeriesList::default().publish().publication());
    hub.note_gone("ru0");
    assert!(!node().up && node().age_ms.is_some());
}

#[test]
fn books_have_every_bin_and_their_difference() {
    let hub = Hub::default();
    publish(
        &hub,
        "evm",
        &[
            (&catalog::RUN_NUMBER, &[], 7),
            (&catalog::RUN_STATE, &["running"], 1),
            (&catalog::RUN_STATE, &["closed"], 0),
            (&catalog::RUN_START, &[], 5_000_000),
            (&catalog::TRIGGERS, &[], 110),
            (&catalog::TRIGGERS_ACCEPTED, &[], 100),
            (&catalog::TRIGGERS_VETOED, &["builder_credit"], 10),
            (&catalog::EVENTS, &["stored"], 50),
            (&catalog::EVENTS, &["rejected"], 30),
            (&catalog::EVENTS, &["dropped"], 5),
            (&catalog::EVENT_DROPS, &["builder_lost"], 5),
            (&catalog::EVENT_DROPS, &["stopped"], 0),
            (&catalog::EVENTS_IN_FLIGHT, &[], 14),
            (&catalog::LIVE_SECONDS, &[], 3_000_000_000),
            (&catalog::DEAD_SECONDS, &["builder_credit", ""], 250_000_000),
            (&catalog::DEAD_SECONDS, &["builder_credit", "bu0"], 750_000_000),
            (&catalog::GATE_SHUT, &["builder_credit", "bu0"], 1),
        ],
    );
    let state = state_of(&hub);
    assert_eq!((state.run.number, &*state.run.phase, state.run.began_ms), (Some(7), "running", Some(5)));
    assert!((state.run.seconds - 4.0).abs() < 1e-9);
    let books = &state.books;
    assert_eq!(books.triggers, Triggers { offered: 110, accepted: 100, vetoed: 10 });
    assert_eq!(books.imbalance.triggers, 1);
    let lost = Drop { reason: "builder_lost".into(), count: 5, account: "loss" };
    assert_eq!(books.events.drops, [lost]);
    let cause = &books.dead_time.causes[0];
    assert_eq!((cause.cause, cause.vetoed, &*cause.culprits[0].node), ("builder_credit", 10, "bu0"));
    assert!((cause.seconds - 1.0).abs() < 1e-9 && (cause.culprits[0].seconds - 0.75).abs() < 1e-9);
    let shut = books.dead_time.now.as_ref().expect("the gate is shut");
    assert_eq!((&*shut.cause, shut.culprit.as_deref()), ("builder_credit", Some("bu0")));
}

#[test]
fn sources_in_trouble_have_their_names_and_reasons() {
    let hub = Hub::default();
    let second = 1_000_000_000;
    publish(
        &hub,
        "ru0",
        &[
            (&catalog::SOURCE_AGE, &["3"], 9 * second),
            (&catalog::SOURCE_AGE, &["4"], second),
            (&catalog::SOURCE_HELD_BACK, &["4"], 0),
            (&catalog::SOURCE_AGE, &["5"], 20 * second),
            (&catalog::SOURCE_HELD_BACK, &["5"], 1),
        ],
    );
    publish(&hub, "bu0", &[(&catalog::SOURCE_MISSING, &["3", "source_silent"], 2)]);
    publish(&hub, "bu1", &[(&catalog::SOURCE_MISSING, &["3", "source_silent"], 3)]);
    let sources = state_of(&hub).sources;
    assert_eq!(sources.len(), 1, "one that is held back is not in trouble");
    let source = &sources[0];
    assert_eq!(
        (source.source, source.name.as_deref(), source.node.as_deref()),
        (3, Some("DU3"), Some("ru0"))
    );
    assert_eq!(source.missing, [Missing { reason: "source_silent".into(), events: 5 }]);
}

/// Sources without triggers give nothing, and neither do those that wait for another one.
#[test]
fn a_source_is_silent_only_while_a_fragment_of_it_is_requested() {
    let hub = Hub::default();
    publish(&hub, "evm", &[(&catalog::RUN_NUMBER, &[], 7), (&catalog::RUN_STATE, &["running"], 1)]);
    let second = 1_000_000_000;
    let sources: [(_, &[&str], _); 5] = [
        (&catalog::SOURCE_AGE, &["3"], 8 * second),
        (&catalog::SOURCE_BEHIND, &["3"], 1),
        (&catalog::SOURCE_AGE, &["4"], 9 * second),
        (&catalog::SOURCE_BEHIND, &["4"], 0),
        (&catalog::SOURCE_AGE, &["5"], 9 * second),
    ];
    publish(&hub, "ru0", &sources);
    let silent: Vec<_> = state_of(&hub).sources.iter().map(|source| source.source).collect();
    assert_eq!(silent, [3]);
}

#[test]
fn a_verdict_closes_the_run() {
    let run = description();
    let verdict = RunVerdict { good: true, lines: vec!["all is well".into()] };
    let context = Context {
        version: "",
        time_ms: 0,
        revision: 0,
        run: Some(&run),
        waits_for: None,
        verdict: Some(verdict.clone()),
    };
    let state = compose(&Hub::default().snapshot(), &context);
    assert_eq!((&*state.run.phase, state.run.verdict), ("closed", Some(verdict)));
}

#[test]
fn figures_are_the_numbers_that_are_not_0() {
    let hub = Hub::default();
    publish(
        &hub,
        "ru0",
        &[
            (&catalog::FRAGMENTS, &["stored"], 5),
            (&catalog::RESENT, &[], 0),
            (&catalog::SOURCE_FRAGMENTS, &["3"], 9),
        ],
    );
    let figures = figures_of(&hub.snapshot().nodes["ru0"]);
    let shown: Vec<_> = figures.iter().map(|figure| &*figure.name).collect();
    assert_eq!(shown, ["fragments (stored)"]);
}
