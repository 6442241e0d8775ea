//! Kernel features that some transports need.

use super::Doctor;

const PROTOCOLS: &str = "/proc/net/protocols";
const URING: &str = "/proc/sys/kernel/io_uring_disabled";
const RDMA: &str = "/sys/class/infiniband";

pub(super) fn probe(doctor: &mut Doctor<'_>) {
    let release = "/proc/sys/kernel/osrelease";
    match doctor.root.text(release) {
        Some(kernel) => doctor.good("feature.kernel", format!("Linux {kernel}"), release),
        None => doctor.unknown("feature.kernel", release, "the kernel version is unknown"),
    }
    match doctor.root.text(PROTOCOLS) {
        None => doctor.unknown(
            "feature.af_xdp",
            PROTOCOLS,
            "the kernel does not report whether raw frames are supported",
        ),
        Some(text) if text.lines().any(|line| line.split_whitespace().next() == Some("XDP")) => {
            doctor.good("feature.af_xdp", "there", PROTOCOLS);
        }
        Some(_) => {
            let note = "a transport on raw Ethernet would need CONFIG_XDP_SOCKETS; memory and TCP do not";
            doctor.note("feature.af_xdp", "not there", PROTOCOLS, note);
        }
    }
    match doctor.root.number(URING) {
        None => doctor.unknown(
            "feature.io_uring",
            URING,
            "not reported by this kernel, or the kernel is older than 6.6",
        ),
        Some(0) => doctor.good("feature.io_uring", "allowed", URING),
        Some(level) => {
            let value = if level == 1 { "for privileged processes only" } else { "switched off" };
            doctor.note("feature.io_uring", value, URING, "no transport of this release uses it");
        }
    }
    match doctor.root.names(RDMA).as_slice() {
        [] => doctor.good("feature.rdma", "no adapter", RDMA),
        adapters => doctor.good("feature.rdma", adapters.join(", "), RDMA),
    }
}
