//! Addresses of doors: a Unix socket, mostly in a run's directory, or a TCP address.

use sheaf_wire::NodeId;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The extension of a door's name in a run's directory: `bu0.tap`.
pub const EXTENSION: &str = "tap";

/// Address of a door.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and a port: `host:port`.
    Tcp(String),
}

impl Address {
    /// Parses an address: text with a colon and no slash is `host:port`, everything else a path.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let is_tcp = text.contains(':') && !text.contains('/') && !Path::new(text).exists();
        if is_tcp { Self::Tcp(text.to_owned()) } else { Self::Unix(PathBuf::from(text)) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

/// The door of a builder in a run's directory.
#[must_use]
pub fn in_directory(directory: &Path, node: NodeId) -> PathBuf {
    directory.join(format!("{node}.{EXTENSION}"))
}

/// The doors in a run's directory, by name.
///
/// # Errors
/// Returns the operating system's error for the directory.
pub fn doors_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut doors = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            doors.push(path);
        }
    }
    doors.sort();
    Ok(doors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_port_is_a_tcp_address_and_everything_else_a_path() {
        assert_eq!(Address::parse("daq3:7700"), Address::Tcp("daq3:7700".to_owned()));
        assert_eq!(Address::parse("[::1]:7700"), Address::Tcp("[::1]:7700".to_owned()));
        assert_eq!(Address::parse("runs/run000001"), Address::Unix(PathBuf::from("runs/run000001")));
        assert_eq!(Address::parse("./a:b"), Address::Unix(PathBuf::from("./a:b")));
    }
}
