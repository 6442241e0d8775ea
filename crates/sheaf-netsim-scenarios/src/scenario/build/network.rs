//! Topology, numbering, links, switches and hosts.

use super::super::given::Given;
use super::super::table_file;
use super::{NANO, picos, rate};
use sheaf_config::ErrorKind;
use sheaf_netsim::scenario::{
    Arbiter, DigitOrder, EndpointModel, InputQueue, LinkModel, Numbering, Routes, Switching, Topology,
    WhenFull,
};
use sheaf_netsim::topology::compile;
use std::path::Path;

/// No network is larger: what fits a port number of 16 bits.
pub(crate) const MAX_ENDPOINTS: u64 = 65_536;
/// Nor has it more cables: they must fit the memory of a laptop.
const MAX_CABLES: u64 = 1 << 23;

/// The wiring, and how many endpoints it has.
pub(super) fn topology(given: &Given<'_>, directory: &Path) -> (Topology, u64) {
    let topology = match given.word("topology.kind") {
        "delta" => {
            let stages = given.small("topology.stages");
            Topology::Delta { radix: given.small("topology.radix"), stages, digits: digits(given, stages) }
        }
        "layered" => layered(given),
        "clos" => Topology::Clos {
            leaves: given.small("topology.leaves"),
            ports: given.small("topology.ports"),
            middles: given.small("topology.middles"),
        },
        "folded_clos" => Topology::FoldedClos {
            leaves: given.small("topology.leaves"),
            ports: given.small("topology.ports"),
            spines: given.small("topology.spines"),
            uplinks: given.small("topology.uplinks"),
            uplink_rate: given.maybe_number("topology.uplink_gbps").map(rate),
        },
        "clos_of_clos" => clos_of_clos(given),
        "chassis" => Topology::Chassis {
            slots: given.small("topology.slots"),
            ports: given.small("topology.ports"),
            backplane: rate(given.number("topology.backplane_gbps")),
        },
        "table" => table(given, directory),
        _ => Topology::Crossbar { ports: given.small("topology.ports") },
    };
    let (endpoints, cables) = extent(&topology);
    if endpoints > MAX_ENDPOINTS || cables > MAX_CABLES {
        let found = format!("this network has {endpoints} endpoints and {cables} cables between switches");
        let right = format!("at most {MAX_ENDPOINTS} endpoints and {MAX_CABLES} cables");
        given.wrong(ErrorKind::BadValue, "topology.kind", found, right);
        // What follows is checked against a network that fits.
        return (Topology::Crossbar { ports: 1 }, 1);
    }
    (topology, endpoints)
}

/// Endpoints, and an upper bound on cables between switches.
fn extent(topology: &Topology) -> (u64, u64) {
    let product = |factors: &[u32]| {
        factors.iter().fold(1_u64, |product, factor| product.saturating_mul(u64::from(*factor)))
    };
    match topology {
        Topology::Crossbar { ports } => (u64::from(*ports), 0),
        Topology::Delta { radix, stages, .. } => {
            let ports = u64::from(*radix).saturating_pow(*stages);
            (ports, ports.saturating_mul(u64::from(*stages)))
        }
        Topology::Layered { radix, stages, spreading } => {
            let ports = u64::from(*radix).saturating_pow(*stages);
            (ports, ports.saturating_mul(u64::from(stages + spreading)))
        }
        Topology::Clos { leaves, ports, middles } => {
            (product(&[*leaves, *ports]), product(&[*leaves, *middles, 2]))
        }
        Topology::FoldedClos { leaves, ports, spines, uplinks, .. } => {
            (product(&[*leaves, *ports]), product(&[*leaves, *spines, *uplinks]))
        }
        Topology::ClosOfClos { units, leaves, ports, spines, endpoints } => {
            (product(&[*units, *endpoints]), product(&[2, *units, *leaves, *ports + *spines]))
        }
        Topology::Chassis { slots, ports, .. } => (product(&[*slots, *ports]), u64::from(*slots)),
        Topology::Table(table) => (u64::from(table.endpoints), table.links.len() as u64),
    }
}

fn digits(given: &Given<'_>, stages: u32) -> DigitOrder {
    match given.word("topology.digits") {
        "least_first" => DigitOrder::LeastFirst,
        "listed" => {
            let list = given.list("topology.digit_list");
            let mut sorted = list.clone();
            sorted.sort_unstable();
            if given.has("topology.digit_list") && !sorted.iter().copied().eq(0..stages) {
                let found = format!("the digits {list:?} do not resolve the destination");
                let right = format!("each of the digits 0 to {} once", stages.saturating_sub(1));
                given.conflict("topology.digit_list", found, right);
            }
            DigitOrder::Listed(list)
        }
        _ => DigitOrder::MostFirst,
    }
}

fn layered(given: &Given<'_>) -> Topology {
    let stages = given.small("topology.stages");
    let spreading = given.small("topology.spreading");
    if spreading > stages && given.has("topology.spreading") && given.has("topology.stages") {
        let found = format!("{spreading} layers would spread over more than {stages} layers resolve");
        given.conflict("topology.spreading", found, format!("at most {stages}"));
    }
    Topology::Layered { radix: given.small("topology.radix"), stages, spreading }
}

fn clos_of_clos(given: &Given<'_>) -> Topology {
    let (units, leaves) = (given.small("topology.units"), given.small("topology.leaves"));
    let (ports, endpoints) = (given.small("topology.ports"), given.small("topology.endpoints"));
    let outer = u64::from(leaves) * u64::from(ports);
    let up = outer.saturating_sub(u64::from(endpoints));
    if given.is_good() && (u64::from(endpoints) >= outer && units > 1) {
        let found =
            format!("a box has {outer} outer ports, of which {endpoints} endpoints leave none to go up");
        given.conflict("topology.endpoints", found, format!("less than {outer}"));
    } else if given.is_good() && !up.is_multiple_of(u64::from(units)) {
        let found = format!("{up} cables that go up from a box cannot be shared out evenly to {units} boxes");
        given.conflict("topology.endpoints", found, "endpoints such that what is left divides by `units`");
    }
    let spines = given.small("topology.spines");
    Topology::ClosOfClos { units, leaves, ports, spines, endpoints }
}

fn table(given: &Given<'_>, directory: &Path) -> Topology {
    let Some(file) = given.text("topology.file") else {
        return Topology::Crossbar { ports: 1 };
    };
    match table_file::load(&directory.join(file)) {
        Ok(table) => {
            let topology = Topology::Table(Box::new(table));
            // Whether every endpoint can be reached is seen when the network is made.
            if let Err(error) = compile(&topology, &Numbering::Identity, &link(given), 1) {
                let right = "links by which every endpoint reaches every other".to_owned();
                given.wrong(ErrorKind::BadValue, "topology.file", error.to_string(), right);
            }
            topology
        }
        Err(error) => {
            given.wrong(ErrorKind::BadValue, "topology.file", error.to_string(), error.right());
            Topology::Crossbar { ports: 1 }
        }
    }
}

pub(super) fn numbering(given: &Given<'_>, endpoints: u64) -> Numbering {
    match given.word("numbering.kind") {
        "digit_reversed" => Numbering::DigitReversed,
        "shuffled" => Numbering::Shuffled(given.whole("numbering.seed")),
        "listed" => {
            let places = given.list("numbering.places");
            let mut sorted = places.clone();
            sorted.sort_unstable();
            if given.has("numbering.places") && !sorted.iter().map(|place| u64::from(*place)).eq(0..endpoints)
            {
                let found =
                    format!("`numbering.places` does not give each of {endpoints} endpoints its place");
                let right = format!("each of the places 0 to {} once", endpoints.saturating_sub(1));
                given.conflict("numbering.places", found, right);
            }
            Numbering::Listed(places)
        }
        _ => Numbering::Identity,
    }
}

pub(super) fn link(given: &Given<'_>) -> LinkModel {
    LinkModel {
        rate: rate(given.number("link.rate_gbps")),
        delay: picos(given.number("link.delay_ns"), NANO),
        frame_overhead: given.small("link.frame_overhead_bytes"),
        frame_payload: Some(given.small("link.frame_payload_bytes")).filter(|bytes| *bytes > 0),
    }
}

pub(super) fn switching(given: &Given<'_>) -> Switching {
    let messages = || {
        let messages = given.maybe_whole("switching.buffer_messages");
        messages.map(|messages| u32::try_from(messages).unwrap_or(u32::MAX))
    };
    let credit_delay = || picos(given.number("switching.credit_delay_ns"), NANO);
    let full = || match given.word("switching.full") {
        "pause" => WhenFull::Pause,
        _ => WhenFull::Drop,
    };
    match given.word("switching.kind") {
        "cut_through" => {
            Switching::CutThrough { buffer_messages: messages().unwrap_or(1), credit_delay: credit_delay() }
        }
        "store_and_forward" => Switching::StoreAndForward {
            buffer_messages: messages().unwrap_or(1),
            credit_delay: credit_delay(),
        },
        "input_queued" => Switching::InputQueued {
            queue: queue(given),
            buffer_messages: messages(),
            speed_up: given.small("switching.speed_up"),
        },
        "unbuffered" => Switching::Unbuffered,
        "slotted_buffered" => Switching::SlottedBuffered { buffer_messages: messages().unwrap_or(1) },
        "output_queued" => {
            let buffer_bytes = Some(given.whole("switching.buffer_bytes")).filter(|bytes| *bytes > 0);
            Switching::OutputQueued { buffer_bytes, full: full() }
        }
        "shared_memory" => shared_memory(given, full()),
        _ => {
            let bytes = given.whole("switching.buffer_bytes");
            if bytes > u64::from(u32::MAX) {
                let found = format!("a switch input that holds {bytes} bytes is no wormhole switch's");
                given.conflict("switching.buffer_bytes", found, format!("at most {}", u32::MAX));
            }
            Switching::Wormhole { buffer_bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
        }
    }
}

fn queue(given: &Given<'_>) -> InputQueue {
    match given.word("switching.queue") {
        "window" => InputQueue::Window(given.small("switching.window")),
        "virtual_output" => InputQueue::VirtualOutput(given.small("switching.iterations")),
        _ => InputQueue::Fifo,
    }
}

fn shared_memory(given: &Given<'_>, full: WhenFull) -> Switching {
    let buffer_bytes = given.whole("switching.buffer_bytes");
    if buffer_bytes == 0 {
        let found = "a switch with one memory for all outputs has none".to_owned();
        given.conflict("switching.buffer_bytes", found, "the size of the memory in bytes");
    }
    let output_bytes = match given.whole("switching.output_bytes") {
        0 => buffer_bytes,
        bytes => bytes,
    };
    if output_bytes > buffer_bytes && given.has("switching.output_bytes") {
        let found = format!("one output may take {output_bytes} of {buffer_bytes} bytes");
        given.conflict("switching.output_bytes", found, "at most `buffer_bytes`; 0: all of it");
    }
    Switching::SharedMemory { buffer_bytes, output_bytes, full }
}

pub(super) fn arbiter(given: &Given<'_>) -> Arbiter {
    match given.word("switching.arbiter") {
        "round_robin" => Arbiter::RoundRobin,
        "first_come" => Arbiter::FirstCome,
        "priority" => Arbiter::Priority,
        _ => Arbiter::Random,
    }
}

pub(super) fn routes(given: &Given<'_>) -> Routes {
    match given.word("switching.routes") {
        "hash" => Routes::Hash,
        "random" => Routes::Random,
        "cyclic" => Routes::Cyclic,
        "source_digit" => Routes::SourceDigit,
        "adaptive" => Routes::Adaptive,
        _ => Routes::DestinationDigit,
    }
}

pub(super) fn endpoint(given: &Given<'_>) -> EndpointModel {
    EndpointModel {
        overhead: picos(given.number("endpoint.overhead_ns"), NANO),
        start: picos(given.number("endpoint.start_ns"), NANO),
        bus: Some(given.number("endpoint.bus_gbps")).filter(|gigabits| *gigabits > 0.0).map(rate),
        rails: given.small("endpoint.rails"),
        queue_messages: given.small("endpoint.queue_messages"),
        look_ahead: given.switch("endpoint.look_ahead"),
    }
}
