//! The synchronisation that [`crate::doorbell`] and [`crate::shm`]'s cursors are made of. Their models compile the same
//! source with loom's instead, so it is named in one place.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
