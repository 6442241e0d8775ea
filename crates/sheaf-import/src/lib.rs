//! Real detector data to fragment streams: the work behind `sheaf import FORMAT FILE... DIR`.
//!
//! | module | does |
//! |---|---|
//! | [`lcio`] | reads LCIO files (`.slcio`): the SIO container, event headers, collections of generic objects |
//! | `sdhcal` | takes the fragments of the SDHCAL calorimeter out of LCIO events |
//! | `python` | runs the importers that need a public Python reader; their sources are in this binary |
//! | `directory` | writes the streams: a complete directory, or none |
//! | [`report`] | what went in |
//!
//! Every import is of one run: event ids of two runs would mix. The crate does not interpret payloads, and it does not
//! repair data: fragments stay in the order of the files, repeated ones are kept and counted.

#![forbid(unsafe_code)]

mod directory;
mod error;
mod format;
pub mod lcio;
mod python;
pub mod report;
mod sdhcal;

pub use error::ImportError;
pub use format::{Format, UnknownFormat};
pub use report::ImportReport;

use sheaf_wire::RunNumber;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The environment variable that names the Python interpreter, for importers that need one.
pub const PYTHON_VARIABLE: &str = "SHEAF_PYTHON";

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Store under this run number instead of the one that the files carry.
    pub run: Option<RunNumber>,
    /// Replace the streams that are in the output directory. Other files there are never touched.
    pub force: bool,
    /// `km3net` only: which data stream's time slices to take, `L0`, `L1`, `L2` or `SN`; `L1` where not given.
    pub stream: Option<String>,
    /// `lst1` only: append the module's 22 counter bytes to each payload.
    pub with_counters: bool,
    /// The Python interpreter; where not given, the environment variable [`PYTHON_VARIABLE`], then `python3`.
    pub python: Option<PathBuf>,
    /// Is given every line of progress, without its end.
    pub progress: fn(&str),
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            run: None,
            force: false,
            stream: None,
            with_counters: false,
            python: None,
            progress: progress_to_stderr,
        }
    }
}

impl ImportOptions {
    /// Refuses an option that has no effect on this format: who gave it expects one.
    fn check_for(&self, format: Format) -> Result<(), ImportError> {
        let refuse = |option, only| Err(ImportError::OptionOfAnotherFormat { option, only, format });
        if self.stream.is_some() && format != Format::Km3net {
            return refuse("stream", Format::Km3net);
        }
        if self.with_counters && format != Format::Lst1 {
            return refuse("with-counters", Format::Lst1);
        }
        Ok(())
    }
}

/// Writes a line of progress to standard error; what cannot be written there is lost.
pub fn progress_to_stderr(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Turns `files`, which are of one run, into fragment streams in `directory`, one per source.
///
/// Creates the directory if it does not exist. An existing directory must be empty unless [`ImportOptions::force`] is
/// set. If the import fails, its previous contents are kept.
///
/// # Errors
/// An [`ImportError`] with the file and its problem, or with the package that has to be installed.
pub fn import(
    format: Format,
    files: &[PathBuf],
    directory: &Path,
    options: &ImportOptions,
) -> Result<ImportReport, ImportError> {
    if files.is_empty() {
        return Err(ImportError::NoFiles);
    }
    options.check_for(format)?;
    match format {
        Format::Km3net | Format::Lst1 => python::import(format, files, directory, options),
        Format::Sdhcal => sdhcal::import(files, directory, options),
    }
}

/// Reads `bytes` as an LCIO file with SDHCAL data, as far as that goes: the entry point for fuzzers. Must return,
/// whatever the bytes are. Returns the number of fragments that were found.
#[doc(hidden)]
#[must_use]
pub fn fuzz_slcio(bytes: &[u8]) -> u64 {
    sdhcal::count_fragments(bytes)
}
