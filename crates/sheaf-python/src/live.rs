//! Events of a run in progress.

use crate::event::{Event, TagNames};
use crate::read::source_names;
use crate::sheaf_error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_store::run::{Manifest, newest_of};
use sheaf_tap::taps::{Next, TapOptions, Taps, TapsError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which Ctrl-C is checked while nothing arrives.
const LOOK: Duration = Duration::from_millis(100);

/// Iterator over a sample of the accepted events of a run in progress. Ends with the run. Created by `sheaf.tap`.
#[pyclass(frozen, module = "sheaf")]
#[derive(Debug)]
pub(crate) struct Tap {
    /// `None` once closed.
    taps: Mutex<Option<Taps>>,
    target: String,
    tags: TagNames,
    sources: Vec<u32>,
    metadata: String,
    run: u32,
}

impl Tap {
    fn with<T>(&self, work: impl FnOnce(&mut Taps) -> T) -> PyResult<T> {
        let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyRuntimeError::new_err(format!("the tap at {} is closed", self.target));
        taps.as_mut().map(work).ok_or_else(closed)
    }

    /// Returns the next event; `None` at the end of the run, or if no event arrives within the timeout.
    fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<Event>> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
            let next: Result<Next, TapsError> = py.detach(|| self.with(|taps| taps.next(left)))?;
            match next.map_err(sheaf_error)? {
                Next::Event(builder, stored) => {
                    return Ok(Some(Event::new(*stored, self.tags.clone(), Some(builder.to_string()))));
                }
                Next::Ended => return Ok(None),
                Next::Nothing => {}
            }
            py.check_signals()?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
        }
    }
}

#[pymethods]
impl Tap {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a constructor in Python")]
    #[pyo3(signature = (target, *, tags = Vec::new(), prescale = 1, rate = None, name = None, wait = 10.0, key = None))]
    fn new(
        py: Python<'_>,
        target: std::path::PathBuf,
        tags: Vec<String>,
        prescale: u32,
        rate: Option<f64>,
        name: Option<String>,
        wait: f64,
        key: Option<std::path::PathBuf>,
    ) -> PyResult<Self> {
        let name = name.unwrap_or_else(|| format!("Python, process {}", std::process::id()));
        let options = TapOptions { tags, prescale, rate_hz: rate, name, key };
        // A target that is not a path is an address.
        let target = newest_of(&target).unwrap_or(target);
        let target = target.to_string_lossy().into_owned();
        let until = Instant::now() + seconds(wait)?;
        let mut interrupted = Ok(());
        let taps = py.detach(|| {
            Taps::open_when_ready(&target, &options, || {
                interrupted = Python::attach(|py| py.check_signals());
                interrupted.is_err() || Instant::now() >= until || has_ended(&target)
            })
        });
        interrupted?;
        let taps = taps.map_err(sheaf_error)?;
        let welcome = taps.welcome();
        Ok(Self {
            target,
            tags: Arc::new(welcome.tag_names()),
            sources: welcome.sources(),
            metadata: welcome.metadata.clone(),
            run: welcome.header.run.0,
            taps: Mutex::new(Some(taps)),
        })
    }

    /// Number of the run.
    #[getter]
    fn run(&self) -> u32 {
        self.run
    }

    /// Names of the run's tags, from bit 0.
    #[getter]
    fn tags(&self) -> Vec<String> {
        self.tags.to_vec()
    }

    /// Numbers of the run's sources.
    #[getter]
    fn sources(&self) -> Vec<u32> {
        self.sources.clone()
    }

    /// Names of sources by their ids, as far as the run has them.
    #[getter]
    fn source_names(&self) -> BTreeMap<u32, String> {
        source_names(&self.metadata)
    }

    /// Metadata of the run, as in its event files.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (&self.metadata,))
    }

    /// Counts of the run's accepted events by outcome, as reported by the builder units about once a second. `seen` is the sum
    /// of all others.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = py.detach(|| self.with(|taps| taps.counts()))?;
        let values = PyDict::new(py);
        for (name, value) in [
            ("seen", counts.seen),
            ("taken", counts.taken),
            ("other_tags", counts.other_tags),
            ("prescaled", counts.prescaled),
            ("over_rate", counts.over_rate),
            ("queue_full", counts.queue_full),
            ("over_budget", counts.over_budget),
        ] {
            values.set_item(name, value)?;
        }
        Ok(values)
    }

    /// Returns the next event; `None` at the end of the run, or if none arrives within `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Event>> {
        let timeout = timeout.map(seconds).transpose()?;
        self.wait(py, timeout)
    }

    /// Leaves the run. The end of a `with` block does the same.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.taps.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(&self, py: Python<'_>, _kind: Py<PyAny>, _value: Py<PyAny>, _traceback: Py<PyAny>) {
        self.close(py);
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Event>> {
        self.wait(py, None)
    }

    fn __repr__(&self) -> String {
        format!("<sheaf.Tap at {}, run {}>", self.target, self.run)
    }
}

/// Converts a number of seconds from Python to a duration.
fn seconds(seconds: f64) -> PyResult<Duration> {
    let duration = Duration::try_from_secs_f64(seconds);
    duration.map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}

/// Returns whether the run has ended, according to the manifest in its directory.
fn has_ended(target: &str) -> bool {
    Manifest::read(target.as_ref()).is_ok_and(|manifest| manifest.is_some_and(|run| run.ended.is_some()))
}
