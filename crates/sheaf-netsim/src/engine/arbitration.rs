//! Which of several contenders goes first, where all of them are known at once: in every step of a clock-driven engine.

use crate::dice::Dice;
use crate::scenario::Arbiter;

/// A message that waits for an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    /// Its number among the inputs of the switch; round robin and priority go by it.
    pub(crate) input: u32,
    /// Since which step it has been waiting.
    pub(crate) since: u64,
}

/// The memory of one output's arbiter: the input behind the one that won last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn(u32);

impl Turn {
    /// The index of the contender that wins. Of equals the lower number wins, but at random arbiters.
    ///
    /// # Panics
    /// If there is no contender.
    pub(crate) fn choose(&mut self, arbiter: Arbiter, contenders: &[Contender], dice: &mut Dice) -> usize {
        let last = self.0;
        let by = |key: &dyn Fn(&Contender) -> u64| {
            (0..contenders.len()).min_by_key(|&index| key(&contenders[index])).expect("somebody contends")
        };
        let won = match arbiter {
            _ if contenders.len() == 1 => 0,
            Arbiter::Random => {
                dice.below(u32::try_from(contenders.len()).expect("fewer than inputs")) as usize
            }
            Arbiter::RoundRobin => by(&|one| u64::from(one.input.wrapping_sub(last))),
            Arbiter::FirstCome => by(&|one| one.since << 16 | u64::from(one.input & 0xFFFF)),
            Arbiter::Priority => by(&|one| u64::from(one.input)),
        };
        self.0 = contenders[won].input + 1;
        won
    }
}

#[cfg(test)]
mod tests;
