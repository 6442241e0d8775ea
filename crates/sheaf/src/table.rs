//! The summary of a run as a table, for first-time readers.

mod sources;

use crate::console::{count, count_f64};
use crate::summary::explain;
use crate::summary::{
    EarlyEnd, FARM_ACCOUNTS_LOST, HitLedger, LedgerSummary, OUTPUT_ACCOUNTS_LOST, PROGRAMS_REFUSED, Summary,
    TriggerLinkSummary, Trouble, WindowLedger,
};
use sheaf_protocol::ledger::Counter;
use sheaf_protocol::manager::DeadTimeCause;
use sheaf_wire::DropReason;
use sheaf_wire::feed::Refusal;
use std::collections::BTreeSet;
use std::fmt::{self, Display};

impl Display for Summary {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |ns: u64| ns as f64 / 1e6;
        let megabytes = self.bytes_per_second / 1e6;
        let latency = &self.latency_ns;
        writeln!(f, "{}", self.kept)?;
        line(f, "events built", count(self.events_built), &rate(self.events_per_second))?;
        line(f, "  incomplete", count(self.events_incomplete), "lack a required source")?;
        line(f, "fragments", count(self.fragments), &rate(self.fragments_per_second))?;
        line(f, "payload", count(self.bytes), &format!("bytes, {megabytes:.1} MB/s"))?;
        if let Some(fraction) = self.load_fraction {
            let sent = self.counter(Counter::SentBytes);
            line(f, "  requested", count(sent), &format!("bytes: {fraction:.3} of full building"))?;
        }
        line(
            f,
            "run time",
            format!("{:.3}", self.seconds),
            "s, from the start to the end of the last event",
        )?;
        line(
            f,
            "latency",
            format!("{:.3}", milliseconds(latency.p50)),
            &format!(
                "ms from trigger to end: median; 99 % within {:.3}, all within {:.3}",
                milliseconds(latency.p99),
                milliseconds(latency.max)
            ),
        )?;
        line(f, "peak memory", format!("{:.1}", self.peak_rss_bytes as f64 / 1e6), "MB")?;
        match &self.output {
            Some(path) => writeln!(f, "{:<18}{}", "output", path.display())?,
            None => writeln!(f, "{:<18}none", "output")?,
        }
        match &self.ended_early {
            Some(EarlyEnd { why, .. }) => writeln!(f, "{:<18}{why}", "ended early")?,
            None if self.interrupted => writeln!(f, "{:<18}a signal ended the run", "interrupted")?,
            None => {}
        }
        exclusions(f, &self.ledger)?;
        ledger(f, &self.ledger)?;
        self.hits.as_ref().map_or(Ok(()), |books| hits(f, books))?;
        time(f, self)?;
        self.trigger_link.as_ref().map_or(Ok(()), |link| trigger_link(f, link))?;
        farm(f, self)?;
        programs(f, self)?;
        refused_programs(f, self)?;
        sources::trouble(f, self)?;
        if let Some(lost) = self.counters.get(OUTPUT_ACCOUNTS_LOST) {
            let what = "output nodes were killed; the counts of their files and links are missing here";
            line(f, "output nodes", count(*lost), what)?;
        }
        trouble(f, &self.trouble)
    }
}

/// Number of exclusions that are listed.
const EXCLUSIONS_LISTED: usize = 8;

/// Writes which sources were excluded, and in which events.
fn exclusions(f: &mut fmt::Formatter<'_>, ledger: &LedgerSummary) -> fmt::Result {
    for (place, exclusion) in ledger.exclusions.iter().take(EXCLUSIONS_LISTED).enumerate() {
        let name = if place == 0 { "excluded" } else { "" };
        writeln!(f, "{name:<18}{exclusion}")?;
    }
    match ledger.exclusions.len().saturating_sub(EXCLUSIONS_LISTED) {
        0 => Ok(()),
        more => writeln!(f, "{:<18}... and {more} more; run.json has all of them", ""),
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, value: impl Display, remark: &str) -> fmt::Result {
    writeln!(f, "{name:<18}{value:>16}  {remark}")
}

fn rate(per_second: f64) -> String {
    format!("{}/s", count_f64(per_second))
}

/// Writes the time in which triggers were taken, and the time in which they were not.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn time(f: &mut fmt::Formatter<'_>, summary: &Summary) -> fmt::Result {
    let time = &summary.ledger.time;
    if time.run_ns == 0 {
        return Ok(());
    }
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let percent = |ns: u64| 100.0 * ns as f64 / time.run_ns as f64;
    let what = format!("s, {:.2} % of the {:.3} s of triggers", percent(time.live_ns), seconds(time.run_ns));
    line(f, "live time", format!("{:.3}", seconds(time.live_ns)), &what)?;
    for (name, ns) in &time.dead_ns {
        let mut what = format!("s, {:.2} %: {name}: {}", percent(*ns), explain_dead_time(name));
        let culprits = summary.dead_time.get(name).map(|dead| &dead.culprits);
        for (node, seconds) in culprits.into_iter().flatten() {
            what.push_str(&format!("; {node} alone for {seconds:.3} s"));
        }
        line(f, "dead time", format!("{:.3}", seconds(*ns)), &what)?;
    }
    Ok(())
}

/// Writes what the trigger supervisor sent that is no event, or came too late.
fn trigger_link(f: &mut fmt::Formatter<'_>, link: &TriggerLinkSummary) -> fmt::Result {
    line(f, "trigger link", count(link.received), "triggers received")?;
    let skipped = match (link.first_skipped_id, link.last_skipped_id) {
        (Some(first), Some(last)) => format!("no trigger has them; the first is {first}, the last {last}"),
        _ => String::new(),
    };
    let datagrams = link.datagrams.clone().unwrap_or_default();
    let lines = [
        (link.lost, "lost", "there was no room for them"),
        (link.repeated, "repeated", "their ids were received before"),
        (link.out_of_order, "out of order", "their ids are below one received before"),
        (link.outside, "outside", "they came before the start or after the end of the run"),
        (link.late, "late", "they waited outside the queue; raise trigger.network.latency_us or max_rate_hz"),
        (link.skipped_ids, "skipped ids", skipped.as_str()),
        (link.undelivered, "undelivered", "the supervisor sent them, and they did not arrive"),
        (datagrams.lost, "lost datagrams", "they did not arrive"),
        (datagrams.repeated, "repeated", "datagrams that arrived again"),
        (
            datagrams.out_of_order,
            "out of order",
            "datagrams that were overtaken; their triggers are no events",
        ),
        (datagrams.strangers, "strangers", "datagrams of callers that were not connected"),
        (datagrams.invalid, "invalid", "datagrams of another format"),
    ];
    for (value, name, remark) in lines.into_iter().filter(|(value, ..)| *value > 0) {
        line(f, &format!("  {name}"), count(value), remark)?;
    }
    Ok(())
}

fn explain_dead_time(name: &str) -> String {
    DeadTimeCause::from_name(name).map_or_else(String::new, |cause| cause.to_string())
}

fn ledger(f: &mut fmt::Formatter<'_>, ledger: &LedgerSummary) -> fmt::Result {
    writeln!(f, "\n{:<18}{:>16}{:>16}", "ledger", "triggers", "fragments")?;
    if !ledger.vetoed.is_empty() {
        line(f, "offered", count(ledger.offered), "")?;
        for (name, vetoed) in &ledger.vetoed {
            let remark = format!("{:16}{name}: {}", "", explain_dead_time(name));
            line(f, "  vetoed", count(*vetoed), &remark)?;
        }
    }
    let mut row = |name: &str, triggers: u64, fragments: u64, remark: &str| {
        let (triggers, fragments) = (count(triggers), count(fragments));
        let text = format!("{name:<18}{triggers:>16}{fragments:>16}  {remark}");
        writeln!(f, "{}", text.trim_end())
    };
    let fragments = &ledger.fragments;
    row("received", ledger.triggers, fragments.received, "")?;
    row("  stored", ledger.stored, fragments.stored, "")?;
    row("  rejected", ledger.rejected, fragments.rejected, "by the filter")?;
    let reasons: BTreeSet<_> = ledger.dropped.keys().chain(fragments.dropped.keys()).collect();
    for name in reasons {
        let of = |dropped: &std::collections::BTreeMap<String, u64>| dropped.get(name).copied().unwrap_or(0);
        let remark = format!("{name}: {}", DropReason::from_name(name).map_or("", explain));
        row("  dropped", of(&ledger.dropped), of(&fragments.dropped), &remark)?;
    }
    row("  in flight", ledger.in_flight, fragments.in_flight, "")?;
    if ledger.balanced {
        return writeln!(f, "balanced: each trigger and each fragment is in exactly one line");
    }
    writeln!(f, "NOT BALANCED:")?;
    ledger.problems.iter().try_for_each(|problem| writeln!(f, "  {problem}"))
}

/// Writes the fates of the hits of self-triggered front ends, and of their packets.
fn hits(f: &mut fmt::Formatter<'_>, hits: &HitLedger) -> fmt::Result {
    line(f, "hits", count(hits.received), &format!("in {} packets", count(hits.packets)))?;
    let kept = hits.windows.as_ref().map_or(0, |windows| windows.hits_kept);
    let in_fragments = hits.in_slices.saturating_sub(kept);
    if hits.windows.is_none() || in_fragments > 0 {
        line(f, "  in slices", count(in_fragments), "in the fragments above")?;
    }
    if hits.windows.is_some() {
        line(f, "  kept", count(kept), "for windows")?;
    }
    for (value, name, remark) in [
        (hits.late, "late", "they came after their slice was complete"),
        (hits.left_out, "left out", "their slice was full"),
        (hits.untimed, "untimed", "they came before the first time marker or pulse"),
        (hits.off_timeline, "off timeline", "their time is before time 0 of the run, or too far behind it"),
        (hits.unfinished, "unfinished", "their slice was not complete at the end of the run"),
    ] {
        if value > 0 {
            line(f, &format!("  {name}"), count(value), remark)?;
        }
    }
    match hits.problem() {
        None => writeln!(f, "balanced: each hit is in exactly one line")?,
        Some(problem) => writeln!(f, "NOT BALANCED: {problem}")?,
    }
    if let Some(windows) = &hits.windows {
        self::windows(f, windows)?;
    }
    for (value, name, remark) in [
        (
            hits.places_lacking,
            "places lacking",
            "in slices that were full or complete; overlapping slices are several",
        ),
        (hits.packets_lost, "packets lost", "they did not arrive, by the gaps in their numbers"),
        (hits.packets_dropped, "packets dropped", "too many waited for the readout unit"),
        (hits.packets_unreadable, "unreadable", "packets of another format"),
        (hits.packets_undecoded, "undecoded", "packets whose hits the decoder could not read"),
        (
            hits.pulses_refused,
            "pulses refused",
            "clocks do not follow them; check `tick` and `source.timed.pulse_period`",
        ),
    ] {
        if value > 0 {
            line(f, name, count(value), remark)?;
        }
    }
    Ok(())
}

/// Writes which of the hits went into windows, and which were kept no longer.
#[expect(clippy::cast_precision_loss, reason = "a fraction is shown with three digits")]
fn windows(f: &mut fmt::Formatter<'_>, windows: &WindowLedger) -> fmt::Result {
    let share = 100.0 * windows.hits_given as f64 / windows.hits_kept.max(1) as f64;
    let given = format!("{share:.2} % of those kept, in {} fragments", count(windows.given));
    line(f, "hits in windows", count(windows.hits_given), &given)?;
    for (value, name, remark) in [
        (windows.hits_archived, "hits spooled", "there was no more memory for them"),
        (windows.hits_deleted, "hits deleted", "to make room for later ones"),
    ] {
        if value > 0 {
            line(f, name, count(value), remark)?;
        }
    }
    Ok(())
}

/// Writes the work of the farms, if there are any: their workers, and errors.
fn farm(f: &mut fmt::Formatter<'_>, summary: &Summary) -> fmt::Result {
    let workers = &summary.workers;
    if !workers.is_empty() {
        let judged = workers.iter().map(|worker| worker.judged).sum();
        let filter: f64 = workers.iter().map(|worker| worker.filter_s).sum();
        let beside: f64 = workers.iter().map(|it| (it.worker_s - it.filter_s - it.idle_s).max(0.0)).sum();
        let what = format!(
            "judged {} events: {filter:.3} s of processor time in filters, {beside:.3} s beside",
            count(judged)
        );
        line(f, "workers", count(workers.len() as u64), &what)?;
    }
    for (name, what) in [
        ("processors_died", "workers died; their events were judged elsewhere"),
        ("processors_silent", "workers were silent for filter.time_limit_ms and ended"),
        ("processors_nonsense", "workers sent invalid messages and were ended"),
        ("processors_refused", "processors found no free seat"),
        ("farm_callers_refused", "processors were refused at a farm's sockets; see the log"),
        ("workers_restarted", "workers were restarted"),
        ("retried", "events were judged a second time"),
        ("quarantined", "events have no verdict: stored as they were built, with the tag quarantined"),
        (FARM_ACCOUNTS_LOST, "builder units were killed; the counts of their farms are missing here"),
    ] {
        match summary.counters.get(name) {
            Some(value) if *value > 0 => line(f, "  farm", count(*value), what)?,
            _ => {}
        }
    }
    Ok(())
}

/// Writes which programs did not work as they should.
fn programs(f: &mut fmt::Formatter<'_>, summary: &Summary) -> fmt::Result {
    if !summary.programs.is_empty() {
        line(f, "programs", count(summary.programs.len() as u64), "were started by the run")?;
    }
    for program in &summary.programs {
        let of = format!("of {} at {}", program.name, program.node);
        let given_up = if program.given_up { "; then it was given up" } else { "" };
        for (value, what) in [
            (program.failures, format!("failures {of}{given_up}")),
            (u64::from(program.killed), format!("end {of} by SIGKILL: it did not end with the run")),
            (program.log_lines_dropped, format!("lines {of} are not in its file: it was full")),
        ] {
            if value > 0 {
                line(f, "  program", count(value), &what)?;
            }
        }
    }
    Ok(())
}

/// Writes how many programs that feed sources were refused, by reason.
fn refused_programs(f: &mut fmt::Formatter<'_>, summary: &Summary) -> fmt::Result {
    for (name, value) in &summary.counters {
        let Some(reason) = name.strip_prefix(PROGRAMS_REFUSED) else { continue };
        let text = Refusal::ALL.iter().find(|refusal| refusal.name() == reason);
        let text = text.map_or_else(|| "see the log".to_owned(), ToString::to_string);
        line(
            f,
            "  refused",
            count(*value),
            &format!("connections of programs that feed sources: {reason}: {text}"),
        )?;
    }
    Ok(())
}

fn trouble(f: &mut fmt::Formatter<'_>, trouble: &Trouble) -> fmt::Result {
    let Trouble {
        absent_nodes,
        unmet_requirements,
        lost_builder_sessions,
        take_overs,
        unprotected,
        mirrored,
        lost_mirrors,
        restarted_readouts,
        restarted_outputs,
        content_mismatches,
    } = trouble;
    if !absent_nodes.is_empty() {
        writeln!(f, "{:<18}{} did not appear; the run continued without", "absent", absent_nodes.join(", "))?;
    }
    for (name, times) in unmet_requirements {
        let what = format!("times fewer nodes than [require.{name}] needs");
        line(f, "requirement", count(*times), &what)?;
    }
    if !mirrored.is_empty() {
        let mirrors = if mirrored.len() == 1 { "its mirror" } else { "their mirrors" };
        let units = mirrored.join(", ");
        writeln!(f, "{:<18}{units} taken over by {mirrors}; no fragment was lost by it", "trouble")?;
    }
    for (value, what) in [
        (
            lost_builder_sessions,
            "builder sessions lost; their unfinished events were built elsewhere or dropped",
        ),
        (take_overs, "take-overs by a standby event manager; no event was lost by them"),
        (
            &u64::from(*unprotected && *take_overs == 0),
            "standby event manager lost; the run went on without one",
        ),
        (lost_mirrors, "mirrors lost; their readout units went on without"),
        (restarted_readouts, "readout units restarted; the fragments that they held are lost"),
        (
            restarted_outputs,
            "output nodes restarted; events that they had not stored were stored elsewhere, or again",
        ),
        (content_mismatches, "EVENTS WITH WRONG CONTENT"),
    ] {
        if *value > 0 {
            line(f, "trouble", count(*value), what)?;
        }
    }
    Ok(())
}
