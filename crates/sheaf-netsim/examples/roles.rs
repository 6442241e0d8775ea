//! The protocol's machines on a network of 8x8 switches: `roles STAGES EVENTS SLOTS [separate]` simulates as many
//! readout units and builder units as the network has ports, with fragments of 2 kB on 100 Gbit/s links, and prints the
//! report. `separate`: control has a network of its own, of 5 us.

use sheaf_netsim::Scenario;
use sheaf_netsim::scenario::{
    Arbiter, DigitOrder, EndpointModel, Fidelity, FlitModel, LinkModel, Numbering, Placement, RolesShaping,
    RolesTraffic, Routes, RunLength, SizeModel, Switching, Topology, TrafficModel,
};
use sheaf_netsim::units::{Picos, Rate};

#[expect(clippy::print_stdout, reason = "an example talks to a person")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [stages, events, slots, ..] = arguments.as_slice() else {
        return Err("usage: roles STAGES EVENTS SLOTS [separate]".into());
    };
    let (stages, events, slots) = (stages.parse()?, events.parse()?, slots.parse()?);
    let control = arguments.get(3).map(|_| Picos::from_micros(5));
    let traffic = RolesTraffic {
        placement: Placement::Both,
        size: SizeModel::Fixed(2000),
        events,
        event_rate: None,
        slots,
        shaping: RolesShaping::Pull,
        message_bytes: 256 << 10,
        control,
    };
    let scenario = Scenario {
        name: "roles".into(),
        topology: Topology::Delta { radix: 8, stages, digits: DigitOrder::MostFirst },
        numbering: Numbering::Identity,
        link: LinkModel {
            rate: Rate::from_gigabits(100),
            delay: Picos::from_nanos(300),
            frame_overhead: 0,
            frame_payload: None,
        },
        switching: Switching::Wormhole { buffer_bytes: 0 },
        arbiter: Arbiter::RoundRobin,
        routes: Routes::DestinationDigit,
        endpoint: EndpointModel::default(),
        traffic: TrafficModel::Roles(traffic),
        faults: Vec::new(),
        length: RunLength::Events(events),
        fidelity: Fidelity::Message,
        flits: FlitModel::default(),
        seed: 1,
    };
    let report = sheaf_netsim::run::run(&scenario)?;
    println!("efficiency {:.3}, {} simulated", report.efficiency, report.simulated);
    println!("{:?}\n{:?}\nevents: {:?}", report.messages, report.events, report.event_latency);
    for check in &report.checks {
        println!("{}: {} ({})", if check.pass { "good" } else { "BAD" }, check.name, check.detail);
    }
    Ok(())
}
