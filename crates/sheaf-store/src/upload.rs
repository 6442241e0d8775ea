//! The port to an uploader of closed files to an object store. It is behind a trait so that files are written, sealed
//! and tested without a network.

use crate::event_file::ClosedFile;

/// Brings closed files to an object store, in the background. No call blocks but [`Uploads::finish`].
///
/// The submitting side bounds the queue: a builder stops when its slots are used up, and each file contains at least
/// one of their events.
pub trait Uploads: Send {
    /// Takes on a closed file of the run's directory.
    fn submit(&mut self, file: ClosedFile);

    /// A file that is in the store as a whole, with [`ClosedFile::object`]; files in any order, each once.
    fn poll(&mut self) -> Option<ClosedFile>;

    /// Files that were taken on and not returned.
    fn waiting(&self) -> usize;

    /// Returns the present problem, in words for the operator; the upload is retried meanwhile.
    fn trouble(&self) -> Option<String>;

    /// Returns its counters by name.
    fn counters(&self) -> Vec<(&'static str, u64)>;

    /// Waits until all files are in the store, but not for ever; then nothing more is begun.
    ///
    /// # Errors
    /// Which files are not there, and why.
    fn finish(&mut self) -> Result<(), String>;
}
