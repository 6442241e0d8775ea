#![allow(clippy::unwrap_used, reason = "a test stops where its arrangement fails")]

mod hosts;

use super::*;
use crate::CpuList;
use hosts::{Host, bad, good};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn list(text: &str) -> CpuList {
    text.parse().unwrap()
}

/// Readout units and builder units on one node each of the two of [`good`].
fn wanted() -> Wanted {
    Wanted {
        configured: true,
        threads: vec![("readout units".into(), list("4-5")), ("builder units".into(), list("6-7"))],
        priority: Some(10),
        addresses: ["10.1.0.5".parse().unwrap(), "fd00::5".parse().unwrap()].to_vec(),
        memory_bytes: 8 << 30,
        huge_pages: true,
        sockets: 64,
        send_buffer_bytes: None,
        receive_buffer_bytes: Some(4 << 20),
        ethernet: None,
        output: None,
    }
}

fn find<'a>(findings: &'a [Finding], key: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.key == key);
    found.unwrap_or_else(|| {
        panic!("{key} is not among {:?}", findings.iter().map(|it| &it.key).collect::<Vec<_>>())
    })
}

fn severe(findings: &[Finding]) -> Vec<&str> {
    let at_least = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    at_least.map(|finding| finding.key.as_str()).collect()
}

#[test]
fn a_good_host_has_nothing_that_costs() {
    let host = good();
    let findings = examine(&host.root(), &wanted());
    assert_eq!(severe(&findings), [""; 0], "{findings:#?}");
    // Whether the clock is kept in step is not in a file.
    let unknown: Vec<_> =
        findings.iter().filter(|it| it.severity == Severity::Unknown).map(|it| &it.key).collect();
    assert_eq!(unknown, ["clock.synchronised"]);
    assert_eq!(find(&findings, "eth0.addresses").value, "leads to 10.1.0.5, fd00::5");
    assert_eq!(find(&findings, "eth0.numa").value, "node 1, near to processors 4-7");
}

#[test]
fn a_bad_host_has_each_of_its_faults_told_with_cost_and_remedy() {
    let host = bad();
    let findings = examine(&host.root(), &wanted());
    let expected = [
        "cpu.placement.readout-units",
        "cpu.placement.builder-units",
        "cpu.governor",
        "cpu.steal",
        "cpu.quota",
        "cpu.priority",
        "memory.available",
        "memory.balancing",
        "memory.swap",
        "memory.transparent",
        "memory.transparent_shared",
        "network.tcp_rmem",
        "network.tcp_wmem",
        "network.rmem_max",
        "network.backlog",
        "network.somaxconn",
        "network.congestion",
        "network.softnet",
        "network.overflows",
        "network.retransmissions",
        "network.files",
        "eth0.state",
        "eth0.mtu",
        "eth0.numa",
        "eth0.drops",
        "clock.source",
    ];
    assert_eq!(severe(&findings), expected, "{findings:#?}");
    for finding in findings.iter().filter(|finding| finding.severity >= Severity::Warning) {
        assert!(!finding.cost.is_empty() && finding.remedy.is_some(), "{finding:?}");
    }
    let command = |key: &str| match &find(&findings, key).remedy {
        Some(Remedy::Command(command)) => command.clone(),
        other => panic!("{key}: {other:?}"),
    };
    assert_eq!(command("network.rmem_max"), "sysctl -w net.core.rmem_max='4194304'");
    assert_eq!(command("network.tcp_rmem"), "sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'");
    assert_eq!(command("cpu.quota"), "echo max > /sys/fs/cgroup/daq/cpu.max");
    assert_eq!(
        command("clock.source"),
        "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
    );
    assert_eq!(find(&findings, "cpu.quota").value, "1.50 processors (150000 of every 100000 us)");
    assert_eq!(find(&findings, "cpu.steal").value, "5.0 % of the busy time since the start");
    assert_eq!(find(&findings, "eth0.drops").value, "rx_dropped 12, rx_missed_errors 7");
}

#[test]
fn a_host_that_tells_nothing_is_unknown_and_no_panic() {
    let host = Host::new();
    let findings = examine(&host.root(), &Wanted::default());
    assert!(
        findings.iter().all(|it| matches!(it.severity, Severity::Unknown | Severity::Good)),
        "{findings:#?}"
    );
    let good: Vec<_> = findings.iter().filter(|it| it.severity == Severity::Good).map(|it| &it.key).collect();
    assert_eq!(good, ["feature.rdma"]);
    assert!(
        findings.iter().all(|it| it.severity == Severity::Good || !it.cost.is_empty()),
        "unknown says why it matters"
    );
}

#[test]
fn every_key_is_there_once() {
    for host in [good(), bad(), Host::new()] {
        let findings = examine(&host.root(), &wanted());
        let keys: BTreeSet<&str> = findings.iter().map(|finding| finding.key.as_str()).collect();
        assert_eq!(keys.len(), findings.len());
    }
}

#[test]
fn interrupts_on_the_processors_of_a_role_are_told_with_free_ones_that_are_near() {
    let host = good();
    host.file("/proc/irq/41/effective_affinity_list", "6");
    let wanted = Wanted { threads: vec![("builder units".into(), list("5-6"))], ..wanted() };
    let findings = examine(&host.root(), &wanted);
    let finding = find(&findings, "eth0.interrupts");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.cost.starts_with("builder units share processors 6 with them"), "{}", finding.cost);
    let Some(Remedy::Command(command)) = &finding.remedy else { panic!("{finding:?}") };
    // Node 1, where the interface is, has 4 to 7; the builder units have 5 and 6.
    assert!(
        command.starts_with("for i in 41; do echo 4,7 > /proc/irq/$i/smp_affinity_list; done"),
        "{command}"
    );
}

#[test]
fn roles_on_halves_of_one_core_are_told() {
    let host = good();
    host.file("/sys/devices/system/cpu/cpu5/topology/thread_siblings_list", "5-6");
    host.file("/sys/devices/system/cpu/cpu6/topology/thread_siblings_list", "5-6");
    let findings = examine(&host.root(), &wanted());
    let finding = find(&findings, "cpu.siblings");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.cost.contains("readout units (4-5) and builder units (6-7)"), "{}", finding.cost);
}

#[test]
fn a_quota_of_the_older_cgroups_is_read_inside_a_container_too() {
    let host = good();
    host.file("/proc/self/cgroup", "4:cpu,cpuacct:/docker/0815\n0::/");
    host.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000");
    host.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
    let findings = examine(&host.root(), &Wanted::default());
    let finding = find(&findings, "cpu.quota");
    assert_eq!(finding.value, "2.50 processors (250000 of every 100000 us)");
    assert_eq!(finding.remedy, Remedy::command("echo -1 > /sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
    host.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
    assert_eq!(find(&examine(&host.root(), &Wanted::default()), "cpu.quota").severity, Severity::Good);
}

fn over_ethernet(interface: &str, mtu_bytes: u64, way: EthernetWay) -> Wanted {
    Wanted { ethernet: Some(Ethernet { interfaces: vec![interface.into()], mtu_bytes, way }), ..wanted() }
}

#[test]
fn what_frames_need_of_a_host_that_has_it_is_good() {
    let host = good();
    host.file("/sys/class/net/eth0/type", "1");
    host.file("/sys/class/net/eth0/mtu", "9000");
    host.file("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0");
    host.file("/sys/class/net/eth0/queues/rx-1/rps_cpus", "0");
    host.file("/sys/class/net/eth0/queues/tx-0/xps_cpus", "0");
    host.file("/proc/self/status", "CapEff:\t000001ffffffffff\n");
    host.file("/proc/net/protocols", "protocol  size\nXDP  1\n");
    let findings = examine(&host.root(), &over_ethernet("eth0", 9000, EthernetWay::Xdp));
    assert_eq!(severe(&findings), [""; 0], "{findings:#?}");
    assert_eq!(find(&findings, "eth0.ethernet").value, "no driver of a device, 2 queues to receive");
    assert_eq!(find(&findings, "ethernet.capabilities").severity, Severity::Good);
}

#[test]
fn each_thing_that_keeps_frames_from_a_host_is_a_problem_with_its_remedy() {
    let host = good();
    host.file("/sys/class/net/eth0/type", "772");
    host.file("/sys/class/net/eth0/mtu", "1500");
    host.file("/proc/self/status", "CapEff:\t0000000000000000\n");
    host.file("/proc/net/protocols", "protocol  size\nTCP  1\n");
    let problems = |wanted: &Wanted| {
        let findings = examine(&host.root(), wanted);
        let bad = findings.into_iter().filter(|finding| finding.severity == Severity::Problem);
        bad.map(|finding| (finding.key, finding.remedy)).collect::<Vec<_>>()
    };
    let found = problems(&over_ethernet("eth0", 9000, EthernetWay::Xdp));
    let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["eth0.ethernet", "eth0.ethernet_mtu", "ethernet.capabilities", "ethernet.xdp"]);
    assert_eq!(found[1].1, Remedy::command("ip link set eth0 mtu 9000"));
    assert!(found.iter().all(|(_, remedy)| remedy.is_some()));
    let elsewhere = problems(&over_ethernet("eth7", 1500, EthernetWay::Packet));
    let keys: Vec<&str> = elsewhere.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["ethernet.interfaces", "ethernet.capabilities"]);
    // The requirements of packet rings suffice unless the configuration demands more.
    host.file("/proc/self/status", "CapEff:\t0000000000002000\n");
    assert_eq!(problems(&over_ethernet("eth0", 1500, EthernetWay::Auto)).len(), 1, "it is not Ethernet");
    let findings = examine(&host.root(), &over_ethernet("eth0", 1500, EthernetWay::Auto));
    assert_eq!(find(&findings, "ethernet.capabilities").severity, Severity::Note);
}

#[test]
fn the_longest_prefix_leads_to_an_address() {
    let host = good();
    let interface = |address: &str| routes::interface_of(&host.root(), address.parse().unwrap());
    for (address, name) in [
        ("127.0.0.1", Some("lo")),
        ("::1", Some("lo")),
        ("10.1.0.77", Some("eth0")),
        ("10.1.1.1", Some("eth1")),
        ("8.8.8.8", Some("eth1")),
        ("fd00::5", Some("eth0")),
        ("fd00::77", Some("eth0")),
        ("0.0.0.0", None),
    ] {
        assert_eq!(interface(address).as_deref(), name, "{address}");
    }
}

#[test]
fn the_output_is_looked_for_where_it_will_be() {
    let host = good();
    host.file("/data/here", "");
    host.file("/proc/self/mounts", "/dev/sda / ext4 rw 0 0\nserver:/data /data nfs4 rw 0 0");
    let output = Output { directory: "/data/runs/of/tomorrow".into() };
    let findings = examine(&host.root(), &Wanted { output: Some(output), ..Wanted::default() });
    let finding = find(&findings, "output.file_system");
    assert_eq!((finding.value.as_str(), finding.severity), ("nfs4 at /data", Severity::Warning));
    assert!(find(&findings, "output.room").value.ends_with("free for /data/runs/of/tomorrow"));
}

#[test]
fn this_machine_is_read_without_a_panic() {
    let findings = examine(&Root::system(), &wanted());
    assert!(findings.iter().any(|finding| finding.severity == Severity::Good));
}

#[test]
fn sizes_are_said_as_people_say_them() {
    let said: Vec<String> = [0, 1023, 1024, 1536, 1 << 20, (5 << 30) + (1 << 29), 1 << 40].map(size).into();
    assert_eq!(said, ["0 B", "1023 B", "1 KiB", "1.5 KiB", "1 MiB", "5.5 GiB", "1 TiB"]);
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(12))]

    /// Whatever the kernel writes, of whatever version.
    #[test]
    fn no_content_of_a_file_makes_it_panic(
        contents in prop::collection::vec("[ -~\n]{0,80}", hosts::FILES.len()),
        numbers in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let host = good();
        let numbers = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        for (path, content) in hosts::FILES.iter().zip(&contents) {
            let content = match content.len() % 4 {
                0 => format!("cpu {numbers}\n{content}"),
                1 => numbers.clone(),
                2 => format!("TcpExt: ListenOverflows {content}\nTcpExt: {numbers}"),
                _ => content.clone(),
            };
            host.file(path, &content);
        }
        prop_assert!(!examine(&host.root(), &wanted()).is_empty());
    }
}
