//! Farms of the builder units of the next run, and preprocessors of its readout units: they load while the present run goes on.

use crate::plan::Plan;
use anyhow::bail;
use sheaf_node::Clock;
use sheaf_node::farm::Farm;
use sheaf_node::preprocessing::NextPreprocessors;
use sheaf_wire::message::Readiness;
use sheaf_wire::{NodeId, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// Pause between two looks at workers that load.
const PAUSE: Duration = Duration::from_millis(5);

/// See the [module](self).
#[derive(Default)]
pub(crate) struct EarlyFarms(Mutex<State>);

#[derive(Default)]
struct State {
    /// Wakers of the threads of builder units.
    wakers: BTreeMap<NodeId, Waker>,
    farms: BTreeMap<NodeId, Farm>,
    /// Readout units of this process.
    readouts: BTreeSet<NodeId>,
    preprocessors: BTreeMap<NodeId, NextPreprocessors>,
}

impl EarlyFarms {
    /// Takes note of what wakes the thread of a builder unit, now and in the runs that follow without a gap.
    pub(crate) fn note_waker(&self, builder: NodeId, waker: &Waker) {
        self.lock().wakers.insert(builder, waker.clone());
    }

    /// Takes the farm of a builder unit that begins, if it was made before.
    pub(crate) fn take(&self, builder: NodeId) -> Option<Farm> {
        self.lock().farms.remove(&builder)
    }

    /// Takes note of a readout unit of this process, now and in the runs that follow. Returns its preprocessors, if they were made before.
    pub(crate) fn take_preprocessors(&self, readout: NodeId) -> Option<NextPreprocessors> {
        let mut state = self.lock();
        state.readouts.insert(readout);
        state.preprocessors.remove(&readout)
    }

    /// Makes the farms and preprocessors of a run, and waits until their workers have loaded their filters, or until `is_over`.
    ///
    /// # Errors
    /// If a farm or a preprocessor cannot be made, or a worker ends while it loads its filter.
    pub(crate) fn make(
        &self,
        plan: &Plan,
        directory: Option<&Path>,
        (clock, is_over): (Clock, &dyn Fn() -> bool),
    ) -> anyhow::Result<()> {
        let preprocessors = self.make_preprocessors(plan, (clock, is_over))?;
        // An address is taken by the farm of the present run.
        if plan.config.filter.listen.is_some() {
            self.lock().preprocessors = preprocessors;
            return Ok(());
        }
        let wakers = self.lock().wakers.clone();
        let mut farms = BTreeMap::new();
        for builder in plan.of_role(Role::Builder).map(|node| node.id) {
            let now = clock.now();
            let Some(waker) = wakers.get(&builder).cloned() else { continue };
            let setup = plan.farm(&plan.identity(builder, now), directory)?;
            let farm = setup.map(|setup| Farm::new(setup, builder, waker, now)).transpose()?;
            farms.extend(farm.map(|farm| (builder, farm)));
        }
        while let Some(builder) = loading(&mut farms, clock)? {
            if is_over() {
                bail!("the run has ended while the workers of {builder} were loading their filters");
            }
            std::thread::sleep(PAUSE);
        }
        let mut state = self.lock();
        (state.farms, state.preprocessors) = (farms, preprocessors);
        Ok(())
    }

    fn make_preprocessors(
        &self,
        plan: &Plan,
        (clock, is_over): (Clock, &dyn Fn() -> bool),
    ) -> anyhow::Result<BTreeMap<NodeId, NextPreprocessors>> {
        let readouts = self.lock().readouts.clone();
        let mut all = BTreeMap::new();
        for node in plan.of_role(Role::Readout).filter(|node| readouts.contains(&node.id)) {
            let me = plan.identity(node.id, clock.now());
            let made = plan.next_preprocessors(node, &me, is_over)?;
            all.extend(made.map(|made| (node.id, made)));
        }
        Ok(all)
    }

    /// Ends the farms and preprocessors of a run that does not begin.
    pub(crate) fn end(&self) {
        drop(std::mem::take(&mut self.lock().preprocessors));
        let farms = std::mem::take(&mut self.lock().farms);
        farms.into_values().for_each(|mut farm| drop(farm.finish()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a builder unit whose workers are still loading.
fn loading(farms: &mut BTreeMap<NodeId, Farm>, clock: Clock) -> anyhow::Result<Option<NodeId>> {
    let mut loading = None;
    for (builder, farm) in farms {
        farm.work(clock.now());
        match farm.readiness() {
            Readiness::Ready => {}
            Readiness::Loading => loading = Some(*builder),
            Readiness::Failed => bail!(
                "the workers of {builder} ended before they had loaded the filter; their output and exit status are in the log"
            ),
        }
    }
    Ok(loading)
}
