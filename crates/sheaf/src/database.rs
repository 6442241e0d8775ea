//! The database of runs: where it is, its run numbers, and the runs that it lacks. Records go there from `records`.
//!
//! | module | content |
//! |---|---|
//! | `access` | where the database is, with its password and time limit |
//! | `numbers` | run numbers from PostgreSQL, with a reserve for the time when it is down |
//! | `waiting` | runs that the database does not have yet |

mod access;
mod numbers;
mod waiting;

pub(crate) use access::Access;
pub(crate) use numbers::next as next_number;
pub(crate) use waiting::Waiting;
