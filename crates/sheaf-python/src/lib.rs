//! The extension module of the Python package `sheaf`. The rest of the package is in `python/sheaf`; `docs/howto/python.md`
//! describes its use.
//!
//! | module | contents |
//! |---|---|
//! | `event` | events and fragments as Python objects |
//! | `buffer` | payload as memory that NumPy and `memoryview` access without a copy |
//! | `read` | event files, run directories and fragment streams, one after another |
//! | `columns` | whole files at once, as columns |
//! | `live` | events of a run in progress |
//! | `source` | feeding sources of a run in progress |
//! | `verdict` | verdicts of filters |
//! | `filter` | adapter for filters written in Python |
//! | `processor` | judging events for a builder unit |
//! | `lease` | limited access to the memory of a builder unit |
//!
//! The interpreter's lock is released while waiting for a disk or a socket.

mod buffer;
mod columns;
mod event;
mod filter;
mod lease;
mod live;
mod processor;
mod read;
mod source;
mod verdict;

use pyo3::prelude::*;

pyo3::create_exception!(
    sheaf,
    SheafError,
    pyo3::exceptions::PyException,
    "Base class of the errors of Sheaf. The text states what happened, where, and the valid values."
);
pyo3::create_exception!(
    sheaf,
    DamagedError,
    SheafError,
    "A file is damaged at one place. Reading can continue after it."
);

pyo3::create_exception!(
    sheaf,
    NobodyThereError,
    SheafError,
    "There is no run to join at this address. One may begin later."
);

pyo3::create_exception!(
    sheaf,
    RunEndedError,
    SheafError,
    "The run has ended: it takes nothing more. A `with` block of a `Source` ends with it."
);

/// Converts an error of a library, with its text.
fn sheaf_error(error: impl std::fmt::Display) -> PyErr {
    SheafError::new_err(error.to_string())
}

#[pymodule]
mod _sheaf {
    #[pymodule_export]
    use super::{
        DamagedError, NobodyThereError, RunEndedError, SheafError,
        buffer::Payload,
        columns::{Columns, read_columns},
        event::{Event, Fragment},
        live::Tap,
        processor::Processor,
        read::{EventReader, FragmentReader, RunRecord, Shift, open},
        source::Source,
        verdict::Verdict,
    };
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
