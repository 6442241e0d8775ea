//! Filters from shared libraries.

#![allow(unsafe_code)]

use crate::abi::{self, FilterTable, FilterVerdict};
use crate::filter::{Filter, FilterFailure};
use crate::loading::{self, Kind, Loaded, MESSAGE_BYTES, OpenError, Setup, Whose};
use crate::text;
use crate::view::Scratch;
use bytes::Bytes;
use sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use sheaf_wire::{Event, Tags, Verdict};
use std::path::Path;
use std::slice;

/// A filter from a shared library, or from a table of this program.
#[derive(Debug)]
pub struct LibraryFilter {
    filter: Loaded,
    judge: abi::JudgeEvent,
    /// The tags that have names.
    known: Tags,
    scratch: Scratch,
}

impl LibraryFilter {
    /// Loads the library at `path` and makes a filter from the table that its function `symbol` returns.
    ///
    /// The library's code runs in this process, with all its rights.
    ///
    /// # Errors
    /// Why that is not possible, and the correction.
    pub fn open(path: &Path, symbol: &str, setup: &Setup) -> Result<Self, OpenError> {
        let (table, whose, library) = loading::open::<FilterTable>(path, symbol)?;
        let filter = loading::make(&table, setup, &whose, Some(library))?;
        Self::of(&table, filter, setup, &whose)
    }

    /// Makes a filter from a table of this program.
    ///
    /// # Errors
    /// Why that is not possible, and the correction.
    ///
    /// # Safety
    /// `table` is null, or a table whose functions behave as [`FilterTable`] documents, for as long as the filter
    /// lives.
    pub unsafe fn of_table(table: *const FilterTable, setup: &Setup) -> Result<Self, OpenError> {
        let whose = Whose::Program(Kind::Filter);
        // SAFETY: promised by the caller.
        let table = unsafe { loading::read_table(table, &whose)? };
        let filter = loading::make(&table, setup, &whose, None)?;
        Self::of(&table, filter, setup, &whose)
    }

    fn of(table: &FilterTable, filter: Loaded, setup: &Setup, whose: &Whose) -> Result<Self, OpenError> {
        let judge = table.judge.ok_or_else(|| whose.bad_table("`judge` is null"))?;
        let known = Tags((1 << setup.tags.len().min(Tags::MAX_NAMED)) - 1);
        Ok(Self { filter, judge, known, scratch: Scratch::default() })
    }
}

impl Filter for LibraryFilter {
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        let mut said = FilterVerdict::default();
        let borrowed = self.scratch.event(event);
        // SAFETY: a function of the interface, a filter that it made and has not unmade, structs that outlive the call.
        let status = unsafe { (self.judge)(self.filter.as_ptr(), borrowed.as_ptr(), &raw mut said) };
        if status != 0 {
            // SAFETY: null or a text with a NUL, which is valid until the filter is called again.
            let failure = unsafe { text::read(said.failure, MESSAGE_BYTES) };
            return Err(FilterFailure(failure.unwrap_or_else(|| format!("the filter returned {status}"))));
        }
        verdict(&said, self.known)
    }
}

/// Checks the verdict of a library.
fn verdict(said: &FilterVerdict, known: Tags) -> Result<Verdict, FilterFailure> {
    let nonsense = |what: String| Err(FilterFailure(format!("the filter's verdict is invalid: {what}")));
    let accepted = match said.accepted {
        0 => false,
        1 => true,
        other => return nonsense(format!("`accepted` is {other}, not 0 or 1")),
    };
    let tags = Tags(said.tags);
    if !known.contains(tags) {
        let bit = (said.tags & !known.0).trailing_zeros();
        let named = known.0.count_ones();
        return nonsense(format!("`tags` has bit {bit}, and `filter.tags` names {named}"));
    }
    if said.payload_bytes > MAX_VERDICT_PAYLOAD_BYTES {
        let (bytes, most) = (said.payload_bytes, MAX_VERDICT_PAYLOAD_BYTES);
        return nonsense(format!("its payload has {bytes} bytes, but at most {most} are allowed"));
    }
    if said.payload.is_null() && said.payload_bytes > 0 {
        return nonsense(format!("its payload is null and has {} bytes", said.payload_bytes));
    }
    // A rejected event is not stored, nor is its payload.
    if !accepted || said.payload_bytes == 0 {
        return Ok(Verdict { accepted, tags, payload: Bytes::new() });
    }
    // SAFETY: the interface guarantees this number of bytes until the filter is called again. The number was checked.
    let payload = unsafe { slice::from_raw_parts(said.payload, said.payload_bytes) };
    Ok(Verdict { accepted, tags, payload: Bytes::copy_from_slice(payload) })
}

#[cfg(test)]
mod tests;
