//! The sources of a configuration without a run: opened, started and read until an end is asked for.

use crate::console::plural;
use crate::plan::Plan;
use crate::programs::{self, EndingPrograms};
use anyhow::{Context, bail};
use sheaf_config::Config;
use sheaf_node::Clock;
use sheaf_source::{Batch, BatchEnd, Source, SourceEvent, SourceStats};
use sheaf_wire::{EventId, Role, RunNumber, SourceId, Timestamp};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Maximum number of fragments of a source in a round.
const FRAGMENTS_PER_ROUND: usize = 64;

/// Pause after a round without fragments.
const PAUSE: Duration = Duration::from_micros(500);

/// A fragment of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) source: SourceId,
    pub(crate) event: EventId,
    /// The source's own time; zero where it has none.
    pub(crate) time: Timestamp,
    /// Time of the host when the fragment was read.
    pub(crate) now: Timestamp,
    pub(crate) payload: &'a [u8],
}

/// Whether sources are read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    GoOn,
    Stop,
}

/// Outcome of listening.
#[derive(Debug)]
pub(crate) struct Listened {
    /// From the start of the sources to their end.
    pub(crate) time: Duration,
    /// Counters of each source.
    pub(crate) stats: Vec<(SourceId, SourceStats)>,
    /// Failures of programs that the configuration starts.
    pub(crate) failures: u64,
}

struct Live {
    source: Box<dyn Source>,
    batch: Batch,
    has_ended: bool,
}

/// Reads the sources of all readout units until all have ended, `take` says so, `stop` is set, or `time` has passed since their
/// start. After each round of reading, `tend` is called. Output of programs goes to `directory`, if there is one.
///
/// # Errors
/// If a source cannot be opened, a program declines the start, or an error of `take`.
pub(crate) fn listen(
    config: Config,
    directory: Option<&Path>,
    (stop, time): (&AtomicBool, Option<Duration>),
    take: &mut dyn FnMut(Arrived<'_>) -> anyhow::Result<Then>,
    tend: &mut dyn FnMut(Timestamp),
) -> anyhow::Result<Listened> {
    listen_to(&plan(config)?, directory, (stop, time), take, tend)
}

/// Resolves the sources of a configuration for [`listen_to`].
pub(crate) fn plan(mut config: Config) -> anyhow::Result<Plan> {
    if config.run.number == RunNumber(0) {
        config.run.number = RunNumber(1);
    }
    // Nobody requests windows here: all hits are wanted.
    config.give_up_windows();
    Plan::new(config)
}

/// As [`listen`], for a configuration whose sources are known.
pub(crate) fn listen_to(
    plan: &Plan,
    directory: Option<&Path>,
    (stop, time): (&AtomicBool, Option<Duration>),
    take: &mut dyn FnMut(Arrived<'_>) -> anyhow::Result<Then>,
    tend: &mut dyn FnMut(Timestamp),
) -> anyhow::Result<Listened> {
    plan.report_defects(|_| true);
    programs::check(plan)?;
    let (clock, ending) = (Clock::new(), EndingPrograms::default());
    let mut sources = open(plan, directory, clock, &ending)?;
    let is_stopped = || stop.load(Ordering::Relaxed);
    wait_until_ready(&mut sources, &is_stopped)?;
    let start = Instant::now();
    log::info!("reading {} (Ctrl-C ends it)", plural(sources.len() as u64, "source"));
    sources.iter_mut().for_each(|live| live.source.start());
    let mut result = Ok(Then::GoOn);
    while matches!(result, Ok(Then::GoOn)) {
        let is_over = time.is_some_and(|time| start.elapsed() >= time);
        if is_stopped() || is_over || sources.iter().all(|live| live.has_ended) {
            break;
        }
        let mut some = false;
        for live in &mut sources {
            result = live.read(clock.now(), &mut some, take);
            if !matches!(result, Ok(Then::GoOn)) {
                break;
            }
        }
        tend(clock.now());
        if !some {
            sleep(&mut sources);
        }
    }
    let time = start.elapsed();
    sources.iter_mut().for_each(|live| live.source.stop());
    let stats = sources.iter().map(|live| (live.source.id(), live.source.stats())).collect();
    drop(sources);
    let ended = std::mem::take(&mut *ending.lock().unwrap_or_else(PoisonError::into_inner));
    let reports = ended.into_iter().flat_map(|(_, programs)| programs.wait());
    let failures = reports.map(|report| report.failures).sum();
    result.map(|_| Listened { time, stats, failures })
}

fn open(
    plan: &Plan,
    directory: Option<&Path>,
    clock: Clock,
    ending: &EndingPrograms,
) -> anyhow::Result<Vec<Live>> {
    let mut all = Vec::new();
    for node in plan.of_role(Role::Readout) {
        let me = plan.identity(node.id, clock.now());
        let sources = plan.sources(&me, node, None, Waker::noop().clone())?;
        let way = (directory, Waker::noop().clone());
        let sources = plan.start_programs(&me, node, sources, way, ending)?;
        all.extend(sources.into_iter().map(|source| Live {
            source,
            batch: Batch::default(),
            has_ended: false,
        }));
    }
    if all.is_empty() {
        bail!("the configuration has no sources");
    }
    Ok(all)
}

/// Waits for programs that feed the sources.
fn wait_until_ready(sources: &mut [Live], is_stopped: &dyn Fn() -> bool) -> anyhow::Result<()> {
    let mut is_reported = false;
    while !is_stopped() {
        for live in &mut *sources {
            while let Some(event) = live.source.poll_event() {
                if let SourceEvent::Declined { name, reason } = event {
                    bail!("{name} declines the start: {reason}");
                }
            }
        }
        // Each source is asked: this is also where they take what has arrived.
        if sources.iter_mut().fold(true, |ready, live| live.source.is_ready() & ready) {
            return Ok(());
        }
        if !std::mem::replace(&mut is_reported, true) {
            log::info!("waiting for programs that feed the sources (Ctrl-C ends it)");
        }
        sleep(sources);
    }
    Ok(())
}

fn sleep(sources: &mut [Live]) {
    let is_quiet = sources.iter_mut().fold(true, |quiet, live| live.source.prepare_to_sleep() & quiet);
    if is_quiet {
        std::thread::sleep(PAUSE);
    }
}

impl Live {
    /// Reads what there is, up to a bound.
    fn read(
        &mut self,
        now: Timestamp,
        some: &mut bool,
        take: &mut dyn FnMut(Arrived<'_>) -> anyhow::Result<Then>,
    ) -> anyhow::Result<Then> {
        if self.has_ended {
            return Ok(Then::GoOn);
        }
        self.batch.fragments.clear();
        self.has_ended = self.source.poll_batch(now, FRAGMENTS_PER_ROUND, &mut self.batch) == BatchEnd::Ended;
        let payload = std::mem::take(&mut self.batch.payload);
        *some |= !self.batch.fragments.is_empty();
        for fragment in &self.batch.fragments {
            let from = fragment.payload.offset as usize;
            let payload = payload.get(from..from + fragment.payload.length as usize);
            let payload =
                payload.context("a source has a fragment outside of its batch: this is a bug in sheaf")?;
            let arrived =
                Arrived { source: fragment.source, event: fragment.event, time: fragment.time, now, payload };
            let then = take(arrived)?;
            // One by one: those behind the last are not in any account.
            self.source.handle_accepted(1);
            if then == Then::Stop {
                return Ok(then);
            }
        }
        while self.source.poll_event().is_some() {}
        Ok(Then::GoOn)
    }
}
