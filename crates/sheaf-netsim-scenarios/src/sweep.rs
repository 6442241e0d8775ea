//! All points of a sweep on all processors, results in the order of the points whatever the number of threads.

use crate::scenario::Point;
use sheaf_netsim::{Report, Scenario};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Result of one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The swept keys that matter at this point, and their values.
    pub settings: Vec<(String, String)>,
    /// Scenario that was simulated.
    pub scenario: Scenario,
    /// Report of the simulation.
    pub result: Result<Report, PointError>,
}

/// Reason for which there is no result of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// No engine can simulate it, in the words of the engine.
    #[error("{0}")]
    Refused(String),
    /// The simulation contradicts itself.
    #[error("self-check {name} failed: {detail}")]
    SelfCheck {
        /// Name of the check.
        name: &'static str,
        /// Values that differ.
        detail: String,
    },
}

impl PointError {
    pub(crate) fn refused(error: impl std::fmt::Display) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Returns the default number of threads: one for each processor.
#[must_use]
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Calls `work` for every item on `threads` threads. `done` is called after each with the number of finished items; its
/// calls come from several threads, one at a time. Results are in the order of the items.
///
/// # Panics
/// Where `work` panics.
pub fn in_parallel<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> T + Sync,
    done: impl FnMut(usize) + Send,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let finished: Mutex<(Vec<(usize, T)>, _)> = Mutex::new((Vec::with_capacity(items.len()), done));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else {
                        return;
                    };
                    let result = work(item);
                    let mut finished = finished.lock().expect("`done` does not panic");
                    let (results, done) = &mut *finished;
                    results.push((index, result));
                    done(results.len());
                }
            });
        }
    });
    let (mut results, _) = finished.into_inner().expect("`done` does not panic");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Simulates all points.
pub fn run<E: std::fmt::Display>(
    points: &[Point],
    threads: usize,
    simulate: impl Fn(&Scenario) -> Result<Report, E> + Sync,
    done: impl FnMut(usize) + Send,
) -> Vec<Outcome> {
    let work = |point: &Point| Outcome {
        settings: point.settings.clone(),
        scenario: point.scenario.clone(),
        result: simulate(&point.scenario).map_err(PointError::refused),
    };
    in_parallel(points, threads, work, done)
}

#[cfg(test)]
mod tests;
