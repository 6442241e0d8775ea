//! The Python package `sheaf`: what of it is in Rust. `python/sheaf` has the rest, `docs/howto/python.md` tells how it is
//! used.
//!
//! | module | holds |
//! |---|---|
//! | `event` | events and fragments as Python objects |
//! | `buffer` | payload as memory that NumPy and `memoryview` look at without a copy |
//! | `read` | event files, run directories and fragment streams, one after another |
//! | `columns` | whole files at once, as columns |
//! | `live` | events of a run that goes on |
//! | `verdict` | what a filter says |
//! | `filter` | a filter in Python, as the libraries see it |
//! | `processor` | judging events for a builder unit |
//! | `lease` | until when an event of a builder unit may be looked at |
//!
//! The interpreter's lock is given up wherever this waits for a disk or a socket.

mod buffer;
mod columns;
mod event;
mod filter;
mod lease;
mod live;
mod processor;
mod read;
mod verdict;

use pyo3::prelude::*;

pyo3::create_exception!(
    sheaf,
    SheafError,
    pyo3::exceptions::PyException,
    "Something that Sheaf cannot do; the text says what, where, and what would be right."
);
pyo3::create_exception!(
    sheaf,
    DamagedError,
    SheafError,
    "A file is damaged at one place. Reading can go on behind it."
);

pyo3::create_exception!(
    sheaf,
    NobodyThereError,
    SheafError,
    "There is no run where a processor is to join. One may begin."
);

/// An error of a library, in its own words.
fn sheaf_error(error: impl std::fmt::Display) -> PyErr {
    SheafError::new_err(error.to_string())
}

#[pymodule]
mod _sheaf {
    #[pymodule_export]
    use super::{
        DamagedError, NobodyThereError, SheafError,
        buffer::Payload,
        columns::{Columns, read_columns},
        event::{Event, Fragment},
        live::Tap,
        processor::Processor,
        read::{EventReader, FragmentReader, open},
        verdict::Verdict,
    };
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
