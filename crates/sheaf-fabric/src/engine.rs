//! Who simulates.
//!
//! | module | holds |
//! |---|---|
//! | `events` | what happens next: a queue of instants |

pub mod events;
