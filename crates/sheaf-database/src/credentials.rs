//! Credentials of both ends of a connection.

use std::path::PathBuf;

/// Credentials for a server. A URL that has its own goes first, and files need none.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The password of the user.
    pub password: Option<String>,
    /// File with certificates of authorities, one of which must have signed that of the server. Default: those of the system.
    pub ca_file: Option<PathBuf>,
}
