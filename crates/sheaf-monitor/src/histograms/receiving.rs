//! Data that the thread of a run and its owner share.

use sheaf_histogram::{HistogramStore, RefusalReason};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name of the socket in the directory of a run.
pub const SOCKET_NAME: &str = "run.monitor";

/// Data of the thread and of its owner.
#[derive(Debug)]
pub(super) struct Receiving {
    store: Mutex<HistogramStore>,
    /// Reasons of refusals that were logged.
    logged: Mutex<BTreeSet<RefusalReason>>,
}

impl Receiving {
    pub(super) fn new(store: HistogramStore) -> Self {
        Self { store: Mutex::new(store), logged: Mutex::default() }
    }

    pub(super) fn store(&self) -> MutexGuard<'_, HistogramStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a refusal is the first one with its reason.
    pub(super) fn is_first(&self, reason: RefusalReason) -> bool {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner).insert(reason)
    }
}
