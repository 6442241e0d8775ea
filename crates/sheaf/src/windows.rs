//! Windows of hits around the times of triggers, made from the configuration.

use crate::spool_options::spool_options;
use crate::timed;
use anyhow::Context;
use sheaf_config as conf;
use sheaf_config::{Config, TriggerMode};
use sheaf_node::Clock;
use sheaf_node::sources::FragmentMemory;
use sheaf_protocol::builder::{TriggerWindows, WindowExtent};
use sheaf_source::Source;
use sheaf_source::windows::{HitArchive, NotHeld};
use sheaf_spool::Spool;
use sheaf_spool::archive::WindowAnswer;
use sheaf_telemetry::log_as;
use sheaf_wire::spool_link::{GapReason, WindowRequest};
use sheaf_wire::{HitInterval, Nanos, SourceId, TimeUnit, Timestamp};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the windows for which triggers stand, if the run is built by window. `zero` is the trigger time that is time 0 of the hits.
pub(crate) fn trigger_windows(
    config: &Config,
    (zero, unit): (Timestamp, TimeUnit),
) -> Option<TriggerWindows> {
    if !config.source.is_windowed() {
        return None;
    }
    let picos = |time: Nanos| time.0.saturating_mul(1_000);
    let extent = |class: Option<&conf::TriggerClass>| WindowExtent {
        before_ps: picos(class.and_then(|class| class.before).unwrap_or(config.windows.before)),
        after_ps: picos(class.and_then(|class| class.after).unwrap_or(config.windows.after)),
    };
    let (zero, unit) = match config.trigger.mode {
        // Emulated triggers count from the start of the run.
        TriggerMode::Fixed | TriggerMode::Poisson => (Timestamp::ZERO, TimeUnit::NANOSECOND),
        _ => (zero, unit),
    };
    let by_type = config.triggers.values().map(|class| (class.trigger_type, extent(Some(class)))).collect();
    Some(TriggerWindows { zero, unit, extent: extent(None), by_type })
}

/// Returns windows of the hits of those of `sources` that give them, whose fragments are time slices, beside the other sources. `name` is
/// that of their readout unit.
pub(crate) fn cut(
    config: &Config,
    name: &str,
    sources: Vec<Box<dyn Source>>,
    memory: &FragmentMemory,
) -> anyhow::Result<Vec<Box<dyn Source>>> {
    let (source, windows) = (&config.source, &config.windows);
    let size = timed::pool_size(source);
    let gives = |source: &dyn Source| config.gives_windows(source.id());
    let ids: Vec<SourceId> =
        sources.iter().filter(|source| gives(&***source)).map(|source| source.id()).collect();
    if ids.is_empty() {
        return Ok(sources);
    }
    let waits = sources.iter().all(|source| source.keeps_data());
    let spool = match &windows.spool {
        Some(directory) => Some(SpooledHits::open(config, &directory.join(name), ids, waits)?),
        None => None,
    };
    let cut = |inner: Box<dyn Source>| {
        if !gives(&*inner) {
            return inner;
        }
        let archive = spool.clone().map(|spool| Box::new(spool) as Box<dyn HitArchive>);
        memory.windowed((inner, source.timed.slice), (windows.memory, archive), size)
    };
    Ok(sources.into_iter().map(cut).collect())
}

/// Hits of a readout unit that no longer fit in memory, in a hit spool. Its last block is written when the last source is dropped.
#[derive(Clone)]
struct SpooledHits(Arc<Mutex<SpoolOfUnit>>);

struct SpoolOfUnit(Spool);

impl Drop for SpoolOfUnit {
    fn drop(&mut self) {
        let books = self.0.finish(Clock::new().now());
        if books.lost() > 0 {
            log_as!(
                SPOOL_INCOMPLETE;
                "{} hits are not in the hit spool: the disk was full or too slow, or a segment could not be written",
                books.lost()
            );
        }
    }
}

impl SpooledHits {
    fn open(config: &Config, directory: &Path, sources: Vec<SourceId>, waits: bool) -> anyhow::Result<Self> {
        let place = (directory, config.windows.spool_bytes);
        let options = spool_options(config, place, (sources, waits), None);
        let (spool, _) = Spool::open(options).context("cannot keep hits in `windows.spool`")?;
        Ok(Self(Arc::new(Mutex::new(SpoolOfUnit(spool)))))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Spool) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl HitArchive for SpooledHits {
    fn keep(&mut self, source: SourceId, interval: HitInterval, hits: &[u8], now: Timestamp) {
        // Sources give nothing but whole hits.
        if let Err(error) = self.with(|spool| spool.take(source, interval, hits, now)) {
            log_as!(SPOOL_FAILED, source = source; "hits of source {source} are not kept: {error}");
        }
    }

    fn read(
        &mut self,
        source: SourceId,
        interval: HitInterval,
        now: Timestamp,
        hits: &mut Vec<u8>,
    ) -> Result<(), NotHeld> {
        let archive = self.with(|spool| {
            spool.tend(now);
            spool.archive().clone()
        });
        let request =
            WindowRequest { number: 0, session: None, window: interval, sources: vec![source.0..=source.0] };
        let mut gap = None;
        let done = archive.answer(&request, &mut |answer| {
            match answer {
                WindowAnswer::Hits(_, part) => hits.extend_from_slice(part),
                WindowAnswer::Gap(_, GapReason::Awaited) => gap = gap.or(Some(NotHeld::NotYet)),
                WindowAnswer::Gap(..) => gap = Some(NotHeld::Lost),
            }
            Ok(())
        });
        match (done, gap) {
            (Ok(_), None) => Ok(()),
            (Ok(_), Some(gap)) => Err(gap),
            (Err(error), _) => {
                log_as!(
                    SPOOL_INCOMPLETE, source = source;
                    "cannot read hits of source {source} in the hit spool: {error}"
                );
                Err(NotHeld::Lost)
            }
        }
    }
}
