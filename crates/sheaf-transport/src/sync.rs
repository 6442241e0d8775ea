//! The synchronisation that [`crate::doorbell`] is made of. Its model compiles the same source with loom's instead, so it is
//! named in one place.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
