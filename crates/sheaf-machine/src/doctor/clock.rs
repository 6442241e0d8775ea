//! The clock and its discipline.

use super::{Doctor, Remedy};

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Sources that are read without a system call.
const FAST: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// An error of a clock that would be seen among events that are milliseconds apart.
const LARGE_ERROR_US: u64 = 1_000;

pub(super) fn probe(doctor: &mut Doctor<'_>) {
    source(doctor);
    discipline(doctor);
}

fn source(doctor: &mut Doctor<'_>) {
    let Some(current) = doctor.root.text(CURRENT) else {
        return doctor.unknown("clock.source", CURRENT, "the kernel does not report its clock source");
    };
    if FAST.contains(&current.as_str()) {
        return doctor.good("clock.source", current, CURRENT);
    }
    let available = doctor.root.text(AVAILABLE).unwrap_or_default();
    let better = FAST.into_iter().find(|fast| available.split_whitespace().any(|word| word == *fast));
    let cost = "every reading of the time is a slow system call: a worker reads the clock once or twice a round, and a round may take only a few hundred nanoseconds";
    let remedy = match better {
        Some(better) => Remedy::command(format!("echo {better} > {CURRENT}")),
        None => Remedy::advice(
            "`dmesg | grep -i clocksource` shows why the kernel does not trust the processor's counter",
        ),
    };
    doctor.warn("clock.source", current, CURRENT, cost, remedy);
}

fn discipline(doctor: &mut Doctor<'_>) {
    let Some(state) = doctor.root.clock_state() else {
        return doctor.unknown(
            "clock.synchronised",
            "adjtimex",
            "the kernel does not report whether the clock is synchronised",
        );
    };
    // If the clock is not synchronized, the kernel's error estimates are placeholders.
    let value = match state.synchronised {
        true => format!(
            "synchronised; error {} us estimated, {} us at most",
            state.estimated_error_us, state.max_error_us
        ),
        false => "not synchronised".to_owned(),
    };
    if !state.synchronised {
        let cost = "times of different hosts drift apart, mostly by some microseconds a second: sessions (start times) of a node that moves to another host, trigger times and logs are not comparable. Events are built by id and are not affected";
        let remedy =
            Remedy::command("systemctl enable --now chronyd || systemctl enable --now systemd-timesyncd");
        doctor.warn("clock.synchronised", value, "adjtimex", cost, remedy);
    } else if state.estimated_error_us > LARGE_ERROR_US {
        let note = "PTP (linuxptp) keeps hosts of one network within a microsecond";
        doctor.note("clock.synchronised", value, "adjtimex", note);
    } else {
        doctor.good("clock.synchronised", value, "adjtimex");
    }
}
