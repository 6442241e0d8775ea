//! Which endpoints are sources and which builders, by number.

use crate::network::EndpointId;
use crate::scenario::Placement;
use std::ops::Range;
use thiserror::Error;

/// A placement that the network has no room for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// More sources and builders than endpoints.
    #[error("{wanted} endpoints are wanted ({what}): the network has {endpoints}")]
    TooMany {
        /// Purpose of the endpoints.
        what: String,
        /// Number that is needed.
        wanted: u64,
        /// The number of them.
        endpoints: u32,
    },
    /// Groups that do not tile the network.
    #[error("groups of {group} endpoints do not divide the network's {endpoints}")]
    Groups {
        /// Endpoints of a group.
        group: u32,
        /// The number of them.
        endpoints: u32,
    },
    /// A listed endpoint that does not exist.
    #[error("endpoint {endpoint} is listed as a {role}: the network has endpoints 0 to {}", endpoints - 1)]
    NoSuchEndpoint {
        /// The endpoint.
        endpoint: u32,
        /// Source or builder.
        role: &'static str,
        /// The number of them.
        endpoints: u32,
    },
    /// An endpoint listed twice.
    #[error("endpoint {endpoint} is listed twice as a {role}: once is right")]
    Twice {
        /// The endpoint.
        endpoint: u32,
        /// Source or builder.
        role: &'static str,
    },
    /// There is no sender or no builder.
    #[error("there is no {role}: at least one is needed")]
    Nobody {
        /// Source or builder.
        role: &'static str,
    },
}

/// Sources and builders, numbered from 0 in the order of the placement. One endpoint can be both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    sources: Vec<EndpointId>,
    builders: Vec<EndpointId>,
    /// By endpoint: its source number and its builder number; [`NOBODY`] for no such role.
    source_at: Vec<u32>,
    builder_at: Vec<u32>,
    /// Number of sources of one group; all of them if there are no groups.
    group_sources: u32,
    group_builders: u32,
}

const NOBODY: u32 = u32::MAX;

impl Roster {
    /// Numbers the sources and builders of a network with `endpoints` endpoints.
    ///
    /// # Errors
    /// The placement does not fit the network.
    pub fn new(placement: &Placement, endpoints: u32) -> Result<Self, PlacementError> {
        let (sources, builders) = endpoints_of(placement, endpoints)?;
        let source_at = numbers(&sources, endpoints, "source")?;
        let builder_at = numbers(&builders, endpoints, "builder")?;
        let (group_sources, group_builders) = match placement {
            Placement::Grouped { readouts, builders, stay_inside: true, .. } => (*readouts, *builders),
            _ => (length(&sources), length(&builders)),
        };
        let ids = |list: Vec<u32>| list.into_iter().map(EndpointId).collect();
        let (sources, builders) = (ids(sources), ids(builders));
        Ok(Self { sources, builders, source_at, builder_at, group_sources, group_builders })
    }

    /// Returns the number of endpoints of the network.
    #[must_use]
    pub fn endpoints(&self) -> usize {
        self.source_at.len()
    }

    /// The sources, by number.
    #[must_use]
    pub fn sources(&self) -> &[EndpointId] {
        &self.sources
    }

    /// The builders, by number.
    #[must_use]
    pub fn builders(&self) -> &[EndpointId] {
        &self.builders
    }

    /// Number of sources.
    #[must_use]
    pub fn source_count(&self) -> u32 {
        length(&self.sources)
    }

    /// Number of builders.
    #[must_use]
    pub fn builder_count(&self) -> u32 {
        length(&self.builders)
    }

    /// The number of the source at an endpoint.
    #[must_use]
    pub fn source_at(&self, endpoint: EndpointId) -> Option<u32> {
        self.source_at.get(endpoint.index()).copied().filter(|number| *number != NOBODY)
    }

    /// The number of the builder at an endpoint.
    #[must_use]
    pub fn builder_at(&self, endpoint: EndpointId) -> Option<u32> {
        self.builder_at.get(endpoint.index()).copied().filter(|number| *number != NOBODY)
    }

    /// The sources that have a part in the events of `builder`.
    #[must_use]
    pub fn sources_of(&self, builder: u32) -> Range<u32> {
        let group = builder / self.group_builders;
        group * self.group_sources..(group + 1) * self.group_sources
    }

    /// The builders that build events of `source`.
    #[must_use]
    pub fn builders_of(&self, source: u32) -> Range<u32> {
        let group = source / self.group_sources;
        group * self.group_builders..(group + 1) * self.group_builders
    }
}

fn endpoints_of(placement: &Placement, endpoints: u32) -> Result<(Vec<u32>, Vec<u32>), PlacementError> {
    let fits = |what: String, wanted: u64, room: u32| {
        if wanted <= u64::from(room) {
            Ok(())
        } else {
            Err(PlacementError::TooMany { what, wanted, endpoints: room })
        }
    };
    Ok(match placement {
        Placement::Both => ((0..endpoints).collect(), (0..endpoints).collect()),
        Placement::Apart { readouts, builders } => {
            let what = format!("{readouts} sources, {builders} builders");
            fits(what, u64::from(*readouts) + u64::from(*builders), endpoints)?;
            ((0..*readouts).collect(), (*readouts..readouts + builders).collect())
        }
        Placement::Grouped { group, readouts, builders, .. } => {
            let what = format!("{readouts} sources and {builders} builders in each group of {group}");
            fits(what, u64::from(*readouts) + u64::from(*builders), *group)?;
            if *group == 0 || !endpoints.is_multiple_of(*group) {
                return Err(PlacementError::Groups { group: *group, endpoints });
            }
            let firsts = (0..endpoints / group).map(|number| number * group);
            let members = |from: u32, count: u32| {
                firsts.clone().flat_map(move |first| first + from..first + from + count).collect()
            };
            (members(0, *readouts), members(*readouts, *builders))
        }
        Placement::Listed { readouts, builders } => (readouts.clone(), builders.clone()),
    })
}

fn numbers(list: &[u32], endpoints: u32, role: &'static str) -> Result<Vec<u32>, PlacementError> {
    if list.is_empty() {
        return Err(PlacementError::Nobody { role });
    }
    let mut at = vec![NOBODY; endpoints as usize];
    for (number, endpoint) in (0..).zip(list) {
        let Some(entry) = at.get_mut(*endpoint as usize) else {
            return Err(PlacementError::NoSuchEndpoint { endpoint: *endpoint, role, endpoints });
        };
        if std::mem::replace(entry, number) != NOBODY {
            return Err(PlacementError::Twice { endpoint: *endpoint, role });
        }
    }
    Ok(at)
}

fn length<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("endpoints are numbered by u32")
}

#[cfg(test)]
mod tests;
