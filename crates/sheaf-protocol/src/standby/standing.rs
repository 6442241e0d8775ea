//! The part that a replica of the event manager has in the run.

/// Part of a replica in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Active, and the voters do not know that yet.
    Founding,
    /// Active, and the other replica is in sync.
    Protected,
    /// Active alone.
    Alone,
    /// Active alone, while the other replica is sent a snapshot and what follows.
    Inviting,
    /// The other replica has everything, and the voters are to note that. From now on messages wait for it, because it may take over.
    Admitting,
    /// Standby without the state of the event manager, which it is sent.
    Joining,
    /// Standby.
    Following,
    /// Without a part in the run any more.
    Retired,
}

impl Standing {
    /// Returns whether the replica acts as the event manager.
    pub(super) const fn is_active(self) -> bool {
        match self {
            Self::Founding | Self::Protected | Self::Alone | Self::Inviting | Self::Admitting => true,
            Self::Joining | Self::Following | Self::Retired => false,
        }
    }
}
