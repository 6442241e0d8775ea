//! Memory and descriptors of the processes of a run over time. Growth that lasts as long as the run is a leak.

use super::process;
use crate::bench::median;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the processes are sampled.
const PERIOD: Duration = Duration::from_secs(1);

/// Initial fraction of the time that is not judged, because buffers and pools are used for the first time: 10 minutes of an hour.
const WARM_UP: f64 = 1.0 / 6.0;

/// Number of windows of the judged time for medians.
const WINDOWS: usize = 6;

/// One sample of a process.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Seconds since the beginning.
    at: f64,
    /// Resident memory.
    bytes: f64,
    descriptors: usize,
}

/// Samples every process of a case on a separate thread.
#[derive(Debug)]
pub(super) struct Sampler {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<u32, (String, Vec<Sample>)>>,
}

/// Change of the memory and of the descriptors of a process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Growth {
    /// Name of the node, or the subcommand.
    pub(super) process: String,
    /// Slope of the resident memory, in bytes an hour, by least squares.
    pub(super) bytes_an_hour: f64,
    /// Resident memory at the end, the median of the last window.
    pub(super) bytes: f64,
    /// Number of descriptors: medians of the first and of the last window.
    pub(super) descriptors: (usize, usize),
}

impl Sampler {
    pub(super) fn start(mark: &str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (flag, mark) = (is_over.clone(), mark.to_owned());
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let mut samples: BTreeMap<u32, (String, Vec<Sample>)> = BTreeMap::new();
            while !flag.load(Ordering::Relaxed) {
                for process in process::marked(&mark) {
                    let Some(sample) = sample(process.id, began.elapsed()) else { continue };
                    let name =
                        || process.node().or(process.arguments.get(1).map(String::as_str)).unwrap_or("?");
                    let of_process =
                        samples.entry(process.id).or_insert_with(|| (name().to_owned(), Vec::new()));
                    of_process.1.push(sample);
                }
                std::thread::sleep(PERIOD);
            }
            samples
        });
        Self { is_over, thread }
    }

    /// Ends the sampling and returns the growth of each process that existed all the time.
    pub(super) fn end(self) -> Vec<Growth> {
        self.is_over.store(true, Ordering::Relaxed);
        let samples = self.thread.join().unwrap_or_default();
        let end = samples.values().filter_map(|(_, of_process)| of_process.last()).map(|last| last.at);
        let end = end.fold(0.0, f64::max);
        let begin = end * WARM_UP;
        let stayed = |of_process: &[Sample]| {
            of_process.first().is_some_and(|first| first.at < begin)
                && of_process.last().is_some_and(|last| last.at > end - 2.0 * PERIOD.as_secs_f64())
        };
        let stayed = samples.into_values().filter(|(_, of_process)| stayed(of_process));
        stayed.filter_map(|(name, of_process)| growth(name, &of_process, begin)).collect()
    }
}

/// Samples a process; `None` if it has ended.
fn sample(id: u32, at: Duration) -> Option<Sample> {
    let directory = Path::new("/proc").join(id.to_string());
    let status = std::fs::read_to_string(directory.join("status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    let descriptors = std::fs::read_dir(directory.join("fd")).ok()?.count();
    Some(Sample { at: at.as_secs_f64(), bytes: kibibytes * 1024.0, descriptors })
}

fn growth(process: String, samples: &[Sample], begin: f64) -> Option<Growth> {
    let judged: Vec<Sample> = samples.iter().copied().filter(|sample| sample.at >= begin).collect();
    let window = (judged.len() / WINDOWS).max(1);
    let (first, last) = (judged.get(..window)?, judged.get(judged.len() - window..)?);
    Some(Growth {
        process,
        bytes_an_hour: slope(&judged) * 3600.0,
        bytes: median(last.iter().map(|sample| sample.bytes).collect()),
        descriptors: (descriptors(first), descriptors(last)),
    })
}

fn descriptors(window: &[Sample]) -> usize {
    median(window.iter().map(|sample| sample.descriptors as f64).collect()) as usize
}

/// Returns the slope of the memory in bytes per second, by least squares; 0 for a single sample.
fn slope(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let mean_at = samples.iter().map(|sample| sample.at).sum::<f64>() / count;
    let mean_bytes = samples.iter().map(|sample| sample.bytes).sum::<f64>() / count;
    let (mut both, mut square) = (0.0, 0.0);
    for sample in samples {
        both += (sample.at - mean_at) * (sample.bytes - mean_bytes);
        square += (sample.at - mean_at).powi(2);
    }
    if square == 0.0 { 0.0 } else { both / square }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a sample every second for an hour.
    fn hour(bytes: impl Fn(f64) -> f64, descriptors: impl Fn(usize) -> usize) -> Vec<Sample> {
        let sample = |second: usize| {
            let at = second as f64;
            Sample { at, bytes: bytes(at), descriptors: descriptors(second) }
        };
        (0..3600).map(sample).collect()
    }

    #[test]
    fn a_leak_has_a_slope_and_use_at_the_beginning_has_none() {
        let leaks = hour(|at| 5e6 + at * 1_000.0, |_| 20);
        let leaks = growth("leaks".to_owned(), &leaks, 600.0).expect("there are samples");
        assert!((leaks.bytes_an_hour - 3.6e6).abs() < 1.0, "{leaks:?}");
        let warms = hour(|at| 5e6 + at.min(500.0) * 1_000.0, |_| 20);
        let warms = growth("warms".to_owned(), &warms, 600.0).expect("there are samples");
        assert!(warms.bytes_an_hour.abs() < 1.0, "{warms:?}");
    }

    #[test]
    fn descriptors_that_come_and_go_are_no_growth() {
        let flat = hour(|_| 5e6, |second| 20 + usize::from(second % 10 == 0));
        assert_eq!(growth("flat".to_owned(), &flat, 600.0).expect("samples").descriptors, (20, 20));
        let leaks = hour(|_| 5e6, |second| 20 + second / 10);
        let (first, last) = growth("leaks".to_owned(), &leaks, 600.0).expect("samples").descriptors;
        assert!(last > first + 200, "{first} {last}");
    }
}
