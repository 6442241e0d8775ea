use super::{RunError, run};
use crate::report::Report;
use crate::scenario::{
    Arbiter, DigitOrder, EndpointModel, Fidelity, FlitModel, LinkModel, Numbering, Routes, RunLength,
    Scenario, SizeModel, Switching, Topology, TrafficModel, WhenFull,
};
use crate::units::{Picos, Rate};

/// 1 byte in 1 ns, messages of 1 us.
pub(crate) fn random(topology: Topology, messages: u64) -> Scenario {
    Scenario {
        name: "test".into(),
        topology,
        numbering: Numbering::Identity,
        link: LinkModel {
            rate: Rate::from_gigabits(8),
            delay: Picos::ZERO,
            frame_overhead: 0,
            frame_payload: None,
        },
        switching: Switching::Wormhole { buffer_bytes: 0 },
        arbiter: Arbiter::Random,
        routes: Routes::Random,
        endpoint: EndpointModel::default(),
        traffic: TrafficModel::Random { size: SizeModel::Fixed(1_000), load: 1.0 },
        faults: Vec::new(),
        length: RunLength::MessagesPerSender(messages),
        fidelity: Fidelity::Message,
        flits: FlitModel::default(),
        seed: 1,
    }
}

/// Runs, and demands that all self-checks hold.
pub(crate) fn checked(scenario: &Scenario) -> Report {
    let report = run(scenario).unwrap();
    for check in &report.checks {
        assert!(check.pass, "{}: {}", check.name, check.detail);
    }
    report
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let sound = random(Topology::Crossbar { ports: 4 }, 10);
    let refused = |change: fn(&mut Scenario)| {
        let mut scenario = sound.clone();
        change(&mut scenario);
        run(&scenario).unwrap_err().to_string()
    };
    assert!(refused(|scenario| scenario.endpoint.look_ahead = true).contains("cut-through"));
    assert_eq!(
        refused(|scenario| scenario.length = RunLength::MessagesPerSender(0)),
        "length: a run of no messages: at least 1 is right"
    );
    assert!(
        refused(|scenario| scenario.length = RunLength::Events(5)).contains("random traffic has no events")
    );
    assert_eq!(
        refused(|scenario| scenario.traffic = TrafficModel::Random { size: SizeModel::Fixed(1), load: 0.0 }),
        "traffic: the load is 0: it must be positive, and from 1 on there is always something to send"
    );
    let digits = DigitOrder::Listed(vec![0]);
    let broken = Scenario { topology: Topology::Delta { radix: 2, stages: 2, digits }, ..sound };
    assert!(matches!(run(&broken), Err(RunError::Network(_))));
}

#[test]
fn every_kind_of_packet_switching_runs_and_balances() {
    let credit_delay = Picos::ZERO;
    let kinds = [
        Switching::CutThrough { buffer_messages: 1, credit_delay },
        Switching::StoreAndForward { buffer_messages: 2, credit_delay },
        Switching::OutputQueued { buffer_bytes: Some(4_000), full: WhenFull::Drop },
        Switching::SharedMemory { buffer_bytes: 50_000, output_bytes: 10_000, full: WhenFull::Pause },
    ];
    for switching in kinds {
        let topology = Topology::Delta { radix: 2, stages: 3, digits: DigitOrder::MostFirst };
        let report = checked(&Scenario { switching, ..random(topology, 500) });
        // Lost messages have ended too: a lossy run is as long as any other.
        assert!(report.messages.delivered + report.messages.lost >= 8 * 500, "{switching:?}");
    }
}
