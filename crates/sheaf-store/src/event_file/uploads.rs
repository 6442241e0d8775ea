//! Closed files on their way to an object store.

use std::collections::VecDeque;

/// A closed file that is uploaded.
#[derive(Debug)]
pub(super) struct Upload {
    file: String,
    /// Number of its first event in the session. `None` if it has run records only.
    first: Option<u64>,
    events: u64,
    confirmed: bool,
}

impl Upload {
    pub(super) fn new(file: String, first: Option<u64>, events: u64) -> Self {
        Self { file, first, events, confirmed: false }
    }
}

/// Closed files that the object store has not confirmed, or not all before them, and the number of events that it has.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    /// In the order in which they were closed.
    files: VecDeque<Upload>,
    /// Number of run records in the last closed file.
    closed_records: u64,
    /// Events of files that were confirmed, with all before them.
    confirmed_events: u64,
}

impl Uploads {
    /// Adds a closed file with this number of run records. A file without events and without a run record that the file before
    /// it did not have is not awaited.
    pub(super) fn add(&mut self, upload: Upload, records: u64) {
        if upload.first.is_some() || records > self.closed_records {
            self.files.push_back(upload);
        }
        self.closed_records = records;
    }

    /// Returns whether no file is awaited.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns whether the file of this name is not confirmed.
    pub(super) fn is_pending(&self, file: &str) -> bool {
        self.files.iter().any(|upload| upload.file == file && !upload.confirmed)
    }

    /// Records that the object store has the file of this name. Returns `false` for a file that is not expected.
    pub(super) fn confirm(&mut self, file: &str) -> bool {
        let Some(upload) = self.files.iter_mut().find(|upload| upload.file == file) else { return false };
        upload.confirmed = true;
        while let Some(first) = self.files.pop_front_if(|upload| upload.confirmed) {
            self.confirmed_events += first.events;
        }
        true
    }

    /// Returns the number of events, from the first of the session, that are in confirmed files.
    pub(super) fn confirmed_events(&self) -> u64 {
        self.confirmed_events
    }

    /// Returns the number of the first event in the session that is in a closed file that is not confirmed.
    pub(super) fn first_pending(&self) -> Option<u64> {
        self.files.iter().filter(|upload| !upload.confirmed).find_map(|upload| upload.first)
    }
}
