//! Access to memory for a limited time: the payload of an event that is being judged is in the memory of the builder unit,
//! which reuses it after the verdict.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Access to the memory of one event. Views are counted, and new ones are refused after the end of the lease.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    over: AtomicBool,
    views: AtomicUsize,
}

/// The lease has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over;

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the event has been judged and its memory is reused; copy data that you keep in the filter: \
             bytes(fragment), or fragment.array().copy()",
        )
    }
}

impl Lease {
    /// Counts a new view.
    ///
    /// # Errors
    /// If the lease has ended.
    pub(crate) fn lend(&self) -> Result<(), Over> {
        self.views.fetch_add(1, Ordering::AcqRel);
        if self.over.load(Ordering::Acquire) {
            self.give_back();
            return Err(Over);
        }
        Ok(())
    }

    /// Ends a view.
    pub(crate) fn give_back(&self) {
        self.views.fetch_sub(1, Ordering::AcqRel);
    }

    /// Ends the lease. Returns the number of remaining views.
    pub(crate) fn end(&self) -> usize {
        self.over.store(true, Ordering::Release);
        self.views.load(Ordering::Acquire)
    }
}
