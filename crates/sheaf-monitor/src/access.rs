//! Who may look at the page from other hosts.

use crate::control::Answer;
use std::fmt::Debug;

pub use crate::credentials::Credentials;

/// Knows people by their tokens.
pub trait Access: Send + Sync + Debug {
    /// Checks that somebody may look.
    ///
    /// # Errors
    /// The answer that refuses anybody else.
    fn admit(&self, credentials: &Credentials) -> Result<(), Answer>;
}

/// Knows who may send values from outside, by their tokens.
pub trait Senders: Send + Sync + Debug {
    /// Checks that somebody may send values, and returns the name.
    ///
    /// # Errors
    /// The answer that refuses anybody else.
    fn admit_sender(&self, credentials: &Credentials) -> Result<String, Answer>;
}
