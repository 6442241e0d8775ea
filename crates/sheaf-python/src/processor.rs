//! Judging events for a builder unit during a run.

use crate::filter::PythonFilter;
use crate::{NobodyThereError, sheaf_error};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_node::processor::{Processor as Joined, ProcessorError, ProcessorOptions, TlsFiles, Welcome};
use sheaf_wire::Nanos;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A processor that has joined a builder unit. `work` judges events until the run ends, or `stop` is called by another
/// thread.
#[pyclass(frozen, module = "sheaf")]
pub(crate) struct Processor {
    /// `None` once `work` has been called.
    joined: Mutex<Option<Joined>>,
    welcome: Welcome,
    stop: AtomicBool,
}

#[pymethods]
impl Processor {
    /// Joins at `address`: the socket of a door, a run's directory with one door, or `HOST:PORT`. Waits `patience` seconds for
    /// it, then raises `NobodyThereError`. If the run requires them, `tls` are certificate, key and authority (PEM files), and
    /// `key` is the file of the run's key.
    #[new]
    #[pyo3(signature = (address, *, ahead = None, patience = 0.0, tls = None, key = None))]
    fn new(
        py: Python<'_>,
        address: PathBuf,
        ahead: Option<u32>,
        patience: f64,
        tls: Option<(PathBuf, PathBuf, PathBuf)>,
        key: Option<PathBuf>,
    ) -> PyResult<Self> {
        let patience = Duration::try_from_secs_f64(patience)
            .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
        let default = ProcessorOptions::default();
        let options = ProcessorOptions {
            ahead: ahead.unwrap_or(default.ahead).max(1),
            patience: Nanos::from(patience),
            tls: tls.map(|(certificate, key, authority)| TlsFiles { certificate, key, authority }),
            key,
        };
        let joined = py.detach(|| Joined::meet(&address, options)).map_err(not_met)?;
        let welcome = joined.welcome().clone();
        Ok(Self { joined: Mutex::new(Some(joined)), welcome, stop: AtomicBool::new(false) })
    }

    /// Number of the run.
    #[getter]
    fn run(&self) -> u32 {
        self.welcome.run.0
    }

    /// Name of the builder unit whose events are judged.
    #[getter]
    fn builder(&self) -> String {
        self.welcome.node.to_string()
    }

    /// Names of the tags that the filter may give, from bit 0.
    #[getter]
    fn tags(&self) -> Vec<String> {
        self.welcome.tags.clone()
    }

    /// Configuration of the run, as the text of a TOML file.
    #[getter]
    fn configuration(&self) -> &str {
        &self.welcome.configuration
    }

    /// Judges events with `judge(event)` until the run ends or `stop` is called. Releases the interpreter's lock while there is
    /// nothing to judge. Returns statistics: `judged` (events), `filter_ns`, `worker_ns` and `idle_ns` (processor time).
    fn work<'py>(&self, py: Python<'py>, judge: Py<PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner).take();
        let joined =
            joined.ok_or_else(|| PyRuntimeError::new_err("a processor can work only once; join again"))?;
        let mut filter = PythonFilter::new(judge, Arc::new(self.welcome.tags.clone()));
        let times = py.detach(|| joined.run(&mut filter, &self.stop)).map_err(sheaf_error)?;
        let done = PyDict::new(py);
        done.set_item("judged", times.judged)?;
        done.set_item("filter_ns", times.filter.0)?;
        done.set_item("worker_ns", times.worker.0)?;
        done.set_item("idle_ns", times.idle.0)?;
        Ok(done)
    }

    /// Makes `work` return after its pending events are judged.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn __repr__(&self) -> String {
        format!("<sheaf.Processor of {}, run {}>", self.welcome.node, self.welcome.run)
    }
}

/// Converts the reason why a processor could not join. The type of the exception tells whether waiting may help.
fn not_met(error: ProcessorError) -> PyErr {
    if error.nobody_is_there() { NobodyThereError::new_err(error.to_string()) } else { sheaf_error(error) }
}
