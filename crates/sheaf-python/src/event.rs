//! Events and fragments as Python objects.

use crate::buffer::{Payload, array_of, fill, memory_view};
use crate::lease::Lease;
use bytes::Bytes;
use pyo3::exceptions::{PyBufferError, PyKeyError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sheaf_wire::event_file::StoredEvent;
use sheaf_wire::{SourceId, Tags};
use std::ffi::c_int;
use std::sync::Arc;

/// The names of a run's tags, from bit 0.
pub(crate) type TagNames = Arc<Vec<String>>;

/// A built event: one fragment of every source that answered, and the reasons why others are missing.
///
/// `event[3]` is the fragment of source 3, `3 in event` tells whether there is one, and `for fragment in event` iterates over all
/// in ascending order of sources.
#[pyclass(frozen, module = "sheaf")]
#[derive(Debug)]
pub(crate) struct Event {
    stored: StoredEvent<Bytes>,
    names: TagNames,
    /// Builder unit that built the event; only for live events.
    builder: Option<String>,
    /// Lease on the memory, if it belongs to a builder unit.
    lease: Option<Arc<Lease>>,
}

impl Event {
    pub(crate) fn new(stored: StoredEvent<Bytes>, names: TagNames, builder: Option<String>) -> Self {
        Self { stored, names, builder, lease: None }
    }

    /// Creates an event that is being judged. Its payload may be accessed until the lease ends.
    pub(crate) fn lent(event: sheaf_wire::Event<Bytes>, names: TagNames, lease: Arc<Lease>) -> Self {
        let stored = StoredEvent { event, verdict: sheaf_wire::Verdict::accept(), sequence: 0 };
        Self { stored, names, builder: None, lease: Some(lease) }
    }

    fn fragment(&self, fragment: &sheaf_wire::Fragment<Bytes>) -> Fragment {
        Fragment { fragment: fragment.clone(), lease: self.lease.clone() }
    }
}

#[pymethods]
impl Event {
    /// Event number.
    #[getter]
    fn id(&self) -> u64 {
        self.stored.event.id.0
    }

    /// Time of the trigger, in nanoseconds.
    #[getter]
    fn time(&self) -> u64 {
        self.stored.event.time.0
    }

    /// Type of the trigger, in the experiment's own numbering.
    #[getter]
    fn trigger_type(&self) -> u16 {
        self.stored.event.trigger_type.0
    }

    /// Number of the attempt to build it, from 1.
    #[getter]
    fn attempt(&self) -> u16 {
        self.stored.event.attempt
    }

    /// Whether a required source is missing.
    #[getter]
    fn incomplete(&self) -> bool {
        self.stored.event.incomplete
    }

    /// Names of the filter's tags, in the order of the configuration.
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, tag_names(self.stored.verdict.tags, &self.names))
    }

    /// The filter's tags as bits: bit 0 is the first in the configuration.
    #[getter]
    fn tag_bits(&self) -> u64 {
        self.stored.verdict.tags.0
    }

    /// Payload of the filter's verdict; may be empty.
    #[getter]
    fn payload(&self) -> Payload {
        Payload(self.stored.verdict.payload.clone())
    }

    /// Builder unit that built the event; `None` for an event of a file.
    #[getter]
    fn builder(&self) -> Option<&str> {
        self.builder.as_deref()
    }

    /// Numbers of the sources that have a fragment, ascending.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let sources = self.stored.event.fragments.iter().map(|fragment| fragment.source.0);
        PyTuple::new(py, sources.collect::<Vec<_>>())
    }

    /// Fragments in ascending order of sources.
    #[getter]
    fn fragments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.stored.event.fragments.iter().map(|fragment| self.fragment(fragment)))
    }

    /// Missing sources with reasons.
    #[getter]
    fn missing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let missing = PyDict::new(py);
        for entry in &self.stored.event.missing {
            missing.set_item(entry.source.0, entry.reason.name())?;
        }
        Ok(missing)
    }

    /// Total payload bytes of all fragments.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.stored.event.payload_bytes()
    }

    fn __len__(&self) -> usize {
        self.stored.event.fragments.len()
    }

    fn __getitem__(&self, source: u32) -> PyResult<Fragment> {
        let event = &self.stored.event;
        let found = event.fragments.binary_search_by_key(&SourceId(source), |fragment| fragment.source);
        match found {
            Ok(at) => Ok(self.fragment(&event.fragments[at])),
            Err(_) => {
                let reason = event.missing.iter().find(|missing| missing.source.0 == source);
                let why =
                    reason.map_or("it is not among the event's sources", |missing| missing.reason.name());
                Err(PyKeyError::new_err(format!(
                    "event {} has no fragment of source {source}: {why}",
                    event.id
                )))
            }
        }
    }

    fn __contains__(&self, source: u32) -> bool {
        self.stored
            .event
            .fragments
            .binary_search_by_key(&SourceId(source), |fragment| fragment.source)
            .is_ok()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.fragments(py)?.call_method0("__iter__")
    }

    fn __repr__(&self) -> String {
        let event = &self.stored.event;
        let incomplete = if event.incomplete { ", incomplete" } else { "" };
        let (id, fragments, bytes) = (event.id, event.fragments.len(), event.payload_bytes());
        let tags = tag_names(self.stored.verdict.tags, &self.names);
        let tags = if tags.is_empty() { String::new() } else { format!(", {}", tags.join(" ")) };
        format!("<sheaf.Event {id}: {fragments} fragments, {bytes} bytes{tags}{incomplete}>")
    }
}

pub(crate) fn tag_names(tags: Tags, names: &[String]) -> Vec<String> {
    tags.names(names).map(|name| name.to_string()).collect()
}

/// Fragment of one source of an event. It supports the buffer protocol: `memoryview(fragment)` and `numpy.frombuffer(fragment,
/// dtype)` do not copy, and keep the memory as long as they live.
#[pyclass(frozen, module = "sheaf")]
#[derive(Debug)]
pub(crate) struct Fragment {
    fragment: sheaf_wire::Fragment<Bytes>,
    lease: Option<Arc<Lease>>,
}

impl Fragment {
    /// Creates a fragment that owns its memory.
    pub(crate) fn new(fragment: sheaf_wire::Fragment<Bytes>) -> Self {
        Self { fragment, lease: None }
    }
}

#[pymethods]
impl Fragment {
    /// Number of the event.
    #[getter]
    fn event(&self) -> u64 {
        self.fragment.event.0
    }

    /// Number of the source.
    #[getter]
    fn source(&self) -> u32 {
        self.fragment.source.0
    }

    /// Time of the source's own clock, in nanoseconds; 0 if it has none.
    #[getter]
    fn time(&self) -> u64 {
        self.fragment.time.0
    }

    /// Whether the readout unit's preprocessor produced the payload.
    #[getter]
    fn processed(&self) -> bool {
        self.fragment.processed
    }

    /// Whether the check value disagrees with that of the event: the fragment may belong to another event.
    #[getter]
    fn disagrees(&self) -> bool {
        self.fragment.mark.disagrees()
    }

    /// Difference of the check value from that of the event; `None` if it agrees or was not compared.
    #[getter]
    fn difference(&self) -> Option<i64> {
        self.fragment.mark.difference()
    }

    /// Whether the readout unit has changed the event number that the source gave.
    #[getter]
    fn renumbered(&self) -> bool {
        self.fragment.mark.is_renumbered()
    }

    /// Number of events by which the readout unit has moved the fragment; `None` if it has not, or if the fragment disagrees
    /// nevertheless: then `difference` tells by how much.
    #[getter]
    fn moved_by(&self) -> Option<i64> {
        self.fragment.mark.shift()
    }

    /// Returns a read-only `memoryview` of the payload.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        memory_view(slf.as_any())
    }

    /// Returns a read-only NumPy array of the payload's bytes, or of values of `dtype`: `fragment.array("<u2")`.
    #[pyo3(signature = (dtype = None))]
    fn array<'py>(slf: &Bound<'py, Self>, dtype: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        array_of(slf.as_any(), slf.get().fragment.payload.len(), dtype)
    }

    fn __len__(&self) -> usize {
        self.fragment.payload.len()
    }

    fn __repr__(&self) -> String {
        let sheaf_wire::Fragment { event, source, payload, .. } = &self.fragment;
        format!("<sheaf.Fragment of event {event}, source {source}: {} bytes>", payload.len())
    }

    /// # Safety
    /// Called only by the interpreter, with a structure that it owns.
    #[allow(unsafe_code, reason = "the buffer protocol of Python is a C structure that is filled in")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let fragment = slf.get();
        if let Some(lease) = &fragment.lease {
            lease.lend().map_err(|over| PyBufferError::new_err(over.to_string()))?;
        }
        // SAFETY: the interpreter passes a view that may be filled in; the payload is a field of a frozen object.
        let filled = unsafe { fill(slf.as_any(), &fragment.fragment.payload, view, flags) };
        if let (Err(_), Some(lease)) = (&filled, &fragment.lease) {
            lease.give_back();
        }
        filled
    }

    /// # Safety
    /// Called only by the interpreter, once for each view.
    #[allow(unsafe_code, reason = "the interpreter's signature")]
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        if let Some(lease) = &self.lease {
            lease.give_back();
        }
    }
}
