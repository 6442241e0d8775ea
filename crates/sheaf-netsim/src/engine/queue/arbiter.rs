//! Choice among several inputs that wait for an output.

use super::frames::NONE;
use crate::dice::{Dice, Purpose};
use crate::scenario::Arbiter;

/// The inputs that wait for each output, and the rule that chooses among them.
#[derive(Clone, Debug)]
pub(super) struct Waiters {
    rule: Arbiter,
    dice: Dice,
    /// For each link, the links whose far ends wait for it, in the order in which they came.
    lines: Vec<Vec<u32>>,
    /// For each link, its last user.
    last: Vec<u32>,
}

impl Waiters {
    pub(super) fn new(rule: Arbiter, links: usize, seed: u64) -> Self {
        Self {
            rule,
            dice: Dice::new(seed, Purpose::Arbiter, 0),
            lines: vec![Vec::new(); links],
            last: vec![NONE; links],
        }
    }

    /// `input` waits for `output`.
    #[inline]
    pub(super) fn join(&mut self, output: u32, input: u32) {
        self.lines[output as usize].push(input);
    }

    /// Returns whether no input waits for `output`.
    #[inline]
    pub(super) fn is_empty(&self, output: u32) -> bool {
        self.lines[output as usize].is_empty()
    }

    /// The input whose turn it is, and its place in the line: see [`Waiters::take`].
    #[inline]
    pub(super) fn choose(&mut self, output: u32) -> Option<(usize, u32)> {
        let line = &self.lines[output as usize];
        let place = match (line.len(), self.rule) {
            (0, _) => return None,
            (1, _) | (_, Arbiter::FirstCome) => 0,
            (len, Arbiter::Random) => self.dice.below(super::frames::index(len)) as usize,
            (_, Arbiter::RoundRobin) => {
                // The next number above the last one, or the lowest: both are small distances on the circle of numbers.
                let after = self.last[output as usize].wrapping_add(1);
                lowest(line, |input| input.wrapping_sub(after))
            }
            (_, Arbiter::Priority) => lowest(line, |input| input),
        };
        Some((place, line[place]))
    }

    /// The input at `place` gets `output` and waits no longer.
    #[inline]
    pub(super) fn take(&mut self, output: u32, place: usize) {
        let line = &mut self.lines[output as usize];
        // The order matters only for rules that serve in it.
        let input =
            if self.rule == Arbiter::FirstCome { line.remove(place) } else { line.swap_remove(place) };
        self.last[output as usize] = input;
    }
}

/// The place of the input whose `key` is the lowest.
fn lowest(line: &[u32], key: impl Fn(u32) -> u32) -> usize {
    let places = line.iter().enumerate();
    places.min_by_key(|&(_, &input)| key(input)).map_or(0, |(place, _)| place)
}

#[cfg(test)]
mod tests;
