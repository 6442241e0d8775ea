//! Data that the threads of a monitor share.

use crate::alarms::HostFigures;
use crate::description::{RunDescription, RunVerdict};
use crate::histogram_files::HistogramFiles;
use crate::history::History;
use crate::map::{MapMaker, Quantity};
use crate::messages::Messages;
use crate::notices::{Notices, Notifier};
use crate::openmetrics::RunLabels;
use crate::traces::TraceReader;
use crate::unix_time::unix_ms;
use crate::values::ValueBoard;
use bytes::Bytes;
use sheaf_telemetry::Hub;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// News of a tick.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tick {
    /// Number of rows of numbers so far.
    pub(crate) rows: u64,
    /// The state, as JSON.
    pub(crate) state: Bytes,
    /// The state as a server-sent event, encoded once for all clients.
    pub(crate) event: Bytes,
    /// The part of the state that is about alarms, as JSON.
    pub(crate) alarms: Bytes,
    /// Hosts of the run.
    pub(crate) hosts: Arc<HostFigures>,
}

/// Data that the server, its clock and the command share. Threads that carry data share only the hub with them, whose lock they take
/// when they begin.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hub: Hub,
    /// Values from outside.
    pub(crate) values: Arc<ValueBoard>,
    pub(crate) version: &'static str,
    /// Partition of the system that all runs are of.
    pub(crate) partition: Option<String>,
    pub(crate) history: Mutex<History>,
    pub(crate) told: Mutex<Told>,
    pub(crate) notices: Notified,
    /// File of traces that was read last.
    pub(crate) traces: Mutex<TraceReader>,
    /// Files of histograms that were read last.
    pub(crate) histograms: Mutex<HistogramFiles>,
    /// The map that was made last.
    pub(crate) map: Mutex<MapMaker>,
}

/// News of alarms, and who takes them. The thread of the server calls it, and nobody else waits for the lock.
#[derive(Default)]
pub(crate) struct Notified(Mutex<Option<(Notices, Notifier)>>);

impl std::fmt::Debug for Notified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notified")
    }
}

/// Everything that the command has told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) run: Option<Arc<RunDescription>>,
    pub(crate) waits_for: Option<String>,
    pub(crate) verdict: Option<RunVerdict>,
    /// State of run control, if this page has it.
    pub(crate) control: Option<serde_json::Value>,
    pub(crate) messages: Messages,
    /// Tells whether the run in a directory can be a reference for others.
    pub(crate) is_good: Option<fn(&Path) -> bool>,
}

impl Shared {
    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn traces(&self) -> MutexGuard<'_, TraceReader> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn histograms(&self) -> MutexGuard<'_, HistogramFiles> {
        self.histograms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the labels of the run, if there is one.
    pub(crate) fn run_labels(&self) -> Option<RunLabels> {
        let run = self.told().run.as_ref()?.number;
        Some(RunLabels { run, partition: self.partition.clone(), version: self.version })
    }

    /// Returns the map of this moment.
    pub(crate) fn map_of(&self, quantity: Quantity) -> Bytes {
        let run = self.told().run.clone();
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if map.is_due(run.as_deref(), now) {
            map.make(&self.hub.snapshot(), run.as_deref(), (now, unix_ms()));
        }
        map.answer(quantity)
    }

    pub(crate) fn notices(&self) -> MutexGuard<'_, Option<(Notices, Notifier)>> {
        self.notices.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
