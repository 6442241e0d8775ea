//! Traffic of hosts, and the hosts that are sources and builders.

use super::super::given::Given;
use super::super::streams;
use super::{NANO, picos};
use sheaf_config::ErrorKind;
use sheaf_netsim::scenario::{
    Assignment, BarrelShifter, EventTraffic, Placement, RolesShaping, RolesTraffic, SizeModel, TrafficModel,
    Window,
};
use std::path::Path;

pub(super) fn traffic(given: &Given<'_>, directory: &Path, endpoints: u64) -> TrafficModel {
    match given.word("traffic.kind") {
        "push" => {
            let events = event_traffic(given, endpoints, shape(given));
            let window = window(given, &events.placement, endpoints);
            TrafficModel::Push(events, window)
        }
        "pull" => TrafficModel::Pull {
            events: event_traffic(given, endpoints, shape(given)),
            outstanding: given.small("traffic.outstanding_events"),
            credit_bytes: Some(given.whole("traffic.credit_bytes")).filter(|bytes| *bytes > 0),
            request_bytes: given.small("traffic.request_bytes"),
        },
        "barrel" => {
            let shape = Shape {
                size: size(given),
                correlation: correlation(given),
                assignment: Assignment::RoundRobin,
            };
            TrafficModel::Barrel(event_traffic(given, endpoints, shape), barrel(given))
        }
        "replay" => replay(given, directory, endpoints),
        "roles" => TrafficModel::Roles(RolesTraffic {
            placement: placement(given, endpoints),
            size: size(given),
            events: given.whole("traffic.events"),
            event_rate: event_rate(given),
            slots: given.small("traffic.slots"),
            shaping: roles_shaping(given),
            message_bytes: given.small("traffic.message_bytes"),
            control: given.maybe_number("traffic.control_ns").map(|time| picos(time, NANO)),
        }),
        _ => TrafficModel::Random { size: size(given), load: given.number("traffic.load") },
    }
}

fn correlation(given: &Given<'_>) -> f64 {
    given.number("traffic.correlation")
}

fn event_rate(given: &Given<'_>) -> Option<f64> {
    Some(given.number("traffic.event_rate_hz")).filter(|rate| *rate > 0.0)
}

/// Sizes of events, and the nodes that build them.
struct Shape {
    size: SizeModel,
    correlation: f64,
    assignment: Assignment,
}

fn shape(given: &Given<'_>) -> Shape {
    Shape { size: size(given), correlation: correlation(given), assignment: assignment(given) }
}

fn assignment(given: &Given<'_>) -> Assignment {
    match given.word("traffic.assignment") {
        "random" => Assignment::Random,
        "least_loaded" => Assignment::LeastLoaded,
        _ => Assignment::RoundRobin,
    }
}

fn event_traffic(given: &Given<'_>, endpoints: u64, shape: Shape) -> EventTraffic {
    let Shape { size, correlation, assignment } = shape;
    let event_rate = event_rate(given);
    EventTraffic { placement: placement(given, endpoints), size, correlation, assignment, event_rate }
}

fn size(given: &Given<'_>) -> SizeModel {
    #[expect(clippy::cast_precision_loss, reason = "sizes are at most 1 GiB")]
    let mean = || given.whole("traffic.bytes") as f64;
    let rms = || given.number("traffic.rms_bytes");
    match given.word("traffic.size") {
        "uniform" => {
            let (least, most) = (given.small("traffic.min_bytes"), given.small("traffic.max_bytes"));
            if least > most && given.has("traffic.min_bytes") && given.has("traffic.max_bytes") {
                let found = format!("sizes from {least} to {most} bytes are none");
                given.conflict("traffic.max_bytes", found, "at least `min_bytes`");
            }
            SizeModel::Uniform(least.min(most), most)
        }
        "exponential" => SizeModel::Exponential(mean()),
        "log_normal" => SizeModel::LogNormal { mean: mean(), rms: rms() },
        "normal" => SizeModel::Normal { mean: mean(), rms: rms() },
        _ => SizeModel::Fixed(given.small("traffic.bytes")),
    }
}

fn window(given: &Given<'_>, placement: &Placement, endpoints: u64) -> Window {
    let set = given.maybe_whole("traffic.window_events");
    let events = set.unwrap_or_else(|| builders(placement, endpoints));
    Window { events: u32::try_from(events).unwrap_or(u32::MAX).max(1) }
}

/// Number of builders.
fn builders(placement: &Placement, endpoints: u64) -> u64 {
    match placement {
        Placement::Both => endpoints,
        Placement::Apart { builders, .. } => u64::from(*builders),
        Placement::Grouped { group, builders, .. } => {
            endpoints / u64::from(*group).max(1) * u64::from(*builders)
        }
        Placement::Listed { builders, .. } => builders.len() as u64,
    }
}

fn roles_shaping(given: &Given<'_>) -> RolesShaping {
    let credit_bytes = given.whole("traffic.credit_bytes");
    let credit = |shaping: &str| {
        if credit_bytes == 0 {
            let found = format!("with the shaping `{shaping}` a credit of 0 bytes lets nothing through");
            given.conflict("traffic.credit_bytes", found, "what an output buffer of the switch holds");
        }
        credit_bytes
    };
    match given.word("traffic.shaping") {
        "paced" => RolesShaping::Paced { credit_bytes: credit("paced") },
        "push" => RolesShaping::Push,
        "barrel" => {
            let block_bytes = given.small("traffic.block_bytes");
            if block_bytes == 0 {
                let found = "with the shaping `barrel` a block of 0 bytes holds no message".to_owned();
                given.conflict("traffic.block_bytes", found, "a few messages, like 64 KiB");
            }
            RolesShaping::Barrel {
                block_bytes,
                guard: picos(given.number("traffic.guard_ns"), NANO),
                synchronised: given.switch("traffic.synchronised"),
                credit_bytes: credit("barrel"),
            }
        }
        _ => RolesShaping::Pull,
    }
}

fn barrel(given: &Given<'_>) -> BarrelShifter {
    let slot = given.number("traffic.slot_ns");
    let guard = given.number("traffic.guard_ns");
    if slot > 0.0 && guard >= slot {
        let found = format!("a slot of {slot} ns has nothing left of it after a guard of {guard} ns");
        given.conflict("traffic.guard_ns", found, "a guard that is shorter than the slot");
    }
    BarrelShifter {
        slot: Some(slot).filter(|slot| *slot > 0.0).map(|slot| picos(slot, NANO)),
        block_bytes: given.small("traffic.block_bytes"),
        guard: picos(guard, NANO),
        start_skew: picos(given.number("traffic.start_skew_ns"), NANO),
        clock_ppm: given.small("traffic.clock_ppm"),
        synchronised: given.switch("traffic.synchronised"),
    }
}

fn replay(given: &Given<'_>, directory: &Path, endpoints: u64) -> TrafficModel {
    let limit = usize::try_from(given.whole("traffic.max_events")).unwrap_or(usize::MAX);
    // Sizes are those of the recording; the model is not asked.
    let shape = Shape { size: SizeModel::Fixed(1), correlation: 0.0, assignment: assignment(given) };
    let traffic = event_traffic(given, endpoints, shape);
    let window = window(given, &traffic.placement, endpoints);
    let events =
        match given.text("traffic.streams").map(|streams| streams::sizes(&directory.join(streams), limit)) {
            Some(Ok(events)) => events,
            Some(Err(error)) => {
                given.wrong(ErrorKind::BadValue, "traffic.streams", error.to_string(), error.right());
                Vec::new()
            }
            None => Vec::new(),
        };
    TrafficModel::Replay { events, traffic, window }
}

fn placement(given: &Given<'_>, endpoints: u64) -> Placement {
    match given.word("placement.kind") {
        "apart" => {
            let (readouts, builders) = (given.small("placement.readouts"), given.small("placement.builders"));
            if given.is_good() && u64::from(readouts) + u64::from(builders) > endpoints {
                let found =
                    format!("{readouts} sources and {builders} builders do not fit {endpoints} endpoints");
                given.conflict(
                    "placement.readouts",
                    found,
                    "together at most as many as the topology has endpoints",
                );
            }
            Placement::Apart { readouts, builders }
        }
        "grouped" => grouped(given, endpoints),
        "listed" => Placement::Listed {
            readouts: members(given, "placement.readout_list", endpoints),
            builders: members(given, "placement.builder_list", endpoints),
        },
        _ => Placement::Both,
    }
}

fn grouped(given: &Given<'_>, endpoints: u64) -> Placement {
    let group = given.small("placement.group");
    let (readouts, builders) = (given.small("placement.readouts"), given.small("placement.builders"));
    if given.is_good() && readouts.saturating_add(builders) > group {
        let found =
            format!("{readouts} sources and {builders} builders do not fit a group of {group} endpoints");
        given.conflict("placement.group", found, "a group that holds its sources and builders");
    }
    if given.is_good() && !endpoints.is_multiple_of(u64::from(group)) {
        let found = format!("{endpoints} endpoints cannot be divided into groups of {group}");
        given.conflict("placement.group", found, "a divisor of the number of endpoints");
    }
    Placement::Grouped { group, readouts, builders, stay_inside: given.switch("placement.stay_inside") }
}

/// A list of endpoints: not empty, none twice, all of them there.
fn members(given: &Given<'_>, path: &str, endpoints: u64) -> Vec<u32> {
    let list = given.list(path);
    if !given.has(path) {
        return list;
    }
    let mut sorted = list.clone();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let absent = sorted.last().copied().filter(|last| u64::from(*last) >= endpoints);
    let found = match (list.is_empty(), twice, absent) {
        (true, ..) => "the list is empty".to_owned(),
        (_, Some(endpoint), _) => format!("endpoint {endpoint} is in the list twice"),
        (_, _, Some(endpoint)) => format!("there is no endpoint {endpoint}"),
        _ => return list,
    };
    let right = format!("some of the endpoints 0 to {}, each once", endpoints.saturating_sub(1));
    given.wrong(ErrorKind::BadValue, path, found, right);
    list
}
