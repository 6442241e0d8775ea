//! Searches that visit all events of a builder unit. They are for what is rare.

use super::{Assemblies, Assembly, AssemblyKey, Stage};
use sheaf_wire::{EventId, Payload};

impl<P: Payload> Assemblies<P> {
    /// Returns the events under construction. Visits all events.
    pub(in crate::builder) fn under_construction(&self) -> impl Iterator<Item = EventId> {
        let here = self.assemblies.iter().filter(|assembly| assembly.stage == Stage::Building);
        here.map(|assembly| assembly.event)
    }

    /// Returns the events under construction that wait for readout units, in ascending order. Visits all events.
    pub(in crate::builder) fn waiting(&self) -> Vec<AssemblyKey> {
        let here = self.assemblies.iter().filter(|assembly| {
            assembly.stage == Stage::Building && !assembly.at_driver && assembly.awaited > 0
        });
        let mut waiting: Vec<_> = here.filter_map(|assembly| self.find(assembly.event)).collect();
        waiting.sort_unstable_by_key(|key| key.event);
        waiting
    }

    /// Returns the youngest event under construction that is `wanted` and not at the driver. Visits all events.
    pub(in crate::builder) fn youngest(&self, wanted: impl Fn(&Assembly<P>) -> bool) -> Option<AssemblyKey> {
        let here = self
            .assemblies
            .iter()
            .filter(|assembly| assembly.stage == Stage::Building && !assembly.at_driver);
        let youngest = here.filter(|assembly| wanted(assembly)).max_by_key(|assembly| assembly.event)?;
        self.find(youngest.event)
    }
}
