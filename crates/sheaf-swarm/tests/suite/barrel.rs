//! The barrel shifter when a node or a link fails: it stands, builders keep to their credit, and it turns again when all are
//! there. Every run is checked as random runs are; the tests assert what is particular to them.

use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::gathering::Gathering;
use sheaf_swarm::options::FaultKind;
use sheaf_swarm::{Cluster, Options, Report};
use sheaf_wire::{ByteCount, Nanos, NodeId};

/// Three readout units whose slots follow the event manager's clock, or their own, and three builders.
fn world(synchronised: bool) -> Cluster {
    let mut options = Options {
        events: 2_000,
        policy: IncompletePolicy::Wait,
        gathering: Gathering::Barrel { credit: ByteCount(20_000), tick: Nanos::from_millis(1) },
        ..Options::default()
    };
    options.slots.synchronised = synchronised;
    options.sources.period = Nanos::from_micros(100);
    let mut cluster = Cluster::new(options);
    cluster.keep_log();
    cluster
}

/// Returns the orders of the barrel that readout unit 0 received, in order, without repetitions.
fn orders(log: &str) -> Vec<&'static str> {
    let mut orders: Vec<&str> = Vec::new();
    for line in log.lines().filter(|line| line.contains("ru0")) {
        for order in ["the barrel turns", "the barrel stands"] {
            if line.contains(order) && orders.last() != Some(&order) {
                orders.push(order);
            }
        }
    }
    orders
}

/// Lets something happen in the middle of a run; gives what readout unit 0 was told, and the report.
fn disturbed(synchronised: bool, kind: FaultKind) -> (Vec<&'static str>, Report) {
    let mut cluster = world(synchronised);
    assert!(cluster.run_until(|cluster| cluster.watch().ended.len() >= 300), "a run has events");
    cluster.inject(kind);
    let report = cluster.run().unwrap_or_else(|failure| panic!("{failure}"));
    (orders(&cluster.take_log()), report)
}

#[test]
fn the_barrel_stands_while_a_builder_is_away_and_turns_again_when_it_is_back() {
    for synchronised in [false, true] {
        let kind = FaultKind::Crash { node: NodeId::builder(1), back_after: Some(Nanos::from_millis(100)) };
        let (orders, report) = disturbed(synchronised, kind);
        assert_eq!(orders, ["the barrel turns", "the barrel stands", "the barrel turns"]);
        assert_eq!((report.ledger.dropped_total(), report.incomplete), (0, 0));
        assert_eq!(report.ledger.stored + report.ledger.rejected, 2_000);
    }
}

#[test]
fn the_barrel_stands_while_a_readout_unit_is_not_heard_and_turns_again_when_it_is() {
    for synchronised in [false, true] {
        let lasts = Nanos::from_millis(100);
        let (from, to) = (NodeId::readout(2), NodeId::MANAGER);
        let (orders, report) = disturbed(synchronised, FaultKind::Link { from, to, lasts, cut: true });
        assert_eq!(orders, ["the barrel turns", "the barrel stands", "the barrel turns"]);
        assert_eq!((report.ledger.dropped_total(), report.incomplete), (0, 0));
        assert_eq!(report.ledger.stored + report.ledger.rejected, 2_000);
    }
}
