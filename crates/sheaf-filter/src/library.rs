//! Filters from shared libraries.
//!
//! A library is loaded when a filter is opened and let go when the last of its filters is dropped. So the next run has the
//! version that is on disk when it starts. Install a new version beside the old one and rename it (`mv`): a file that is
//! overwritten in place changes under the run that uses it.

#![allow(unsafe_code)]

use crate::abi::{self, FILTER_ABI, FilterSetup, FilterTable, FilterVerdict, GiveTable};
use crate::filter::{Filter, FilterFailure};
use crate::text;
use crate::view::Scratch;
use bytes::Bytes;
use libloading::Library;
use sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use sheaf_wire::{Event, RunNumber, Tags, Verdict};
use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::{fmt, mem, ptr, slice};
use thiserror::Error;

/// The longest message of a library that is read.
const MESSAGE_BYTES: usize = 1024;

/// What a filter is told when it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The number of the run.
    pub run: RunNumber,
    /// Names of the tags that the filter may give: the first is bit 0.
    pub tags: Vec<String>,
    /// A text for the filter alone.
    pub parameters: String,
}

/// Whose filter it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A library's.
    Library(PathBuf),
    /// One of the program that calls.
    Program,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(path) => write!(f, "the filter library {}", path.display()),
            Self::Program => f.write_str("the filter of this program"),
        }
    }
}

/// Why a filter cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no such file, or it is not to be read.
    #[error("cannot find the filter library {}: {error}", path.display())]
    NotThere {
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// It is no shared library, or lacks one that it needs.
    #[error("cannot load the filter library {}: {error}", path.display())]
    NotALibrary {
        /// Where it is.
        path: PathBuf,
        /// What the loader says.
        error: libloading::Error,
    },
    /// It has no such function.
    #[error(
        "the filter library {} has no function `{symbol}`; a filter exports one, and `filter.symbol` is its name",
        path.display()
    )]
    NoSymbol {
        /// Where it is.
        path: PathBuf,
        /// The name of the function.
        symbol: String,
    },
    /// It was made for another version of Sheaf.
    #[error(
        "{whose} has version {found} of the interface, and this is version {FILTER_ABI}; compile it again with the header of \
         this Sheaf"
    )]
    Version {
        /// Whose it is.
        whose: Whose,
        /// Its version.
        found: u32,
    },
    /// Its table is none.
    #[error("the table of {whose} is none: {what}")]
    BadTable {
        /// Whose it is.
        whose: Whose,
        /// What is wrong with the table.
        what: &'static str,
    },
    /// A text of the configuration cannot be told to it.
    #[error("`{key}` has a NUL character, which cannot be told to a filter library")]
    Nul {
        /// The key of the configuration.
        key: &'static str,
    },
    /// The filter does not want to be made.
    #[error("{whose} refuses its configuration: {message}")]
    Refused {
        /// Whose it is.
        whose: Whose,
        /// What it says.
        message: String,
    },
}

/// A filter from a shared library, or from a table of this program.
#[derive(Debug)]
pub struct LibraryFilter {
    /// The library's filter; its own thing.
    filter: NonNull<c_void>,
    judge: abi::JudgeEvent,
    destroy: Option<abi::DestroyFilter>,
    /// The tags that have names.
    known: Tags,
    scratch: Scratch,
    /// Keeps the functions in memory, where they are a library's. Dropped last.
    _library: Option<Library>,
}

// SAFETY: the interface promises that a filter may be called by any one thread at a time (`abi::FilterTable`).
unsafe impl Send for LibraryFilter {}

impl LibraryFilter {
    /// Loads the library at `path` and makes a filter of the table that its function `symbol` gives.
    ///
    /// The library's code runs in this process, with all its rights.
    ///
    /// # Errors
    /// Why that is not possible, and what would be right.
    pub fn open(path: &Path, symbol: &str, setup: &Setup) -> Result<Self, OpenError> {
        // With a bare name the loader would search its own directories.
        let path = path.canonicalize().map_err(|error| OpenError::NotThere { path: path.into(), error })?;
        // SAFETY: loading runs the library's constructors. That they may run here is what the operator asks for by naming
        // the library.
        let library = unsafe { Library::new(&path) }
            .map_err(|error| OpenError::NotALibrary { path: path.clone(), error })?;
        let table = ask_for_table(&library, &path, symbol)?;
        // SAFETY: what the library gave as its table, which stays as long as the library is loaded.
        unsafe { Self::make(table, setup, &Whose::Library(path), Some(library)) }
    }

    /// Makes a filter of a table of this program.
    ///
    /// # Errors
    /// Why that is not possible, and what would be right.
    ///
    /// # Safety
    /// `table` is null, or a table whose functions do what [`FilterTable`] says, for as long as the filter lives.
    pub unsafe fn of_table(table: *const FilterTable, setup: &Setup) -> Result<Self, OpenError> {
        // SAFETY: promised by the caller.
        unsafe { Self::make(table, setup, &Whose::Program, None) }
    }

    /// # Safety
    /// As [`Self::of_table`]; with a library, for as long as that is loaded.
    unsafe fn make(
        table: *const FilterTable,
        setup: &Setup,
        whose: &Whose,
        library: Option<Library>,
    ) -> Result<Self, OpenError> {
        // SAFETY: promised by the caller.
        let table = unsafe { read_table(table, whose)? };
        let bad = |what| OpenError::BadTable { whose: whose.clone(), what };
        let create = table.create.ok_or_else(|| bad("`create` is null"))?;
        let judge = table.judge.ok_or_else(|| bad("`judge` is null"))?;
        let filter = create_filter(create, setup, whose)?;
        let known = Tags((1 << setup.tags.len().min(Tags::MAX_NAMED)) - 1);
        Ok(Self {
            filter,
            judge,
            destroy: table.destroy,
            known,
            scratch: Scratch::default(),
            _library: library,
        })
    }
}

/// What the library gives as its table.
fn ask_for_table(library: &Library, path: &Path, symbol: &str) -> Result<*const FilterTable, OpenError> {
    // SAFETY: that the function has this type is the interface; it cannot be checked.
    let give = unsafe { library.get::<GiveTable>(symbol) };
    let give = give.map_err(|_| OpenError::NoSymbol { path: path.into(), symbol: symbol.into() })?;
    // SAFETY: a function without arguments, as the interface has it.
    Ok(unsafe { give() })
}

/// A table, checked as far as it can be.
///
/// # Safety
/// `table` is null, or leads to what some version of the interface has as its table.
unsafe fn read_table(table: *const FilterTable, whose: &Whose) -> Result<FilterTable, OpenError> {
    let bad = |what| OpenError::BadTable { whose: whose.clone(), what };
    if table.is_null() {
        return Err(bad("it is null"));
    }
    if !table.is_aligned() {
        return Err(bad("it is not aligned as a struct of pointers"));
    }
    // SAFETY: not null and aligned, and every version of the table begins with these two numbers.
    let (found, bytes) = unsafe { ((*table).abi, (*table).table_bytes) };
    if found != FILTER_ABI {
        return Err(OpenError::Version { whose: whose.clone(), found });
    }
    if (bytes as usize) < mem::size_of::<FilterTable>() {
        return Err(bad("its `table_bytes` is less than the size of a SheafFilterTable"));
    }
    // SAFETY: the table is of this version and at least as large.
    Ok(unsafe { ptr::read(table) })
}

fn c_text(text: &str, key: &'static str) -> Result<CString, OpenError> {
    CString::new(text).map_err(|_| OpenError::Nul { key })
}

/// Makes a filter.
fn create_filter(
    create: abi::CreateFilter,
    setup: &Setup,
    whose: &Whose,
) -> Result<NonNull<c_void>, OpenError> {
    let parameters = c_text(&setup.parameters, "filter.parameters")?;
    let tags: Vec<CString> =
        setup.tags.iter().map(|tag| c_text(tag, "filter.tags")).collect::<Result<_, _>>()?;
    let pointers: Vec<*const c_char> = tags.iter().map(|tag| tag.as_ptr()).collect();
    let mut message: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
    let setup = FilterSetup {
        abi: FILTER_ABI,
        run: setup.run.0,
        parameters: parameters.as_ptr(),
        tags: pointers.as_ptr(),
        tag_count: pointers.len(),
        message: message.as_mut_ptr(),
        message_bytes: message.len(),
    };
    // SAFETY: a function of the interface; all that the setup points to outlives the call.
    let filter = unsafe { create(&raw const setup) };
    NonNull::new(filter).ok_or_else(|| {
        // SAFETY: `message` is as long as that.
        let said = unsafe { text::read(message.as_ptr(), message.len()) };
        let message = said.unwrap_or_else(|| "it does not say why".into());
        OpenError::Refused { whose: whose.clone(), message }
    })
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

/// What a library said, where it is a verdict.
fn verdict(said: &FilterVerdict, known: Tags) -> Result<Verdict, FilterFailure> {
    let nonsense = |what: String| Err(FilterFailure(format!("the filter's verdict is none: {what}")));
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
        return nonsense(format!("its payload has {bytes} bytes, and {most} are the most"));
    }
    if said.payload.is_null() && said.payload_bytes > 0 {
        return nonsense(format!("its payload is null and has {} bytes", said.payload_bytes));
    }
    // What is rejected is not stored, nor is its payload.
    if !accepted || said.payload_bytes == 0 {
        return Ok(Verdict { accepted, tags, payload: Bytes::new() });
    }
    // SAFETY: the interface promises so many bytes, until the filter is called again. The number was checked.
    let payload = unsafe { slice::from_raw_parts(said.payload, said.payload_bytes) };
    Ok(Verdict { accepted, tags, payload: Bytes::copy_from_slice(payload) })
}

impl Drop for LibraryFilter {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: a function of the interface; the filter is not used again, the library still there.
            unsafe { destroy(self.filter.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests;
