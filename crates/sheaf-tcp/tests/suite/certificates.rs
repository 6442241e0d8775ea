//! Certificates for tests, generated on demand.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use sheaf_tcp::{Tls, TlsFiles};
use std::path::PathBuf;
use tempfile::TempDir;

/// An authority, and a directory for the certificates that it signs.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

/// Contents of a certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// Hosts for which the certificate is valid.
    pub(crate) hosts: &'a [&'a str],
    /// First and last year of validity.
    pub(crate) years: (i32, i32),
}

/// Valid in this century, for a node on loopback.
pub(crate) const LOOPBACK: Terms<'_> = Terms { hosts: &["127.0.0.1", "::1"], years: (2000, 2099) };

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let directory = tempfile::tempdir().expect("a directory");
        let certificate = params.self_signed(&key).expect("the parameters are right");
        std::fs::write(directory.path().join("authority.pem"), certificate.pem()).expect("a file");
        Self { issuer: Issuer::new(params, key), directory }
    }

    /// Writes a certificate for a node to files.
    pub(crate) fn issue(&self, name: &str, terms: Terms<'_>) -> TlsFiles {
        let hosts: Vec<String> = terms.hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).expect("the hosts are names or addresses");
        (params.not_before, params.not_after) =
            (date_time_ymd(terms.years.0, 1, 1), date_time_ymd(terms.years.1, 1, 1));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("the parameters are right");
        let file = |end: &str, text: String| -> PathBuf {
            let path = self.directory.path().join(format!("{name}.{end}"));
            std::fs::write(&path, text).expect("a file");
            path
        };
        TlsFiles {
            certificate: file("pem", certificate.pem()),
            key: file("key", key.serialize_pem()),
            authority: self.directory.path().join("authority.pem"),
        }
    }

    /// Returns the loaded certificate.
    pub(crate) fn tls(&self, name: &str, terms: Terms<'_>) -> Tls {
        Tls::load(&self.issue(name, terms)).expect("the files are as they should be")
    }
}
