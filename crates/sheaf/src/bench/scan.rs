//! Points, repetitions, progress.

use super::report::{Point, Sample, Scanned};
use crate::console::{Console, Progress};
use sheaf_bench::job::BenchError;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Settings that all scans share.
pub(super) struct Scan<'a> {
    pub(super) console: &'a Console,
    pub(super) stop: &'a Arc<AtomicBool>,
    /// Whether a signal ended a repetition. Code that acts on `stop` clears it.
    interrupted: Cell<bool>,
}

impl<'a> Scan<'a> {
    pub(super) const fn new(console: &'a Console, stop: &'a Arc<AtomicBool>) -> Self {
        Self { console, stop, interrupted: Cell::new(false) }
    }

    /// Begins to show `repetitions` repetitions.
    pub(super) fn progress(&self, repetitions: usize) -> Progress {
        self.console.progress(repetitions)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.interrupted.get() || self.stop.load(Ordering::Relaxed)
    }

    /// Measures the points of one curve, each `repeat` times. When a signal comes, the points that are complete.
    pub(super) fn curve(
        &self,
        name: &str,
        scanned: Scanned,
        places: &[u64],
        repeat: u32,
        progress: &Progress,
        mut measure: impl FnMut(u64) -> anyhow::Result<Option<Sample>>,
    ) -> anyhow::Result<Vec<Point>> {
        let mut points = Vec::new();
        for &at in places {
            let mut samples = Vec::new();
            for _ in 0..repeat {
                if self.is_stopped() {
                    return Ok(points);
                }
                progress.tell(&format!("{name}, {}", super::table::place(scanned, at)));
                match measure(at) {
                    Ok(Some(sample)) => samples.push(sample),
                    Ok(None) => {
                        self.interrupted.set(true);
                        return Ok(points);
                    }
                    Err(error) if self.is_stopped() || is_interruption(&error) => {
                        self.interrupted.set(true);
                        return Ok(points);
                    }
                    Err(error) => return Err(error),
                }
                progress.step();
            }
            points.push(Point::of(at, &samples));
        }
        Ok(points)
    }
}

fn is_interruption(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(BenchError::Interrupted))
}
