//! Where programs of the user feed the sources of a run.

use crate::nodes::NodeConfig;
use crate::{Config, ConfigErrors, SourceKind};
use sheaf_wire::{NodeId, Role, SourceId};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Extension of the socket at which programs of this host feed a readout unit.
const FEED_EXTENSION: &str = "feed";

/// Reason why no readout unit takes the fragments of a program.
#[derive(Debug, Error)]
pub enum FeedAddressError {
    /// The configuration cannot be used.
    #[error(transparent)]
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
        let unit = NodeId::readout(self.feed_index(readout));
        directory.join(format!("{unit}.{FEED_EXTENSION}"))
    }

    /// Returns where a program feeds all of these sources.
    ///
    /// # Errors
    /// If they are not fed by programs, or not read by the same readout unit.
    pub fn feed_place_of(&self, sources: &[SourceId]) -> Result<FeedPlace, FeedAddressError> {
        if !self.source.kind.is_fed() {
            return Err(FeedAddressError::OtherKind(self.source.kind));
        }
        let nodes = self.nodes()?;
        let readouts = || nodes.iter().filter(|node| node.id.role == Role::Readout);
        let reads = |source: &SourceId| {
            let readout = readouts().find(|node| node.sources.contains(source));
            readout.ok_or(FeedAddressError::UnknownSource(*source))
        };
        let (of_first, others) = sources.split_first().ok_or(FeedAddressError::NoSource)?;
        let first = reads(of_first)?;
        for of_other in others {
            let other = reads(of_other)?;
            if other.id != first.id {
                let (first, of_first, other, of_other) = (first.id, *of_first, other.id, *of_other);
                return Err(FeedAddressError::SeveralReadouts { first, of_first, other, of_other });
            }
        }
        Ok(FeedPlace {
            address: self.feed_socket(first.id),
            network: self
                .source
                .feed
                .listen
                .as_deref()
                .and_then(|listen| self.network_address(listen, first)),
            tls: self.transport.tls.files().map(|files| files.map(PathBuf::clone)),
            key_file: self.transport.key_file.clone(),
        })
    }

    /// Returns the address at which programs of other hosts reach a readout unit: the port of `source.feed.listen` for this readout unit, at
    /// the host that it names, or else at that of the node's own address.
    fn network_address(&self, listen: &str, readout: &NodeConfig) -> Option<String> {
        let (host, port) = listen.rsplit_once(':')?;
        let port = port.parse::<u16>().ok()?.checked_add(self.feed_index(readout.id))?;
        let listens_everywhere =
            host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
        let host = if listens_everywhere { readout.address.as_deref()?.rsplit_once(':')?.0 } else { host };
        Some(format!("{host}:{port}"))
    }
}

/// Where a program feeds its sources, and what it needs for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedPlace {
    /// Socket of the readout unit on its host, or the address that was given: a path, or `HOST:PORT`.
    pub address: PathBuf,
    /// `HOST:PORT` of the same readout unit, for programs of other hosts.
    pub network: Option<String>,
    /// Certificate, its private key, and the authorities, if the run uses TLS.
    pub tls: Option<[PathBuf; 3]>,
    /// File with the key of the run, if it has one.
    pub key_file: Option<PathBuf>,
}

/// Returns where a program feeds these sources: at `target` itself, or at the readout unit of the run whose configuration file it is.
///
/// # Errors
/// As [`Config::feed_place_of`], or if the file cannot be read.
pub fn feed_place_at(target: &Path, sources: &[SourceId]) -> Result<FeedPlace, FeedAddressError> {
    // A socket that does not exist yet has its extension; a file of any other name is a configuration, which must exist.
    let has = |extension| target.extension().is_some_and(|found| found == extension);
    if has(FEED_EXTENSION) || !(target.is_file() || has("toml")) {
        return Ok(FeedPlace { address: target.to_owned(), ..FeedPlace::default() });
    }
    Config::load(target)?.feed_place_of(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEED: &str = "[source]\nkind = \"feed\"\ncount = 4\n[readout]\ncount = 2\n";

    fn place_of(text: &str, sources: &[u32]) -> Result<FeedPlace, String> {
        let sources: Vec<SourceId> = sources.iter().copied().map(SourceId).collect();
        let config = Config::parse(text, "run.toml").expect("a valid configuration");
        config.feed_place_of(&sources).map_err(|error| error.to_string())
    }

    fn socket_of(text: &str, sources: &[u32]) -> Result<PathBuf, String> {
        place_of(text, sources).map(|place| place.address)
    }

    fn network_of(text: &str, sources: &[u32]) -> Option<String> {
        place_of(text, sources).expect("a readout unit reads them").network
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
    fn programs_of_other_hosts_find_the_port_and_the_secrets_of_their_readout_unit() {
        assert_eq!(
            place_of(FEED, &[3]),
            Ok(FeedPlace { address: "runs/ru1.feed".into(), ..FeedPlace::default() })
        );
        let listen = |address: &str| format!("{FEED}[source.feed]\nlisten = \"{address}\"\n");
        assert_eq!(network_of(&listen("daq0:7100"), &[0]).as_deref(), Some("daq0:7100"));
        assert_eq!(network_of(&listen("[::1]:7100"), &[3]).as_deref(), Some("[::1]:7101"));
        // The address of every interface is no address to call.
        assert_eq!(network_of(&listen("0.0.0.0:7100"), &[3]), None);
        assert_eq!(network_of(&listen("[::]:65535"), &[3]), None);
        let node = |name, role, port| {
            format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"{name}.lab:{port}\"\n")
        };
        let secured = "[transport]\nkind = \"tcp\"\nkey_file = \"run.key\"\n[transport.tls]\n\
                       certificate = \"a\"\nkey = \"b\"\nauthority = \"c\"\n";
        let nodes = [("evm", "manager", 7000), ("left", "readout", 7001), ("right", "readout", 7002)];
        let nodes: String = nodes.map(|(name, role, port)| node(name, role, port)).concat();
        let nodes = format!("{nodes}{}", node("bu", "builder", 7003));
        let place =
            place_of(&format!("{}{secured}{nodes}", listen("0.0.0.0:7100")), &[3]).expect("it is valid");
        assert_eq!(place.network.as_deref(), Some("right.lab:7101"));
        assert_eq!(place.tls, Some(["a", "b", "c"].map(PathBuf::from)));
        assert_eq!(place.key_file, Some("run.key".into()));
    }

    #[test]
    fn a_target_is_a_socket_or_a_configuration_file() {
        let directory = std::env::temp_dir().join(format!("sheaf-feeding-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("run.toml");
        std::fs::write(&file, FEED).expect("a file");
        assert_eq!(
            feed_place_at(&file, &[SourceId(2)]).expect("it reads it").address,
            Path::new("runs/ru1.feed")
        );
        let absent = directory.join("ru7.feed");
        assert_eq!(feed_place_at(&absent, &[SourceId(2)]).expect("a socket").address, absent);
        let mistyped = feed_place_at(&directory.join("urn.toml"), &[SourceId(2)]).expect_err("no such file");
        assert!(mistyped.to_string().contains("urn.toml"), "{mistyped}");
        std::fs::remove_dir_all(&directory).expect("it is there");
    }
}
