//! Launches that cannot be planned.

use sheaf_config::ConfigErrors;

/// A launch that cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A text that a script or a unit cannot hold.
    #[error("{what} `{text}` cannot be written: {why}; choose another name")]
    OddText {
        /// Kind of the text.
        what: &'static str,
        /// The text, without its control characters.
        text: String,
        /// The reason.
        why: String,
    },
    /// The configuration does not fit the hosts.
    #[error("{0}")]
    Hosts(String),
    /// The configuration does not work on several hosts.
    #[error("the configuration does not work on several hosts: {0}")]
    Config(#[from] ConfigErrors),
}

impl LaunchError {
    pub(crate) fn odd(what: &'static str, text: &str, why: &str) -> Self {
        let text = text.chars().filter(|letter| !letter.is_control()).collect();
        Self::OddText { what, text, why: why.to_owned() }
    }
}
