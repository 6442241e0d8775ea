//! The port to an uploader of closed files to an object store. It is behind a trait so that files are written, sealed
//! and tested without a network.

use crate::event_file::ClosedFile;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

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

    /// Returns the present error of the store; the upload is retried meanwhile.
    fn trouble(&self) -> Option<StoreError>;

    /// Returns its counters by name.
    fn counters(&self) -> Vec<(&'static str, u64)>;

    /// Waits until all files are in the store, but no longer than `patience`, and not while the store refuses files. Then nothing
    /// more is begun.
    ///
    /// # Errors
    /// The number of files that are not there, and the reason.
    fn finish(&mut self, patience: Duration) -> Result<(), UploadError>;
}

/// An error of an object store. Its kind depends on the uploader.
pub type StoreError = Arc<dyn Error + Send + Sync>;

/// Reason why closed files are not in an object store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UploadError {
    /// The store refuses a file or does not answer. The upload is retried.
    #[error(transparent)]
    Store(StoreError),
    /// The work ended while the store refused files or did not answer.
    #[error("{} not in the object store: {error}", files_are(*files))]
    Failed {
        /// Number of files that are not there.
        files: usize,
        /// The last error.
        error: StoreError,
    },
    /// The work ended before all files were uploaded.
    #[error("{} not in the object store: {first}{}", files_are(*files), if *files > 1 { ", ..." } else { "" })]
    Unfinished {
        /// Number of files that are not there.
        files: usize,
        /// Name of the first of them.
        first: String,
    },
}

/// The number of files, as the subject of a sentence.
fn files_are(files: usize) -> String {
    if files == 1 { "1 file is".to_owned() } else { format!("{files} files are") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_counts_the_files_and_names_the_first_or_the_reason() {
        let unfinished = |files| UploadError::Unfinished { files, first: "a.sheaf".into() }.to_string();
        assert_eq!(unfinished(1), "1 file is not in the object store: a.sheaf");
        assert_eq!(unfinished(3), "3 files are not in the object store: a.sheaf, ...");
        let error: Box<dyn Error + Send + Sync> = "it is locked".into();
        let failed = UploadError::Failed { files: 2, error: error.into() };
        assert_eq!(failed.to_string(), "2 files are not in the object store: it is locked");
    }
}
