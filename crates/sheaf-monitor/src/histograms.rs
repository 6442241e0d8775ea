//! Histograms of a run: the socket at which publishers leave them, and the file that keeps them.
//!
//! | module | holds |
//! |---|---|
//! | `receiving` | data that the thread of a run and its owner share |
//! | `receiver` | the thread of a run that takes publications and writes the file |
//! | `publishing` | requests that publish, at the socket of a run and at a page |
//! | `answers` | lists of histograms with their sketches and comparisons |
//!
//! The file is the only way from the run to a page: a page can be in another process, come later, and show runs of the past.

mod answers;
mod publishing;
mod receiver;
mod receiving;

pub(crate) use answers::{Wanted, full, list};
pub(crate) use publishing::{MOST_BYTES, forward, too_large};
pub use receiver::{HistogramReceiver, ReceiverError, ReceiverOptions, StoredHistograms};
pub use receiving::SOCKET_NAME;
