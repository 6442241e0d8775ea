//! Inputs of the event manager, as they go to its standby.

use bytes::Bytes;
use sheaf_wire::machine::Identity;
use sheaf_wire::message::{Announcement, Body, Input, Orders};
use sheaf_wire::{EventId, Nanos, NodeId, RunNumber, SessionId, SourceId, Timestamp};

pub(super) fn bodies() -> Vec<(&'static str, Body<Bytes>)> {
    let readout = Identity { node: NodeId::readout(1), run: RunNumber(3), session: SessionId(9) };
    let announcement = Announcement { event: EventId(77), time: Timestamp(1_234) };
    let message = readout.plain(Body::Announce(vec![announcement]));
    let round = || Input::Round { now: Timestamp(5_000), stall: Nanos(70) };
    let exclusions = Some((vec![SourceId(4)], vec![NodeId::builder(2)]));
    let orders = Orders { hold: false, pause: true, exclusions };
    vec![
        ("inputs-message", Body::Inputs(vec![round(), Input::Message(Box::new(message))])),
        (
            "inputs-orders",
            Body::Inputs(vec![
                round(),
                Input::Orders(orders),
                Input::Link { node: NodeId::readout(0), up: true },
                Input::Stop,
                Input::Digest(0xfeed_beef),
            ]),
        ),
    ]
}
