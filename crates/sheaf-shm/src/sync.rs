//! The synchronisation that cursors are made of. Their model compiles the same source with loom's instead, so it is named in one
//! place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
