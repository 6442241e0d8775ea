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
