//! Sets of small numbers as the kernel writes them: `0-3,8,10-11`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// No machine has more processors or NUMA nodes; a longer list is not one.
const MOST: usize = 1 << 16;

/// A set of processors, or of NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of elements of the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether `number` is in the set.
    #[must_use]
    pub fn contains(&self, number: usize) -> bool {
        self.0.contains(&number)
    }

    /// The numbers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// Those that are in `self` and not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

impl Extend<usize> for CpuList {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, numbers: I) {
        self.0.extend(numbers);
    }
}

/// A text that is no list of numbers and ranges.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a list of processors such as 0-3,8")]
pub struct NoCpuList(String);

impl FromStr for CpuList {
    type Err = NoCpuList;

    /// Reads `0-3,8`; nothing but blanks is the empty set. A stride, `0-15:2/4`, is the first 2 of every 4.
    fn from_str(text: &str) -> Result<Self, NoCpuList> {
        let refuse = || NoCpuList(text.chars().take(60).collect());
        let mut set = BTreeSet::new();
        for entry in text.trim().split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let (range, stride) =
                entry.split_once(':').map_or((entry, None), |(it, stride)| (it, Some(stride)));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first).ok_or_else(refuse)?, number(last).ok_or_else(refuse)?);
            let (used, of) = match stride {
                None => (1, 1),
                Some(stride) => stride
                    .split_once('/')
                    .and_then(|(used, of)| Some((number(used)?, number(of)?)))
                    .filter(|(used, of)| (1..=*of).contains(used))
                    .ok_or_else(refuse)?,
            };
            if first > last {
                return Err(refuse());
            }
            set.extend((first..=last).filter(|number| (number - first) % of < used));
        }
        Ok(Self(set))
    }
}

/// A number of nothing but digits, below [`MOST`].
fn number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number < MOST)
}

impl fmt::Display for CpuList {
    /// As the kernel writes it; `none` for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for number in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        if ranges.is_empty() {
            return f.write_str("none");
        }
        for (index, (first, last)) in ranges.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match last - first {
                0 => write!(f, "{first}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
