//! Who simulates.
//!
//! | module | holds |
//! |---|---|
//! | `events` | what happens next: a queue of instants |
//! | `queue` | packets: cut-through, store-and-forward, output queues, shared memory; lossy and paused |

pub mod events;
pub mod queue;
