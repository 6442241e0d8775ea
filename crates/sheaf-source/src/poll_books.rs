//! Accounts of a library that is polled for fragments.

/// Counts of a library of sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollBooks {
    /// Polls.
    pub polls: u64,
    /// Polls that the library said it failed in.
    pub polls_failed: u64,
    /// Batches that were not read: more fragments than there is room for, or an unknown answer.
    pub batches_invalid: u64,
    /// Fragments of sources that the library does not have here.
    pub fragments_unknown_source: u64,
    /// Fragments larger than the configured maximum.
    pub fragments_too_large: u64,
    /// Fragments with a size and without data.
    pub fragments_without_data: u64,
    /// Fragments that were not taken before the run was stopped.
    pub fragments_after_stop: u64,
}

impl PollBooks {
    /// Returns every counter with its name, in a fixed order: for reports and tables.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("polls", self.polls),
            ("polls_failed", self.polls_failed),
            ("batches_invalid", self.batches_invalid),
            ("fragments_unknown_source", self.fragments_unknown_source),
            ("fragments_too_large", self.fragments_too_large),
            ("fragments_without_data", self.fragments_without_data),
            ("fragments_after_stop", self.fragments_after_stop),
        ]
        .into_iter()
    }
}
