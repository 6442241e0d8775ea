//! Farms under faults: whatever dies, no event is lost and none is stored twice. Every run is checked as random runs are; on
//! top of that each event has one verdict in a builder's session, and only quarantined events are stored against it.

use sheaf_protocol::farm::FarmCounts;
use sheaf_swarm::dice::{Ratio, mix};
use sheaf_swarm::filter::is_judged;
use sheaf_swarm::options::{FarmOptions, Fault, FaultKind, NodeExclusion};
use sheaf_swarm::{Cluster, Options, Report};
use sheaf_wire::{EventId, Nanos, NodeId, Timestamp};

fn options(seed: u64) -> Options {
    let mut options = Options { seed, events: 300, farm: Some(FarmOptions::default()), ..Options::default() };
    options.system.builders = 2;
    options.storage.reject = Ratio::per_million(300_000);
    options
}

/// Runs to the end, and returns what the farms that were up then have counted, together.
fn run(options: Options) -> (Report, FarmCounts, usize) {
    let mut cluster = Cluster::new(options);
    let report = cluster.run().unwrap_or_else(|failure| panic!("{failure}"));
    let mut all = FarmCounts::default();
    for counts in cluster.farm_counts() {
        assert_eq!(counts.offered, counts.judged + counts.quarantined, "nothing is left: {counts:?}");
        all.offered += counts.offered;
        all.judged += counts.judged;
        all.quarantined += counts.quarantined;
        all.retried += counts.retried;
        all.died += counts.died;
        all.silent += counts.silent;
        all.failed += counts.failed;
    }
    let quarantined = cluster.watch().quarantined.len();
    (report, all, quarantined)
}

#[test]
fn without_faults_every_event_has_the_verdict_of_its_filter() {
    let (report, counts, quarantined) = run(options(1));
    assert_eq!((counts.judged, counts.quarantined, quarantined), (300, 0, 0));
    assert!(report.ledger.rejected > 50 && report.ledger.stored > 150, "{:?}", report.ledger);
}

/// More than a thousand processors and a hundred converters (with their builders) die with events in hand.
#[test]
fn a_thousand_kills_lose_no_event_and_store_none_twice() {
    let (mut kills, mut crashes, mut retried) = (0, 0, 0);
    for seed in 0..100 {
        let mut options = options(seed);
        let draw = |index: u64, below: u64| mix(seed ^ index << 32) % below;
        for index in 0..16 {
            let at = Timestamp(300_000 + draw(index, 14_000_000));
            let (builder, place) = ((draw(100 + index, 2)) as u16, draw(200 + index, 3) as u16);
            options.faults.push(Fault { at, kind: FaultKind::KillProcessor { builder, place } });
        }
        for index in 0..2 {
            let at = Timestamp(1_000_000 + draw(300 + index, 12_000_000));
            let node = NodeId::builder(draw(400 + index, 2) as u16);
            let back_after = Some(Nanos::from_millis(1));
            options.faults.push(Fault { at, kind: FaultKind::Crash { node, back_after } });
        }
        let (report, counts, quarantined) = run(options);
        kills += report.faults.processor_kills;
        crashes += report.faults.builder_crashes;
        retried += counts.retried;
        assert!(report.ledger.dropped.is_empty(), "seed {seed}: {:?}", report.ledger);
        assert!(report.ledger.stored + report.ledger.rejected == 300, "seed {seed}: {:?}", report.ledger);
        assert!(quarantined as u64 <= report.ledger.stored, "what is quarantined is stored");
    }
    assert!(kills >= 1_000 && crashes >= 100, "{kills} processors and {crashes} builders were killed");
    assert!(retried > 100, "they had events: {retried}");
}

/// A filter that dies of some events, hangs with others and fails with a few takes nothing with it but these.
#[test]
fn only_what_the_filter_cannot_judge_is_quarantined() {
    for seed in 0..20 {
        let mut options = options(1_000 + seed);
        options.farm = Some(FarmOptions {
            fails: Ratio::per_million(10_000),
            dies: Ratio::per_million(10_000),
            hangs: Ratio::per_million(5_000),
            ..FarmOptions::default()
        });
        let hard = (0..300).filter(|event| !is_judged(&options, EventId(*event))).count();
        let (report, counts, quarantined) = run(options);
        assert_eq!((counts.quarantined, quarantined), (hard as u64, hard), "{counts:?}");
        assert!(report.ledger.dropped.is_empty(), "{:?}", report.ledger);
        // The second try of each is alone; in the first, one end may be that of several.
        let ends = counts.failed + counts.died + counts.silent;
        assert!((counts.quarantined..=2 * counts.quarantined).contains(&ends), "{counts:?}");
    }
}

/// Processors that hang between a verdict and their next question have no event that a time limit could count for. With one
/// processor a builder nobody else would ever take what waits.
#[test]
fn processors_that_fall_silent_after_a_verdict_do_not_stop_the_run() {
    let mut silent = 0;
    for seed in 0..20 {
        let mut options = options(2_000 + seed);
        let ahead = 1 + (seed % 3) as u32;
        let falls_silent = Ratio::per_million(20_000);
        options.farm = Some(FarmOptions { processors: 1, ahead, falls_silent, ..FarmOptions::default() });
        let (report, counts, _) = run(options);
        assert!(report.ledger.dropped.is_empty(), "seed {seed}: {:?}", report.ledger);
        assert!(report.ledger.stored + report.ledger.rejected == 300, "seed {seed}: {:?}", report.ledger);
        silent += counts.silent;
    }
    assert!(silent > 50, "they fell silent: {silent}");
}

/// While a builder is stalled, its only processor leaves and the next one joins. That is not time without a processor.
#[test]
fn no_event_is_given_up_for_lack_of_processors_because_its_builder_was_stalled() {
    for seed in 0..100 {
        let mut options = options(3_000 + seed);
        let leaves = Ratio::per_million(100_000);
        options.farm = Some(FarmOptions { processors: 1, leaves, ..FarmOptions::default() });
        for builder in 0..2 {
            let at = Timestamp(500_000 + 50_000 * seed);
            let (node, lasts) = (NodeId::builder(builder), Nanos::from_millis(100));
            options.faults.push(Fault { at, kind: FaultKind::Stall { node, lasts } });
        }
        let (report, counts, quarantined) = run(options);
        assert_eq!((counts.quarantined, quarantined), (0, 0), "seed {seed}: {counts:?}");
        assert!(report.ledger.dropped.is_empty(), "seed {seed}: {:?}", report.ledger);
    }
}

#[test]
fn a_run_does_not_wait_for_the_processors_of_a_builder_unit_that_is_excluded() {
    for seed in 0..20 {
        let mut options = options(4_000 + seed);
        options.farm.as_mut().expect("there is a farm").load = Nanos::from_millis(5);
        let (at, lasts) = (Timestamp(1_000), Nanos::from_millis(100));
        options.node_exclusions = vec![NodeExclusion { node: NodeId::builder(0), at, lasts }];
        let (report, ..) = run(options);
        assert_eq!(report.ledger.stored + report.ledger.rejected, 300, "seed {seed}: {:?}", report.ledger);
    }
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let hash = || {
        let mut options = options(7);
        let kind = FaultKind::KillProcessor { builder: 0, place: 1 };
        options.faults.push(Fault { at: Timestamp(2_000_000), kind });
        run(options).0.hash
    };
    assert_eq!(hash(), hash());
}
