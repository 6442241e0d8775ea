//! Whole files at once: a column for each property of events and fragments, with the payload of all fragments in one piece.
//! Awkward arrays can be made of these columns without a loop in Python.

use crate::buffer::Payload;
use crate::event::tag_names;
use crate::read::{About, is_fatal};
use crate::{DamagedError, sheaf_error};
use bytes::Bytes;
use pyo3::prelude::*;
use sheaf_store::run::{RunReader, newest_of};
use std::path::{Path, PathBuf};

/// Columns of events, each as the bytes of little-endian numbers: `ids`, `times`, `tag_bits` (u64) and `first` (i64, index of
/// an event's first fragment, with one additional element); and of fragments: `sources` (u32), `fragment_times` (u64), `number_marks`
/// (u32, as among the flags of an event file) and `offsets` (i64, offset of a fragment's payload in `payload`, with one additional element).
#[pyclass(frozen, get_all, module = "sheaf")]
pub(crate) struct Columns {
    ids: Py<Payload>,
    times: Py<Payload>,
    tag_bits: Py<Payload>,
    trigger_types: Py<Payload>,
    incomplete: Py<Payload>,
    first: Py<Payload>,
    sources: Py<Payload>,
    fragment_times: Py<Payload>,
    number_marks: Py<Payload>,
    offsets: Py<Payload>,
    payload: Py<Payload>,
    tags: Vec<String>,
    run: u32,
}

#[derive(Default)]
struct Lists {
    ids: Vec<u8>,
    times: Vec<u8>,
    tag_bits: Vec<u8>,
    trigger_types: Vec<u8>,
    incomplete: Vec<u8>,
    first: Vec<u8>,
    sources: Vec<u8>,
    fragment_times: Vec<u8>,
    number_marks: Vec<u8>,
    offsets: Vec<u8>,
    payload: Vec<u8>,
}

/// Selection among the events.
struct Selection {
    events: u64,
    /// Sources in ascending order; `None`: all.
    sources: Option<Vec<u32>>,
    /// Tags of which an event needs at least one; `None`: all events.
    tags: Option<Vec<String>>,
    skip_damaged: bool,
}

/// Reads an event file or a run directory as columns: at most `events` events, only fragments of `sources`, only events with
/// one of `tags`.
#[pyfunction]
#[pyo3(signature = (path, *, events = None, sources = None, tags = None, skip_damaged = false))]
pub(crate) fn read_columns(
    py: Python<'_>,
    path: PathBuf,
    events: Option<u64>,
    sources: Option<Vec<u32>>,
    tags: Option<Vec<String>>,
    skip_damaged: bool,
) -> PyResult<Columns> {
    let sources = sources.map(|mut sources| {
        sources.sort_unstable();
        sources
    });
    let selection = Selection { events: events.unwrap_or(u64::MAX), sources, tags, skip_damaged };
    let (lists, about) = py.detach(|| collect(&path, &selection))?;
    let column = |bytes: Vec<u8>| Py::new(py, Payload(Bytes::from(bytes)));
    Ok(Columns {
        ids: column(lists.ids)?,
        times: column(lists.times)?,
        tag_bits: column(lists.tag_bits)?,
        trigger_types: column(lists.trigger_types)?,
        incomplete: column(lists.incomplete)?,
        first: column(lists.first)?,
        sources: column(lists.sources)?,
        fragment_times: column(lists.fragment_times)?,
        number_marks: column(lists.number_marks)?,
        offsets: column(lists.offsets)?,
        payload: column(lists.payload)?,
        tags: about.tags.to_vec(),
        run: about.run,
    })
}

fn collect(path: &Path, selection: &Selection) -> PyResult<(Lists, About)> {
    let path = newest_of(path).map_err(sheaf_error)?;
    let mut reader = RunReader::open(&path).map_err(sheaf_error)?;
    let about = About::of_run(&reader);
    let mut lists = Lists::default();
    let (mut events, mut fragments) = (0_u64, 0_u64);
    lists.first.extend_from_slice(&0_u64.to_le_bytes());
    lists.offsets.extend_from_slice(&0_u64.to_le_bytes());
    while events < selection.events {
        let stored = match reader.next() {
            None => break,
            Some(Ok(stored)) => stored,
            Some(Err(error)) if is_fatal(&error) => return Err(sheaf_error(error)),
            Some(Err(_)) if selection.skip_damaged => continue,
            Some(Err(error)) => return Err(DamagedError::new_err(error.to_string())),
        };
        let has_tag = |wanted: &Vec<String>| {
            tag_names(stored.verdict.tags, &about.tags).iter().any(|name| wanted.contains(name))
        };
        if !selection.tags.as_ref().is_none_or(has_tag) {
            continue;
        }
        let event = &stored.event;
        lists.ids.extend_from_slice(&event.id.0.to_le_bytes());
        lists.times.extend_from_slice(&event.time.0.to_le_bytes());
        lists.tag_bits.extend_from_slice(&stored.verdict.tags.0.to_le_bytes());
        lists.trigger_types.extend_from_slice(&event.trigger_type.0.to_le_bytes());
        lists.incomplete.push(u8::from(event.incomplete));
        for fragment in &event.fragments {
            let is_wanted = |sources: &Vec<u32>| sources.binary_search(&fragment.source.0).is_ok();
            if selection.sources.as_ref().is_none_or(is_wanted) {
                lists.sources.extend_from_slice(&fragment.source.0.to_le_bytes());
                lists.fragment_times.extend_from_slice(&fragment.time.0.to_le_bytes());
                lists.number_marks.extend_from_slice(&fragment.mark.to_flags().to_le_bytes());
                lists.payload.extend_from_slice(&fragment.payload);
                lists.offsets.extend_from_slice(&(lists.payload.len() as u64).to_le_bytes());
                fragments += 1;
            }
        }
        lists.first.extend_from_slice(&fragments.to_le_bytes());
        events += 1;
    }
    Ok((lists, about))
}
