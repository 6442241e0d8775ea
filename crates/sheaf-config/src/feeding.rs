//! Where programs of the user feed the sources of a run.

use crate::{Config, ConfigErrors, SourceKind};
use sheaf_wire::{NodeId, Role, SourceId};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Extension of the socket at which programs of this host feed a readout unit.
const FEED_EXTENSION: &str = "feed";

/// Reason why no readout unit takes the fragments of a program.
#[derive(Debug, Error)]
pub enum FeedAddressError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// The sources of the run are of another kind.
    #[error(
        "the sources of this configuration are of the kind `{0}`; programs feed sources of the kind `feed`"
    )]
    OtherKind(SourceKind),
    /// No readout unit reads the source.
    #[error("no readout unit of this configuration reads source {0}")]
    UnknownSource(SourceId),
    /// The sources are read by different readout units.
    #[error(
        "{first} reads source {of_first} and {other} reads source {of_other}; connect once for each readout unit"
    )]
    SeveralReadouts {
        /// Readout unit of the first source.
        first: NodeId,
        /// The first source.
        of_first: SourceId,
        /// Another readout unit.
        other: NodeId,
        /// A source of it.
        of_other: SourceId,
    },
    /// There is no source to look for.
    #[error("a program feeds at least one source")]
    NoSource,
}

impl Config {
    /// Returns the path of the socket at which programs feed a readout unit.
    #[must_use]
    pub fn feed_socket(&self, readout: NodeId) -> PathBuf {
        let directory = self.source.feed.directory.as_ref().unwrap_or(&self.run.output);
        directory.join(format!("{readout}.{FEED_EXTENSION}"))
    }

    /// Returns the path of the socket at which a program feeds all of these sources.
    ///
    /// # Errors
    /// If they are not fed by programs, or not read by the same readout unit.
    pub fn feed_socket_of(&self, sources: &[SourceId]) -> Result<PathBuf, FeedAddressError> {
        if !self.source.kind.is_fed() {
            return Err(FeedAddressError::OtherKind(self.source.kind));
        }
        let nodes = self.nodes()?;
        let readouts = || nodes.iter().filter(|node| node.id.role == Role::Readout);
        let reads = |source: &SourceId| {
            let readout = readouts().find(|node| node.sources.contains(source));
            readout.map(|node| node.id).ok_or(FeedAddressError::UnknownSource(*source))
        };
        let (of_first, others) = sources.split_first().ok_or(FeedAddressError::NoSource)?;
        let first = reads(of_first)?;
        for of_other in others {
            let other = reads(of_other)?;
            if other != first {
                let (of_first, of_other) = (*of_first, *of_other);
                return Err(FeedAddressError::SeveralReadouts { first, of_first, other, of_other });
            }
        }
        Ok(self.feed_socket(first))
    }
}

/// Returns the path of the socket at which a program feeds these sources: `target` itself, or the one of the run whose
/// configuration file it is.
///
/// # Errors
/// As [`Config::feed_socket_of`], or if the file cannot be read.
pub fn feed_socket_at(target: &Path, sources: &[SourceId]) -> Result<PathBuf, FeedAddressError> {
    // A socket that does not exist yet has this extension; a file of any other name is a configuration.
    if target.extension().is_some_and(|extension| extension == FEED_EXTENSION) || !target.is_file() {
        return Ok(target.to_owned());
    }
    Config::load(target)?.feed_socket_of(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEED: &str = "[source]\nkind = \"feed\"\ncount = 4\n[readout]\ncount = 2\n";

    fn socket_of(text: &str, sources: &[u32]) -> Result<PathBuf, String> {
        let sources: Vec<SourceId> = sources.iter().copied().map(SourceId).collect();
        let config = Config::parse(text, "run.toml").expect("a valid configuration");
        config.feed_socket_of(&sources).map_err(|error| error.to_string())
    }

    #[test]
    fn a_program_feeds_its_sources_at_the_readout_unit_that_reads_them() {
        assert_eq!(socket_of(FEED, &[0, 1]), Ok("runs/ru0.feed".into()));
        assert_eq!(socket_of(FEED, &[3]), Ok("runs/ru1.feed".into()));
        let elsewhere = format!("{FEED}[source.feed]\ndirectory = \"sockets\"\n");
        assert_eq!(socket_of(&elsewhere, &[3]), Ok("sockets/ru1.feed".into()));
    }

    #[test]
    fn sources_that_no_readout_unit_takes_are_named() {
        let error = socket_of(FEED, &[1, 2]).expect_err("two readout units");
        assert_eq!(error, "ru0 reads source 1 and ru1 reads source 2; connect once for each readout unit");
        let error = socket_of(FEED, &[4]).expect_err("four sources");
        assert_eq!(error, "no readout unit of this configuration reads source 4");
        let error = socket_of("", &[0]).expect_err("emulated");
        assert!(error.contains("of the kind `emulated`"), "{error}");
        assert!(socket_of(FEED, &[]).is_err());
    }

    #[test]
    fn a_target_is_a_socket_or_a_configuration_file() {
        let directory = std::env::temp_dir().join(format!("sheaf-feeding-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("run.toml");
        std::fs::write(&file, FEED).expect("a file");
        assert_eq!(feed_socket_at(&file, &[SourceId(2)]).expect("it reads it"), Path::new("runs/ru1.feed"));
        let absent = directory.join("ru7.feed");
        assert_eq!(feed_socket_at(&absent, &[SourceId(2)]).expect("a socket"), absent);
        std::fs::remove_dir_all(&directory).expect("it is there");
    }
}
