//! Payload as a Python object: memory that is accessed without a copy, and lives as long as a view refers to it.
#![allow(unsafe_code, reason = "the buffer protocol of Python is a C structure that is filled in")]

use bytes::Bytes;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;

/// Immutable bytes. `memoryview(payload)`, `bytes(payload)` and `numpy.frombuffer(payload, dtype)` work; the first and the last
/// do not copy.
#[pyclass(frozen, module = "sheaf")]
#[derive(Debug)]
pub(crate) struct Payload(pub(crate) Bytes);

#[pymethods]
impl Payload {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("<sheaf.Payload, {} bytes>", self.0.len())
    }

    /// Returns a read-only `memoryview`.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        memory_view(slf.as_any())
    }

    /// Returns a read-only NumPy array of the bytes, or of values of `dtype`.
    #[pyo3(signature = (dtype = None))]
    fn array<'py>(slf: &Bound<'py, Self>, dtype: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        array_of(slf.as_any(), slf.get().0.len(), dtype)
    }

    /// # Safety
    /// Called only by the interpreter, with a structure that it owns.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: the interpreter passes a view that may be filled in.
        unsafe { fill(slf.as_any(), &slf.get().0, view, flags) }
    }
}

/// Fills in a view of `bytes`, which are owned by `owner`.
///
/// # Safety
/// `view` must be null or point to a buffer structure that may be overwritten; `bytes` must be a field of `owner` that never
/// changes, so that what it refers to lives as long as `owner`.
pub(crate) unsafe fn fill(
    owner: &Bound<'_, PyAny>,
    bytes: &Bytes,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view to be filled in"));
    }
    let length = isize::try_from(bytes.len()).map_err(|_| PyBufferError::new_err("too large for a view"))?;
    // SAFETY: `view` may be written to. The bytes do not move as long as `owner` lives, to which the view holds a reference.
    // The view is read-only and requests for a writable one are refused, so the bytes are never written to.
    let result = unsafe {
        ffi::PyBuffer_FillInfo(view, owner.as_ptr(), bytes.as_ptr().cast_mut().cast(), length, 1, flags)
    };
    if result == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

/// Returns a `memoryview` of an object with a buffer.
pub(crate) fn memory_view<'py>(owner: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    pyo3::types::PyMemoryView::from(owner).map(Bound::into_any)
}

/// Returns a NumPy array over an object with a buffer of `bytes` bytes.
pub(crate) fn array_of<'py>(
    owner: &Bound<'py, PyAny>,
    bytes: usize,
    dtype: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = owner.py().import("numpy")?;
    let dtype = match dtype {
        Some(dtype) => dtype,
        None => numpy.getattr("uint8")?,
    };
    if bytes == 0 {
        // `frombuffer` refuses an empty buffer.
        return numpy.call_method1("empty", (0, dtype));
    }
    numpy.call_method1("frombuffer", (owner, dtype))
}
