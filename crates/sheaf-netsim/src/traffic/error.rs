//! Workloads that cannot be.

use super::placement::PlacementError;
use super::sizes::SizeError;
use thiserror::Error;

/// The problem with a workload.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SetupError {
    /// Sources and builders that do not fit the network.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// Sizes that cannot be.
    #[error(transparent)]
    Sizes(#[from] SizeError),
    /// Something that must not be zero.
    #[error("{0} is zero: it must be at least 1")]
    Zero(&'static str),
    /// A rate that is no rate.
    #[error(
        "the rate is {0} events per second: it must be positive, or left out for as many as the network takes"
    )]
    Rate(f64),
    /// A load that is no load.
    #[error("the load is {0}: it must be positive, and from 1 on there is always something to send")]
    Load(f64),
    /// A slot that is all guard.
    #[error("the guard of {guard} leaves nothing of the slot of {slot}: it must be shorter")]
    Guard {
        /// Idle time at the end of a slot.
        guard: crate::units::Picos,
        /// The slot.
        slot: crate::units::Picos,
    },
    /// A host that does not exist.
    #[error("the host of endpoint {endpoint} is to die: the network has endpoints 0 to {}", endpoints - 1)]
    NoSuchHost {
        /// The endpoint.
        endpoint: u32,
        /// The number of them.
        endpoints: u32,
    },
    /// The one machine that no other replaces.
    #[error(
        "the host of endpoint {endpoint} is to die and the event manager is there: \
         leave an endpoint free for it, or give it a control network"
    )]
    ManagerDies {
        /// The endpoint.
        endpoint: u32,
    },
    /// More nodes than the protocol can number.
    #[error("there are {count} {what}: the protocol numbers at most {most}")]
    TooManyNodes {
        /// Which.
        what: &'static str,
        /// Number that was requested.
        count: usize,
        /// Maximum number.
        most: usize,
    },
}

/// Checks a rate of events.
pub(super) fn check_rate(rate: Option<f64>) -> Result<(), SetupError> {
    match rate {
        Some(rate) if !(rate.is_finite() && rate > 0.0) => Err(SetupError::Rate(rate)),
        _ => Ok(()),
    }
}
