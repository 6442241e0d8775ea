//! Which inputs send to which outputs in one slot.

use crate::dice::Dice;
use crate::engine::arbitration::{Contender, Turn};
use crate::scenario::Arbiter;
use crate::traffic::Message;
use std::collections::VecDeque;

/// A message in the switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) message: Message,
    /// The slot in which it came.
    pub(super) since: u64,
}

/// Inputs contend with their first message; those that lose contend with their second for outputs that still take
/// something, and so on (Hluchyj and Karol, IEEE J. Sel. Areas Commun. 6(9), 1988). One round is first in, first out.
pub(super) struct Rounds {
    window: usize,
    turns: Vec<Turn>,
    /// For each output, the inputs that contend in this round.
    contenders: Vec<Vec<Contender>>,
    /// For each output, how many messages it has taken in this slot.
    taken: Vec<u32>,
    /// Inputs that go into the next round, and whether each has won in this slot.
    losers: Vec<usize>,
    has_won: Vec<bool>,
}

impl Rounds {
    pub(super) fn new(ports: usize, window: usize) -> Self {
        Self {
            window,
            turns: vec![Turn::default(); ports],
            contenders: vec![Vec::with_capacity(ports); ports],
            taken: vec![0; ports],
            losers: Vec::with_capacity(ports),
            has_won: vec![false; ports],
        }
    }

    /// Calls back for each input that wins, with its queue and the winning message. An output takes `speed_up`
    /// messages.
    pub(super) fn slot(
        &mut self,
        queues: &mut [VecDeque<Held>],
        speed_up: u32,
        arbiter: Arbiter,
        dice: &mut Dice,
        mut won: impl FnMut(&mut VecDeque<Held>, usize),
    ) {
        self.taken.fill(0);
        self.has_won.fill(false);
        self.losers.clear();
        self.losers.extend(0..queues.len());
        for depth in 0..self.window {
            // An input with fewer messages has nothing to examine in later rounds either.
            self.losers.retain(|&input| !self.has_won[input] && queues[input].len() > depth);
            for &input in &self.losers {
                let held = &queues[input][depth];
                let output = held.message.destination.index();
                if self.taken[output] < speed_up {
                    let input = u32::try_from(input).expect("a network bounds its endpoints");
                    self.contenders[output].push(Contender { input, since: held.since });
                }
            }
            for (output, contenders) in self.contenders.iter_mut().enumerate() {
                while self.taken[output] < speed_up && !contenders.is_empty() {
                    let index = self.turns[output].choose(arbiter, contenders, dice);
                    let input = contenders.remove(index).input as usize;
                    self.taken[output] += 1;
                    won(&mut queues[input], depth);
                    self.has_won[input] = true;
                }
                contenders.clear();
            }
        }
    }
}

/// A set of ports.
#[derive(Clone, Debug)]
struct Ports(Vec<u64>);

impl Ports {
    fn none(ports: usize) -> Self {
        Self(vec![0; ports.div_ceil(64)])
    }

    fn insert(&mut self, port: usize) {
        self.0[port / 64] |= 1 << (port % 64);
    }

    fn remove(&mut self, port: usize) {
        self.0[port / 64] &= !(1 << (port % 64));
    }

    /// The first port at `from` or behind it, else the first of all, that is also in `allowed`.
    fn first_from(&self, from: usize, allowed: &Self) -> Option<usize> {
        let both = |word: usize| self.0[word] & allowed.0[word];
        let found = |word: usize, bits: u64| (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize);
        let (start, bit) = (from / 64, from % 64);
        found(start, both(start) & (u64::MAX << bit))
            .or_else(|| (start + 1..self.0.len()).find_map(|word| found(word, both(word))))
            .or_else(|| (0..start).find_map(|word| found(word, both(word))))
            .or_else(|| found(start, both(start) & !(u64::MAX << bit)))
    }
}

/// iSLIP (McKeown, IEEE/ACM Trans. Netw. 7(2), 1999): outputs grant in turn, inputs accept in turn, and the turns move
/// only where a grant of the first iteration was accepted, so that they fall out of step with one another.
pub(super) struct Islip {
    ports: usize,
    iterations: u32,
    /// For each output, the inputs that have something for it.
    requests: Vec<Ports>,
    grant_from: Vec<usize>,
    accept_from: Vec<usize>,
    free_inputs: Ports,
    free_outputs: Vec<bool>,
    /// For each input, the outputs that grant it something in this iteration.
    grants: Vec<Ports>,
    all: Ports,
}

impl Islip {
    pub(super) fn new(ports: usize, iterations: u32) -> Self {
        let mut all = Ports::none(ports);
        (0..ports).for_each(|port| all.insert(port));
        Self {
            ports,
            iterations,
            requests: vec![Ports::none(ports); ports],
            grant_from: vec![0; ports],
            accept_from: vec![0; ports],
            free_inputs: all.clone(),
            free_outputs: vec![true; ports],
            grants: vec![Ports::none(ports); ports],
            all,
        }
    }

    /// `input` has something for `output`.
    pub(super) fn wants(&mut self, input: usize, output: usize) {
        self.requests[output].insert(input);
    }

    /// `input` has nothing for `output` any more.
    pub(super) fn wants_no_more(&mut self, input: usize, output: usize) {
        self.requests[output].remove(input);
    }

    /// Puts the pairs of input and output of one matching into `pairs`, in no order that means anything.
    pub(super) fn matching(&mut self, pairs: &mut Vec<(usize, usize)>) {
        self.free_inputs.clone_from(&self.all);
        self.free_outputs.fill(true);
        pairs.clear();
        for iteration in 0..self.iterations {
            if !self.iterate(iteration == 0, pairs) {
                break;
            }
        }
    }

    /// One round of grants and acceptances. Returns whether anything was matched.
    fn iterate(&mut self, first: bool, pairs: &mut Vec<(usize, usize)>) -> bool {
        let mut granted = false;
        for output in 0..self.ports {
            if self.free_outputs[output]
                && let Some(input) =
                    self.requests[output].first_from(self.grant_from[output], &self.free_inputs)
            {
                self.grants[input].insert(output);
                granted = true;
            }
        }
        if !granted {
            return false;
        }
        for input in 0..self.ports {
            let Some(output) = self.grants[input].first_from(self.accept_from[input], &self.all) else {
                continue;
            };
            self.grants[input].0.fill(0);
            self.free_inputs.remove(input);
            self.free_outputs[output] = false;
            pairs.push((input, output));
            if first {
                self.grant_from[output] = (input + 1) % self.ports;
                self.accept_from[input] = (output + 1) % self.ports;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
