//! Feeding sources of a run in progress.
#![allow(unsafe_code, reason = "memory of Python objects is read where it is")]

use crate::{NobodyThereError, RunEndedError, SheafError, sheaf_error};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use sheaf_config::feed_place_at;
use sheaf_feed::client::{SourceFragment, TlsFiles};
use sheaf_feed::{ClientOptions, FeedError, SourceClient, SourceRecord, environment};
use sheaf_wire::feed::Phase;
use sheaf_wire::run_record::RecordKind;
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::path::PathBuf;
use std::slice;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which Ctrl-C is checked while nothing can be sent.
const LOOK: Duration = Duration::from_millis(100);

/// Feeds sources of a run in progress. `target` is the socket of a readout unit (`runs/ru0.feed`), the configuration file of the run,
/// or `HOST:PORT`. With the configuration file, a program of another host connects over the network, with the key and the certificate of
/// the configuration; `key` (a file) and `tls` (certificate, key and authority: PEM files) name others. A program that a run has started (`source.kind = "command"`) needs neither target nor sources. A `with` block that ends without an exception ends the sources and waits until the run has accepted everything.
#[pyclass(frozen, module = "sheaf")]
pub(crate) struct Source {
    /// `None` once closed.
    client: Mutex<Option<SourceClient>>,
    target: String,
    sources: Vec<u32>,
    patience: Duration,
}

impl Source {
    /// Calls the client without the interpreter's lock.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut SourceClient) -> T + Send) -> PyResult<T> {
        py.detach(|| {
            let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
            let closed = || PyRuntimeError::new_err(format!("the source at {} is closed", self.target));
            client.as_mut().map(work).ok_or_else(closed)
        })
    }

    /// Calls the client until the readout unit is there, for as long as the patience allows.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut SourceClient) -> Result<T, FeedError> + Send,
    ) -> PyResult<T> {
        let mut failing = None;
        loop {
            match self.with(py, &mut work)? {
                Err(error) => {
                    let since: &mut Instant = failing.get_or_insert_with(Instant::now);
                    if since.elapsed() >= error.worth_repeating(self.patience) {
                        return Err(feed_error(&error));
                    }
                }
                Ok(result) => return Ok(result),
            }
            py.check_signals()?;
        }
    }

    /// Returns the index of a source; `None` means the only one.
    fn index_of(&self, source: Option<u32>) -> PyResult<usize> {
        let Some(source) = source else {
            return match self.sources.len() {
                1 => Ok(0),
                many => {
                    Err(PyValueError::new_err(format!("there are {many} sources: name one with source=...")))
                }
            };
        };
        let unknown = || PyValueError::new_err(format!("source {source} is not one of {:?}", self.sources));
        self.sources.iter().position(|ours| *ours == source).ok_or_else(unknown)
    }

    fn send_all(&self, py: Python<'_>, index: usize, mut fragments: &[SourceFragment<'_>]) -> PyResult<()> {
        while !fragments.is_empty() {
            let sent = self.call(py, |client| {
                let sent = client.send_some(index, fragments)?;
                if sent == 0 {
                    client.wait(LOOK)?;
                }
                Ok(sent)
            })?;
            fragments = &fragments[sent..];
            if sent == 0 {
                py.check_signals()?;
            }
        }
        Ok(())
    }

    /// Waits until everything is accepted. Returns false if the run has ended before.
    fn drained(&self, py: Python<'_>) -> PyResult<bool> {
        loop {
            let state = self.call(py, |client| {
                if client.is_drained() {
                    return Ok(Some(true));
                }
                match client.wait(LOOK) {
                    Ok(()) if client.phase() != Phase::Ended => Ok(None),
                    Ok(()) | Err(FeedError::RunEnded(_)) => Ok(Some(client.is_drained())),
                    Err(error) => Err(error),
                }
            })?;
            if let Some(drained) = state {
                return Ok(drained);
            }
            py.check_signals()?;
        }
    }

    fn end_all(&self, py: Python<'_>) -> PyResult<()> {
        (0..self.sources.len()).try_for_each(|index| self.call(py, |client| client.end(index)))
    }
}

/// Returns the time for which a call may wait before it looks for signals.
fn left(until: Option<Instant>) -> Duration {
    until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK))
}

#[pymethods]
impl Source {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a constructor in Python")]
    #[pyo3(signature = (target = None, *, source = None, sources = None, name = None, wait = 10.0, checksum = true, keep = true, key = None, tls = None, late_records = false))]
    fn new(
        py: Python<'_>,
        target: Option<PathBuf>,
        source: Option<u32>,
        sources: Option<Vec<u32>>,
        name: Option<String>,
        wait: Option<f64>,
        checksum: bool,
        keep: bool,
        key: Option<PathBuf>,
        tls: Option<(PathBuf, PathBuf, PathBuf)>,
        late_records: bool,
    ) -> PyResult<Self> {
        let sources = match (source, sources) {
            (Some(source), None) => vec![source],
            (None, Some(sources)) if !sources.is_empty() => sources,
            (None, None) if target.is_none() => {
                environment::sources().map_err(sheaf_error)?.into_iter().map(|source| source.0).collect()
            }
            _ => return Err(PyValueError::new_err("give source=7 or sources=[7, 8]")),
        };
        let target = target.map_or_else(environment::address, Ok).map_err(sheaf_error)?;
        let ids: Vec<SourceId> = sources.iter().copied().map(SourceId).collect();
        let place = py.detach(|| feed_place_at(&target, &ids)).map_err(sheaf_error)?;
        let options = ClientOptions {
            sources: ids,
            name: name
                .or_else(environment::name)
                .unwrap_or_else(|| format!("Python, process {}", std::process::id())),
            checksum,
            keep,
            late_records,
            // Longer waits are in steps, between which Ctrl-C is checked.
            patience: LOOK,
            network: place.network,
            key: key.or(place.key_file),
            tls: tls.map(<[PathBuf; 3]>::from).or(place.tls).map(TlsFiles::from),
        };
        let patience = wait.map(seconds).transpose()?.unwrap_or(Duration::MAX);
        let begin = Instant::now();
        let client = loop {
            match py.detach(|| SourceClient::connect(&place.address, options.clone())) {
                Err(error) if begin.elapsed() < error.worth_repeating(patience) => py.check_signals()?,
                result => break result.map_err(|error| feed_error(&error))?,
            }
        };
        let target = target.to_string_lossy().into_owned();
        Ok(Self { client: Mutex::new(Some(client)), target, sources, patience })
    }

    /// Numbers of the sources that it feeds.
    #[getter]
    fn sources(&self) -> Vec<u32> {
        self.sources.clone()
    }

    /// Number of the run.
    #[getter]
    fn run(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        self.with(py, |client| client.run().map(|run| run.0))
    }

    /// Phase of the run, as far as it is known: `waiting`, `running`, `paused` or `ended`.
    #[getter]
    fn phase(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(match self.with(py, |client| client.phase())? {
            Phase::Waiting => "waiting",
            Phase::Running => "running",
            Phase::Paused => "paused",
            Phase::Ended => "ended",
        })
    }

    /// Waits until the run starts, at most `timeout` seconds. Returns whether it is in progress.
    #[pyo3(signature = (timeout = None))]
    fn wait_for_start(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let until = timeout.map(seconds).transpose()?.map(|timeout| Instant::now() + timeout);
        loop {
            let left = left(until);
            let phase = self.call(py, |client| {
                if client.phase() == Phase::Waiting {
                    client.wait(left)?;
                }
                Ok(client.phase())
            })?;
            py.check_signals()?;
            if phase != Phase::Waiting || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(matches!(phase, Phase::Running | Phase::Paused));
            }
        }
    }

    /// Waits until the run has ended, at most `timeout` seconds. Returns whether it has.
    #[pyo3(signature = (timeout = None))]
    fn wait_for_end(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let until = timeout.map(seconds).transpose()?.map(|timeout| Instant::now() + timeout);
        loop {
            let left = left(until);
            let has_ended = self.call(py, |client| client.wait_for_end(Some(left)))?;
            py.check_signals()?;
            if has_ended || left.is_zero() {
                return Ok(has_ended);
            }
        }
    }

    /// Declines the start of the run: it ends before it has started, and says the reason.
    fn decline(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        self.call(py, |client| client.decline(reason))
    }

    /// Sends a run record of a source, and waits until the run has it: its configuration (`kind` "begin") or state at the end ("end"), or
    /// a value of slow control ("slow_control"). It is in every event file that is not closed yet. `time_ns` is in nanoseconds since
    /// 1970, now by default. Records are also taken before the run begins, and after its end with `late_records=True`.
    #[pyo3(signature = (kind, name, content, *, time_ns = None, source = None))]
    fn record(
        &self,
        py: Python<'_>,
        kind: &str,
        name: String,
        content: &Bound<'_, PyAny>,
        time_ns: Option<u64>,
        source: Option<u32>,
    ) -> PyResult<()> {
        let index = self.index_of(source)?;
        let names = RecordKind::OF_PROGRAMS.map(RecordKind::name);
        let kind = RecordKind::OF_PROGRAMS.into_iter().find(|known| known.name() == kind);
        let kind = kind.ok_or_else(|| PyValueError::new_err(format!("kind must be one of {names:?}")))?;
        let content = contiguous(content)?;
        let content = bytes_of(&content).to_vec().into();
        let record = SourceRecord { kind, time: time_ns.map(Timestamp), name, content };
        loop {
            let taken = self.call(py, |client| {
                let taken = client.try_record(index, &record)?;
                if !taken {
                    client.wait(LOOK)?;
                }
                Ok(taken)
            })?;
            py.check_signals()?;
            if taken {
                break;
            }
        }
        while !self.call(py, |client| client.wait_recorded(index, LOOK))? {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Sends a fragment, and waits while there is no room for it. `payload` is anything with a buffer: bytes, a NumPy array.
    #[pyo3(signature = (event, payload, *, time_ns = 0, source = None))]
    fn send(
        &self,
        py: Python<'_>,
        event: u64,
        payload: &Bound<'_, PyAny>,
        time_ns: u64,
        source: Option<u32>,
    ) -> PyResult<()> {
        let view = contiguous(payload)?;
        let fragment = fragment(event, time_ns, bytes_of(&view));
        self.send_all(py, self.index_of(source)?, &[fragment])
    }

    /// Sends a fragment if there is room for it now. Returns whether there was.
    #[pyo3(signature = (event, payload, *, time_ns = 0, source = None))]
    fn try_send(
        &self,
        py: Python<'_>,
        event: u64,
        payload: &Bound<'_, PyAny>,
        time_ns: u64,
        source: Option<u32>,
    ) -> PyResult<bool> {
        let view = contiguous(payload)?;
        let fragment = fragment(event, time_ns, bytes_of(&view));
        let index = self.index_of(source)?;
        self.call(py, |client| client.try_send(index, fragment))
    }

    /// Sends many fragments of a source, from arrays: fragment i has the event number `events[i]`, the time `times_ns[i]`, and the
    /// bytes `payload[offsets[i]:offsets[i + 1]]`. Numbers have 64 bits; `offsets` has one more than `events`. Waits while there is no
    /// room.
    #[pyo3(signature = (events, payload, offsets, *, times_ns = None, source = None))]
    fn send_batch(
        &self,
        py: Python<'_>,
        events: &Bound<'_, PyAny>,
        payload: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
        times_ns: Option<&Bound<'_, PyAny>>,
        source: Option<u32>,
    ) -> PyResult<()> {
        let index = self.index_of(source)?;
        let (events, offsets) = (Numbers::of(events, "events")?, Numbers::of(offsets, "offsets")?);
        let times = times_ns.map(|times| Numbers::of(times, "times_ns")).transpose()?;
        let view = contiguous(payload)?;
        let times = times.as_ref().map(Numbers::get);
        let fragments = split(events.get(), times, bytes_of(&view), offsets.get())?;
        self.send_all(py, index, &fragments)
    }

    /// Returns the number of fragments of a source that were sent in this run.
    #[pyo3(signature = (source = None))]
    fn sent(&self, py: Python<'_>, source: Option<u32>) -> PyResult<u64> {
        let index = self.index_of(source)?;
        self.with(py, |client| client.progress(index).0)
    }

    /// Returns the number of fragments of a source that the run has accepted: each of them is in its accounts.
    #[pyo3(signature = (source = None))]
    fn accepted(&self, py: Python<'_>, source: Option<u32>) -> PyResult<u64> {
        let index = self.index_of(source)?;
        self.with(py, |client| client.progress(index).1)
    }

    /// Returns the event number of the last fragment of a source that the readout unit had when the connection began; `None` if it had
    /// none in this run. A program that was started again continues behind it.
    #[pyo3(signature = (source = None))]
    fn last_event(&self, py: Python<'_>, source: Option<u32>) -> PyResult<Option<u64>> {
        let index = self.index_of(source)?;
        self.with(py, |client| client.last_event(index).map(|event| event.0))
    }

    /// Returns whether a source has ended in this run: by this program, or by an earlier one in its place. It takes no more fragments.
    #[pyo3(signature = (source = None))]
    fn has_ended(&self, py: Python<'_>, source: Option<u32>) -> PyResult<bool> {
        let index = self.index_of(source)?;
        self.with(py, |client| client.has_ended(index))
    }

    /// Ends a source, or all: it sends nothing more in this run.
    #[pyo3(signature = (source = None))]
    fn end(&self, py: Python<'_>, source: Option<u32>) -> PyResult<()> {
        if source.is_none() {
            return self.end_all(py);
        }
        let index = self.index_of(source)?;
        self.call(py, |client| client.end(index))
    }

    /// Waits until the run has accepted all that was sent. Returns `False` if it has ended before.
    fn drain(&self, py: Python<'_>) -> PyResult<bool> {
        self.drained(py)
    }

    /// Closes the connection. Sources that have not ended can be fed by another program.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.client.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Ends the sources and waits until all is accepted, unless there was an exception. A run that has ended also ends the block.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: Py<PyAny>,
        _traceback: Py<PyAny>,
    ) -> PyResult<bool> {
        let is_open = self.client.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let ended = if kind.is_none() && is_open {
            let ended = self.end_all(py).and_then(|()| self.drained(py).map(drop));
            ended.or_else(|error| if error.is_instance_of::<RunEndedError>(py) { Ok(()) } else { Err(error) })
        } else {
            Ok(())
        };
        self.close(py);
        ended.map(|()| kind.is(py.get_type::<RunEndedError>()))
    }

    fn __repr__(&self) -> String {
        format!("<sheaf.Source at {}, sources {:?}>", self.target, self.sources)
    }
}

fn fragment(event: u64, time_ns: u64, payload: &[u8]) -> SourceFragment<'_> {
    SourceFragment { event: EventId(event), time: Timestamp(time_ns), payload }
}

/// Returns the buffer of an object, whose memory is in one piece.
fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let view = PyUntypedBuffer::get(object)?;
    if view.is_c_contiguous() {
        Ok(view)
    } else {
        Err(PyTypeError::new_err("the payload is not contiguous; copy it with np.ascontiguousarray"))
    }
}

/// Returns the memory of a buffer.
fn bytes_of(view: &PyUntypedBuffer) -> &[u8] {
    let (first, bytes) = (view.buf_ptr().cast_const().cast::<u8>(), view.len_bytes());
    if bytes == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: contiguous, and neither moved nor freed while the view exists, by the buffer protocol. As with every function of Python
    // that reads a buffer without the interpreter's lock, the caller does not write to it meanwhile.
    unsafe { slice::from_raw_parts(first, bytes) }
}

/// An array of numbers of 64 bits.
struct Numbers(PyUntypedBuffer);

impl Numbers {
    /// Takes an array, of signed numbers too: NumPy makes these.
    fn of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        let wrong = || {
            let how = "np.ascontiguousarray(numbers, dtype=np.uint64) makes one";
            PyTypeError::new_err(format!("{what} must be a contiguous array of 64-bit integers; {how}"))
        };
        let view = PyUntypedBuffer::get(object).map_err(|_| wrong())?;
        let is_right = view.as_typed::<u64>().is_ok() || view.as_typed::<i64>().is_ok();
        let is_aligned = view.buf_ptr().cast::<u64>().is_aligned();
        let right = is_right && is_aligned && view.is_c_contiguous() && view.dimensions() == 1;
        if right { Ok(Self(view)) } else { Err(wrong()) }
    }

    fn get(&self) -> &[u64] {
        let (first, count) = (self.0.buf_ptr().cast_const().cast::<u64>(), self.0.item_count());
        if count == 0 || first.is_null() {
            return &[];
        }
        // SAFETY: contiguous, aligned items of 64 bits; see `bytes_of`.
        unsafe { slice::from_raw_parts(first, count) }
    }
}

/// Returns the fragments that arrays describe.
fn split<'a>(
    events: &[u64],
    times: Option<&[u64]>,
    payload: &'a [u8],
    offsets: &[u64],
) -> PyResult<Vec<SourceFragment<'a>>> {
    if offsets.len() != events.len() + 1 && !events.is_empty() {
        let (have, need) = (offsets.len(), events.len() + 1);
        return Err(PyValueError::new_err(format!("there are {have} offsets; there must be {need}")));
    }
    if let Some(times) = times.filter(|times| times.len() != events.len()) {
        let (have, need) = (times.len(), events.len());
        return Err(PyValueError::new_err(format!("there are {have} times; there must be {need}")));
    }
    let one = |(at, event): (usize, &u64)| {
        let (from, to) = (offsets[at], offsets[at + 1]);
        let place = usize::try_from(from).ok().zip(usize::try_from(to).ok());
        let bytes = place.and_then(|(from, to)| payload.get(from..to));
        let wrong = || {
            PyValueError::new_err(format!(
                "fragment {at} has the bytes {from} to {to}; offsets must not fall, and the payload has {} bytes",
                payload.len()
            ))
        };
        Ok(fragment(*event, times.map_or(0, |times| times[at]), bytes.ok_or_else(wrong)?))
    };
    events.iter().enumerate().map(one).collect()
}

/// Converts an error with its causes.
fn feed_error(error: &FeedError) -> PyErr {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    match error {
        FeedError::RunEnded(_) => RunEndedError::new_err(text),
        error if error.is_absence() => NobodyThereError::new_err(text),
        _ => SheafError::new_err(text),
    }
}

/// Converts a number of seconds from Python to a duration.
fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}
