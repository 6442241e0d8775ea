//! Each network interface: what it is, who serves it, what it has dropped.

use super::{Doctor, Remedy, interrupts, routes};
use crate::CpuList;
use std::collections::BTreeMap;

const NET: &str = "/sys/class/net";

/// The largest frame of Ethernet without jumbo frames.
const ORDINARY_MTU: i64 = 1_500;

pub(super) fn probe(doctor: &mut Doctor<'_>) {
    let used = used(doctor);
    for name in doctor.root.names(NET) {
        if name == "lo" && !used.contains_key("lo") {
            continue;
        }
        let frames = doctor.wanted.ethernet.as_ref();
        let is_used =
            used.contains_key(&name) || frames.is_some_and(|frames| frames.interfaces.contains(&name));
        // Without hardware behind it an interface is of interest only if an address leads to it, or nodes send their frames through it.
        if is_used || doctor.root.exists(&format!("{NET}/{name}/device")) {
            interface(doctor, &name, is_used);
        }
    }
    for (name, addresses) in used.iter().filter(|(name, _)| !name.is_empty()) {
        doctor.good(
            &format!("{name}.addresses"),
            format!("leads to {}", addresses.join(", ")),
            "/proc/net/route",
        );
    }
    if let Some(addresses) = used.get("") {
        let why = "no routing table of the kernel names the interface";
        doctor.unknown("interfaces.addresses", &addresses.join(", "), why);
    }
}

/// The interfaces that lead to the configuration's addresses, each with those; without a name where none does.
fn used(doctor: &Doctor<'_>) -> BTreeMap<String, Vec<String>> {
    let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for address in &doctor.wanted.addresses {
        let name = routes::interface_of(doctor.root, *address).unwrap_or_default();
        used.entry(name).or_default().push(address.to_string());
    }
    used
}

fn interface(doctor: &mut Doctor<'_>, name: &str, used: bool) {
    state(doctor, name, used);
    if name != "lo" {
        mtu(doctor, name);
        near(doctor, name);
        served(doctor, name);
    }
    drops(doctor, name);
}

fn state(doctor: &mut Doctor<'_>, name: &str, used: bool) {
    let source = format!("{NET}/{name}/operstate");
    let key = format!("{name}.state");
    let speed = doctor.root.number(&format!("{NET}/{name}/speed")).filter(|speed| *speed > 0);
    let speed = speed.map_or_else(String::new, |speed| format!(", {speed} Mbit/s"));
    match doctor.root.text(&source).as_deref() {
        None => doctor.unknown(&key, &source, "the kernel does not report whether the interface is up"),
        Some("down" | "lowerlayerdown") if used => {
            let remedy = Remedy::command(format!("ip link set {name} up"));
            doctor.problem(&key, "down", &source, "the configuration uses it", remedy);
        }
        Some(state) => doctor.good(&key, format!("{state}{speed}"), &source),
    }
}

fn mtu(doctor: &mut Doctor<'_>, name: &str) {
    let (source, key) = (format!("{NET}/{name}/mtu"), format!("{name}.mtu"));
    match doctor.root.number(&source) {
        None => doctor.unknown(&key, &source, "the kernel does not report how large a frame may be"),
        Some(mtu) if mtu > ORDINARY_MTU => doctor.good(&key, format!("{mtu} bytes"), &source),
        Some(mtu) => {
            let cost = "six times as many frames and acknowledgements as with 9000, each with its share of an interrupt; \
                        where the interface cuts and joins segments itself (TSO, GRO) it costs less";
            // No command: it cuts the host off where the network does not take such frames.
            let remedy = Remedy::advice(format!(
                "if all ports and hosts of the network accept larger frames: ip link set {name} mtu 9000"
            ));
            doctor.warn(&key, format!("{mtu} bytes"), &source, cost, remedy);
        }
    }
}

/// The NUMA node of the interface, against those of the threads.
fn near(doctor: &mut Doctor<'_>, name: &str) {
    let (source, key) = (format!("{NET}/{name}/device/numa_node"), format!("{name}.numa"));
    if doctor.root.nodes().len() <= 1 {
        return doctor.good(&key, "one NUMA node: near to all processors", "/sys/devices/system/node");
    }
    let Some(node) = doctor.root.number(&source).and_then(|node| usize::try_from(node).ok()) else {
        return doctor.unknown(&key, &source, "the device does not report which processors are near");
    };
    let near =
        doctor.root.nodes().into_iter().find(|(it, _)| *it == node).map(|(_, cpus)| cpus).unwrap_or_default();
    let value = format!("node {node}, near to processors {near}");
    let far = doctor.wanted.threads.iter().find(|(_, cpus)| !cpus.without(&near).is_empty());
    match far {
        Some((who, cpus)) => {
            let cost = format!(
                "{who} run on {cpus}: data that the interface writes to its near memory are read across the link between the nodes"
            );
            let remedy = Remedy::advice(format!("processors of {near} in [affinity]"));
            doctor.warn(&key, value, &source, cost, remedy);
        }
        None => doctor.good(&key, value, &source),
    }
}

/// The interrupts of the interface, against the processors of the threads.
fn served(doctor: &mut Doctor<'_>, name: &str) {
    let key = format!("{name}.interrupts");
    let interrupts = interrupts::of_interface(doctor.root, name);
    let source = "/proc/irq/*/effective_affinity_list";
    if interrupts.is_empty() {
        return doctor.unknown(
            &key,
            source,
            "the kernel does not report which processors serve the interface",
        );
    }
    let cpus: CpuList = interrupts.iter().flat_map(|it| it.cpus.iter().collect::<Vec<_>>()).collect();
    let value = format!("{} interrupts on processors {cpus}", interrupts.len());
    let online = doctor.root.cpus_online();
    let threads = doctor.wanted.threads.clone();
    let shared = threads.iter().find(|(_, of_role)| !of_role.is_empty() && !of_role.and(&cpus).is_empty());
    let taken: CpuList = threads.iter().flat_map(|(_, cpus)| cpus.iter().collect::<Vec<_>>()).collect();
    let free = near_and_free(doctor, name, &online, &taken);
    match shared {
        Some((who, of_role)) => {
            let both = of_role.and(&cpus);
            let cost = format!(
                "{who} share processors {both} with them: a burst of frames takes time from the thread that must read it"
            );
            let remedy = if free.is_empty() {
                Remedy::advice("leave a processor of the interface's NUMA node to its interrupts")
            } else {
                let list = |it: &interrupts::Interrupt| it.number.to_string();
                let numbers: Vec<String> =
                    interrupts.iter().filter(|it| !it.cpus.and(of_role).is_empty()).map(list).collect();
                let numbers = numbers.join(" ");
                Remedy::command(format!(
                    "for i in {numbers}; do echo {free} > /proc/irq/$i/smp_affinity_list; done  # stop irqbalance first"
                ))
            };
            doctor.warn(&key, value, source, cost, remedy);
        }
        None => doctor.good(&key, value, source),
    }
}

/// Processors of the interface's NUMA node (of all, where it has none) that no role has.
fn near_and_free(doctor: &Doctor<'_>, name: &str, online: &CpuList, taken: &CpuList) -> CpuList {
    let node = doctor.root.number(&format!("{NET}/{name}/device/numa_node"));
    let node = node.and_then(|node| usize::try_from(node).ok());
    let of_node = doctor.root.nodes().into_iter().find(|(it, _)| Some(*it) == node).map(|(_, cpus)| cpus);
    of_node.unwrap_or_else(|| online.clone()).without(taken)
}

fn drops(doctor: &mut Doctor<'_>, name: &str) {
    let (source, key) = (format!("{NET}/{name}/statistics"), format!("{name}.drops"));
    let of = |counter: &str| {
        let value = doctor.root.number(&format!("{source}/{counter}"));
        value.and_then(|value| u64::try_from(value).ok())
    };
    let names =
        ["rx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_crc_errors", "tx_dropped", "tx_errors"];
    let counters: Vec<(&str, u64)> = names.into_iter().filter_map(|name| Some((name, of(name)?))).collect();
    if counters.is_empty() {
        return doctor.unknown(&key, &source, "the kernel does not report the interface's drops");
    }
    let bad: Vec<String> = counters
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if bad.is_empty() {
        return doctor.good(&key, "none", &source);
    }
    let cost = "since the interface came up; each is a frame that TCP had to retransmit. rx_missed and rx_fifo: the \
                interface's ring was full (interrupts too late, ring too small); rx_crc: a cable or a transceiver";
    let remedy =
        Remedy::command(format!("ethtool -G {name} rx 4096  # `ethtool -g {name}` shows the maximum"));
    doctor.warn(&key, bad.join(", "), &source, cost, remedy);
}
