//! Failing runs become small: nothing is left that the failure does not need.

use sheaf_swarm::cluster::Sabotage;
use sheaf_swarm::drivers::{DriverFaultKind, DriverOptions, Family};
use sheaf_swarm::options::FaultKind;
use sheaf_swarm::shrink::{particulars, shrink};
use sheaf_swarm::{Cluster, Options, Violation};
use sheaf_wire::{NodeId, Role};

/// Returns the first violation of a run with a broken disk.
fn broken(options: &Options) -> Option<String> {
    let mut cluster = Cluster::new(options.clone());
    cluster.sabotage(Sabotage::FlipTag);
    let failure = cluster.finish().err()?;
    // Events are told apart by their numbers alone.
    failure.violations.first().map(Violation::rule)
}

#[test]
fn a_broken_disk_needs_one_node_of_each_kind_and_one_event() {
    let seeds = (0..40).map(Options::random);
    let options = seeds
        .filter(|options| options.faults.len() > 5 && options.system.outputs == 0)
        .find(|options| broken(options).is_some_and(|rule| rule.contains("on the disk of")))
        .expect("some run writes an event");
    let small = shrink(&options, 600, broken).expect("it fails").options;
    let system = &small.system;
    assert_eq!((system.readouts, system.sources_per_readout, system.builders), (1, 1, 1), "{small:#?}");
    assert!(small.faults.is_empty() && small.farm.is_none() && small.events <= 3, "{small:#?}");
    assert_eq!(broken(&small), broken(&options));
}

#[test]
fn what_a_failure_needs_stays() {
    let is_wanted =
        |kind: &FaultKind| matches!(kind, FaultKind::Crash { node, .. } if *node == NodeId::builder(1));
    let rule = |options: &Options| {
        let crashes = options.faults.iter().any(|fault| is_wanted(&fault.kind));
        (crashes && options.events >= 7).then(|| "it fails".to_owned())
    };
    let options = (0..1_000).map(Options::random).find(|options| rule(options).is_some());
    let small = shrink(&options.expect("some run has it"), 600, rule).expect("it fails").options;
    assert_eq!((small.events, small.faults.len(), small.system.builders), (7, 1, 2));
    assert!(is_wanted(&small.faults[0].kind));
    let text = particulars(&small);
    assert!(text.contains("events: 7,") && text.contains("kind: Crash"), "{text}");
    assert!(text.lines().count() < 40, "{text}");
}

#[test]
fn runs_of_drivers_shrink_too() {
    let is_freeze = |kind: DriverFaultKind| matches!(kind, DriverFaultKind::Freeze { .. });
    let rule = |options: &DriverOptions| {
        let freezes = options.faults.iter().filter(|fault| is_freeze(fault.kind)).count();
        (freezes > 0 && options.outputs > 0).then(|| "it fails".to_owned())
    };
    let mut options = (0..1_000).map(|seed| DriverOptions::random(Family::Slowness, seed));
    let options = options.find(|options| options.faults.len() > 2 && rule(options).is_some());
    let small = shrink(&options.expect("some run has it"), 600, rule).expect("it fails").options;
    // The node that freezes stays, and with it those before it.
    let frozen = small.faults[0].node;
    let needed = |role| if frozen.role == role { frozen.index + 1 } else { 1 };
    let expected = (needed(Role::Readout), needed(Role::Builder), needed(Role::Output), 1);
    assert_eq!((small.readouts, small.builders, small.outputs, small.events), expected);
    assert!(small.faults.len() == 1 && is_freeze(small.faults[0].kind));
}

#[test]
fn a_good_run_does_not_shrink() {
    assert!(shrink(&Options::default(), 10, |_| None).is_none());
}
