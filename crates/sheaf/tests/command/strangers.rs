//! Strangers at the doors of a run in progress: they get nothing, are only logged and counted, and the run continues.
//!
//! While a run takes data, strangers connect to a door in each role: without the key, with another key, with another node's
//! certificate, and with recorded messages of a genuine peer. `table` lists the test of each combination, and fails if one is missing.

mod record;
mod run;
mod table;

use run::Run;
use table::{Door, Evidence, Guise};

/// Generates a test of each attack, and the list of attacks for the table.
macro_rules! attacks {
    ($($(#[$here:meta])* $name:ident: $evidence:ident at $door:ident;)*) => {
        $($(#[$here])* #[test] fn $name() {
            attack(Door::$door, Evidence::$evidence);
        })*

        const ATTACKS: &[(Door, Evidence)] = &[$($(#[$here])* (Door::$door, Evidence::$evidence)),*];
    };
}

attacks! {
    without_the_key_over_tcp: NoKey at Tcp;
    with_another_key_over_tcp: WrongKey at Tcp;
    with_another_nodes_certificate_over_tcp: OthersCertificate at Tcp;
    with_a_recording_over_tcp: Recording at Tcp;
    without_the_key_over_several_rails: NoKey at TcpRails;
    with_another_key_over_several_rails: WrongKey at TcpRails;
    with_another_nodes_certificate_over_several_rails: OthersCertificate at TcpRails;
    without_the_key_through_shared_memory: NoKey at Shm;
    with_another_key_through_shared_memory: WrongKey at Shm;
    without_the_key_over_udp: NoKey at Udp;
    with_another_key_over_udp: WrongKey at Udp;
    without_the_key_over_raw_ethernet: NoKey at Ethernet;
    with_another_key_over_raw_ethernet: WrongKey at Ethernet;
    #[cfg(feature = "libfabric")]
    without_the_key_over_libfabric: NoKey at Libfabric;
    #[cfg(feature = "libfabric")]
    with_another_key_over_libfabric: WrongKey at Libfabric;
    without_the_key_at_the_farm: NoKey at Farm;
    with_another_key_at_the_farm: WrongKey at Farm;
    with_a_nodes_certificate_at_the_farm: OthersCertificate at Farm;
    with_a_recording_at_the_farm: Recording at Farm;
    without_the_key_among_consumers: NoKey at Consumers;
    with_another_key_among_consumers: WrongKey at Consumers;
    with_a_recording_among_consumers: Recording at Consumers;
}

/// Lets strangers in all guises connect to a run that takes data.
fn attack(door: Door, evidence: Evidence) {
    let guises = table::tried(door, evidence);
    assert!(!guises.is_empty(), "the table says that nobody comes");
    let Some(mut run) = Run::start(door, evidence) else { return };
    match evidence {
        Evidence::Recording => guises.iter().for_each(|guise| match guise {
            Guise::Node(role) => run.replay(*role),
            Guise::Processor | Guise::Consumer => run.replay_guest(*guise),
            Guise::Client | Guise::Supervisor => unreachable!("the table has their tests elsewhere"),
        }),
        Evidence::NoKey | Evidence::WrongKey | Evidence::OthersCertificate => {
            // One after the other: on raw Ethernet they would find each other and start a run of their own.
            for guise in &guises {
                let stranger = run.stranger(*guise);
                run.turns_away(*guise, stranger);
            }
        }
    }
    let counters = run.end();
    for counter in guises.into_iter().filter_map(|guise| table::counter(guise, door, evidence)) {
        assert!(counters(counter) > 0, "{counter} has counted nobody at {door:?}");
    }
}
