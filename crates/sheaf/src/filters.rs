//! The filter that a configuration asks for.

use crate::{python, timed};
use anyhow::{Context, bail};
use sheaf_config::{Config, FilterKind};
use sheaf_filter::{AcceptAll, Filter, LibraryFilter, Prescale, Setup};
use sheaf_node::busy::Busy;
use sheaf_node::coincidence::CoincidenceFilter;
use sheaf_wire::RunNumber;
use std::path::Path;

/// Makes the filter of a run. Each builder or processor has a filter of its own, with its own state. A library is
/// loaded here.
pub(crate) fn open(config: &Config, run: RunNumber) -> anyhow::Result<Box<dyn Filter>> {
    let filter = &config.filter;
    Ok(match filter.kind {
        FilterKind::AcceptAll => Box::new(AcceptAll),
        FilterKind::Prescale => Box::new(Prescale { factor: filter.prescale }),
        // Hits in windows that the first step has found may be of other slices.
        FilterKind::Coincidence if config.building.finds_windows() => {
            Box::new(coincidence(config).of(config.building.first_step.iter().copied()))
        }
        FilterKind::Coincidence => Box::new(coincidence(config)),
        FilterKind::Library => {
            let path = filter.path.as_deref().context("`filter.path` is not set")?;
            let setup = Setup { run, tags: filter.tags.clone(), parameters: filter.parameters.clone() };
            Box::new(LibraryFilter::open(path, &filter.symbol, &setup)?)
        }
        FilterKind::Busy => Box::new(Busy { time: filter.busy }),
        FilterKind::Python => bail!(
            "the filter is in Python, and this worker is not; use `{} -m sheaf.processor --join DOOR {}`",
            filter.python.display(),
            python_name(filter)
        ),
    })
}

/// Makes the filter that finds coincidences.
pub(crate) fn coincidence(config: &Config) -> CoincidenceFilter {
    let slices = timed::slices(&config.source.timed);
    let (conditions, margins) = (timed::conditions(config), timed::margins(&config.filter));
    CoincidenceFilter::new(timed::coincidence(&config.filter), slices, conditions, margins)
}

/// Makes the filter of a builder unit. It is also made if workers run the filter instead, so that its errors are found
/// before the run starts; but not in Python, which this process cannot load.
pub(crate) fn of_builder(config: &Config, run: RunNumber) -> anyhow::Result<Box<dyn Filter>> {
    match config.filter.kind {
        FilterKind::Python => Ok(Box::new(AcceptAll)),
        _ => open(config, run),
    }
}

/// Returns the name of a filter as `sheaf.processor` expects it: `file.py:name`, or `file.py`.
pub(crate) fn python_name(filter: &sheaf_config::Filter) -> String {
    python::function_name(filter.path.as_deref().unwrap_or(Path::new("")), filter.function.as_deref())
}
