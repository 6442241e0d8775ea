//! `sheaf sim bench`: the simulator's own speed.

use super::arguments::BenchArguments;
use crate::Verdict;
use crate::console::count_f64;
use crate::print::{print, print_json};
use crate::summary::peak_rss_bytes;
use serde::Serialize;
use sheaf_netsim::scenario::{Fidelity, FlitModel, Scenario, Switching};
use sheaf_netsim::speed;
use std::time::Instant;

/// Messages a sender in the run that finds out how many a timed run takes.
const TRIAL_MESSAGES: u64 = 20;

/// Speed of the simulation on one thread.
#[derive(Serialize)]
struct Speed {
    /// Ports of the network: 8x8 switches in as many layers as it takes.
    ports: u32,
    /// Messages simulated from their first to their last byte.
    messages: u64,
    messages_per_second: f64,
    /// Clock cycles of the flit-level reference.
    cycles: u64,
    cycles_per_second: f64,
    /// Efficiency that the message level found: a speed is worth something only where the result is right.
    efficiency: f64,
    peak_rss_bytes: u64,
}

pub(super) fn command(arguments: &BenchArguments) -> anyhow::Result<Verdict> {
    let stages = arguments.ports.checked_ilog(8).filter(|stages| 8_u32.pow(*stages) == arguments.ports);
    let Some(stages) = stages.filter(|stages| (1..=5).contains(stages)) else {
        anyhow::bail!(
            "{} ports cannot be a network of 8x8 switches; use 8, 64, 512, 4096 or 32768",
            arguments.ports
        );
    };
    let (messages, message_seconds, efficiency) = timed(arguments.seconds, |messages| {
        let work = speed::message_level(stages, messages)?;
        Ok((work.messages, work.report.efficiency))
    })?;
    let peak_rss_bytes = peak_rss_bytes();
    let (cycles, cycle_seconds, _) = timed(arguments.seconds, |messages| {
        let scenario = flits(stages, messages);
        let report = sheaf_netsim::run(&scenario)?;
        Ok((report.simulated.0 / scenario.link.rate.time_for(FLIT_BYTES.into()).0, report.efficiency))
    })?;
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let speed = Speed {
        ports: arguments.ports,
        messages,
        messages_per_second: messages as f64 / message_seconds,
        cycles,
        cycles_per_second: cycles as f64 / cycle_seconds,
        efficiency,
        peak_rss_bytes,
    };
    if arguments.json {
        print_json(&speed)?;
    } else {
        print(&describe(&speed))?;
    }
    Ok(Verdict::Good)
}

/// The flits of the reference: 64 of them make a message.
const FLIT_BYTES: u32 = 1024;

/// The same network and traffic flit by flit, with buffers of four flits at each input.
fn flits(stages: u32, messages: u64) -> Scenario {
    Scenario {
        fidelity: Fidelity::Flit,
        flits: FlitModel { flit_bytes: Some(FLIT_BYTES), ..FlitModel::default() },
        switching: Switching::Wormhole { buffer_bytes: 4 * FLIT_BYTES },
        ..speed::messages(stages, messages)
    }
}

/// Does work of about `seconds`; returns the amount of work, its duration, and the efficiency. `work` gets the number
/// of messages per sender.
fn timed(seconds: f64, work: impl Fn(u64) -> anyhow::Result<(u64, f64)>) -> anyhow::Result<(u64, f64, f64)> {
    let mut messages = TRIAL_MESSAGES;
    loop {
        let start = Instant::now();
        let (done, efficiency) = work(messages)?;
        let took = start.elapsed().as_secs_f64();
        // Half of the wanted time is long enough; a guess from a short trial is not exact.
        if took >= seconds / 2.0 {
            return Ok((done, took, efficiency));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number of messages"
        )]
        let next = (messages as f64 * (seconds / took.max(1e-6)).clamp(2.0, 100.0)) as u64;
        messages = next;
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn describe(speed: &Speed) -> String {
    format!(
        "{:<22}{:>14}\n{:<22}{:>14}/s on one thread, efficiency {:.4}\n{:<22}{:>14}/s on one thread\n{:<22}{:>14.1} MB\n",
        "ports",
        speed.ports,
        "messages",
        count_f64(speed.messages_per_second),
        speed.efficiency,
        "cycles of flits",
        count_f64(speed.cycles_per_second),
        "peak memory",
        speed.peak_rss_bytes as f64 / 1e6
    )
}
