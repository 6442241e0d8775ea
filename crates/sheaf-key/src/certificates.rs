//! Files with certificates and their keys, in PEM format.

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};

/// Reason why a file has no certificate, or no key.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read, or has no PEM block of the right kind.
    #[error("cannot read {what} from {}", .path.display())]
    Unreadable {
        /// Content that the file should have.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the file.
        #[source]
        source: pem::Error,
    },
    /// A file has no certificate.
    #[error("{} has no certificate; it should have at least one, in a block that begins with BEGIN CERTIFICATE", .0.display())]
    Empty(PathBuf),
}

/// Reads all certificates of a file, of which there is at least one.
///
/// # Errors
/// Why there is none.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let unreadable =
        |source| CertificateError::Unreadable { what: "certificates", path: path.to_owned(), source };
    let found = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    if found.is_empty() { Err(CertificateError::Empty(path.to_owned())) } else { Ok(found) }
}

/// Reads the private key of a certificate. It has no password.
///
/// # Errors
/// Why there is none.
pub fn read_private_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let unreadable =
        |source| CertificateError::Unreadable { what: "a private key", path: path.to_owned(), source };
    PrivateKeyDer::from_pem_file(path).map_err(unreadable)
}
