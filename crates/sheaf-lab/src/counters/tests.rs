use super::*;
use std::fs;

#[test]
fn processors_are_read_with_what_the_machine_below_took() {
    let root = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(root.path().join("proc/net")).expect("a directory");
    fs::write(root.path().join("proc/stat"), "cpu  10 1 20 300 4 5 6 7 2 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
        .expect("a file");
    fs::write(
        root.path().join("proc/net/softnet_stat"),
        "00000010 0000000a 00000001\n00000010 00000001 00000000\n",
    )
    .expect("a file");
    let times = processors(root.path());
    assert_eq!(times, ProcessorTimes { total: 353, idle: 304, steal: 7, softirq: 11 });
    assert_eq!(processor_drops(root.path()), 11);
}

#[test]
fn a_process_is_read_with_the_counters_of_its_host() {
    let root = tempfile::tempdir().expect("a directory");
    let process_directory = root.path().join("proc/7/net");
    fs::create_dir_all(&process_directory).expect("a directory");
    fs::write(root.path().join("proc/7/status"), "Name:\tsheaf\nVmRSS:\t    12 kB\n").expect("a file");
    let snmp = "Ip: Forwarding\nIp: 1\nTcp: RtoMin RetransSegs InErrs\nTcp: 200 42 0\nUdp: InDatagrams RcvbufErrors\nUdp: 5 3\n";
    fs::write(process_directory.join("snmp"), snmp).expect("a file");
    fs::create_dir_all(root.path().join("proc/7/ns")).expect("a directory");
    std::os::unix::fs::symlink("net:[4026531840]", root.path().join("proc/7/ns/net")).expect("a link");
    let host = "net:[4026531840]".into();
    let expected = ProcessCounters { resident_bytes: 12 * 1024, host, retransmitted: 42, socket_drops: 3 };
    assert_eq!(process(root.path(), 7), expected);
    assert_eq!(process(root.path(), 8), ProcessCounters::default());
}

#[test]
fn processes_that_share_a_host_do_not_count_its_losses_twice() {
    let on = |host: &str, retransmitted, socket_drops| ProcessCounters {
        resident_bytes: 1,
        host: host.into(),
        retransmitted,
        socket_drops,
    };
    // The second was sampled a little later than the first.
    let processes = [on("net:[1]", 4, 2), on("net:[1]", 5, 2), on("net:[2]", 1, 0)];
    assert_eq!(of_hosts(processes.iter()), (6, 2));
}
