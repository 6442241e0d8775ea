//! Reduces a failing run to fewer nodes, faults, events and features, as long as the same rule is violated.

mod drivers;
mod roles;

use std::fmt::Debug;

/// Options that can be simplified.
pub trait Simplify: Clone + PartialEq + Debug + 'static {
    /// Returns changes that each simplify one aspect of the options, given plain ones. The largest reductions come first.
    const CHANGES: &'static [fn(&mut Self, &Self)];

    /// Returns the simplest options, for comparison with others.
    fn plain(&self) -> Self;

    /// Returns variants with fewer planned faults. Each lacks a range of them.
    fn with_fewer_faults(&self) -> Vec<Self>;

    /// Returns the number of events.
    fn events_mut(&mut self) -> &mut u64;

    /// Removes settings of nodes and sources that no longer exist.
    fn forget_absent(&mut self);

    /// Returns whether a run can have these options.
    fn is_valid(&self) -> bool;

    /// Returns valid options that are simpler in one aspect, with the largest reductions first.
    fn simpler(&self) -> Vec<Self> {
        let with_events = |events: u64| {
            let mut fewer = self.clone();
            *fewer.events_mut() = events.max(1);
            fewer
        };
        let events = *self.clone().events_mut();
        let fewer_events = [events / 2, events * 3 / 4, events.saturating_sub(1)].map(with_events);
        let plain = self.plain();
        let changed = Self::CHANGES.iter().map(|change| {
            let mut changed = self.clone();
            change(&mut changed, &plain);
            changed
        });
        let all = self.with_fewer_faults().into_iter().chain(fewer_events).chain(changed);
        let mended = all.map(|mut options| {
            options.forget_absent();
            options
        });
        mended.filter(|options| options != self && options.is_valid()).collect()
    }
}

/// Smallest failing run that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk<O> {
    /// Smallest options that were found.
    pub options: O,
    /// Number of runs that were needed.
    pub runs: u32,
}

/// Searches for the smallest options for which `rule` returns the same as for these. `rule` runs options and returns the rule that
/// they violate, if any ([`rule`](crate::Violation::rule)). At most `runs` runs are made.
pub fn shrink<O: Simplify>(options: &O, runs: u32, rule: impl Fn(&O) -> Option<String>) -> Option<Shrunk<O>> {
    let wanted = rule(options)?;
    let mut shrunk = Shrunk { options: options.clone(), runs: 1 };
    while let Some(simpler) = next(&mut shrunk, runs, &wanted, &rule) {
        shrunk.options = simpler;
    }
    Some(shrunk)
}

fn next<O: Simplify>(
    shrunk: &mut Shrunk<O>,
    runs: u32,
    wanted: &str,
    rule: impl Fn(&O) -> Option<String>,
) -> Option<O> {
    for simpler in shrunk.options.simpler() {
        if shrunk.runs >= runs {
            return None;
        }
        shrunk.runs += 1;
        if rule(&simpler).is_some_and(|broken| broken == wanted) {
            return Some(simpler);
        }
    }
    None
}

/// Returns the lines of the options' text that differ from plain options.
#[must_use]
pub fn particulars<O: Simplify>(options: &O) -> String {
    let (lines, plain) = (lines_of(options), lines_of(&options.plain()));
    // Longest common subsequence of both, from the end. The remaining lines belong only to these options.
    let mut common = vec![vec![0_u32; plain.len() + 1]; lines.len() + 1];
    for (row, line) in lines.iter().enumerate().rev() {
        for (column, other) in plain.iter().enumerate().rev() {
            common[row][column] = if line == other {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let (mut row, mut column, mut kept) = (0, 0, String::new());
    while row < lines.len() {
        if column < plain.len() && lines[row] == plain[column] {
            (row, column) = (row + 1, column + 1);
        } else if column < plain.len() && common[row][column + 1] >= common[row + 1][column] {
            column += 1;
        } else {
            kept.push_str(&lines[row]);
            kept.push('\n');
            row += 1;
        }
    }
    kept
}

/// Returns the text of options, with each number and its unit on the line of its field.
fn lines_of(options: &impl Debug) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let text = format!("{options:#?}");
    for line in text.lines() {
        let is_open = lines.last().is_some_and(|last| last.ends_with('('));
        let closes = line.trim_start().starts_with(')');
        let is_joined =
            lines.last().is_some_and(|last| last.contains('(') && !last.ends_with([')', '{', '[']));
        match lines.last_mut() {
            Some(last) if is_open => last.push_str(line.trim()),
            Some(last) if closes && is_joined => {
                last.truncate(last.trim_end_matches(',').len());
                last.push_str(line.trim());
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// Returns all lists that lack one half, one quarter and so on, or one element of a list.
pub(crate) fn shorter<T: Clone>(list: &[T]) -> Vec<Vec<T>> {
    let mut all = Vec::new();
    let mut length = list.len();
    while length > 0 {
        for from in (0..list.len()).step_by(length) {
            let to = (from + length).min(list.len());
            all.push(list[..from].iter().chain(&list[to..]).cloned().collect());
        }
        length /= 2;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_lists_lack_each_stretch_once() {
        assert_eq!(shorter(&[1, 2, 3, 4]).len(), 1 + 2 + 4);
        assert_eq!(shorter(&[1, 2, 3])[0], Vec::<i32>::new());
        assert!(shorter::<u8>(&[]).is_empty());
    }
}
