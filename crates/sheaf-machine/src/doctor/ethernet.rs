//! Requirements of raw Ethernet on this host: interfaces, their MTU, capabilities, AF_XDP.

use super::wanted::{Ethernet, EthernetWay};
use super::{Doctor, Remedy};

const NET: &str = "/sys/class/net";
const STATUS: &str = "/proc/self/status";
const PROTOCOLS: &str = "/proc/net/protocols";

/// Value of an interface's `type` for Ethernet (`ARPHRD_ETHER` of `linux/if_arp.h`).
const ETHERNET_TYPE: i64 = 1;

/// Capabilities with their numbers (`linux/capability.h`): for packet rings the first, for AF_XDP all.
const CAPABILITIES: [(&str, u32); 4] =
    [("cap_net_raw", 13), ("cap_net_admin", 12), ("cap_bpf", 39), ("cap_ipc_lock", 14)];

pub(super) fn probe(doctor: &mut Doctor<'_>) {
    let Some(wanted) = doctor.wanted.ethernet.clone() else { return };
    // A configuration lists the interfaces of all hosts, but not which host is this one.
    let here: Vec<&String> =
        wanted.interfaces.iter().filter(|name| doctor.root.exists(&format!("{NET}/{name}"))).collect();
    if here.is_empty() {
        let cost = "no node of the configuration can run on this host";
        let remedy =
            Remedy::advice(format!("interfaces of this host: {}", doctor.root.names(NET).join(", ")));
        doctor.problem(
            "ethernet.interfaces",
            format!("none of {}", wanted.interfaces.join(", ")),
            NET,
            cost,
            remedy,
        );
    }
    for name in here {
        interface(doctor, name, wanted.mtu_bytes);
    }
    capabilities(doctor, &wanted);
    xdp(doctor, wanted.way);
}

fn interface(doctor: &mut Doctor<'_>, name: &str, mtu_bytes: u64) {
    let key = format!("{name}.ethernet");
    let kind = format!("{NET}/{name}/type");
    match doctor.root.number(&kind) {
        None => doctor.unknown(&key, &kind, "the kernel does not report whether the interface is Ethernet"),
        Some(ETHERNET_TYPE) => {
            let driver = std::fs::read_link(doctor.root.path(&format!("{NET}/{name}/device/driver")));
            let driver = driver.ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
            let driver =
                driver.map_or_else(|| "no driver of a device".to_owned(), |name| format!("driver {name}"));
            let queues = doctor.root.names(&format!("{NET}/{name}/queues"));
            let queues = queues.iter().filter(|queue| queue.starts_with("rx-")).count();
            doctor.good(&key, format!("{driver}, {queues} queues to receive"), &kind);
        }
        Some(_) => {
            let remedy = Remedy::advice("another interface in `interfaces` of the node");
            doctor.problem(&key, "not Ethernet", &kind, "frames cannot be sent through it", remedy);
        }
    }
    let (key, source) = (format!("{name}.ethernet_mtu"), format!("{NET}/{name}/mtu"));
    match doctor.root.number(&source).and_then(|mtu| u64::try_from(mtu).ok()) {
        None => doctor.unknown(&key, &source, "the kernel does not report how large a frame may be"),
        Some(mtu) if mtu >= mtu_bytes => {
            doctor.good(&key, format!("{mtu} bytes, but {mtu_bytes} are configured"), &source);
        }
        Some(mtu) => {
            let value = format!("{mtu} bytes, but {mtu_bytes} are configured");
            let cost = "a node refuses to start on it";
            doctor.problem(
                &key,
                value,
                &source,
                cost,
                Remedy::command(format!("ip link set {name} mtu {mtu_bytes}")),
            );
        }
    }
}

fn capabilities(doctor: &mut Doctor<'_>, wanted: &Ethernet) {
    const KEY: &str = "ethernet.capabilities";
    let held = doctor.root.text(STATUS).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    });
    let Some(held) = held else {
        return doctor.unknown(KEY, STATUS, "the kernel does not report whether raw frames may be sent");
    };
    let missing: Vec<&str> =
        CAPABILITIES.iter().filter(|(_, bit)| held >> bit & 1 == 0).map(|(name, _)| *name).collect();
    let list = |names: &[&str]| format!("setcap {}+ep \"$(command -v sheaf)\"", names.join(","));
    let all: Vec<&str> = CAPABILITIES.iter().map(|(name, _)| *name).collect();
    let value = format!("without {}", missing.join(", "));
    if missing.is_empty() {
        doctor.good(KEY, "everything for AF_XDP and packet rings", STATUS);
    } else if missing.contains(&CAPABILITIES[0].0) || wanted.way == EthernetWay::Xdp {
        let wanted = if wanted.way == EthernetWay::Packet { &all[..1] } else { &all[..] };
        let cost = "a node may not open its interfaces";
        doctor.problem(KEY, value, STATUS, cost, Remedy::command(list(wanted)));
    } else if wanted.way == EthernetWay::Auto {
        doctor.note(KEY, value, STATUS, format!("packet rings are used; for AF_XDP: {}", list(&all)));
    } else {
        doctor.good(KEY, "everything for packet rings", STATUS);
    }
}

fn xdp(doctor: &mut Doctor<'_>, way: EthernetWay) {
    let Some(text) = doctor.root.text(PROTOCOLS) else { return };
    let is_there = text.lines().any(|line| line.split_whitespace().next() == Some("XDP"));
    if way == EthernetWay::Xdp && !is_there {
        let remedy = Remedy::advice("`transport.ethernet = \"packet\"`, or a kernel with CONFIG_XDP_SOCKETS");
        doctor.problem("ethernet.xdp", "not there", PROTOCOLS, "the configuration asks for AF_XDP", remedy);
    }
}
