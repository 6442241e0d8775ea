//! Which bytes of a message have arrived.

/// A set of bytes, mostly from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    /// All below this.
    low: u32,
    /// Ranges above, ascending, neither touching each other nor `low`.
    beyond: Vec<(u32, u32)>,
}

impl Coverage {
    /// Adds `start..end`; how many of these bytes are new.
    pub(super) fn add(&mut self, start: u32, end: u32) -> u32 {
        if start <= self.low && self.beyond.is_empty() {
            let new = end.saturating_sub(self.low);
            self.low = self.low.max(end);
            return new;
        }
        let before = self.bytes();
        let (mut start, mut end) = (start, end.max(start));
        // Ranges that touch the new one become part of it.
        let first = self.beyond.partition_point(|range| range.1 < start);
        let after = self.beyond.partition_point(|range| range.0 <= end);
        if first < after {
            start = start.min(self.beyond[first].0);
            end = end.max(self.beyond[after - 1].1);
        }
        self.beyond.splice(first..after, [(start, end)]);
        while let Some((_, end)) = self.beyond.first().copied().filter(|range| range.0 <= self.low) {
            self.low = self.low.max(end);
            self.beyond.remove(0);
        }
        self.bytes() - before
    }

    /// Returns the number of bytes.
    fn bytes(&self) -> u32 {
        self.low + self.beyond.iter().map(|(start, end)| end - start).sum::<u32>()
    }

    /// Returns whether it has the first `total` bytes.
    pub(super) fn is_whole(&self, total: u32) -> bool {
        self.low >= total
    }
}
