//! Triggers at given times.

use anyhow::{Context, bail};
use sheaf_wire::{Timestamp, TriggerType};
use std::path::Path;

/// Triggers in the order of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListedTriggers {
    triggers: Vec<(Timestamp, TriggerType)>,
    next: usize,
}

impl ListedTriggers {
    /// Reads a text file with one trigger a line: its time, and its type if it is not `kind`. Text after `#` is a comment.
    pub(super) fn load(path: &Path, kind: TriggerType) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let listed = Self::parse(&text, kind).with_context(|| format!("in {}", path.display()))?;
        if listed.triggers.is_empty() {
            bail!("{} has no trigger; write one time a line", path.display());
        }
        Ok(listed)
    }

    fn parse(text: &str, kind: TriggerType) -> anyhow::Result<Self> {
        let mut triggers = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let words = line.split('#').next().unwrap_or_default().replace(',', " ");
            let mut words = words.split_whitespace();
            let Some(time) = words.next() else { continue };
            let time = time.parse().with_context(|| {
                format!("line {number}: {time:?} is no time; write a whole number of `source.time_unit`")
            })?;
            let kind = match words.next() {
                Some(word) => TriggerType(word.parse().with_context(|| {
                    format!("line {number}: {word:?} is no type of a trigger; write a number up to 65535")
                })?),
                None => kind,
            };
            if let Some(word) = words.next() {
                bail!("line {number}: {word:?} follows time and type; write one trigger a line");
            }
            triggers.push((Timestamp(time), kind));
        }
        Ok(Self { triggers, next: 0 })
    }

    /// Returns the next trigger.
    pub(super) fn peek(&self) -> Option<(Timestamp, TriggerType)> {
        self.triggers.get(self.next).copied()
    }

    /// Goes on to the next trigger.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_time_and_perhaps_a_type() {
        let listed =
            ListedTriggers::parse("# ns\n17\n\n5 3 # late\n18446744073709551615,65535\n", TriggerType(9));
        let expected = [(17, 9), (5, 3), (u64::MAX, u16::MAX)];
        let expected = expected.map(|(time, kind)| (Timestamp(time), TriggerType(kind)));
        assert_eq!(listed.unwrap().triggers, expected);
        for (text, place) in
            [("1.5", "line 1"), ("1\n-1", "line 2"), ("1 70000", "70000"), ("1 2 3", "\"3\"")]
        {
            let error = format!("{:#}", ListedTriggers::parse(text, TriggerType(0)).unwrap_err());
            assert!(error.contains(place), "{error}");
        }
    }
}
