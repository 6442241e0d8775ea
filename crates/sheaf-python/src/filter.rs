//! Adapter for filters written in Python.

use crate::event::{Event, TagNames};
use crate::lease::Lease;
use crate::verdict::Verdict;
use bytes::Bytes;
use pyo3::prelude::*;
use sheaf_node::filter::{Filter, FilterFailure};
use sheaf_wire::Tags;
use std::sync::Arc;

/// Calls a Python function for every event.
pub(crate) struct PythonFilter {
    judge: Py<PyAny>,
    names: TagNames,
}

impl PythonFilter {
    /// Creates a filter. `judge` takes an event and returns `True`, `False` or a verdict; `names` are the names of the tags.
    pub(crate) fn new(judge: Py<PyAny>, names: TagNames) -> Self {
        Self { judge, names }
    }

    fn ask(
        &self,
        py: Python<'_>,
        event: &sheaf_wire::Event<Bytes>,
    ) -> Result<sheaf_wire::Verdict, FilterFailure> {
        let lease = Arc::new(Lease::default());
        let lent = Event::lent(event.clone(), self.names.clone(), lease.clone());
        let answer = self.judge.bind(py).call1((lent,));
        let verdict = answer
            .map_err(|error| FilterFailure(explain(py, &error)))
            .and_then(|answer| self.understand(&answer));
        // The answer and, after a failure, the frames of the call are gone. Remaining views were kept by the filter.
        if lease.end() > 0 && verdict.is_ok() {
            return Err(FilterFailure::new(
                "the filter kept a view of the event's payload, whose memory is reused after the verdict: copy the data \
                 (bytes(fragment), or fragment.array().copy())",
            ));
        }
        verdict
    }

    fn understand(&self, answer: &Bound<'_, PyAny>) -> Result<sheaf_wire::Verdict, FilterFailure> {
        if let Ok(verdict) = answer.cast::<Verdict>() {
            let Verdict { accepted, tags: wanted, payload } = verdict.get();
            let mut tags = Tags::NONE;
            for name in wanted {
                tags |= self.tag(name)?;
            }
            return Ok(sheaf_wire::Verdict { accepted: *accepted, tags, payload: payload.clone() });
        }
        // Includes the booleans of NumPy.
        if let Ok(accepted) = answer.extract::<bool>() {
            return Ok(sheaf_wire::Verdict { accepted, ..sheaf_wire::Verdict::reject() });
        }
        let kind = answer.get_type();
        Err(FilterFailure(format!(
            "the filter returned a {}; it must return True, False, sheaf.accept(...) or sheaf.reject()",
            kind.name().map_or_else(|_| "value without a name".to_owned(), |name| name.to_string())
        )))
    }

    fn tag(&self, name: &str) -> Result<Tags, FilterFailure> {
        let position = self.names.iter().position(|other| other == name).and_then(Tags::named);
        position.ok_or_else(|| {
            let names = if self.names.is_empty() { "none".to_owned() } else { self.names.join(", ") };
            FilterFailure(format!(
                "the filter gave the tag {name:?}; the tags of the configuration ([filter] tags) are: {names}"
            ))
        })
    }
}

impl Filter for PythonFilter {
    fn judge(&mut self, event: &sheaf_wire::Event<Bytes>) -> Result<sheaf_wire::Verdict, FilterFailure> {
        Python::attach(|py| self.ask(py, event))
    }
}

/// Returns the last line of a traceback with its origin: `ZeroDivisionError: division by zero (energy.py, line 12)`.
fn explain(py: Python<'_>, error: &PyErr) -> String {
    let text = error.to_string();
    let place = error.traceback(py).and_then(|traceback| {
        let frames =
            py.import("traceback").and_then(|module| module.call_method1("extract_tb", (traceback,))).ok()?;
        let last = frames.get_item(-1).ok()?;
        let line: u32 = last.getattr("lineno").and_then(|line| line.extract()).ok()?;
        let file: String = last.getattr("filename").and_then(|file| file.extract()).ok()?;
        Some(format!(" ({file}, line {line})"))
    });
    text + &place.unwrap_or_default()
}
