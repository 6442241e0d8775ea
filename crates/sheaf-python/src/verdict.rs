//! Verdict of a filter on an event.

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES;

/// Verdict of a filter on an event. Created by `sheaf.accept` and `sheaf.reject`.
#[pyclass(frozen, module = "sheaf")]
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) accepted: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) payload: Bytes,
}

#[pymethods]
impl Verdict {
    #[new]
    #[pyo3(signature = (accepted, tags = Vec::new(), payload = Vec::new()))]
    fn new(accepted: bool, tags: Vec<String>, payload: Vec<u8>) -> PyResult<Self> {
        if payload.len() > MAX_VERDICT_PAYLOAD_BYTES {
            let bytes = payload.len();
            return Err(PyValueError::new_err(format!(
                "the payload of a verdict has {bytes} bytes; the maximum is {MAX_VERDICT_PAYLOAD_BYTES}"
            )));
        }
        Ok(Self { accepted, tags, payload: payload.into() })
    }

    /// Whether the event is to be stored.
    #[getter]
    fn accepted(&self) -> bool {
        self.accepted
    }

    /// Names of its tags.
    #[getter]
    fn tags(&self) -> Vec<String> {
        self.tags.clone()
    }

    /// Payload that is stored with the event.
    #[getter]
    fn payload(&self) -> crate::buffer::Payload {
        crate::buffer::Payload(self.payload.clone())
    }

    fn __eq__(&self, other: &Self) -> bool {
        (self.accepted, &self.tags, &self.payload) == (other.accepted, &other.tags, &other.payload)
    }

    fn __repr__(&self) -> String {
        let word = if self.accepted { "accept" } else { "reject" };
        format!("<sheaf.Verdict: {word}, tags {:?}, {} bytes>", self.tags, self.payload.len())
    }
}
