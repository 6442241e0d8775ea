//! Limits and queues of the kernel's network.

use super::{Doctor, LIMITS, Remedy, size};

const CORE: &str = "/proc/sys/net/core";
const IPV4: &str = "/proc/sys/net/ipv4";
const SOFTNET: &str = "/proc/net/softnet_stat";
const NETSTAT: &str = "/proc/net/netstat";
const SNMP: &str = "/proc/net/snmp";

/// Minimum number of bytes in flight that the kernel should allow one connection: 25 Gbit/s over a round trip of 1 ms,
/// or 100 Gbit/s over 0.25 ms, are 3.125 MB.
const WINDOW_BYTES: u64 = 3_125_000;

/// Number of packets that the kernel should queue before it drops: a few milliseconds of frames of 1,500 bytes at 10
/// Gbit/s.
const BACKLOG: i64 = 10_000;

/// Sockets and files beside those of peers: standard streams, epoll, wakers, listeners, event files and their index.
const OTHER_FILES: u64 = 64;

/// Threshold of noticeable TCP retransmits, in thousandths of all segments.
const RETRANSMITTED_PER_MILLE: u64 = 1;

pub(super) fn probe(doctor: &mut Doctor<'_>) {
    window(doctor, "network.tcp_rmem", "net.ipv4.tcp_rmem", &format!("{IPV4}/tcp_rmem"), "receive");
    window(doctor, "network.tcp_wmem", "net.ipv4.tcp_wmem", &format!("{IPV4}/tcp_wmem"), "send");
    let (send, receive) = (doctor.wanted.send_buffer_bytes, doctor.wanted.receive_buffer_bytes);
    cap(doctor, "rmem_max", receive, "transport.receive_buffer_bytes");
    cap(doctor, "wmem_max", send, "transport.send_buffer_bytes");
    backlog(doctor);
    waiting_callers(doctor);
    congestion(doctor);
    softnet(doctor);
    overflows(doctor);
    retransmissions(doctor);
    files(doctor);
}

/// Checks the maximum to which the kernel grows a connection's window by itself.
fn window(doctor: &mut Doctor<'_>, key: &str, name: &str, source: &str, direction: &str) {
    let Some([least, first, most]) = doctor.root.numbers(source).and_then(|it| <[u64; 3]>::try_from(it).ok())
    else {
        return doctor.unknown(key, source, "the kernel does not report the maximum window of a connection");
    };
    let value = format!("{direction} buffers grow to {}", size(most));
    if most >= WINDOW_BYTES {
        return doctor.good(key, value, source);
    }
    // Bytes in a millisecond are kilobytes in a second.
    let cost = format!(
        "one connection has at most {} in flight: {} MB/s if a round trip takes 1 ms under load, whatever the link",
        size(most),
        most / 1_000
    );
    let remedy = Remedy::sysctl(name, format!("{least} {first} {}", 16 << 20));
    doctor.warn(key, value, source, cost, remedy);
}

/// Checks the maximum that a program may set for itself: the setting `name` of `net.core`. `knob` requests `wanted`.
fn cap(doctor: &mut Doctor<'_>, name: &str, wanted: Option<u64>, knob: &str) {
    let (key, source) = (&format!("network.{name}"), format!("{CORE}/{name}"));
    let Some(most) = doctor.root.number(&source).and_then(|it| u64::try_from(it).ok()) else {
        return doctor.unknown(key, &source, "the kernel does not report the maximum socket buffer");
    };
    let value = format!("buffers may be set up to {}", size(most));
    match wanted {
        Some(wanted) if wanted > most => {
            let cost = format!("`{knob}` requests {}: the kernel silently reduces it", size(wanted));
            doctor.problem(key, value, &source, cost, Remedy::sysctl(&format!("net.core.{name}"), wanted));
        }
        _ => doctor.good(key, value, &source),
    }
}

fn backlog(doctor: &mut Doctor<'_>) {
    let source = format!("{CORE}/netdev_max_backlog");
    match doctor.root.number(&source) {
        None => doctor.unknown(
            "network.backlog",
            &source,
            "the kernel does not report how many frames may wait for a processor",
        ),
        Some(frames) if frames >= BACKLOG => {
            doctor.good("network.backlog", format!("{frames} frames a processor"), &source);
        }
        Some(frames) => {
            let cost = "many simultaneous senders to one builder fill it if frames change processors (loopback, veth, RPS); further packets are dropped and retransmitted";
            let remedy = Remedy::sysctl("net.core.netdev_max_backlog", BACKLOG);
            doctor.warn("network.backlog", format!("{frames} frames a processor"), &source, cost, remedy);
        }
    }
}

fn waiting_callers(doctor: &mut Doctor<'_>) {
    let source = format!("{CORE}/somaxconn");
    let sockets = i64::try_from(doctor.wanted.sockets).unwrap_or(i64::MAX);
    match doctor.root.number(&source) {
        None => doctor.unknown(
            "network.somaxconn",
            &source,
            "the kernel does not report how many callers may wait",
        ),
        Some(most) if most >= sockets.max(128) => {
            doctor.good("network.somaxconn", format!("{most} callers may wait"), &source);
        }
        Some(most) => {
            let cost = "all builders connect at the same moment when a run starts; callers beyond the limit retry after 1 s";
            let remedy = Remedy::sysctl("net.core.somaxconn", sockets.max(1024));
            doctor.warn("network.somaxconn", format!("{most} callers may wait"), &source, cost, remedy);
        }
    }
}

fn congestion(doctor: &mut Doctor<'_>) {
    let source = format!("{IPV4}/tcp_congestion_control");
    let Some(name) = doctor.root.text(&source) else {
        return doctor.unknown(
            "network.congestion",
            &source,
            "the kernel does not report its congestion control",
        );
    };
    let available = doctor.root.text(&format!("{IPV4}/tcp_available_congestion_control")).unwrap_or_default();
    match name.as_str() {
        "cubic" | "dctcp" => doctor.good("network.congestion", name, &source),
        "bbr" if available.split_whitespace().any(|it| it == "cubic") => {
            let cost = "bbr paces by an estimate of the path and shares a port unevenly with others: of 16 senders to one \
                        port of a virtual switch it was less fair, and retransmitted segments five times as often as cubic \
                        (docs/operating/host.md)";
            let remedy = Remedy::sysctl("net.ipv4.tcp_congestion_control", "cubic");
            doctor.warn("network.congestion", name, &source, cost, remedy);
        }
        _ => doctor.note("network.congestion", name, &source, "Sheaf is measured with cubic"),
    }
}

/// Frames that the kernel dropped before a socket saw them, and rounds that ended with work left.
fn softnet(doctor: &mut Doctor<'_>) {
    let rows = doctor.root.text(SOFTNET).unwrap_or_default();
    let column = |line: &str, index: usize| {
        line.split_whitespace().nth(index).and_then(|word| u64::from_str_radix(word, 16).ok())
    };
    let rows: Vec<Option<[u64; 3]>> =
        rows.lines().map(|line| Some([column(line, 0)?, column(line, 1)?, column(line, 2)?])).collect();
    let Some(rows) = rows.into_iter().collect::<Option<Vec<_>>>().filter(|rows| !rows.is_empty()) else {
        return doctor.unknown(
            "network.softnet",
            SOFTNET,
            "the kernel does not report how many frames it dropped",
        );
    };
    let [frames, dropped, squeezed] = rows.iter().fold([0; 3], |sum: [u64; 3], row| {
        std::array::from_fn(|index| sum[index].saturating_add(row[index]))
    });
    let value = format!("{dropped} of {frames} frames dropped, {squeezed} rounds cut short");
    if dropped > 0 {
        let cost = "received frames were dropped, because a processor's queue was full; TCP retransmits them and slows down";
        let remedy = Remedy::sysctl("net.core.netdev_max_backlog", BACKLOG);
        return doctor.warn("network.softnet", value, SOFTNET, cost, remedy);
    }
    // One in a thousand: a round is some hundred frames.
    if squeezed.saturating_mul(1_000) > frames {
        let cost = "the kernel stopped with frames left: interrupts of the network have too little time";
        let remedy = Remedy::sysctl("net.core.netdev_budget", 600);
        return doctor.warn("network.softnet", value, SOFTNET, cost, remedy);
    }
    doctor.good("network.softnet", value, SOFTNET);
}

/// A counter of a file of pairs of lines: names, then values.
fn counter(text: &str, prefix: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next()?, lines.next()?);
    let index = names.split_whitespace().position(|it| it == name)?;
    values.split_whitespace().nth(index)?.parse().ok()
}

fn overflows(doctor: &mut Doctor<'_>) {
    let text = doctor.root.text(NETSTAT).unwrap_or_default();
    match counter(&text, "TcpExt:", "ListenOverflows") {
        None => doctor.unknown(
            "network.overflows",
            NETSTAT,
            "the kernel does not report whether connections were refused",
        ),
        Some(0) => doctor.good("network.overflows", "no connection was refused", NETSTAT),
        Some(count) => {
            let cost = "a listening socket's queue was full: callers came up a second or more later";
            let remedy = Remedy::sysctl("net.core.somaxconn", 4096);
            doctor.warn("network.overflows", format!("{count} connections refused"), NETSTAT, cost, remedy);
        }
    }
}

fn retransmissions(doctor: &mut Doctor<'_>) {
    let text = doctor.root.text(SNMP).unwrap_or_default();
    let of = |name| counter(&text, "Tcp:", name);
    let (Some(sent), Some(again)) = (of("OutSegs"), of("RetransSegs")) else {
        return doctor.unknown("network.retransmissions", SNMP, "the kernel does not report retransmissions");
    };
    let value = format!("{again} of {sent} segments retransmitted");
    if again.saturating_mul(1_000) <= sent.saturating_mul(RETRANSMITTED_PER_MILLE) {
        return doctor.good("network.retransmissions", value, SNMP);
    }
    let cost = "segments were lost: a port of a switch overflows when many readout units answer one builder, or a cable is defective; against overflow, reduce the bytes in flight: smaller `builder.memory_bytes`, `builder.slots`";
    let remedy =
        Remedy::advice("look at the drop counters of the switch's ports and of the interfaces below");
    doctor.warn("network.retransmissions", value, SNMP, cost, remedy);
}

fn files(doctor: &mut Doctor<'_>) {
    let Some(limit) = doctor.limit("Max open files") else {
        return doctor.unknown(
            "network.files",
            LIMITS,
            "the kernel does not report how many files and sockets a process may have",
        );
    };
    let wanted = doctor.wanted.sockets + OTHER_FILES;
    let value = format!("{limit} files and sockets a process");
    if limit >= wanted {
        return doctor.good("network.files", value, LIMITS);
    }
    let cost =
        format!("a node of this configuration needs up to {wanted}: further connections wait indefinitely");
    let remedy = Remedy::advice(format!(
        "`ulimit -n {wanted}` before the start, `LimitNOFILE={wanted}` in the unit, or `USER - nofile {wanted}` in \
         /etc/security/limits.conf"
    ));
    doctor.problem("network.files", value, LIMITS, cost, remedy);
}
