//! Trees of files as kernels have them.

use crate::Root;
use tempfile::TempDir;

/// A made-up host.
pub(super) struct Host(TempDir);

impl Host {
    /// A host without any readable files.
    pub(super) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(super) fn root(&self) -> Root {
        Root::at(self.0.path())
    }

    /// Writes a file, with the directories above it.
    pub(super) fn file(&self, path: &str, text: &str) {
        let path = self.root().path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn files(&self, files: &[(&str, &str)]) {
        files.iter().for_each(|(path, text)| self.file(path, text));
    }

    /// Processors, each a core of its own, with their governor.
    fn processors(&self, count: usize, governor: &str) {
        self.file("/sys/devices/system/cpu/online", &format!("0-{}\n", count - 1));
        for cpu in 0..count {
            let base = format!("/sys/devices/system/cpu/cpu{cpu}");
            self.file(&format!("{base}/cpufreq/scaling_governor"), governor);
            self.file(&format!("{base}/topology/thread_siblings_list"), &cpu.to_string());
        }
    }
}

/// Files that a test may fill with anything.
pub(super) const FILES: &[&str] = &[
    "/proc/stat",
    "/proc/meminfo",
    "/proc/self/limits",
    "/proc/self/cgroup",
    "/proc/self/status",
    "/proc/self/mounts",
    "/proc/interrupts",
    "/proc/net/route",
    "/proc/net/ipv6_route",
    "/proc/net/if_inet6",
    "/proc/net/snmp",
    "/proc/net/netstat",
    "/proc/net/softnet_stat",
    "/proc/net/protocols",
    "/proc/irq/41/effective_affinity_list",
    "/proc/sys/net/ipv4/tcp_rmem",
    "/proc/sys/net/core/somaxconn",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/node/node0/cpulist",
    "/sys/class/net/eth0/mtu",
    "/sys/class/net/eth0/device/numa_node",
    "/sys/class/net/eth0/statistics/rx_dropped",
];

/// Eight processors on two NUMA nodes, two interfaces, nothing to complain of.
pub(super) fn good() -> Host {
    let host = Host::new();
    host.processors(8, "performance");
    host.files(&[
        ("/sys/devices/system/node/node0/cpulist", "0-3\n"),
        ("/sys/devices/system/node/node1/cpulist", "4-7\n"),
        ("/sys/devices/system/node/has_memory", "0-1\n"),
        ("/proc/stat", "cpu  1000 0 1000 90000 0 0 0 1 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\n"),
        ("/proc/self/cgroup", "0::/daq\n"),
        ("/sys/fs/cgroup/daq/cpu.max", "max 100000\n"),
        ("/proc/self/status", "Name:\tsheaf\nCapEff:\t0000000000000000\n"),
        (
            "/proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            65536                65536                files     \n\
             Max locked memory         unlimited            unlimited            bytes     \n\
             Max realtime priority     99                   99                   \n",
        ),
        (
            "/proc/meminfo",
            "MemTotal:       65536000 kB\nMemAvailable:   60000000 kB\nSwapTotal:             0 kB\n\
             HugePages_Total:      64\nHugePages_Free:       64\nHugepagesize:       2048 kB\n",
        ),
        ("/proc/sys/kernel/numa_balancing", "0\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        (
            "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always within_size [advise] never deny force\n",
        ),
        ("/proc/sys/kernel/osrelease", "6.12.0\n"),
        ("/proc/sys/kernel/io_uring_disabled", "0\n"),
        ("/proc/net/protocols", "protocol  size sockets\nXDP       1088      0\nTCP       2304      1\n"),
        ("/proc/self/mounts", "/dev/sda / ext4 rw 0 0\n"),
        ("/dev/shm/.keep", ""),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ]);
    network(&host);
    interfaces(&host);
    host
}

fn network(host: &Host) {
    host.files(&[
        ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n"),
        ("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t16777216\n"),
        ("/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
        ("/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n"),
        ("/proc/sys/net/core/rmem_max", "16777216\n"),
        ("/proc/sys/net/core/wmem_max", "16777216\n"),
        ("/proc/sys/net/core/netdev_max_backlog", "10000\n"),
        ("/proc/sys/net/core/somaxconn", "4096\n"),
        (
            "/proc/net/softnet_stat",
            "0000ffff 00000000 00000001 00000000\n0000ffff 00000000 00000000 00000000\n",
        ),
        ("/proc/net/netstat", "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 0 0\n"),
        ("/proc/net/snmp", "Ip: A\nIp: 1\nTcp: OutSegs RetransSegs\nTcp: 1000000 10\n"),
        (
            "/proc/net/route",
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
             eth1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
             eth1\t0001010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
             eth0\t0000010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
        ),
        ("/proc/net/if_inet6", "fd000000000000000000000000000005 02 40 00 80     eth0\n"),
        (
            "/proc/net/ipv6_route",
            "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 \
             00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n",
        ),
    ]);
}

fn interfaces(host: &Host) {
    for (name, node, interrupt) in [("eth0", "1", 41), ("eth1", "0", 42)] {
        let base = format!("/sys/class/net/{name}");
        host.file(&format!("{base}/operstate"), "up\n");
        host.file(&format!("{base}/speed"), "25000\n");
        host.file(&format!("{base}/mtu"), "9000\n");
        host.file(&format!("{base}/device/msi_irqs/{interrupt}"), "msix\n");
        for counter in ["rx_dropped", "rx_missed_errors", "tx_dropped"] {
            host.file(&format!("{base}/statistics/{counter}"), "0\n");
        }
        host.file(&format!("{base}/device/numa_node"), node);
    }
    // The interface that is used: near to the roles, its interrupt on a processor that none of them has. The other is
    // near to all who could use it; no configuration leads there.
    host.file("/sys/class/net/eth1/device/numa_node", "1");
    host.file("/proc/irq/41/effective_affinity_list", "1\n");
    host.file("/proc/irq/42/effective_affinity_list", "2\n");
}

/// Two processors on two NUMA nodes with one interface, and all wrong.
pub(super) fn bad() -> Host {
    let host = good();
    std::fs::remove_dir_all(host.root().path("/sys/class/net/eth1")).unwrap();
    std::fs::remove_dir_all(host.root().path("/sys/devices/system/cpu")).unwrap();
    host.processors(2, "powersave");
    host.files(&[
        ("/sys/devices/system/node/node0/cpulist", "0\n"),
        ("/sys/devices/system/node/node1/cpulist", "1\n"),
        ("/proc/stat", "cpu  400 0 400 9000 0 50 100 50 0 0\n"),
        ("/sys/fs/cgroup/daq/cpu.max", "150000 100000\n"),
        (
            "/proc/self/limits",
            "Max open files            32                   32                   files     \n\
             Max locked memory         65536                65536                bytes     \n\
             Max realtime priority     0                    0                    \n",
        ),
        (
            "/proc/meminfo",
            "MemTotal:        4000000 kB\nMemAvailable:    3000000 kB\nSwapTotal:       2000000 kB\n\
             HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n",
        ),
        ("/proc/sys/kernel/numa_balancing", "1\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
        (
            "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "always within_size advise [never] deny force\n",
        ),
        ("/proc/sys/kernel/io_uring_disabled", "2\n"),
        ("/proc/net/protocols", "protocol  size sockets\nTCP       2304      1\n"),
        ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet tsc acpi_pm\n"),
        ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 1048576\n"),
        ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 1048576\n"),
        ("/proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"),
        ("/proc/sys/net/core/rmem_max", "212992\n"),
        ("/proc/sys/net/core/netdev_max_backlog", "1000\n"),
        ("/proc/sys/net/core/somaxconn", "64\n"),
        ("/proc/net/softnet_stat", "0000ffff 00000005 00000001 00000000\n"),
        ("/proc/net/netstat", "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 0 3\n"),
        ("/proc/net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 1000 10\n"),
        ("/sys/class/net/eth0/operstate", "down\n"),
        ("/sys/class/net/eth0/mtu", "1500\n"),
        ("/sys/class/net/eth0/statistics/rx_dropped", "12\n"),
        ("/sys/class/net/eth0/statistics/rx_missed_errors", "7\n"),
    ]);
    host
}
