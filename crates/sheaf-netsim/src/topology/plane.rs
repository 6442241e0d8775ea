//! The wiring of one rail during construction: switches and outputs are numbered within it, and endpoints are
//! identified by their place in the wiring.

use super::{CompileError, MOST};
use crate::network::{Forwarding, Switch};
use crate::units::Rate;

/// Far end of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// To the endpoint at this place.
    Position(u32),
    /// To this switch of the plane.
    Switch(u32),
}

/// An output of a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) to: End,
    pub(super) rate: Rate,
    pub(super) stage: u16,
}

/// A plane.
#[derive(Clone, Debug, Default)]
pub(super) struct Plane {
    /// For each place, the switch that the endpoint there sends to, and how fast. `None`: it only receives.
    pub(super) entry: Vec<Option<(u32, Rate)>>,
    pub(super) switches: Vec<Switch>,
    pub(super) outputs: Vec<Output>,
    /// The links of the longest way, where it may be longer than there are stages.
    pub(super) longest: u16,
}

impl Plane {
    /// Adds a switch with its outputs.
    pub(super) fn switch(
        &mut self,
        layer: u16,
        forwarding: Forwarding,
        spread: u32,
        outputs: impl Iterator<Item = Output>,
    ) -> Result<(), CompileError> {
        let number = |value: usize| {
            u32::try_from(value).ok().filter(|&value| value <= MOST).ok_or(CompileError::TooLarge)
        };
        let first = number(self.outputs.len())?;
        // One more than the limit is taken, so that a wiring that is too large is found out and not made.
        self.outputs.extend(outputs.take((MOST - first) as usize + 1));
        let last = number(self.outputs.len())?;
        self.switches.push(Switch { layer, outputs: first..last, forwarding, spread });
        Ok(())
    }
}

impl Switch {
    /// The same switch where all links have numbers greater by `links`.
    pub(super) fn moved_by(&self, links: u32) -> Self {
        let forwarding = match &self.forwarding {
            Forwarding::Table { set, sets } => {
                let moved = |ways: &Vec<u32>| ways.iter().map(|way| way + links).collect();
                Forwarding::Table { set: set.clone(), sets: sets.iter().map(moved).collect() }
            }
            rule => rule.clone(),
        };
        Self { outputs: self.outputs.start + links..self.outputs.end + links, forwarding, ..*self }
    }
}
