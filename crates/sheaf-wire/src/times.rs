//! Rate of log lines about events that may repeat without end.
//!
//! A refused peer tries again at once. The log has a line for the first time, the tenth, the hundredth and so on, so
//! that a million attempts make seven lines.

use std::fmt;

/// Number of times so far, for the end of a log line. The first time, the text is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times(u64);

impl Times {
    /// Returns the count if it belongs in the log: the powers of ten do.
    #[must_use]
    pub fn to_log(count: u64) -> Option<Self> {
        let power = count.checked_ilog10().map(|decade| 10_u64.pow(decade));
        (power == Some(count)).then_some(Self(count))
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 | 1 => Ok(()),
            count => write!(f, " ({count} times so far)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_often() {
        assert_eq!(format!("refused{}", Times(1)), "refused");
        assert_eq!(format!("refused{}", Times(100)), "refused (100 times so far)");
    }

    #[test]
    fn only_powers_of_ten_make_lines() {
        let counts: Vec<u64> = (0..=10_000).filter(|count| Times::to_log(*count).is_some()).collect();
        assert_eq!(counts, [1, 10, 100, 1_000, 10_000]);
    }
}
