//! From the values of one point to what the simulator runs.

mod network;
mod traffic;

pub(crate) use network::MAX_ENDPOINTS;

use super::given::Given;
use sheaf_config::ErrorKind;
use sheaf_netsim::scenario::{Fault, FaultKind, Fidelity, FlitModel, RunLength, Scenario, TrafficModel};
use sheaf_netsim::units::{Picos, Rate};
use std::path::Path;

/// Messages a sender where `[run]` says nothing.
const DEFAULT_MESSAGES: u64 = 2000;

/// Maximum number of fragments: some hours of one core.
const MAX_MESSAGES: u64 = 1 << 36;

/// One scenario. Where `given` has errors it is not what was meant.
///
/// `fidelity = "all"` gives [`Fidelity::Message`]; the caller makes the others of it.
pub(super) fn scenario(given: &Given<'_>, directory: &Path, name: &str) -> Scenario {
    let (topology, endpoints) = network::topology(given, directory);
    let numbering = network::numbering(given, endpoints);
    let link = network::link(given);
    let traffic = traffic::traffic(given, directory, endpoints);
    let length = length(given, &traffic, endpoints);
    let fidelity = match given.word("fidelity") {
        "analytic" => Fidelity::Analytic,
        "flit" => Fidelity::Flit,
        _ => Fidelity::Message,
    };
    Scenario {
        name: name.to_owned(),
        topology,
        numbering,
        link,
        switching: network::switching(given),
        arbiter: network::arbiter(given),
        routes: network::routes(given),
        endpoint: network::endpoint(given),
        traffic,
        faults: faults(given, endpoints),
        length,
        fidelity,
        flits: flits(given),
        seed: given.whole("seed"),
    }
}

fn flits(given: &Given<'_>) -> FlitModel {
    if !matches!(given.word("fidelity"), "flit" | "all") {
        return FlitModel::default();
    }
    let flit_bytes = given.maybe_whole("flits.flit_bytes");
    FlitModel {
        flit_bytes: flit_bytes.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
        credit_cycles: given.small("flits.credit_cycles"),
        lanes: given.small("flits.lanes"),
    }
}

fn length(given: &Given<'_>, traffic: &TrafficModel, endpoints: u64) -> RunLength {
    let keys = ["run.time_us", "run.messages_per_sender", "run.events"];
    let set: Vec<&str> = keys.iter().copied().filter(|key| given.has(key)).collect();
    if let [first, second, ..] = set[..] {
        let found = format!("`{first}` and `{second}` both say when the run ends");
        given.conflict(second, found, "keep one of them");
    }
    let time = given.maybe_number("run.time_us");
    let messages = given.maybe_whole("run.messages_per_sender");
    let events = given.maybe_whole("run.events");
    if events.is_some() && matches!(traffic, TrafficModel::Random { .. }) {
        let right = "give `messages_per_sender` or `time_us`";
        given.conflict("run.events", "traffic.kind = \"random\" has no events".into(), right);
    }
    let total = messages.or(events).unwrap_or(DEFAULT_MESSAGES).saturating_mul(endpoints.max(1));
    if time.is_none() && total > MAX_MESSAGES {
        let key = if messages.is_some() { "run.messages_per_sender" } else { "run.events" };
        let found = format!("{endpoints} endpoints would send {total} messages");
        given.conflict(key, found, format!("a run of at most {MAX_MESSAGES} messages"));
    }
    match (time, messages, events, traffic) {
        (Some(time), ..) => RunLength::Time(picos(time, MICRO)),
        (_, Some(messages), ..) => RunLength::MessagesPerSender(messages),
        (_, _, Some(events), _) => RunLength::Events(events),
        (_, _, _, TrafficModel::Roles(roles)) => RunLength::Events(roles.events),
        _ => RunLength::MessagesPerSender(DEFAULT_MESSAGES),
    }
}

fn faults(given: &Given<'_>, endpoints: u64) -> Vec<Fault> {
    (0..given.faults()).map(|index| fault(given, &format!("fault[{index}]"), endpoints)).collect()
}

fn fault(given: &Given<'_>, path: &str, endpoints: u64) -> Fault {
    let key = |name: &str| format!("{path}.{name}");
    let what = match given.word(&key("kind")) {
        "link_dead" => FaultKind::LinkDead(given.small(&key("link"))),
        "switch_dead" => FaultKind::SwitchDead(given.small(&key("switch"))),
        "slow_receiver" => FaultKind::SlowReceiver {
            endpoint: victim(given, &key("endpoint"), endpoints),
            factor: given.number(&key("factor")),
        },
        "host_dead" => FaultKind::HostDead(victim(given, &key("endpoint"), endpoints)),
        _ => FaultKind::FrameLoss(given.number(&key("probability"))),
    };
    let from = picos(given.number(&key("from_us")), MICRO);
    let until = given.maybe_number(&key("until_us")).map(|until| picos(until, MICRO));
    if until.is_some_and(|until| until <= from) {
        let found = format!("`{path}` ends before it begins");
        given.conflict(&key("until_us"), found, "`until_us` after `from_us`, or not set: for good");
    }
    Fault { from, until, what }
}

/// The endpoint that a fault hits.
fn victim(given: &Given<'_>, path: &str, endpoints: u64) -> u32 {
    let endpoint = given.small(path);
    if u64::from(endpoint) >= endpoints && given.has(path) {
        let found = format!("there is no endpoint {endpoint}");
        let right = format!("the topology has endpoints 0 to {}", endpoints.saturating_sub(1));
        given.wrong(ErrorKind::BadValue, path, found, right);
    }
    endpoint
}

const NANO: f64 = 1e3;
const MICRO: f64 = 1e6;

/// A time of `value` units of `unit` picoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the schema limits times to a range that is not negative; a cast saturates"
)]
fn picos(value: f64, unit: f64) -> Picos {
    Picos((value * unit).round() as u64)
}

/// A rate given in Gbit/s.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the schema limits rates to a range that is not negative; a cast saturates"
)]
pub(super) fn rate(gigabits: f64) -> Rate {
    Rate(((gigabits * 1e9).round() as u64).max(1))
}
