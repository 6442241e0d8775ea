//! Event building in steps, regions of interest, and triggers that not all readout units answer, under faults. Every run is
//! checked as random runs are; the tests assert what is particular to them.

use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::ledger::Counter;
use sheaf_swarm::dice::Ratio;
use sheaf_swarm::options::StepOptions;
use sheaf_swarm::options::{FaultKind, TriggerOptions};
use sheaf_swarm::{Cluster, Options, Report};
use sheaf_wire::{ByteCount, DropReason, MissingReason, Nanos, NodeId, Timestamp};

/// Three readout units with two sources each, three builders, and a first step that rejects, wants more, or is enough.
fn world(change: impl FnOnce(&mut Options)) -> Cluster {
    let mut options = Options {
        steps: StepOptions {
            first: 3,
            reject: Ratio::percent(40),
            enough: Ratio::percent(10),
            region: Ratio::percent(25),
            ..StepOptions::default()
        },
        ..Options::default()
    };
    change(&mut options);
    Cluster::new(options)
}

#[track_caller]
fn good(cluster: Cluster) -> Report {
    cluster.finish().unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn what_is_rejected_early_is_not_asked_for() {
    let report = good(world(|_| {}));
    let early = report.counters[&Counter::RejectedParts];
    assert!(early > 50, "{early} of 200");
    assert_eq!((report.ledger.rejected, report.ledger.stored), (early, 200 - early));
    let not_requested = report.fragments.dropped[&DropReason::NotRequested];
    assert!(not_requested > 0 && report.fragments.rejected > 0, "{:?}", report.fragments);
    let sent = report.counters[&Counter::SentBytes];
    assert!(sent > 0 && report.counters[&Counter::NotRequestedBytes] > sent / 4);
}

#[test]
fn steps_survive_loss_duplication_and_reordering() {
    let report = good(world(|options| {
        options.policy = IncompletePolicy::Wait;
        options.network.loss = Ratio::percent(5);
        options.network.duplicate = Ratio::percent(20);
        options.network.reorder = Ratio::percent(20);
        options.faults_until = Timestamp(1_000_000_000);
    }));
    assert!(report.network.lost > 20 && report.network.duplicated > 100 && report.network.reordered > 100);
    assert_eq!((report.ledger.dropped_total(), report.incomplete), (0, 0));
    assert!(report.counters[&Counter::RetriedRequests] > 0 && report.counters[&Counter::ContinuedEvents] > 0);
}

#[test]
fn a_builder_that_dies_between_the_steps_leaves_its_events_to_others() {
    // Judging takes so long that events wait for it at any time.
    let mut cluster = world(|options| options.steps.judge = Nanos::from_millis(2));
    assert!(cluster.run_until(|cluster| cluster.watch().parts >= 60));
    cluster.inject(FaultKind::Crash { node: NodeId::builder(1), back_after: Some(Nanos::from_millis(5)) });
    let report = good(cluster);
    assert_eq!((report.ledger.dropped_total(), report.incomplete, report.faults.given_up), (0, 0, 1));
    assert_eq!(report.ledger.stored + report.ledger.rejected, 200);
}

#[test]
fn a_builder_that_is_fenced_between_the_steps_asks_for_nothing_more() {
    let mut cluster = world(|options| options.steps.judge = Nanos::from_millis(2));
    assert!(cluster.run_until(|cluster| cluster.watch().parts >= 60));
    cluster.inject(FaultKind::Stall { node: NodeId::builder(1), lasts: Nanos::from_millis(200) });
    let report = good(cluster);
    assert_eq!((report.ledger.dropped_total(), report.faults.given_up, report.faults.fences), (0, 1, 1));
}

#[test]
fn a_readout_unit_that_dies_between_the_steps_is_named_in_the_event() {
    let mut cluster = world(|options| {
        options.steps = StepOptions { first: 3, judge: Nanos::from_millis(2), ..StepOptions::default() };
    });
    assert!(cluster.run_until(|cluster| cluster.watch().parts >= 60));
    cluster.inject(FaultKind::Crash { node: NodeId::readout(1), back_after: Some(Nanos::from_millis(5)) });
    let report = good(cluster);
    assert_eq!(report.ledger.stored, 200);
    assert!(report.missing.contains_key(&MissingReason::ReadoutRestarted), "{:?}", report.missing);
}

#[test]
fn a_readout_unit_that_falls_silent_between_the_steps_is_waited_for_once() {
    let mut cluster = world(|options| {
        options.steps = StepOptions { first: 3, judge: Nanos::from_millis(2), ..StepOptions::default() };
    });
    assert!(cluster.run_until(|cluster| cluster.watch().parts >= 60));
    cluster.inject(FaultKind::Crash { node: NodeId::readout(1), back_after: None });
    let report = good(cluster);
    assert_eq!(report.ledger.stored, 200);
    assert!(report.missing.contains_key(&MissingReason::ReadoutSilent), "{:?}", report.missing);
}

#[test]
fn steps_go_through_every_way_of_asking() {
    let gatherings = [
        Gathering::Pull,
        Gathering::Paced { credit: ByteCount(3_000) },
        Gathering::Barrel { credit: ByteCount(20_000), tick: Nanos::from_millis(1) },
    ];
    for gathering in gatherings {
        let report = good(world(|options| {
            options.gathering = gathering;
            options.through_codec = true;
        }));
        assert_eq!(report.ledger.stored + report.ledger.rejected, 200, "{gathering:?}");
    }
}

#[test]
fn events_that_wait_for_judgement_are_no_orphans() {
    // The first step of many events waits for far longer than a readout unit keeps what nobody asks for.
    let report = good(world(|options| {
        options.triggers = TriggerOptions::Announced { reference_only: false, stride: 1 };
        options.steps.judge = Nanos::from_millis(300);
        options.times.orphan = Some(Nanos::from_millis(50));
        options.times.stop = Nanos::from_secs(10);
        options.bounds.buffer_events = 20;
    }));
    assert_eq!(report.fragments.dropped.get(&DropReason::UnknownEvent), None, "{:?}", report.fragments);
    assert_eq!(report.missing.get(&MissingReason::SourceSilent), None, "{:?}", report.missing);
}

#[test]
fn triggers_are_complete_without_those_that_do_not_answer() {
    let report = good(world(|options| {
        options.steps = StepOptions { types: 3, ..StepOptions::default() };
        options.policy = IncompletePolicy::Drop;
    }));
    assert_eq!(report.ledger.stored, 200);
    assert!(report.missing.is_empty());
    assert!(report.fragments.dropped[&DropReason::NotRequested] > 0);
}

#[test]
fn types_and_steps_together_survive_a_dead_builder_and_a_bad_network() {
    let mut cluster = world(|options| {
        options.steps.types = 3;
        options.policy = IncompletePolicy::Wait;
        options.network.loss = Ratio::percent(3);
        options.network.duplicate = Ratio::percent(10);
        options.faults_until = Timestamp(1_000_000_000);
    });
    assert!(cluster.run_until(|cluster| cluster.watch().parts >= 60));
    cluster.inject(FaultKind::Crash { node: NodeId::builder(0), back_after: None });
    let report = good(cluster);
    assert_eq!((report.ledger.stored + report.ledger.rejected, report.incomplete), (200, 0));
}

/// The case of the CMS event builder's studies: with a quarter of the data in the first step and a rejection of ten, the
/// network carries 0.25 + 0.75 / 10 of what full building carries.
#[test]
fn a_quarter_of_the_data_and_a_rejection_of_ten_leave_a_third_of_the_load() {
    let run = |steps| {
        let report = good(world(|options| {
            options.events = 2_000;
            options.seed = 4;
            options.system.readouts = 4;
            options.system.sources_per_readout = 1;
            (options.sources.smallest, options.sources.largest) = (ByteCount(1_000), ByteCount(1_000));
            options.steps = steps;
        }));
        assert_eq!(report.ledger.stored + report.ledger.rejected, 2_000);
        report
    };
    let full = run(StepOptions::default()).counters[&Counter::SentBytes];
    let stepped = run(StepOptions { first: 1, reject: Ratio::percent(90), ..StepOptions::default() });
    assert_eq!(full, 8_000_000);
    let (sent, rejected) = (stepped.counters[&Counter::SentBytes], stepped.ledger.rejected);
    // The bytes are exactly those of the first step, and of the rest of what was not rejected.
    assert_eq!(sent, 2_000 * 1_000 + (2_000 - rejected) * 3_000);
    assert_eq!(sent + stepped.counters[&Counter::NotRequestedBytes], full);
    assert!((full * 32..=full * 34).contains(&(sent * 100)), "{sent} of {full} bytes");
}
