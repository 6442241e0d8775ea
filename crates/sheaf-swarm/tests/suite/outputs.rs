//! Output nodes under faults: whatever dies, no event is lost and none is stored twice. Every run is checked as random runs are:
//! the places that count, on all disks together, are every stored event once.

use sheaf_protocol::ledger::Counter;
use sheaf_swarm::dice::{Ratio, mix};
use sheaf_swarm::options::{FarmOptions, Fault, FaultKind, RecoveryOptions};
use sheaf_swarm::{Cluster, Options, Report};
use sheaf_wire::{ByteCount, Nanos, NodeId, Timestamp};

fn options(seed: u64) -> Options {
    let mut options = Options { seed, events: 300, ..Options::default() };
    options.system.builders = 2;
    options.system.outputs = 2;
    options.storage.reject = Ratio::per_million(300_000);
    options
}

fn run(options: Options) -> Report {
    Cluster::new(options).run().unwrap_or_else(|failure| panic!("{failure}"))
}

/// Kills `node` at an instant that is drawn, and lets it come back.
fn crash(options: &mut Options, draw: u64, node: NodeId) {
    let at = Timestamp(300_000 + mix(draw) % 12_000_000);
    let back_after = Some(Nanos::from_micros(100 + mix(draw ^ 1) % 1_500));
    options.faults.push(Fault { at, kind: FaultKind::Crash { node, back_after } });
}

fn count(report: &Report, counter: Counter) -> u64 {
    report.counters.get(&counter).copied().unwrap_or(0)
}

#[test]
fn without_faults_output_nodes_store_every_accepted_event_once() {
    for outputs in 1..4 {
        let mut options = options(1);
        options.system.outputs = outputs;
        let report = run(options);
        assert!(report.ledger.stored > 150 && report.ledger.rejected > 50, "{:?}", report.ledger);
        assert_eq!(report.written, report.ledger.stored, "nothing is written in vain");
        assert!(count(&report, Counter::TakenEvents) > report.ledger.stored, "some are left out");
        assert_eq!(count(&report, Counter::ForwardedAgain), 0);
    }
}

/// More than a thousand kills of output nodes, with those of builders (and their farms) and of processors between them.
#[test]
fn a_thousand_kills_lose_no_event_and_store_none_twice() {
    let (mut kills, mut builders, mut again, mut in_vain) = (0, 0, 0, 0);
    for seed in 0..100 {
        let mut options = options(seed);
        for index in 0..28 {
            let draw = mix(seed ^ (100 + index) << 32);
            crash(&mut options, draw, NodeId::output((draw % 2) as u16));
        }
        for index in 0..2 {
            let draw = mix(seed ^ (200 + index) << 32);
            crash(&mut options, draw, NodeId::builder((draw % 2) as u16));
        }
        if seed % 2 == 1 {
            options.farm = Some(FarmOptions::default());
            for index in 0..4 {
                let draw = mix(seed ^ (300 + index) << 32);
                let kind =
                    FaultKind::KillProcessor { builder: (draw % 2) as u16, place: (draw / 2 % 3) as u16 };
                options.faults.push(Fault { at: Timestamp(300_000 + draw % 12_000_000), kind });
            }
        }
        if seed % 4 == 2 {
            options.network.loss = Ratio::percent(2);
            options.network.duplicate = Ratio::percent(2);
            options.network.reorder = Ratio::percent(5);
        }
        if seed % 8 == 3 {
            options.recovery = Some(RecoveryOptions { datagram: ByteCount(1_400), rails: 2 });
        }
        let report = run(options);
        assert!(report.ledger.dropped.is_empty(), "seed {seed}: {:?}", report.ledger);
        assert_eq!(report.ledger.stored + report.ledger.rejected, 300, "seed {seed}: {:?}", report.ledger);
        kills += report.faults.output_crashes;
        builders += report.faults.builder_crashes;
        again += count(&report, Counter::ForwardedAgain);
        in_vain += report.written - report.ledger.stored;
    }
    assert!(kills >= 1_000 && builders >= 100, "{kills} output nodes and {builders} builders were killed");
    assert!(again > 1_000, "they had events: {again}");
    assert!(in_vain > 100, "there are copies that do not count: {in_vain}");
}

/// An output node that stays away, or stands still for longer than it is waited for, takes nothing with it.
#[test]
fn another_output_node_takes_over() {
    for seed in 0..20 {
        let mut options = options(seed);
        let node = NodeId::output((seed % 2) as u16);
        let at = Timestamp(1_000_000 + mix(seed) % 3_000_000);
        let kind = if seed % 4 < 2 {
            FaultKind::Crash { node, back_after: None }
        } else {
            FaultKind::Stall { node, lasts: Nanos(3 * options.times.peer.0) }
        };
        options.faults.push(Fault { at, kind });
        let report = run(options);
        assert!(report.ledger.dropped.is_empty(), "seed {seed}: {:?}", report.ledger);
        assert_eq!(report.ledger.stored + report.ledger.rejected, 300, "seed {seed}");
    }
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let hash = || {
        let mut options = options(7);
        crash(&mut options, 3, NodeId::output(0));
        crash(&mut options, 4, NodeId::builder(1));
        run(options).hash
    };
    assert_eq!(hash(), hash());
}
