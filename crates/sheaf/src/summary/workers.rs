//! The work of a filter worker, as it is printed.

use serde::Serialize;
use sheaf_node::judging::WorkerTimes;

/// Work of one worker, as `--json` and the summary of a run print it.
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
pub(crate) struct WorkerSummary {
    /// The builder unit.
    pub(crate) builder: String,
    /// The worker's number in its farm, and the number of earlier workers with that number: `2.0`. Empty if the worker
    /// prints it itself.
    pub(crate) worker: String,
    /// Events judged.
    pub(crate) judged: u64,
    /// Processor time of the filter.
    pub(crate) filter_s: f64,
    /// Processor time of the worker, the filter's included.
    pub(crate) worker_s: f64,
    /// Of that, looking for events where there were none.
    pub(crate) idle_s: f64,
    /// Processor time per event in addition to the filter's.
    pub(crate) overhead_ns: Option<u64>,
}

impl WorkerSummary {
    pub(crate) fn new(builder: String, worker: String, times: &WorkerTimes) -> Self {
        Self {
            builder,
            worker,
            judged: times.judged,
            filter_s: times.filter.as_secs_f64(),
            worker_s: times.worker.as_secs_f64(),
            idle_s: times.idle.as_secs_f64(),
            overhead_ns: times.overhead().map(|overhead| overhead.0),
        }
    }
}
