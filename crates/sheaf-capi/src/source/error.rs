//! Reasons why a call that feeds sources fails.

use crate::argument::ArgumentError;
use sheaf_config::FeedAddressError;
use sheaf_feed::{EnvironmentError, FeedError};
use std::error::Error;
use std::ops::Range;

/// Reason why a program cannot connect.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceOpenError {
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error("tls_certificate, tls_key and tls_authority belong together: set all three, or none")]
    SomeTlsFiles,
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Address(#[from] FeedAddressError),
    #[error(transparent)]
    Feed(#[from] FeedError),
}

/// Reason why fragments or a run record are refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceArgumentError {
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error("source {0} is not one of those that were opened")]
    NotOpened(u32),
    #[error("a run record has the kind {0}; it must be 1, 2 or 3")]
    RecordKind(u8),
    #[error("the last offset is too large")]
    LastOffset,
    #[error("fragment {fragment} has the offsets {offsets:?}; they must not fall")]
    Offsets { fragment: usize, offsets: Range<usize> },
}

/// Returns the text of an error with its causes.
pub(super) fn described(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
