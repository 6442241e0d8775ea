//! Surroundings of the roles: preprocessing, streams, uploads, consumers, time slices.

use sheaf_protocol::sampler::Selection;
use sheaf_swarm::dice::Ratio;
use sheaf_swarm::options::{ConsumerOptions, ObjectStoreOptions, PreprocessingOptions};
use sheaf_swarm::{Options, Report, run};
use sheaf_wire::{ByteCount, Nanos, Tags};

fn good(options: &Options) -> Report {
    run(options).unwrap_or_else(|failure| panic!("{failure}"))
}

fn preprocessing() -> PreprocessingOptions {
    PreprocessingOptions {
        workers: 1,
        outstanding_events: 4,
        every: 1,
        time: Nanos::from_micros(20),
        slow: Ratio::NEVER,
        slow_time: Nanos::from_millis(1),
        time_limit: Nanos::from_secs(300),
        factor: 4,
        extra: ByteCount(0),
        fails: Ratio::NEVER,
        hangs: Ratio::NEVER,
    }
}

#[test]
fn a_consumer_changes_nothing() {
    let mut tried = 0;
    for seed in 0..24 {
        let with = Options::random(seed);
        if with.consumers.is_none() {
            continue;
        }
        let (with, without) = (good(&with), good(&Options { consumers: None, ..with.clone() }));
        assert_eq!(
            (with.hash, with.ledger, with.end),
            (without.hash, without.ledger, without.end),
            "seed {seed}"
        );
        tried += 1;
    }
    assert!(tried >= 4, "{tried} runs have consumers");
}

#[test]
fn consumers_that_never_read_lose_what_they_do_not_read_and_nothing_else_is_lost() {
    let selection = Selection { tags: Tags::NONE, prescale: 1, interval: Nanos::ZERO };
    let consumers = ConsumerOptions {
        selections: vec![(selection, None), (selection, Some(Nanos::from_micros(1)))],
        queue_events: 2,
        queue: ByteCount::mib(1),
        interval: Nanos::ZERO,
        copy_rate: None,
    };
    let report = good(&Options { consumers: Some(consumers), ..Options::default() });
    assert_eq!((report.ledger.stored, report.incomplete), (200, 0));
}

#[test]
fn a_preprocessor_that_is_slower_than_every_timeout_loses_nothing() {
    let mut options = Options { events: 20, ..Options::default() };
    let slow = PreprocessingOptions { time: Nanos::from_millis(200), ..preprocessing() };
    options.preprocessing = Some(slow);
    // Longer than the event timeout, the peer timeout and the time to stop, each.
    options.times.stop = Nanos::from_millis(50);
    let report = good(&options);
    assert_eq!((report.ledger.stored, report.incomplete), (20, 0));
    assert!(report.missing.is_empty() && report.faults.given_up == 0);
    assert!(report.end.0 > 20 * 2 * 200_000_000 / 3, "it took its time: {}", report.end);
}

#[test]
fn a_preprocessor_that_hangs_delays_events_and_loses_none() {
    let mut options = Options { events: 50, ..Options::default() };
    let hangs = Ratio::percent(2);
    options.preprocessing =
        Some(PreprocessingOptions { hangs, time_limit: Nanos::from_millis(80), ..preprocessing() });
    let report = good(&options);
    assert_eq!((report.ledger.stored, report.incomplete), (50, 0));
}

#[test]
fn events_in_an_object_store_count_when_they_are_there() {
    let uploads = ObjectStoreOptions {
        rotate_events: 5,
        rotate: Nanos::from_millis(5),
        quiet: Nanos::from_millis(1),
        time: Nanos::from_millis(3),
        connections: 2,
        fails: Ratio::percent(30),
    };
    for outputs in [0, 2] {
        let mut options = Options { uploads: Some(uploads), ..Options::default() };
        options.system.outputs = outputs;
        let report = good(&options);
        assert_eq!((report.ledger.stored, report.incomplete), (200, 0), "{outputs} output nodes");
        assert!(report.latency_max > Nanos::from_millis(1), "{}", report.latency_max);
    }
}
