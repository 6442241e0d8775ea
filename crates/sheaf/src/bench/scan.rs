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

    /// Begins a scan of `curves` curves over `places`, each point measured `repeat` times, and shows its progress.
    pub(super) fn over<'s>(
        &'s self,
        curves: usize,
        scanned: Scanned,
        places: &'s [u64],
        repeat: u32,
    ) -> CurveScan<'s> {
        let progress = self.console.progress(curves * places.len() * repeat as usize);
        CurveScan { scan: self, scanned, places, repeat, progress }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.interrupted.get() || self.stop.load(Ordering::Relaxed)
    }
}

/// A scan of several curves over the same places.
pub(super) struct CurveScan<'a> {
    scan: &'a Scan<'a>,
    scanned: Scanned,
    places: &'a [u64],
    repeat: u32,
    progress: Progress,
}

impl CurveScan<'_> {
    /// Measures the points of one curve. When a signal comes, returns those that are complete.
    pub(super) fn curve(
        &self,
        name: &str,
        mut measure: impl FnMut(u64) -> anyhow::Result<Option<Sample>>,
    ) -> anyhow::Result<Vec<Point>> {
        let scan = self.scan;
        let mut points = Vec::new();
        for &at in self.places {
            let mut samples = Vec::new();
            for _ in 0..self.repeat {
                if scan.is_stopped() {
                    return Ok(points);
                }
                self.progress.show(&format!("{name}, {}", super::table::place(self.scanned, at)));
                match measure(at) {
                    Ok(Some(sample)) => samples.push(sample),
                    Ok(None) => {
                        scan.interrupted.set(true);
                        return Ok(points);
                    }
                    Err(error) if scan.is_stopped() || is_interruption(&error) => {
                        scan.interrupted.set(true);
                        return Ok(points);
                    }
                    Err(error) => return Err(error),
                }
                self.progress.step();
            }
            points.push(Point::of(at, &samples));
        }
        Ok(points)
    }
}

fn is_interruption(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(BenchError::Interrupted))
}
