//! Why an import failed.

use crate::Format;
use crate::lcio::SlcioError;
use sheaf_store::fragment_stream::StreamWriteError;
use std::io;
use std::path::PathBuf;

/// Why an import failed. The output directory is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// There is nothing to import.
    #[error("no input files: name at least one")]
    NoFiles,
    /// An option that the format does not have.
    #[error("option {option} is for format {only} only, not for {format}")]
    OptionOfAnotherFormat {
        /// The option.
        option: &'static str,
        /// The format that has it.
        only: Format,
        /// The format that was asked for.
        format: Format,
    },
    /// An input file cannot be opened.
    #[error("cannot read {path}: {error}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// An input file is not a readable LCIO file.
    #[error("{path}: {error}")]
    Slcio {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        error: SlcioError,
    },
    /// An LCIO file has no event with the collection that the importer looks for.
    #[error(
        "{path}: contains no event with a collection {collection}: these are not raw data of the detector"
    )]
    NoEvents {
        /// The file.
        path: PathBuf,
        /// The collection.
        collection: &'static str,
    },
    /// An object of an event is not what the detector writes.
    #[error("{path}: event {event}, object {object}: {problem}")]
    Object {
        /// The file.
        path: PathBuf,
        /// The event's number in the file.
        event: i32,
        /// The object's index in the collection.
        object: usize,
        /// The problem.
        problem: String,
    },
    /// The input is of more than one run.
    #[error(
        "{first} is of run {first_run} and {other} of run {other_run}: import each run into a separate directory"
    )]
    DifferentRuns {
        /// A file.
        first: PathBuf,
        /// Its run.
        first_run: i32,
        /// Another file, or the same further on.
        other: PathBuf,
        /// Its run.
        other_run: i32,
    },
    /// The files' run number does not fit, or is not there.
    #[error("{path}: run number {run} is negative: give one with the option run")]
    NegativeRun {
        /// The file.
        path: PathBuf,
        /// Its run.
        run: i32,
    },
    /// The output directory holds something.
    #[error("{path}: exists and is not empty: name another directory, or force replacing the streams in it")]
    OutputNotEmpty {
        /// The output directory.
        path: PathBuf,
    },
    /// The output directory is something else.
    #[error("{path}: not a directory: name a directory for the streams")]
    OutputNotDirectory {
        /// Path that was named.
        path: PathBuf,
    },
    /// The output directory cannot be used.
    #[error("{path}: cannot write here: {error}")]
    Output {
        /// The output directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A stream cannot be written.
    #[error(transparent)]
    Stream(#[from] StreamWriteError),
    /// There is no Python interpreter.
    #[error(
        "format {format} needs python3 (3.10 or later), but {program} cannot be run ({error}): install it, or name an \
         interpreter with --python or {variable}",
        variable = crate::PYTHON_VARIABLE
    )]
    NoPython {
        /// The format.
        format: Format,
        /// The interpreter that was tried.
        program: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The importer's sources could not be handed to Python.
    #[error("cannot prepare the Python importer in the directory for temporary files: {error}")]
    PythonSetup {
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The public reader of the format is not installed.
    #[error("{message}")]
    MissingPackage {
        /// The missing part, and the remedy.
        message: String,
        /// The command that installs it.
        remedy: String,
    },
    /// The Python importer refuses an input file.
    #[error("{message}")]
    Input {
        /// The problem with which file.
        message: String,
    },
    /// The Python importer refuses the output directory.
    #[error("{message}")]
    PythonOutput {
        /// The problem.
        message: String,
    },
    /// The import was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The Python importer ended in a way it should not.
    #[error("the Python importer for {format} failed ({status}): {last_lines}")]
    PythonFailed {
        /// The format.
        format: Format,
        /// Exit status.
        status: String,
        /// The end of what it wrote to standard error.
        last_lines: String,
    },
}
