//! Values from outside of the run, such as voltages and temperatures: slow control.
//!
//! Values are declared by the configuration. They are read from files by threads of their own, or programs send them over HTTP. A value is *fresh*
//! until it is too old, then *stale*; one that was never known, or whose sender says that it is not, is *unknown*. Only fresh values count.
//!
//! | module | holds |
//! |---|---|
//! | `declared` | a value, as the configuration declares it |
//! | `number` | numbers that are taken, and the text of a file |
//! | `statistics` | numbers of a value during a run |
//! | `book` | all values, sans-IO: each call gets the time |
//! | `board` | the same for several threads, with a clock |
//! | `keeper` | the threads that read files, and pass on what programs have sent |
//! | `sent_file` | the file by which a controller passes that on, to the process of a run and to the next controller |
//!
//! No thread that carries data knows of values.

mod board;
mod book;
mod declared;
mod keeper;
mod number;
mod sent_file;
mod statistics;

pub use board::ValueBoard;
#[cfg(test)]
pub(crate) use book::ValueBook;
pub(crate) use book::{Level, Offer, ValueReport};
pub use book::{Refusal, RunValue, ValueCounts};
pub use declared::{DeclaredValue, ValueFile, ValueLimits};
pub use keeper::{OpenFile, SentFile, ValueKeeper};
