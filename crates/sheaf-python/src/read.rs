//! Event files, run directories and fragment streams, one record after another.

use crate::event::{Event, Fragment, TagNames};
use crate::{DamagedError, sheaf_error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sheaf_store::event_file::{self, EventReadError, Metadata, RecordKind};
use sheaf_store::fragment_stream::{StreamReadError, StreamReader};
use sheaf_store::kind::Kind;
use sheaf_store::run::{RunReadError, RunReader, newest_of};
use sheaf_wire::shift_record::ShiftRecord;
use sheaf_wire::{TimeBase, UtcTime};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The metadata of a file or a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) run: u32,
    /// Metadata as a JSON object.
    pub(crate) metadata: String,
    pub(crate) tags: TagNames,
}

impl About {
    /// Returns the metadata of the first file with a valid header.
    pub(crate) fn of_run(reader: &RunReader) -> Self {
        let run = reader.manifest().map(|manifest| manifest.run.0);
        let Some(header) = reader.first_header() else {
            return Self { run: run.unwrap_or(0), ..Self::default() };
        };
        let metadata = reader.first_metadata().to_owned();
        let run = run.unwrap_or(header.run.0);
        let tags = Arc::new(tag_names(&metadata));
        Self { run, metadata, tags }
    }
}

/// Returns the names of sources in metadata.
pub(crate) fn source_names(metadata: &str) -> BTreeMap<u32, String> {
    let names = Metadata::parse(metadata).source_names;
    names.iter().map(|(source, name)| (source.0, name.to_owned())).collect()
}

/// Returns the list `tags` of a JSON object; empty if it has none.
pub(crate) fn tag_names(metadata: &str) -> Vec<String> {
    let value: serde_json::Value = serde_json::from_str(metadata).unwrap_or_default();
    let names = value.get("tags").and_then(serde_json::Value::as_array);
    names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Returns a `sheaf.TimeBase`.
fn time_base(py: Python<'_>, stated: Option<TimeBase>) -> PyResult<Bound<'_, PyAny>> {
    let TimeBase { unit, epoch } = stated.unwrap_or(TimeBase::NANOSECONDS);
    let unit = py.import("fractions")?.call_method1("Fraction", unit.fraction())?;
    py.import("sheaf._times")?.call_method1("TimeBase", (unit, epoch.map(UtcTime::nanos), stated.is_some()))
}

/// Opens an event file, a run directory or the newest run of a directory of runs, and returns an iterator over its events; or opens a
/// fragment stream, and returns an iterator over its fragments.
///
/// Damage affects only the record that contains it. Iterating raises `DamagedError` there, and the next call continues after it; with
/// `skip_damaged`, damage is only counted, in `damaged`. With `check=False` the checksums of payloads are not compared, which saves
/// reading them.
#[pyfunction]
#[pyo3(signature = (path, *, check = true, skip_damaged = false))]
pub(crate) fn open(py: Python<'_>, path: PathBuf, check: bool, skip_damaged: bool) -> PyResult<Py<PyAny>> {
    let path = newest_of(&path).map_err(sheaf_error)?;
    match Kind::of(&path).map_err(sheaf_error)? {
        Kind::EventFile | Kind::Run => {
            let reader = py.detach(|| EventReader::new(&path, check, skip_damaged))?;
            Ok(Py::new(py, reader)?.into_any())
        }
        Kind::FragmentStream => {
            let reader = py.detach(|| FragmentReader::new(&path, check, skip_damaged))?;
            Ok(Py::new(py, reader)?.into_any())
        }
        Kind::StreamDirectory => Err(sheaf_error(format_args!(
            "{} contains several fragment streams: open them one by one; each *.sfrag file has one source",
            path.display()
        ))),
    }
}

/// Iterator over the events of an event file or a run directory, in the order of writing, file by file. Skips void events of a
/// run.
#[pyclass(module = "sheaf")]
#[derive(Debug)]
pub(crate) struct EventReader {
    path: PathBuf,
    reader: RunReader,
    about: About,
    skip_damaged: bool,
}

impl EventReader {
    fn new(path: &Path, check: bool, skip_damaged: bool) -> PyResult<Self> {
        let mut reader = RunReader::open(path).map_err(sheaf_error)?;
        reader.check_payloads(check);
        let about = About::of_run(&reader);
        Ok(Self { path: path.to_owned(), reader, about, skip_damaged })
    }
}

#[pymethods]
impl EventReader {
    /// Number of the run.
    #[getter]
    fn run(&self) -> u32 {
        self.about.run
    }

    /// Metadata of the writer: a dictionary with the configuration of the run and the version of the software.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (&self.about.metadata,))
    }

    /// Meaning of the times of events and fragments: unit and epoch.
    #[getter]
    fn time_base<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        time_base(py, self.reader.time_base())
    }

    /// Names of the tags, from bit 0.
    #[getter]
    fn tags(&self) -> Vec<String> {
        self.about.tags.to_vec()
    }

    /// Names of sources by their ids, as far as the run has them.
    #[getter]
    fn source_names(&self) -> BTreeMap<u32, String> {
        source_names(&self.about.metadata)
    }

    /// Returns the run records, each once, by time: those of a kind ("begin", "end", "slow_control" or "shift"), of a source, and not
    /// earlier than `since`, in nanoseconds since 1970. Reads no events.
    #[pyo3(signature = (*, kind = None, source = None, since = None))]
    fn records(
        &self,
        py: Python<'_>,
        kind: Option<&str>,
        source: Option<u32>,
        since: Option<u64>,
    ) -> PyResult<Vec<RunRecord>> {
        let kind = kind.map(kind_of).transpose()?;
        let records = py.detach(|| self.reader.records()).map_err(sheaf_error)?;
        let is_wanted = |record: &event_file::RunRecord| {
            kind.is_none_or(|kind| record.kind == kind)
                && source.is_none_or(|source| record.source.0 == source)
                && since.is_none_or(|since| record.time.0 >= since)
        };
        Ok(records.into_iter().filter(is_wanted).map(RunRecord).collect())
    }

    /// The sources whose event numbers were off, in the order in which this was found. Reads no events.
    #[getter]
    fn shifts(&self, py: Python<'_>) -> PyResult<Vec<Shift>> {
        let shifts = py.detach(|| self.reader.shifts()).map_err(sheaf_error)?;
        Ok(shifts.into_iter().map(Shift).collect())
    }

    /// Number of damaged places so far.
    #[getter]
    fn damaged(&self) -> u64 {
        self.reader.counts().damaged
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Event>> {
        loop {
            match py.detach(|| self.reader.next()) {
                None => return Ok(None),
                Some(Ok(stored)) => return Ok(Some(Event::new(stored, self.about.tags.clone(), None))),
                Some(Err(error)) if is_fatal(&error) => return Err(sheaf_error(error)),
                Some(Err(_)) if self.skip_damaged => {}
                Some(Err(error)) => return Err(DamagedError::new_err(error.to_string())),
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("<sheaf.EventReader of {}, run {}>", self.path.display(), self.about.run)
    }
}

/// Information that belongs to a run and to no event.
#[pyclass(module = "sheaf", frozen)]
#[derive(Debug)]
pub(crate) struct RunRecord(event_file::RunRecord);

#[pymethods]
impl RunRecord {
    /// Number of the source.
    #[getter]
    fn source(&self) -> u32 {
        self.0.source.0
    }

    /// Kind: "begin", "end", "slow_control" or "shift".
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.name()
    }

    /// Time in nanoseconds since 1970.
    #[getter]
    fn time(&self) -> u64 {
        self.0.time.0
    }

    /// Name, such as that of a file.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The content.
    #[getter]
    fn content(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.0.content)
    }

    fn __repr__(&self) -> String {
        let (source, kind) = (self.0.source, self.0.kind.name());
        format!(
            "<sheaf.RunRecord {:?} of source {source}, {kind}, {} bytes>",
            self.0.name,
            self.0.content.len()
        )
    }
}

fn kind_of(name: &str) -> PyResult<RecordKind> {
    let names = RecordKind::ALL.map(RecordKind::name);
    RecordKind::from_name(name).ok_or_else(|| PyValueError::new_err(format!("kind must be one of {names:?}")))
}

/// Source whose fragments were in other events than they belong to, found by check values.
#[pyclass(module = "sheaf", frozen)]
#[derive(Debug)]
pub(crate) struct Shift(ShiftRecord);

#[pymethods]
impl Shift {
    /// Number of the source.
    #[getter]
    fn source(&self) -> u32 {
        self.0.source.0
    }

    /// Name of the quantity by which it was recognised.
    #[getter]
    fn quantity(&self) -> &str {
        &self.0.quantity
    }

    /// First event with a fragment of the source that belongs to another event.
    #[getter]
    fn first_event(&self) -> u64 {
        self.0.first.0
    }

    /// Number of events by which the fragments are too early: a source that has missed one trigger has 1, one that counted a
    /// trigger twice -1.
    #[getter]
    fn shift(&self) -> i64 {
        self.0.shift
    }

    /// First event from which on the fragments are renumbered, and right again; `None` if they are not.
    #[getter]
    fn repaired_from(&self) -> Option<u64> {
        self.0.repaired_from.map(|event| event.0)
    }

    /// Reaction of the run: "mark", "repair" or "stop".
    #[getter]
    fn policy(&self) -> &'static str {
        self.0.policy.name()
    }

    fn __repr__(&self) -> String {
        let ShiftRecord { source, first, shift, .. } = &self.0;
        let repaired =
            self.0.repaired_from.map(|event| format!(", repaired from event {event} on")).unwrap_or_default();
        format!("<sheaf.Shift of source {source}: {shift:+} from event {first} on{repaired}>")
    }
}

/// Returns whether reading cannot continue after an error.
pub(crate) fn is_fatal(error: &RunReadError) -> bool {
    !matches!(
        error,
        RunReadError::Header { .. }
            | RunReadError::Read(EventReadError::Damaged { .. })
            | RunReadError::Hdf5 { .. }
    )
}

/// Iterator over the fragments of a fragment stream, in its order.
#[pyclass(module = "sheaf")]
#[derive(Debug)]
pub(crate) struct FragmentReader {
    path: PathBuf,
    reader: StreamReader<File>,
    skip_damaged: bool,
}

impl FragmentReader {
    fn new(path: &Path, check: bool, skip_damaged: bool) -> PyResult<Self> {
        let mut reader = StreamReader::open(path).map_err(sheaf_error)?;
        reader.check_payloads(check);
        Ok(Self { path: path.to_owned(), reader, skip_damaged })
    }
}

#[pymethods]
impl FragmentReader {
    /// Number of the run.
    #[getter]
    fn run(&self) -> u32 {
        self.reader.header().run.0
    }

    /// Number of the source of the fragments.
    #[getter]
    fn source(&self) -> u32 {
        self.reader.header().source.0
    }

    /// Metadata of the writer, as a dictionary.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.reader.metadata(),))
    }

    /// Meaning of the times of fragments: unit and epoch.
    #[getter]
    fn time_base<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        time_base(py, self.reader.header().time_base)
    }

    /// Number of damaged places so far.
    #[getter]
    fn damaged(&self) -> u64 {
        let counts = self.reader.counts();
        counts.corrupt_headers + counts.corrupt_payloads
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Fragment>> {
        loop {
            match py.detach(|| self.reader.next()) {
                None => return Ok(None),
                Some(Ok(fragment)) => return Ok(Some(Fragment::new(fragment))),
                Some(Err(error @ StreamReadError::Io { .. })) => return Err(sheaf_error(error)),
                Some(Err(_)) if self.skip_damaged => {}
                Some(Err(error)) => return Err(DamagedError::new_err(error.to_string())),
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("<sheaf.FragmentReader of {}, source {}>", self.path.display(), self.reader.header().source)
    }
}
