//! Log lines that anyone who can reach a port can cause at any rate.
//!
//! Each peer and reason has its own count, and [`Times`] decides which counts are logged. The counters of a node include all.

use sheaf_wire::times::Times;

/// Kinds that are counted apart. All others share one count, because a stranger can invent peers and reasons.
const KINDS: usize = 64;

/// Number of times that something has happened, by its kind.
#[derive(Debug)]
pub(crate) struct Repeats<K> {
    kinds: Vec<(K, u64)>,
    others: u64,
}

impl<K> Default for Repeats<K> {
    fn default() -> Self {
        Self { kinds: Vec::new(), others: 0 }
    }
}

impl<K: PartialEq> Repeats<K> {
    /// Counts one of this kind. Returns the count if it belongs in the log.
    pub(crate) fn note(&mut self, kind: K) -> Option<Times> {
        let known = self.kinds.iter().position(|(known, _)| *known == kind);
        let place = known.unwrap_or(self.kinds.len());
        if place == self.kinds.len() && place < KINDS {
            self.kinds.push((kind, 0));
        }
        let count = self.kinds.get_mut(place).map_or(&mut self.others, |(_, count)| count);
        *count += 1;
        Times::to_log(*count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_attempts_of_one_kind_make_seven_lines_whoever_else_tries_meanwhile() {
        let mut repeats = Repeats::default();
        let mut lines = [0, 0];
        for _ in 0..1_000_000 {
            for (kind, lines) in lines.iter_mut().enumerate() {
                *lines += usize::from(repeats.note(kind).is_some());
            }
        }
        assert_eq!(lines, [7, 7]);
    }

    #[test]
    fn kinds_that_a_stranger_invents_fill_neither_the_log_nor_the_memory() {
        let mut repeats = Repeats::default();
        let lines = (0..1_000_000).filter(|kind| repeats.note(*kind).is_some()).count();
        assert!(lines <= KINDS + 6, "{lines}");
        assert_eq!(repeats.kinds.len(), KINDS);
        assert_eq!(repeats.others, 1_000_000 - KINDS as u64);
    }
}
