//! Allowed changes of the configuration.

use sheaf_wire::message::{Ballot, Managers, Replica};

/// Change of the configuration of the event manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The proposing replica becomes active, without the other one. It must be in sync.
    TakeOver {
        /// Whether the active replica steps down. Otherwise voters that hear the active replica refuse.
        steps_down: bool,
    },
    /// The other replica is no longer in sync. The proposing replica must be active.
    StrikeOff(Replica),
    /// The other replica is in sync. The proposing replica must be active.
    Admit(Replica),
}

/// Refusal of a change: the proposing replica is not in sync, or not active, or names itself or a session that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the configuration of the event manager does not allow this change; another replica may be active now"
)]
pub struct NotAllowed;

impl Change {
    /// Returns whether a voter that hears the active replica refuses the change.
    pub(super) const fn takes_over(self) -> bool {
        matches!(self, Self::TakeOver { steps_down: false })
    }

    /// Applies the change of replica `me` by `ballot`. A change that makes no difference leaves the term.
    ///
    /// # Errors
    /// [`NotAllowed`] if the change is not allowed in `managers`.
    pub fn apply(self, me: Replica, ballot: Ballot, managers: &Managers) -> Result<Managers, NotAllowed> {
        let is_active = managers.active == me;
        let (active, in_sync) = match self {
            Self::TakeOver { .. } if managers.in_sync.contains(&me) => (me, vec![me]),
            Self::StrikeOff(other) if is_active && other.index != me.index => {
                (me, managers.in_sync.iter().copied().filter(|replica| *replica != other).collect())
            }
            Self::Admit(other) if is_active && is_latest(other, me, managers) => {
                let mut in_sync = vec![me, other];
                in_sync.sort_unstable();
                (me, in_sync)
            }
            Self::TakeOver { .. } | Self::StrikeOff(_) | Self::Admit(_) => return Err(NotAllowed),
        };
        let is_same = active == managers.active && in_sync == managers.in_sync;
        let term = if is_same { managers.term } else { ballot.term() };
        Ok(Managers { term, active, in_sync })
    }
}

/// Returns whether `other` is the other replica, and no later session of it is in sync.
fn is_latest(other: Replica, me: Replica, managers: &Managers) -> bool {
    let is_later = |known: &Replica| known.index == other.index && known.session > other.session;
    other.index != me.index && !managers.in_sync.iter().any(is_later)
}
