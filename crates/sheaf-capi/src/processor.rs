//! Judging events of a run in progress.

#![allow(unsafe_code)]

use crate::argument::{self, ArgumentError};
use sheaf_config::{Config, ConfigErrors};
use sheaf_filter::abi::FilterTable;
use sheaf_filter::{LibraryFilter, OpenError, Setup, text};
use sheaf_node::processor::{Processor, ProcessorError, ProcessorOptions};
use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by `sheaf_processor_stop`.
static STOP: AtomicBool = AtomicBool::new(false);

/// Reason why a processor cannot join a run, or has lost it.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error(transparent)]
    Processor(#[from] ProcessorError),
    #[error(transparent)]
    Configuration(#[from] ConfigErrors),
    #[error(transparent)]
    Filter(#[from] OpenError),
}

/// Joins a run as a processor, creates a filter from `table` with `parameters` (null: `filter.parameters` of the run),
/// and judges events until the run ends or sheaf_processor_stop is called. `address` is the socket of a builder unit, a
/// run directory with one such socket, or HOST:PORT if the run accepts processors of other hosts without certificates
/// (for a run with a key, see sheaf_processor_join_with_key). Returns the number of judged events, or -1 if it could
/// not join or lost the run; the reason is then in `message` (a buffer of `message_bytes` bytes, or null). Events are
/// judged by the calling thread.
///
/// # Safety
/// `address` and `parameters` are null or NUL-terminated texts, `table` is null or a valid SheafFilterTable, and
/// `message` is null or a buffer of `message_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_processor_join(
    address: *const c_char,
    table: *const FilterTable,
    parameters: *const c_char,
    message: *mut c_char,
    message_bytes: usize,
) -> i64 {
    // SAFETY: as the caller promises.
    unsafe { sheaf_processor_join_with_key(address, ptr::null(), table, parameters, message, message_bytes) }
}

/// Joins as sheaf_processor_join does, at HOST:PORT of a run that has a key: `key_file` is a copy of its
/// transport.key_file, readable only by the user. Null: the run has no key.
///
/// # Safety
/// As `sheaf_processor_join`; `key_file` is null or a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_processor_join_with_key(
    address: *const c_char,
    key_file: *const c_char,
    table: *const FilterTable,
    parameters: *const c_char,
    message: *mut c_char,
    message_bytes: usize,
) -> i64 {
    // SAFETY: as the caller promises.
    match unsafe { join(address, key_file, table, parameters) } {
        Ok(judged) => i64::try_from(judged).unwrap_or(i64::MAX),
        Err(error) => {
            // SAFETY: as the caller promises.
            unsafe { text::write(&error.to_string(), message, message_bytes) };
            -1
        }
    }
}

/// # Safety
/// As `sheaf_processor_join_with_key`.
unsafe fn join(
    address: *const c_char,
    key_file: *const c_char,
    table: *const FilterTable,
    parameters: *const c_char,
) -> Result<u64, JoinError> {
    // SAFETY: null, or a NUL-terminated text.
    let address = unsafe { argument::path(address)? };
    // SAFETY: not null, and so a NUL-terminated text.
    let key = (!key_file.is_null()).then(|| unsafe { argument::path(key_file) }).transpose()?;
    let given = if parameters.is_null() {
        None
    } else {
        // SAFETY: not null, and so a NUL-terminated text.
        let given = unsafe { CStr::from_ptr(parameters) };
        Some(given.to_str().map_err(|_| ArgumentError::NotUtf8("the parameters are"))?.to_owned())
    };
    let processor = Processor::meet(&address, ProcessorOptions { key, ..ProcessorOptions::default() })?;
    let welcome = processor.welcome();
    let parameters = match given {
        Some(parameters) => parameters,
        None => parameters_of(&welcome.configuration)?,
    };
    let setup = Setup { run: welcome.run, tags: welcome.tags.clone(), parameters };
    // SAFETY: null or a table, as the caller promises; the filter is dropped before this function ends.
    let mut filter = unsafe { LibraryFilter::of_table(table, &setup)? };
    Ok(processor.run(&mut filter, &STOP)?.judged)
}

/// Returns the filter parameters of a run's configuration.
fn parameters_of(configuration: &str) -> Result<String, ConfigErrors> {
    Ok(Config::parse(configuration, "the configuration of the run")?.filter.parameters)
}

/// Makes every current and later sheaf_processor_join return after its pending events are judged. May be called from a
/// signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn sheaf_processor_stop() {
    STOP.store(true, Ordering::Relaxed);
}
