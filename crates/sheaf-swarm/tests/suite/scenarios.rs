//! Promises of the system, one scenario a promise. Every run is checked as random runs are: the tests assert only what
//! is particular to them.

use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::ledger::Counter;
use sheaf_swarm::dice::Ratio;
use sheaf_swarm::options::{Fault, FaultKind, TimeOptions, TriggerOptions};
use sheaf_swarm::{Cluster, Failure, Options, Report};
use sheaf_wire::{ByteCount, DropReason, MissingReason, Nanos, NodeId, Timestamp};
use std::collections::BTreeMap;

#[test]
fn a_slow_builder_does_not_stall_others() {
    let slow_by = |factor| {
        let report = good(world(|options| {
            options.storage.slow_builder = Some((0, factor));
            options.sources.period = Nanos::from_micros(5);
        }));
        assert_eq!(report.ledger.stored, 200);
        report.end
    };
    // A hundred times slower would be 100 * 200 / 3 * 20 us = 133 ms if everybody waited.
    let (even, slow) = (slow_by(1), slow_by(100));
    assert!(slow.since(even) < Nanos::from_millis(60), "{even} without, {slow} with a slow builder");
}

#[test]
fn a_dead_builders_events_are_built_elsewhere_once() {
    let mut cluster = world(|options| options.storage.report = Nanos::from_micros(500));
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.inject(FaultKind::Crash { node: NodeId::builder(1), back_after: None });
    let report = good(cluster);
    assert_eq!((report.ledger.stored, report.incomplete), (200, 0));
    assert_eq!(report.faults.given_up, 1);
    assert!(report.written > 200, "what it had stored and not reported was stored again elsewhere");
}

#[test]
fn a_builder_that_comes_back_fenced_stores_nothing_twice() {
    let mut cluster = world(|_| {});
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.inject(FaultKind::Stall { node: NodeId::builder(1), lasts: Nanos::from_millis(200) });
    let report = good(cluster);
    assert_eq!((report.ledger.stored, report.faults.given_up, report.faults.fences), (200, 1, 1));
}

#[test]
fn a_builder_that_restarts_at_once_is_recognised_by_its_session() {
    let mut cluster = world(|_| {});
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.inject(FaultKind::Crash { node: NodeId::builder(0), back_after: Some(Nanos::ZERO) });
    let report = good(cluster);
    assert_eq!((report.ledger.stored, report.incomplete, report.faults.given_up), (200, 0, 1));
}

#[test]
fn the_only_builder_may_die_and_come_back() {
    let mut cluster = world(|options| options.system.builders = 1);
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.inject(FaultKind::Crash { node: NodeId::builder(0), back_after: Some(Nanos::from_millis(300)) });
    assert_eq!(good(cluster).ledger.stored, 200);
}

#[test]
fn the_death_of_a_builder_costs_no_event_its_only_attempt() {
    let mut cluster = world(|options| {
        options.system.builders = 2;
        options.bounds.max_attempts = 1;
    });
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.inject(FaultKind::Crash { node: NodeId::builder(0), back_after: Some(Nanos::ZERO) });
    let report = good(cluster);
    assert_eq!((report.ledger.stored, report.ledger.dropped_total()), (200, 0));
}

#[test]
fn requests_repeated_faster_than_answers_can_come_do_not_choke_the_lines() {
    // A readout unit's line brings a builder an answer in some 13 us, 16 of them in 208 us; the builder waits for 144.
    let report = good(Cluster::new(Options {
        times: TimeOptions { retry: Nanos::from_micros(144), ..Options::random(102_941).times },
        faults: Vec::new(),
        ..Options::random(102_941)
    }));
    assert_eq!(report.ledger.stored, 211);
    let repeated = report.counters[&Counter::Resent];
    assert!(repeated > 0 && repeated < 20 * report.fragments.stored, "{repeated} answers were sent again");
}

#[test]
fn duplicated_and_reordered_messages_change_nothing() {
    let report = good(world(|options| {
        options.network.duplicate = Ratio::percent(20);
        options.network.reorder = Ratio::percent(20);
        options.faults_until = Timestamp(1_000_000_000);
    }));
    assert!(report.network.duplicated > 100 && report.network.reordered > 100);
    assert_eq!((report.ledger.stored, report.incomplete, report.faults.given_up), (200, 0, 0));
}

#[test]
fn lost_messages_are_repeated() {
    let report = good(world(|options| {
        options.policy = IncompletePolicy::Wait;
        options.network.loss = Ratio::percent(5);
        options.faults_until = Timestamp(1_000_000_000);
    }));
    assert!(report.network.lost > 20);
    assert_eq!((report.ledger.stored, report.incomplete), (200, 0));
    assert!(report.counters[&Counter::RepeatedMessages] > 0);
    assert!(report.counters[&Counter::RetriedRequests] > 0);
}

#[test]
fn a_lost_release_is_repeated() {
    let mut cluster = world(|_| {});
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    let (from, to) = (NodeId::MANAGER, NodeId::readout(0));
    cluster.inject(FaultKind::Link { from, to, lasts: Nanos::from_millis(20), cut: true });
    let report = good(cluster);
    assert!(report.network.lost > 0 && report.counters[&Counter::RepeatedMessages] > 0);
    assert_eq!((report.fragments.stored, report.fragments.dropped_total()), (1_200, 0));
}

#[test]
fn slow_news_of_releases_does_not_fill_the_memory_of_a_readout_unit() {
    // The bound itself is checked at every step.
    let mut cluster = world(|options| {
        options.bounds.buffer = ByteCount(40_000);
        options.times.merge = Nanos::from_millis(200);
        (options.times.retry, options.times.event) = (Nanos::from_millis(300), Nanos::from_millis(700));
    });
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    let (from, to) = (NodeId::MANAGER, NodeId::readout(0));
    cluster.inject(FaultKind::Link { from, to, lasts: Nanos::from_millis(100), cut: false });
    let report = good(cluster);
    assert!(report.held_back > 0, "the sources waited instead");
    assert_eq!((report.ledger.stored, report.incomplete), (200, 0));
}

#[test]
fn a_silent_source_is_named_in_the_event() {
    let report = good(world(|options| options.sources.early_end = Some((3, 120))));
    assert_eq!(report.missing, BTreeMap::from([(MissingReason::SourceEnded, 80)]));
    let report = good(world(|options| options.sources.silent = Ratio::percent(1)));
    assert_eq!(report.missing.keys().collect::<Vec<_>>(), [&MissingReason::SourceSilent]);
    assert!(report.incomplete > 0 && report.ledger.stored == 200);
}

#[test]
fn the_policy_to_drop_drops_what_misses_a_required_source() {
    let report = good(world(|options| {
        options.sources.silent = Ratio::percent(1);
        options.policy = IncompletePolicy::Drop;
    }));
    let incomplete = report.ledger.dropped[&DropReason::Incomplete];
    assert!(incomplete > 0 && report.ledger.stored == 200 - incomplete && report.incomplete == 0);
}

#[test]
fn a_missing_optional_source_leaves_the_event_complete() {
    let report = good(world(|options| {
        options.sources.early_end = Some((5, 120));
        options.system.optional_sources = 1;
        options.policy = IncompletePolicy::Drop;
    }));
    assert_eq!((report.ledger.stored, report.incomplete), (200, 0));
    assert_eq!(report.missing, BTreeMap::from([(MissingReason::SourceEnded, 80)]));
}

#[test]
fn a_dead_readout_unit_is_named_in_the_event() {
    let mut cluster = world(|_| {});
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.inject(FaultKind::Crash { node: NodeId::readout(2), back_after: None });
    let report = good(cluster);
    assert_eq!(report.ledger.stored, 200);
    assert_eq!(report.missing.keys().collect::<Vec<_>>(), [&MissingReason::ReadoutSilent]);
}

#[test]
fn a_readout_unit_that_restarts_takes_part_again() {
    let mut cluster = world(|options| options.policy = IncompletePolicy::Wait);
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.inject(FaultKind::Crash { node: NodeId::readout(1), back_after: Some(Nanos::from_millis(5)) });
    let report = good(cluster);
    assert_eq!(report.ledger.stored, 200, "even who waits without limit does not wait for what is gone");
    assert!(report.missing[&MissingReason::ReadoutRestarted] > 0);
    assert!(report.incomplete < 150, "later events have its fragments");
}

#[test]
fn an_answer_that_is_too_late_is_booked_as_not_built() {
    // Events do not wait for a unit that was given up: with fewer of them the run is over before the answers arrive.
    let mut cluster = world(|options| options.events = 5_000);
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    let lasts = Nanos::from_millis(150);
    for builder in 0..3 {
        let (from, to) = (NodeId::readout(0), NodeId::builder(builder));
        cluster.inject(FaultKind::Link { from, to, lasts, cut: false });
    }
    let report = good(cluster);
    assert!(report.missing[&MissingReason::ReadoutSilent] > 0);
    assert!(report.fragments.dropped[&DropReason::NotBuilt] > 0);
    assert!(report.counters[&Counter::StaleSuperFragments] > 0);
}

#[test]
fn stop_always_ends() {
    // The worst: everybody waits without limit, for a readout unit and a builder that are gone.
    let mut cluster = world(|options| options.policy = IncompletePolicy::Wait);
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.inject(FaultKind::Crash { node: NodeId::readout(1), back_after: None });
    cluster.inject(FaultKind::Crash { node: NodeId::builder(1), back_after: None });
    let later = cluster.now() + Nanos::from_secs(5);
    assert!(cluster.run_until(|cluster| cluster.now() >= later), "it waits");
    cluster.stop();
    let report = good(cluster);
    assert!(report.ledger.dropped[&DropReason::Stopped] > 0);
    assert!(report.end.since(later) < Nanos::from_secs(1), "stopped at {later}, ended at {}", report.end);
}

#[test]
fn a_stop_in_a_healthy_run_loses_nothing_that_was_triggered() {
    let mut cluster = world(|_| {});
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.stop();
    let report = good(cluster);
    assert_eq!(report.ledger.received, report.ledger.stored);
    assert!(report.ledger.stored < 200);
    assert_eq!(report.fragments.dropped.keys().collect::<Vec<_>>(), [&DropReason::NeverTriggered]);
}

#[test]
fn a_second_stop_ends_at_once() {
    let mut cluster = world(|options| options.storage.write = Nanos::from_secs(100));
    assert!(cluster.run_until(|cluster| cluster.ledger().in_flight >= 48));
    cluster.stop();
    cluster.stop();
    let report = good(cluster);
    assert_eq!(report.ledger.dropped[&DropReason::Stopped], report.ledger.received);
    assert!(report.end < Timestamp(500_000_000), "ended at {}", report.end);
}

#[test]
fn a_builder_without_memory_gives_events_back_and_what_fits_nowhere_is_dropped() {
    let report = good(world(|options| {
        options.sources.smallest = ByteCount(2_000);
        options.bounds.memory = ByteCount(30_000);
    }));
    assert!(report.counters[&Counter::GivenBack] > 0);
    assert_eq!(report.ledger.stored + report.ledger.dropped_total(), 200);
    let report = good(world(|options| {
        (options.sources.smallest, options.bounds.memory) = (ByteCount(3_000), ByteCount(10_000));
    }));
    assert_eq!(report.ledger.dropped, BTreeMap::from([(DropReason::BuilderOutOfMemory, 200)]));
}

#[test]
fn small_buffers_hold_sources_back_and_lose_nothing() {
    let report = good(world(|options| {
        options.bounds.buffer_events = 1;
        options.storage.write = Nanos::from_micros(500);
    }));
    assert!(report.held_back > 100);
    assert_eq!((report.ledger.stored, report.incomplete, report.fragments.dropped_total()), (200, 0, 0));
}

#[test]
fn buffers_and_memory_much_smaller_than_the_events_in_flight_lose_nothing() {
    let credit = ByteCount(4_000);
    let gatherings = [
        Gathering::Pull,
        Gathering::Paced { credit },
        Gathering::Push,
        Gathering::Barrel { credit, tick: Nanos::from_millis(5) },
    ];
    let mut given_back = 0;
    for policy in [IncompletePolicy::Wait, IncompletePolicy::Store] {
        for gathering in gatherings {
            let report = good(world(|options| {
                (options.policy, options.gathering) = (policy, gathering);
                // Events wait for each other; only what is really gone is to be given up.
                options.times.event = Nanos::from_secs(10);
                (options.bounds.slots, options.bounds.buffer_events) = (32, 2);
                // One event of the largest size, and fragments of very different sizes.
                options.bounds.memory =
                    ByteCount(options.sources.largest.0 * u64::from(options.source_count()));
                options.sources.smallest = ByteCount(0);
                options.storage.write = Nanos::from_micros(200);
            }));
            assert_eq!((report.ledger.stored, report.incomplete), (200, 0), "{policy:?}, {gathering:?}");
            assert!(report.held_back > 0);
            given_back += report.counters.get(&Counter::GivenBack).copied().unwrap_or(0);
        }
    }
    assert!(given_back > 0, "memory was never short");
}

#[test]
fn a_builder_that_is_gone_for_good_does_not_stop_a_run_with_small_buffers_that_waits_without_limit() {
    for seed in 0..8 {
        let mut cluster = world(|options| {
            options.seed = seed;
            options.policy = IncompletePolicy::Wait;
            (options.bounds.slots, options.bounds.buffer_events) = (32, 2);
        });
        assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 20));
        cluster.inject(FaultKind::Crash { node: NodeId::builder(1), back_after: None });
        let report = good(cluster);
        assert_eq!((report.ledger.stored, report.incomplete), (200, 0), "seed {seed}");
    }
}

#[test]
fn fragments_that_wait_long_for_slow_builders_are_not_orphans() {
    let report = good(world(|options| {
        options.times.orphan = Some(Nanos::from_millis(21));
        options.storage.write = Nanos::from_millis(5);
        options.bounds.slots = 4;
    }));
    assert!(report.end > Timestamp(300_000_000), "the last fragments waited for most of {}", report.end);
    assert_eq!((report.ledger.stored, report.incomplete, report.fragments.dropped_total()), (200, 0, 0));
}

#[test]
fn ids_announced_out_of_order_are_built_once() {
    let report = good(world(|options| {
        options.triggers = TriggerOptions::Announced { reference_only: false, stride: 1_000 };
        options.sources.out_of_order = Ratio::percent(30);
        options.sources.disorder = 6;
    }));
    assert_eq!((report.ledger.received, report.ledger.stored, report.incomplete), (200, 200, 0));
    assert!(report.counters[&Counter::OutOfOrder] > 100);
}

#[test]
fn the_end_of_the_reference_source_ends_the_run() {
    let report = good(world(|options| {
        options.triggers = TriggerOptions::Announced { reference_only: true, stride: 1 };
        options.sources.early_end = Some((0, 70));
        options.bounds.buffer_events = 16;
    }));
    assert_eq!((report.ledger.received, report.ledger.stored, report.incomplete), (70, 70, 0));
}

#[test]
fn driven_triggers_beyond_the_capacity_are_vetoed_not_lost() {
    let report = good(world(|options| {
        options.triggers = TriggerOptions::Driven { period: Nanos::from_micros(10), poisson: true };
        options.storage.write = Nanos::from_micros(300);
    }));
    assert!(report.vetoes > 100);
    assert_eq!((report.ledger.received, report.ledger.stored), (200, 200));
}

#[test]
fn defective_fragments_are_dropped_by_name_and_hurt_no_others() {
    let report = good(world(|options| {
        let rarely = Ratio::percent(2);
        let sources = &mut options.sources;
        (sources.duplicate, sources.oversize) = (rarely, rarely);
        (sources.unknown_event, sources.unknown_source) = (rarely, rarely);
    }));
    assert_eq!(report.ledger.stored, 200);
    assert_eq!(report.missing.keys().collect::<Vec<_>>(), [&MissingReason::FragmentRefused]);
    let dropped = &report.fragments.dropped;
    assert_eq!(dropped[&DropReason::TooLarge], report.missing[&MissingReason::FragmentRefused]);
    for reason in [DropReason::Duplicate, DropReason::UnknownSource, DropReason::NeverTriggered] {
        assert!(dropped[&reason] > 0, "{reason}");
    }
}

#[test]
fn rejected_events_and_failed_writes_have_their_own_bins() {
    let report = good(world(|options| {
        options.storage.reject = Ratio::percent(30);
        options.storage.fail = Ratio::percent(10);
        options.storage.mismatch = Ratio::percent(10);
    }));
    let ledger = report.ledger;
    assert!(ledger.rejected > 30 && report.fragments.rejected == 6 * ledger.rejected);
    assert!(ledger.dropped[&DropReason::StorageFailed] > 5);
    assert!(ledger.dropped[&DropReason::ContentMismatch] > 5);
}

#[test]
fn a_run_whose_only_builder_died_ends_when_it_is_stopped() {
    let report = good(world(|options| {
        options.system.builders = 1;
        let kind = FaultKind::Crash { node: NodeId::builder(0), back_after: None };
        options.faults.push(Fault { at: Timestamp(0), kind });
        options.stops = vec![Timestamp(1_000_000_000)];
    }));
    // Its first request got out: what it was given is the only thing that was ever triggered.
    assert_eq!(report.ledger.dropped, BTreeMap::from([(DropReason::Stopped, 16)]));
    assert_eq!(report.ledger.received, 16);
}

#[test]
fn an_event_manager_that_stalls_gives_nobody_up_who_spoke_meanwhile() {
    let mut cluster = world(|_| {});
    assert!(cluster.run_until(|cluster| cluster.ledger().stored >= 50));
    cluster.inject(FaultKind::Stall { node: NodeId::MANAGER, lasts: Nanos::from_millis(200) });
    let report = good(cluster);
    assert_eq!((report.ledger.stored, report.incomplete, report.faults.given_up), (200, 0, 0));
}

#[test]
fn messages_survive_their_encoding() {
    let plain = good(world(|_| {}));
    let coded = good(world(|options| options.through_codec = true));
    assert_eq!(plain, coded);
}

/// A cluster of 3 readout units with 2 sources each and 3 builders, 200 events, no faults but those asked for.
fn world(adjust: impl FnOnce(&mut Options)) -> Cluster {
    let mut options = Options::default();
    adjust(&mut options);
    Cluster::new(options)
}

/// The report of a run that must end well.
fn good(cluster: Cluster) -> Report {
    cluster.finish().unwrap_or_else(|failure: Box<Failure>| panic!("{failure}"))
}
