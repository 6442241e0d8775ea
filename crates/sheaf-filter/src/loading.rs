//! Loading of filters, step filters and preprocessors from shared libraries: opening, creation and destruction.
//!
//! A library is loaded when one of its tables is opened, and closed when the last of them is dropped. Whether this
//! unloads it depends on the library and on the loader, which returns the copy in memory for a path that is already
//! loaded. To load a new version in the same process, use another path: `sheaf run` copies it for each run. Without
//! copies, install a new version beside the old one and rename it (`mv`): a file that is overwritten in place changes
//! under the run that uses it.

#![allow(unsafe_code)]

use crate::abi::{
    self, DecoderTable, FILTER_ABI, FilterSetup, FilterTable, GiveTable, PreprocessorTable, SourceTable,
    StepTable, TriggerTable,
};
use crate::text;
use libloading::Library;
use sheaf_wire::RunNumber;
use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::{fmt, mem, ptr};
use thiserror::Error;

/// The longest message of a library that is read.
pub(crate) const MESSAGE_BYTES: usize = 1024;

/// Setup of a filter, a step filter or a preprocessor, passed when it is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The number of the run.
    pub run: RunNumber,
    /// Names of the tags that the filter may give: the first is bit 0.
    pub tags: Vec<String>,
    /// A text for the filter alone.
    pub parameters: String,
}

/// Kind of code that a library provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Filter, which judges events.
    Filter,
    /// Step filter, which judges the first steps of events.
    StepFilter,
    /// Preprocessor, which processes fragments in a readout unit.
    Preprocessor,
    /// Decoder, which finds hits in fragments.
    Decoder,
    /// Sources, which a readout unit polls.
    Source,
    /// Triggers, which a process of the run polls.
    Trigger,
}

impl Kind {
    /// The table of the configuration that speaks of it.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::StepFilter => "building",
            Self::Preprocessor => "preprocessing",
            Self::Decoder => "source.decoder",
            Self::Source => "source.library",
            Self::Trigger => "trigger.library",
        }
    }

    /// The table of functions, as C knows it.
    fn table(self) -> &'static str {
        match self {
            Self::Filter => "SheafFilterTable",
            Self::StepFilter => "SheafStepTable",
            Self::Preprocessor => "SheafPreprocessorTable",
            Self::Decoder => "SheafDecoderTable",
            Self::Source => "SheafSourceTable",
            Self::Trigger => "SheafTriggerTable",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filter => "filter",
            Self::StepFilter => "step filter",
            Self::Preprocessor => "preprocessor",
            Self::Decoder => "decoder",
            Self::Source => "source",
            Self::Trigger => "trigger",
        })
    }
}

/// Whose filter, step filter or preprocessor it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A library's.
    Library(Kind, PathBuf),
    /// One of the program that calls.
    Program(Kind),
}

impl Whose {
    fn kind(&self) -> Kind {
        match self {
            Self::Library(kind, _) | Self::Program(kind) => *kind,
        }
    }

    pub(crate) fn bad_table(&self, what: impl Into<String>) -> OpenError {
        OpenError::BadTable { whose: self.clone(), what: what.into() }
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(kind, path) => write!(f, "the {kind} library {}", path.display()),
            Self::Program(kind) => write!(f, "the {kind} of this program"),
        }
    }
}

/// Reason why a library, or its function, cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no such file, or it is not to be read.
    #[error("cannot find the {kind} library {}: {error}", path.display())]
    NotThere {
        /// Kind of code that was requested.
        kind: Kind,
        /// The expected path.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// It is no shared library, or lacks one that it needs.
    #[error("cannot load {whose}: {}", reason(.error))]
    NotALibrary {
        /// Whose it is.
        whose: Whose,
        /// Error of the loader.
        error: libloading::Error,
    },
    /// This program is static, and has no loader.
    #[error(
        "cannot load {whose}: this `sheaf` is a static program, which loads no libraries; use the Debian package, the Python \
         package or a build from source"
    )]
    Static {
        /// Whose it is.
        whose: Whose,
    },
    /// It has no such function.
    #[error(
        "{whose} has no function `{symbol}`; a {} exports one, and `{}.symbol` is its name",
        whose.kind(),
        whose.kind().section()
    )]
    NoSymbol {
        /// Whose it is.
        whose: Whose,
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
    /// Its table is invalid.
    #[error("{whose} has an invalid table: {what}")]
    BadTable {
        /// Whose it is.
        whose: Whose,
        /// Error in the table.
        what: String,
    },
    /// A text of the configuration cannot be passed to it.
    #[error("`{key}` has a NUL character, which cannot be passed to a library")]
    Nul {
        /// The key of the configuration.
        key: String,
    },
    /// It does not want to be made.
    #[error("{whose} rejects its configuration: {message}")]
    Refused {
        /// Whose it is.
        whose: Whose,
        /// Message of the library.
        message: String,
    },
}

/// Returns the reason of the loader: which library or function is missing. The error itself only names the call.
fn reason(error: &libloading::Error) -> String {
    let mut causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.next().map_or_else(|| error.to_string(), ToString::to_string)
}

/// A table of functions, as a library gives it.
///
/// # Safety
/// The type is a struct as C has it, and begins with the version and the size of the table, each of 32 bits.
pub(crate) unsafe trait Table: Copy {
    /// Kind of code that the table describes.
    const KIND: Kind;
}

/// A table whose things are created with a [`FilterSetup`].
pub(crate) trait Creates: Table {
    fn create(&self) -> Option<abi::CreateFilter>;
    fn destroy(&self) -> Option<abi::DestroyFilter>;
}

macro_rules! tables {
    ($($table:ty: $kind:ident),* $(,)?) => {$(
        // SAFETY: it is `repr(C)`, and its first fields are `abi` and `table_bytes`.
        unsafe impl Table for $table {
            const KIND: Kind = Kind::$kind;
        }

        impl Creates for $table {
            fn create(&self) -> Option<abi::CreateFilter> {
                self.create
            }

            fn destroy(&self) -> Option<abi::DestroyFilter> {
                self.destroy
            }
        }
    )*};
}

tables! { FilterTable: Filter, StepTable: StepFilter, PreprocessorTable: Preprocessor, DecoderTable: Decoder }

// SAFETY: it is `repr(C)`, and its first fields are `abi` and `table_bytes`.
unsafe impl Table for SourceTable {
    const KIND: Kind = Kind::Source;
}

// SAFETY: it is `repr(C)`, and its first fields are `abi` and `table_bytes`.
unsafe impl Table for TriggerTable {
    const KIND: Kind = Kind::Trigger;
}

/// Something that a library has made: its own thing, which is unmade in the end.
#[derive(Debug)]
pub(crate) struct Loaded {
    thing: NonNull<c_void>,
    destroy: Option<abi::DestroyFilter>,
    /// Keeps the functions in memory, where they are a library's. Dropped last.
    _library: Option<Library>,
}

// SAFETY: the interface guarantees that an object of a library may be called by any one thread at a time
// (`abi::FilterTable`).
unsafe impl Send for Loaded {}

impl Loaded {
    /// Takes what a library has made, or the reason why it has made nothing.
    pub(crate) fn new(
        thing: *mut c_void,
        destroy: Option<abi::DestroyFilter>,
        library: Option<Library>,
        whose: &Whose,
        message: &[c_char; MESSAGE_BYTES],
    ) -> Result<Self, OpenError> {
        let Some(thing) = NonNull::new(thing) else {
            // SAFETY: `message` has that length.
            let said = unsafe { text::read(message.as_ptr(), message.len()) };
            let message = said.unwrap_or_else(|| "it gave no reason".into());
            return Err(OpenError::Refused { whose: whose.clone(), message });
        };
        Ok(Self { thing, destroy, _library: library })
    }

    /// Returns the pointer that the library's functions are given.
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.thing.as_ptr()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: a function of the interface; the thing is not used again, the library still there.
            unsafe { destroy(self.thing.as_ptr()) };
        }
    }
}

/// Loads the library at `path` and asks its function `symbol` for its table.
pub(crate) fn open<T: Table>(path: &Path, symbol: &str) -> Result<(T, Whose, Library), OpenError> {
    // With a bare name the loader would search its own directories.
    let path = path.canonicalize().map_err(|error| OpenError::NotThere {
        kind: T::KIND,
        path: path.into(),
        error,
    })?;
    if !path.is_file() {
        // The loader would block until the other end of a named pipe is opened.
        let error = std::io::Error::other("it is not a regular file");
        return Err(OpenError::NotThere { kind: T::KIND, path, error });
    }
    let whose = Whose::Library(T::KIND, path.clone());
    if cfg!(target_feature = "crt-static") {
        return Err(OpenError::Static { whose });
    }
    // SAFETY: loading runs the library's constructors. The operator permits this by naming the library.
    let library = unsafe { Library::new(&path) }
        .map_err(|error| OpenError::NotALibrary { whose: whose.clone(), error })?;
    // SAFETY: that the function has this type is the interface; it cannot be checked.
    let give = unsafe { library.get::<GiveTable<T>>(symbol) };
    let give = give.map_err(|_| OpenError::NoSymbol { whose: whose.clone(), symbol: symbol.into() })?;
    // SAFETY: a function without arguments, as the interface defines it; the table it returns exists as long as the
    // library is loaded.
    let table = unsafe { read_table(give(), &whose)? };
    Ok((table, whose, library))
}

/// Reads a table, checked as far as possible.
///
/// # Safety
/// `table` is null, or points to a table of some version of the interface.
pub(crate) unsafe fn read_table<T: Table>(table: *const T, whose: &Whose) -> Result<T, OpenError> {
    if table.is_null() {
        return Err(whose.bad_table("it is null"));
    }
    if !table.is_aligned() {
        return Err(whose.bad_table("it is not aligned as a struct of pointers"));
    }
    // SAFETY: not null and aligned, and every version of every table begins with these two numbers.
    let [found, bytes] = unsafe { ptr::read(table.cast::<[u32; 2]>()) };
    if found != FILTER_ABI {
        return Err(OpenError::Version { whose: whose.clone(), found });
    }
    if (bytes as usize) < mem::size_of::<T>() {
        let what = format!("its `table_bytes` is less than the size of a {}", T::KIND.table());
        return Err(whose.bad_table(what));
    }
    // SAFETY: the table is of this version and at least as large.
    Ok(unsafe { ptr::read(table) })
}

/// Makes the object of the table; `library` contains its functions, if they are not in this program.
pub(crate) fn make<T: Creates>(
    table: &T,
    setup: &Setup,
    whose: &Whose,
    library: Option<Library>,
) -> Result<Loaded, OpenError> {
    let create = table.create().ok_or_else(|| whose.bad_table("`create` is null"))?;
    let section = T::KIND.section();
    let parameters = c_text(&setup.parameters, || format!("{section}.parameters"))?;
    let tags: Vec<CString> =
        setup.tags.iter().map(|tag| c_text(tag, || "filter.tags".to_owned())).collect::<Result<_, _>>()?;
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
    let thing = unsafe { create(&raw const setup) };
    Loaded::new(thing, table.destroy(), library, whose, &message)
}

pub(crate) fn c_text(text: &str, key: impl FnOnce() -> String) -> Result<CString, OpenError> {
    CString::new(text).map_err(|_| OpenError::Nul { key: key() })
}
