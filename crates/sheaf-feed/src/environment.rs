//! Environment of a program that a run has started (`source.kind = "command"`).

use sheaf_wire::SourceId;
use std::path::PathBuf;
use thiserror::Error;

/// Variable with the address of the readout unit: the path of its socket, or `HOST:PORT`.
pub const ADDRESS: &str = "SHEAF_SOURCE_ADDRESS";

/// Variable with the numbers of the sources that the program feeds, with commas between them.
pub const SOURCES: &str = "SHEAF_SOURCES";

/// Variable with the name of the program.
pub const NAME: &str = "SHEAF_SOURCE_NAME";

/// Variable with the number of the run.
pub const RUN: &str = "SHEAF_RUN";

/// Reason why the environment does not say what to feed.
#[derive(Debug, Error)]
pub enum EnvironmentError {
    /// A variable is not set.
    #[error(
        "{0} is not set: no run has started this program; give the address of a readout unit and the sources"
    )]
    Missing(&'static str),
    /// The list of sources is not one of numbers.
    #[error("{SOURCES} is `{0}`; it must be numbers with commas between them, such as 0,1")]
    Sources(String),
}

/// Returns the address of the readout unit.
///
/// # Errors
/// If no run has started this program.
pub fn address() -> Result<PathBuf, EnvironmentError> {
    std::env::var_os(ADDRESS).map(PathBuf::from).ok_or(EnvironmentError::Missing(ADDRESS))
}

/// Returns the sources to feed.
///
/// # Errors
/// If no run has started this program, or the variable is invalid.
pub fn sources() -> Result<Vec<SourceId>, EnvironmentError> {
    let text = std::env::var(SOURCES).map_err(|_| EnvironmentError::Missing(SOURCES))?;
    read_sources(&text)
}

/// Returns the name of the program, if a run has started it.
#[must_use]
pub fn name() -> Option<String> {
    std::env::var(NAME).ok()
}

fn read_sources(text: &str) -> Result<Vec<SourceId>, EnvironmentError> {
    let number = |word: &str| word.trim().parse().map(SourceId);
    text.split(',')
        .map(number)
        .collect::<Result<_, _>>()
        .map_err(|_| EnvironmentError::Sources(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_numbers_with_commas() {
        assert_eq!(read_sources("7, 8").expect("two"), [SourceId(7), SourceId(8)]);
        assert_eq!(read_sources("0").expect("one"), [SourceId(0)]);
        for wrong in ["", "a", "1,,2", "-1"] {
            let error = read_sources(wrong).expect_err("not a list").to_string();
            assert!(error.contains("numbers with commas"), "{error}");
        }
    }
}
