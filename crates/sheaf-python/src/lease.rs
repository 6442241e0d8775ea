//! Memory that is looked at for a time: the payload of an event that is being judged lies in the memory of the builder unit,
//! which uses it again after the verdict.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The memory of one event: views are counted, and there are no new ones when the time is over.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    over: AtomicBool,
    views: AtomicUsize,
}

/// The time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over;

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the event is judged and its memory is used again; in the filter, copy what is to be kept: \
             bytes(fragment), or fragment.array().copy()",
        )
    }
}

impl Lease {
    /// One more view.
    pub(crate) fn lend(&self) -> Result<(), Over> {
        self.views.fetch_add(1, Ordering::AcqRel);
        if self.over.load(Ordering::Acquire) {
            self.give_back();
            return Err(Over);
        }
        Ok(())
    }

    /// One view less.
    pub(crate) fn give_back(&self) {
        self.views.fetch_sub(1, Ordering::AcqRel);
    }

    /// The time is over. Says how many views there still are.
    pub(crate) fn end(&self) -> usize {
        self.over.store(true, Ordering::Release);
        self.views.load(Ordering::Acquire)
    }
}
