//! Parts of a run that the run which follows it without a gap goes on with.

use crate::processes::Family;
use crate::run::Following;

/// See the [module](self).
pub(super) enum Before {
    /// Nodes that are threads of this process.
    Threads(Following),
    /// Nodes that are processes.
    Processes(Box<Family>),
}

impl Before {
    /// Returns those of nodes that are threads.
    pub(super) fn threads(self) -> Option<Following> {
        match self {
            Self::Threads(following) => Some(following),
            Self::Processes(_) => None,
        }
    }

    /// Returns those of nodes that are processes.
    pub(super) fn processes(self) -> Option<Family> {
        match self {
            Self::Threads(_) => None,
            Self::Processes(family) => Some(*family),
        }
    }

    /// Ends everything, because no run follows after all.
    pub(super) fn abandon(self) {
        match self {
            Self::Threads(following) => following.abandon(),
            Self::Processes(family) => family.abandon(),
        }
    }
}
