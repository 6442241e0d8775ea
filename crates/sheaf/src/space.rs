//! Free space on the disk of a run: checked before it begins, and watched until it ends.

use crate::periodic::{Periodic, Turns};
use anyhow::bail;
use sheaf_config::{Config, OutputKind, TriggerMode};
use sheaf_telemetry::log_as;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two checks. In this time, even the fastest disk writes only a small part of the default of
/// `output.keep_free_bytes`.
const PERIOD: Duration = Duration::from_millis(100);

/// Refuses a run whose disk has less than `output.keep_free_bytes`, and warns of one that is expected to use up the rest.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    let keep = config.output.keep_free.0;
    if config.output.kind == OutputKind::None || keep == 0 {
        return Ok(());
    }
    let directory = &config.run.output;
    let Some(free) = existing(directory).and_then(|directory| sheaf_machine::free_bytes(&directory).ok())
    else {
        return Ok(());
    };
    let shown = directory.display();
    require(directory, keep)?;
    let most = free.saturating_sub(keep);
    match estimate(config) {
        Some(bytes) if bytes > most => log_as!(
            DISK_SMALL;
            "this run writes about {} if every event is stored, and {shown} has room for {}; the run ends when that is full",
            size(bytes),
            size(most)
        ),
        _ => {}
    }
    Ok(())
}

/// Refuses to write to a directory whose disk has less than `keep` bytes free.
pub(crate) fn require(directory: &Path, keep: u64) -> anyhow::Result<()> {
    let free = existing(directory).and_then(|directory| sheaf_machine::free_bytes(&directory).ok());
    if let Some(free) = free.filter(|free| *free <= keep && keep > 0) {
        bail!(
            "{} has {} free, but output.keep_free_bytes requires {}: free some space, choose another directory \
             (--output), or lower output.keep_free_bytes",
            directory.display(),
            size(free),
            size(keep)
        );
    }
    Ok(())
}

/// The nearest directory above `path`, itself included, that exists.
fn existing(path: &Path) -> Option<PathBuf> {
    let absolute = std::env::current_dir().ok()?.join(path);
    absolute.ancestors().find(|directory| directory.is_dir()).map(Path::to_owned)
}

/// Payload of all events of a run of emulated sources, in bytes; `None` where nothing bounds it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
fn estimate(config: &Config) -> Option<u64> {
    if !config.source.emulates_events() {
        return None;
    }
    let timed = matches!(config.trigger.mode, TriggerMode::Fixed | TriggerMode::Poisson);
    let rate = config.trigger.rate_hz.filter(|_| timed);
    let by_time =
        rate.zip(config.run.duration).map(|(rate, duration)| (rate * duration.as_secs_f64()) as u64);
    let events = [by_time, config.run.events].into_iter().flatten().min()?;
    let sources = match config.source.ids.len() {
        0 => u64::from(config.source.count.unwrap_or_else(|| config.readout.count.into())),
        listed => listed as u64,
    };
    Some((events as f64 * sources as f64 * config.source.emulated.mean.0 as f64) as u64)
}

/// Watches the disk of a run, and ends the run in good order before the disk is full.
pub(crate) struct Watch(Option<Periodic<Option<String>>>);

impl Watch {
    /// Sets `stop`, as Ctrl-C does, when the disk of `directory` has at most `keep` bytes free. Does nothing without a
    /// directory or if `keep` is 0.
    pub(crate) fn begin(directory: Option<&Path>, keep: u64, stop: &Arc<AtomicBool>) -> anyhow::Result<Self> {
        let Some(directory) = directory.filter(|_| keep > 0).map(Path::to_owned) else {
            return Ok(Self(None));
        };
        let stop = stop.clone();
        let body = move |turns: Turns| {
            while turns.next_after(PERIOD) {
                // A disk that does not report its free space is not treated as full.
                let Some(free) = sheaf_machine::free_bytes(&directory).ok().filter(|free| *free <= keep)
                else {
                    continue;
                };
                let shown = directory.display();
                let why = format!(
                    "{shown} has {} free, no more than output.keep_free_bytes ({})",
                    size(free),
                    size(keep)
                );
                log_as!(DISK_NEARLY_FULL; "the run ends: {why}");
                stop.store(true, Ordering::Relaxed);
                return Some(why);
            }
            None
        };
        Ok(Self(Some(Periodic::begin("space", body)?)))
    }

    /// Ends watching. Returns why it has ended the run, if it has.
    pub(crate) fn end(self) -> Option<String> {
        self.0?.end().flatten()
    }
}

/// A number of bytes, for people.
#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn size(bytes: u64) -> String {
    let (unit, name) = if bytes >= 1_000_000_000 { (1e9, "GB") } else { (1e6, "MB") };
    format!("{:.1} {name}", bytes as f64 / unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::{ByteCount, Nanos};

    fn of_size(rate_hz: Option<f64>, duration: Option<Nanos>, events: Option<u64>) -> Option<u64> {
        let mut config = Config::default();
        config.trigger.mode = if rate_hz.is_some() { TriggerMode::Poisson } else { TriggerMode::Free };
        config.trigger.rate_hz = rate_hz;
        (config.run.duration, config.run.events) = (duration, events);
        config.readout.count = 2;
        config.source.emulated.mean = ByteCount(100);
        estimate(&config)
    }

    #[test]
    fn a_run_is_estimated_by_what_bounds_it_first() {
        let seconds = |seconds| Some(Nanos::from_secs(seconds));
        assert_eq!(of_size(Some(10.0), seconds(3), None), Some(6_000));
        assert_eq!(of_size(Some(10.0), seconds(3), Some(20)), Some(4_000));
        assert_eq!(of_size(None, None, Some(7)), Some(1_400));
        assert_eq!(of_size(None, seconds(3), None), None, "as fast as it goes");
        assert_eq!(of_size(Some(10.0), None, None), None, "until it is stopped");
    }

    #[test]
    fn a_watched_disk_that_is_full_ends_the_run_and_one_that_is_not_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let begin = |keep| Watch::begin(Some(directory.path()), keep, &stop).unwrap();
        assert_eq!(begin(1).end(), None);
        assert!(!stop.load(Ordering::Relaxed));
        let full = begin(u64::MAX);
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(PERIOD / 10);
        }
        let why = full.end().unwrap();
        assert!(why.contains("output.keep_free_bytes"), "{why}");
    }
}
