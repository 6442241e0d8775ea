//! Number of groups in which a region of buffers lies.

use super::{Detector, Region};

/// A detector's buffers, dealt to its parts and groups as evenly as possible.
pub(super) struct Parts {
    buffers: u32,
    parts: u32,
    /// Maximum number of buffers in a group.
    group: u32,
}

impl Parts {
    pub(super) fn of(detector: &Detector) -> Self {
        Self { buffers: detector.buffers, parts: detector.parts, group: detector.group }
    }

    /// Number of groups.
    pub(super) fn groups(&self) -> u32 {
        self.parts().map(|(parts, size)| parts * self.groups_in(size)).sum()
    }

    /// In how many groups the buffers of a region are, a mean over all places where it may lie.
    pub(super) fn touched(&self, region: Region) -> f64 {
        match region {
            Region::All => f64::from(self.groups()),
            Region::Neighbours(buffers) => self.neighbours(buffers),
            Region::Scattered(buffers) => self.scattered(buffers),
        }
    }

    /// A part is a ring: each of its borders between groups is inside of the region with the probability
    /// (buffers - 1) / size, and each border adds a group. A part is hit as often as it has buffers.
    fn neighbours(&self, buffers: f64) -> f64 {
        let weighted = self.parts().map(|(parts, size)| {
            let groups = f64::from(self.groups_in(size));
            let inside = (1.0 + groups * (buffers - 1.0) / f64::from(size)).min(groups);
            f64::from(parts * size) * inside
        });
        weighted.sum::<f64>() / f64::from(self.buffers)
    }

    /// A group is not touched with the probability that a draw without replacement misses all of its buffers. A mean
    /// that is not an integer counts as a mixture of its two neighbours.
    fn scattered(&self, buffers: f64) -> f64 {
        let (below, share) = (buffers.floor(), buffers.fract());
        let mean = |drawn: f64| {
            let hit = self.group_sizes().map(|(groups, size)| f64::from(groups) * self.hit(size, drawn));
            hit.sum::<f64>()
        };
        mean(below) * (1.0 - share) + if share > 0.0 { mean(below + 1.0) * share } else { 0.0 }
    }

    /// The probability that of `drawn` buffers at least one is in a group of `size`: each draw that misses leaves one
    /// buffer fewer outside of it.
    fn hit(&self, size: u32, drawn: f64) -> f64 {
        let (all, mut missed, mut done) = (f64::from(self.buffers), 1.0, 0.0);
        while done < drawn && missed > 0.0 {
            missed *= ((all - f64::from(size) - done) / (all - done)).max(0.0);
            done += 1.0;
        }
        1.0 - missed
    }

    /// Returns the sizes of parts, each with its number of parts.
    fn parts(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        deal(self.buffers, self.parts)
    }

    fn groups_in(&self, size: u32) -> u32 {
        size.div_ceil(self.group)
    }

    /// Returns the sizes of groups, each with its number of groups.
    fn group_sizes(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let of_part = |(parts, size)| {
            deal(size, self.groups_in(size)).map(move |(groups, size)| (parts * groups, size))
        };
        self.parts().flat_map(of_part)
    }
}

/// Deals `items` to `shares` as evenly as possible: how many shares have how many items each.
fn deal(items: u32, shares: u32) -> impl Iterator<Item = (u32, u32)> {
    let (least, larger) = (items / shares, items % shares);
    [(larger, least + 1), (shares - larger, least)].into_iter().filter(|(count, _)| *count > 0)
}
