//! Building in steps and types of triggers: from the configuration to the options of builder units.

use crate::plan::Plan;
use crate::{filters, timed};
use anyhow::Context;
use sheaf_config::{Config, StepFilterKind};
use sheaf_filter::{LibraryStep, Setup};
use sheaf_node::filter::Prescale;
use sheaf_node::step::{Accepted, Activity, AskForAll, CoincidenceStep, FromLibrary, StepFilter};
use sheaf_protocol::builder::Scope;
use sheaf_wire::{RunNumber, TriggerMix};

/// The thread that a step filter judges on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepPlace {
    /// The builder unit's own: the step filter is known to be quick.
    Own,
    /// On a separate thread.
    Beside,
}

/// Makes the filter of the first step, if there is one, and determines where it runs. Loads its library.
pub(crate) fn step_filter(
    config: &Config,
    run: RunNumber,
) -> anyhow::Result<Option<(Box<dyn StepFilter>, StepPlace)>> {
    let Config { building, filter, .. } = config;
    if building.first_step.is_empty() {
        return Ok(None);
    }
    let filter: Box<dyn StepFilter> = match building.filter {
        StepFilterKind::All => Box::new(AskForAll),
        StepFilterKind::Prescale => Box::new(Accepted(Prescale { factor: building.prescale })),
        StepFilterKind::Activity => Box::new(Activity { minimum: building.minimum.0, ..Activity::default() }),
        StepFilterKind::Coincidence => {
            let filter = filters::coincidence(config).of(building.first_step.iter().copied());
            Box::new(CoincidenceStep::new(filter, timed::slices(&config.source.timed)))
        }
        StepFilterKind::Library => {
            let path = building.path.as_deref().context("`building.path` is not set")?;
            let (tags, parameters) = (filter.tags.clone(), building.parameters.clone());
            let setup = Setup { run, tags, parameters };
            let library = FromLibrary::new(LibraryStep::open(path, &building.symbol, &setup)?);
            Box::new(match building.finds_windows() {
                true => library.with_windows(timed::slices(&config.source.timed)),
                false => library,
            })
        }
    };
    let place = match building.filter {
        StepFilterKind::All
        | StepFilterKind::Prescale
        | StepFilterKind::Activity
        | StepFilterKind::Coincidence => StepPlace::Own,
        StepFilterKind::Library => StepPlace::Beside,
    };
    Ok(Some((filter, place)))
}

impl Plan {
    /// Returns the sources of events, and the order in which they are requested.
    pub(crate) fn scope(&self) -> Scope {
        let Config { building, triggers, readout, .. } = &self.config;
        let some = triggers.values().filter(|class| !class.readouts.is_empty());
        Scope {
            first_step: building.first_step.iter().copied().collect(),
            answering: some
                .map(|class| (class.trigger_type, class.readouts.iter().copied().collect()))
                .collect(),
            announces_all: self.follows_data() && readout.orphan_timeout.is_some(),
        }
    }

    /// The types of emulated triggers.
    pub(crate) fn trigger_mix(&self) -> TriggerMix {
        let Config { trigger, triggers, .. } = &self.config;
        if trigger.mode.has_supervisor() {
            // It gives each trigger its type.
            return TriggerMix::default();
        }
        TriggerMix::new(trigger.seed, triggers.values().map(|class| (class.trigger_type, class.weight)))
    }

    /// Refuses a first step with sources that no readout unit reads: no event would ever pass it.
    pub(crate) fn check_steps(self) -> anyhow::Result<Self> {
        let strangers = self
            .config
            .building
            .first_step
            .iter()
            .filter(|source| !self.nodes.iter().any(|node| node.sources.contains(source)));
        let strangers: Vec<String> = strangers.map(ToString::to_string).collect();
        anyhow::ensure!(
            strangers.is_empty(),
            "`building.first_step` names sources that no readout unit reads: {}",
            strangers.join(", ")
        );
        Ok(self)
    }
}
