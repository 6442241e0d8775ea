//! Who may run where: quotas, governors, siblings, stolen time, priorities.

use super::{Doctor, LIMITS, Remedy};
use crate::CpuList;
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";
const STAT: &str = "/proc/stat";

/// Above this share of stolen time a machine's figures are its neighbours', not its own: in percent.
const STOLEN_PERCENT: u128 = 1;

pub(super) fn probe(doctor: &mut Doctor<'_>) {
    online(doctor);
    placement(doctor);
    governor(doctor);
    siblings(doctor);
    stolen(doctor);
    quota(doctor);
    priority(doctor);
}

fn online(doctor: &mut Doctor<'_>) {
    let source = format!("{CPU}/online");
    match doctor.root.list(&source) {
        Some(cpus) => doctor.good("cpu.online", format!("{} processors: {cpus}", cpus.len()), &source),
        None => doctor.unknown("cpu.online", &source, "all other checks depend on the number of processors"),
    }
}

/// The processors that the configuration names are there, and are not the same for everybody.
fn placement(doctor: &mut Doctor<'_>) {
    let online = doctor.root.cpus_online();
    let threads = doctor.wanted.threads.clone();
    for (name, cpus) in threads.iter().filter(|(_, cpus)| !cpus.is_empty()) {
        let missing = cpus.without(&online);
        let key = format!("cpu.placement.{}", name.replace(' ', "-"));
        if online.is_empty() || missing.is_empty() {
            doctor.good(&key, format!("{name} on processors {cpus}"), "the configuration");
        } else {
            let remedy = Remedy::advice(format!("name processors of {online} in [affinity] or [[node]]"));
            let cost =
                format!("processors {missing} do not exist: the threads run anywhere, or the run fails");
            doctor.problem(&key, format!("{name} on processors {cpus}"), "the configuration", cost, remedy);
        }
    }
}

fn governor(doctor: &mut Doctor<'_>) {
    let source = format!("{CPU}/cpu*/cpufreq/scaling_governor");
    let mut by_governor: BTreeMap<String, CpuList> = BTreeMap::new();
    for cpu in doctor.root.cpus_online().iter() {
        if let Some(governor) = doctor.root.text(&format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor")) {
            by_governor.entry(governor).or_default().extend([cpu]);
        }
    }
    if by_governor.is_empty() {
        let why = "the kernel reports no frequency scaling; in a virtual machine the host decides";
        return doctor.unknown("cpu.governor", &source, why);
    }
    let value: Vec<String> = by_governor.iter().map(|(name, cpus)| format!("{name} on {cpus}")).collect();
    let value = value.join("; ");
    if by_governor.keys().all(|name| name == "performance") {
        return doctor.good("cpu.governor", value, &source);
    }
    let cost = "a thread that has slept wakes up at a low frequency: latency at low rates increases, and a burst begins at a fraction of the speed";
    let command =
        "for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $f; done";
    doctor.warn("cpu.governor", value, &source, cost, Remedy::command(command));
}

/// Two groups of threads on the two halves of one core.
fn siblings(doctor: &mut Doctor<'_>) {
    let source = format!("{CPU}/cpu*/topology/thread_siblings_list");
    let online = doctor.root.cpus_online();
    let of = |cpu: usize| {
        doctor.root.list(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")).unwrap_or_default()
    };
    let siblings: BTreeMap<usize, CpuList> = online.iter().map(|cpu| (cpu, of(cpu))).collect();
    if siblings.is_empty() || siblings.values().all(CpuList::is_empty) {
        return doctor.unknown(
            "cpu.siblings",
            &source,
            "the kernel does not report which processors share a core",
        );
    }
    if siblings.values().all(|list| list.len() <= 1) {
        return doctor.good("cpu.siblings", "each processor is a core of its own", &source);
    }
    let cores = siblings.values().map(ToString::to_string).collect::<std::collections::BTreeSet<_>>();
    let value = format!("{} processors on {} cores", online.len(), cores.len());
    let with_siblings = |cpus: &CpuList| -> CpuList {
        cpus.iter().filter_map(|cpu| siblings.get(&cpu)).flat_map(CpuList::iter).collect()
    };
    let threads = &doctor.wanted.threads;
    let shared = threads.iter().enumerate().find_map(|(index, (name, cpus))| {
        let mine = with_siblings(cpus).without(cpus);
        let (other, theirs) = threads[index + 1..].iter().find(|(_, theirs)| !mine.and(theirs).is_empty())?;
        Some(format!("{name} ({cpus}) and {other} ({theirs}) share cores"))
    });
    match shared {
        Some(shared) => {
            let cost = format!("{shared}: each slows the other while both are busy");
            let remedy = Remedy::advice(
                "give them processors of different cores (see thread_siblings_list), or disable simultaneous multithreading: echo off > /sys/devices/system/cpu/smt/control",
            );
            doctor.warn("cpu.siblings", value, &source, cost, remedy);
        }
        None => {
            let note = "a spinning thread takes half of its core's speed from the other processor of that core; place spinning threads on different cores";
            doctor.note("cpu.siblings", value, &source, note);
        }
    }
}

/// Time that a hypervisor gave to others.
fn stolen(doctor: &mut Doctor<'_>) {
    let stat = doctor.root.text(STAT).unwrap_or_default();
    let first = stat.lines().next().and_then(|line| line.strip_prefix("cpu "));
    let ticks: Vec<u128> = first
        .unwrap_or_default()
        .split_whitespace()
        .map_while(|word| word.parse::<u64>().ok().map(u128::from))
        .collect();
    // user nice system idle iowait irq softirq steal; what follows is part of the first two.
    let Some(steal) = ticks.get(7).copied() else {
        return doctor.unknown(
            "cpu.steal",
            STAT,
            "the kernel does not report whether a hypervisor takes time",
        );
    };
    let busy = ticks[..8].iter().sum::<u128>() - ticks[3] - ticks[4];
    let per_mille = (steal * 1000).checked_div(busy).unwrap_or(0);
    let value = format!("{}.{} % of the busy time since the start", per_mille / 10, per_mille % 10);
    if per_mille <= STOLEN_PERCENT * 10 {
        return doctor.good("cpu.steal", value, STAT);
    }
    let cost = "a hypervisor took this time from running threads: nodes seem dead, and queues fill";
    let remedy = Remedy::advice("dedicated processors of the hypervisor's host (pinning, dedicated host)");
    doctor.warn("cpu.steal", value, STAT, cost, remedy);
}

/// A cgroup's share of processor time.
fn quota(doctor: &mut Doctor<'_>) {
    let (source, quota) = read_quota(doctor);
    match quota {
        Some(Some((quota, period))) => {
            let hundredths = quota.saturating_mul(100).checked_div(period).unwrap_or(0);
            let value = format!(
                "{}.{:02} processors ({quota} of every {period} us)",
                hundredths / 100,
                hundredths % 100
            );
            let cost = "when it is used up, all threads stop until the period ends: silences of up to a period, whatever the load of the machine";
            let remedy = Remedy::command(match source.ends_with("cpu.max") {
                true => format!("echo max > {source}"),
                false => format!("echo -1 > {source}"),
            });
            doctor.warn("cpu.quota", value, &source, cost, remedy);
        }
        Some(None) => doctor.good("cpu.quota", "none", &source),
        None => doctor.unknown("cpu.quota", &source, "no cgroup reports whether processor time is limited"),
    }
}

/// The file, and the quota and its period in microseconds; `Some(None)`: there is no quota.
fn read_quota(doctor: &Doctor<'_>) -> (String, Option<Option<(u64, u64)>>) {
    let groups = doctor.root.text("/proc/self/cgroup").unwrap_or_default();
    let path_of = |controller: &str| {
        let of_line = |line: &str| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            controllers
                .split(',')
                .any(|name| name == controller)
                .then(|| path.trim_end_matches('/').to_owned())
        };
        groups.lines().find_map(of_line)
    };
    if let Some(path) = path_of("cpu") {
        // The path is as the host sees it; inside a container the group is at the root.
        for path in [path.as_str(), ""] {
            let base = format!("/sys/fs/cgroup/cpu{path}");
            let quota = doctor.root.number(&format!("{base}/cpu.cfs_quota_us"));
            let period = doctor.root.number(&format!("{base}/cpu.cfs_period_us")).unwrap_or(100_000);
            if let Some(quota) = quota {
                let limit = u64::try_from(quota).ok().zip(u64::try_from(period).ok());
                return (format!("{base}/cpu.cfs_quota_us"), Some(limit));
            }
        }
    }
    for path in [path_of("").unwrap_or_default().as_str(), ""] {
        let source = format!("/sys/fs/cgroup{path}/cpu.max");
        if let Some(text) = doctor.root.text(&source) {
            let mut words = text.split_whitespace().map(str::parse::<u64>);
            let limit = words.next().and_then(Result::ok).zip(words.next().and_then(Result::ok));
            return (source, Some(limit));
        }
    }
    ("/sys/fs/cgroup/cpu.max".to_owned(), None)
}

/// Whether a real-time priority would be given.
fn priority(doctor: &mut Doctor<'_>) {
    let limit = doctor.limit("Max realtime priority");
    let privileged = capability(doctor, CAP_SYS_NICE);
    let wanted = doctor.wanted.priority;
    let (Some(limit), Some(privileged)) = (limit, privileged) else {
        return doctor.unknown(
            "cpu.priority",
            LIMITS,
            "the kernel does not report whether real-time priority is allowed",
        );
    };
    let value = match (privileged, limit) {
        (true, _) => "real-time priority is allowed (CAP_SYS_NICE)".to_owned(),
        (false, 0) => "real-time priority is not allowed (limit 0)".to_owned(),
        (false, limit) => format!("real-time priority up to {limit} is allowed"),
    };
    match wanted {
        Some(wanted) if !privileged && u64::from(wanted) > limit => {
            let cost = format!("the configuration asks for {wanted}: its threads run as ordinary ones");
            let remedy = Remedy::advice(format!(
                "`ulimit -r {wanted}` before the start, `LimitRTPRIO={wanted}` in the unit, or a line \
                 `USER - rtprio {wanted}` in /etc/security/limits.conf"
            ));
            doctor.problem("cpu.priority", value, LIMITS, cost, remedy);
        }
        _ => doctor.good("cpu.priority", value, LIMITS),
    }
}

const CAP_SYS_NICE: u32 = 23;

/// Whether this process has a capability.
fn capability(doctor: &Doctor<'_>, number: u32) -> Option<bool> {
    let status = doctor.root.text("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?.trim();
    Some(u64::from_str_radix(mask, 16).ok()? >> number & 1 == 1)
}
