//! Step filters from shared libraries, which judge the first steps of events.

#![allow(unsafe_code)]

use crate::abi::{
    self, STEP_ALL, STEP_ENOUGH, STEP_MAX_WINDOWS, STEP_REJECT, STEP_SOURCES, STEP_WINDOWS, StepTable,
    StepVerdict,
};
use crate::filter::FilterFailure;
use crate::loading::{self, Kind, Loaded, MESSAGE_BYTES, OpenError, Setup, Whose};
use crate::text;
use crate::view::Scratch;
use bytes::Bytes;
use sheaf_wire::{Event, HitInterval, SourceId};
use std::path::Path;
use std::slice;

/// The most sources that a step filter may list: as many as a system may have.
pub const MAX_LISTED: usize = 65_536;

/// Verdict of a step filter on a part of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The event is rejected; nothing more of it is asked for.
    Reject,
    /// All the rest is asked for; then the filter judges the event.
    All,
    /// The event needs no more: the filter judges it as it is.
    Enough,
    /// These sources are asked for, in ascending order; then the step filter sees the event again.
    Sources(Vec<SourceId>),
    /// The hits of all remaining sources in these windows are requested, 1 to [`STEP_MAX_WINDOWS`]; then the filter judges the event.
    /// Valid only with `building.windows`.
    Windows(Vec<HitInterval>),
}

/// A step filter from a shared library.
#[derive(Debug)]
pub struct LibraryStep {
    filter: Loaded,
    judge: abi::JudgePart,
    scratch: Scratch,
}

impl LibraryStep {
    /// Loads the library at `path` and makes a step filter of the table that its function `symbol` gives.
    ///
    /// The library's code runs in this process, with all its rights.
    ///
    /// # Errors
    /// Why that is not possible, and what would be right.
    pub fn open(path: &Path, symbol: &str, setup: &Setup) -> Result<Self, OpenError> {
        let (table, whose, library) = loading::open::<StepTable>(path, symbol)?;
        let filter = loading::make(&table, setup, &whose, Some(library))?;
        Self::of(&table, filter, &whose)
    }

    /// Makes a step filter of a table of this program.
    ///
    /// # Errors
    /// If the table is not valid, with the reason and the valid values.
    ///
    /// # Safety
    /// `table` must be null, or a table whose functions behave as documented for [`StepTable`] as long as the step filter
    /// lives.
    pub unsafe fn of_table(table: *const StepTable, setup: &Setup) -> Result<Self, OpenError> {
        let whose = Whose::Program(Kind::StepFilter);
        // SAFETY: promised by the caller.
        let table = unsafe { loading::read_table(table, &whose)? };
        let filter = loading::make(&table, setup, &whose, None)?;
        Self::of(&table, filter, &whose)
    }

    fn of(table: &StepTable, filter: Loaded, whose: &Whose) -> Result<Self, OpenError> {
        let judge = table.judge.ok_or_else(|| whose.bad_table("`judge` is null"))?;
        Ok(Self { filter, judge, scratch: Scratch::default() })
    }

    /// Judges the fragments of an event that have arrived. The answer omits sources that have arrived or are known to be
    /// missing. If no source remains in the answer, the fragments so far are sufficient.
    ///
    /// # Errors
    /// Returns a [`FilterFailure`] if the filter gives no verdict.
    pub fn judge(&mut self, part: &Event<Bytes>) -> Result<Step, FilterFailure> {
        let mut said = StepVerdict::default();
        let borrowed = self.scratch.event(part);
        // SAFETY: a function of the interface, a thing that it made and has not unmade, structs that outlive the call.
        let status = unsafe { (self.judge)(self.filter.as_ptr(), borrowed.as_ptr(), &raw mut said) };
        if status != 0 {
            // SAFETY: null or a text with a NUL, which is valid until the step filter is called again.
            let failure = unsafe { text::read(said.failure, MESSAGE_BYTES) };
            return Err(FilterFailure(
                failure.unwrap_or_else(|| format!("the step filter returned {status}")),
            ));
        }
        decision(&said, part)
    }
}

/// Checks the verdict of a library.
fn decision(said: &StepVerdict, part: &Event<Bytes>) -> Result<Step, FilterFailure> {
    let step = match said.decision {
        STEP_REJECT => Ok(Step::Reject),
        STEP_ALL => Ok(Step::All),
        STEP_ENOUGH => Ok(Step::Enough),
        STEP_SOURCES => {
            // SAFETY: the interface guarantees this number of sources until the next call of the step filter.
            let listed = unsafe { list(said.sources, said.source_count, MAX_LISTED, "sources") };
            listed.map(|listed| wanted(listed, part))
        }
        STEP_WINDOWS => {
            // SAFETY: as for sources.
            let listed = unsafe { list(said.windows, said.window_count, STEP_MAX_WINDOWS, "windows") };
            listed.and_then(windows).map(Step::Windows)
        }
        other => Err(format!("`decision` is {other}, and {STEP_WINDOWS} is the greatest")),
    };
    step.map_err(|what| FilterFailure(format!("the step filter's verdict is invalid: {what}")))
}

/// Reads a list of a verdict, which has at most `most` elements.
///
/// # Safety
/// If `first` is not null, it points to `count` elements that do not change during the lifetime `'a`.
unsafe fn list<'a, T>(first: *const T, count: usize, most: usize, name: &str) -> Result<&'a [T], String> {
    if count > most {
        return Err(format!("it lists {count} {name}, but at most {most} are allowed"));
    }
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(format!("its list of {count} {name} is null"));
    }
    if !first.is_aligned() {
        return Err(format!("its list of {count} {name} is not aligned"));
    }
    // SAFETY: neither null nor misaligned; the number of elements is the caller's promise.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Checks the windows of a verdict.
fn windows(listed: &[abi::Window]) -> Result<Vec<HitInterval>, String> {
    if listed.is_empty() {
        return Err("it lists no window; reject the event, or state that it has enough".to_owned());
    }
    let empty = listed.iter().enumerate().find(|(_, window)| window.from_ps >= window.until_ps);
    if let Some((place, abi::Window { from_ps, until_ps })) = empty {
        return Err(format!(
            "window {place} is from {from_ps} to {until_ps} ps, but a window must end after it begins"
        ));
    }
    let interval = |window: &abi::Window| HitInterval { from_ps: window.from_ps, until_ps: window.until_ps };
    Ok(listed.iter().map(interval).collect())
}

/// Of the sources listed, those that nothing is known of.
fn wanted(listed: &[u32], part: &Event<Bytes>) -> Step {
    let is_here = |source: SourceId| {
        part.fragments.binary_search_by_key(&source, |fragment| fragment.source).is_ok()
            || part.missing.binary_search_by_key(&source, |missing| missing.source).is_ok()
    };
    let mut sources: Vec<SourceId> =
        listed.iter().map(|source| SourceId(*source)).filter(|source| !is_here(*source)).collect();
    sources.sort_unstable();
    sources.dedup();
    if sources.is_empty() { Step::Enough } else { Step::Sources(sources) }
}

#[cfg(test)]
mod tests;
