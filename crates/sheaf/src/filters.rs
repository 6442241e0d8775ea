//! The filter that a configuration asks for.

use crate::timed;
use anyhow::Context;
use sheaf_config::{Config, FilterKind};
use sheaf_filter::{AcceptAll, Filter, LibraryFilter, Prescale, Setup};
use sheaf_node::coincidence::CoincidenceFilter;
use sheaf_wire::RunNumber;

/// Makes the filter for a run: one for each builder or processor, each has its own state. A library is loaded here, so
/// that each run has the version that is on disk when it starts.
pub(crate) fn open(config: &Config, run: RunNumber) -> anyhow::Result<Box<dyn Filter>> {
    let filter = &config.filter;
    Ok(match filter.kind {
        FilterKind::AcceptAll => Box::new(AcceptAll),
        FilterKind::Prescale => Box::new(Prescale { factor: filter.prescale }),
        FilterKind::Coincidence => {
            let slices = timed::slices(&config.source.timed);
            Box::new(CoincidenceFilter::new(timed::coincidence(filter), slices))
        }
        FilterKind::Library => {
            let path = filter.path.as_deref().context("`filter.path` is not set")?;
            let setup = Setup { run, tags: filter.tags.clone(), parameters: filter.parameters.clone() };
            Box::new(LibraryFilter::open(path, &filter.symbol, &setup)?)
        }
    })
}
