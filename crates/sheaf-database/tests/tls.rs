//! TLS to a real server of PostgreSQL.

#![cfg(all(feature = "postgres", feature = "testing"))]
#![allow(clippy::unwrap_used, reason = "a helper that fails, fails its test")]

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use sheaf_database::testing::Server;
use sheaf_database::{Credentials, Database, DatabaseError, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than any test takes on a busy machine: it ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// An authority, whose certificate is in a file.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    key: String,
    file: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Self {
        let mut terms = CertificateParams::new(vec!["db.example.org".into()]).unwrap();
        terms.distinguished_name.push(DnType::CommonName, name);
        terms.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let (pem, file) = (terms.self_signed(&key).unwrap().pem(), directory.join(name));
        std::fs::write(&file, &pem).unwrap();
        Self { pem, key: key.serialize_pem(), issuer: Issuer::new(terms, key), file }
    }

    /// Returns a certificate for a name, and its key.
    fn issue(&self, host: &str) -> [String; 2] {
        let terms = CertificateParams::new(vec![host.into()]).unwrap();
        let key = KeyPair::generate().unwrap();
        [terms.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem()]
    }
}

fn open(url: &str, authority: Option<&Authority>) -> Result<Database, DatabaseError> {
    let ca_file = authority.map(|authority| authority.file.clone());
    let credentials = Credentials { password: Some("secret".into()), ca_file };
    Database::open(&url.parse().unwrap(), &credentials, PATIENCE)
}

/// Returns the version of TLS of the connection.
fn tls(database: &mut Database) -> Option<String> {
    let query = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    database.query(query, &[]).unwrap()[0][0].text().map(str::to_owned)
}

#[track_caller]
fn refused(url: &str, authority: Option<&Authority>, words: &[&str]) {
    let error = open(url, authority).err().unwrap().to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn a_server_proves_its_name_as_far_as_the_url_asks_for_it() {
    let place = tempfile::tempdir().unwrap();
    let (ours, other) = (Authority::new(place.path(), "ours.pem"), Authority::new(place.path(), "other.pem"));
    let [certificate, key] = ours.issue("db.example.org");
    let Some(server) = Server::start_with_address(Some([&certificate, &key])) else { return };
    let of = |name: &str, mode: &str| format!("{}&sslmode={mode}", server.url_of_host("daq", name));
    let right = |mode: &str| of("db.example.org", mode);
    let wrong = |mode: &str| of("elsewhere.example.org", mode);

    let mut database = open(&right("verify-full"), Some(&ours)).unwrap();
    assert!(tls(&mut database).unwrap().starts_with("TLSv1."));
    let named = format!("{}&sslrootcert={}", right("verify-full"), ours.file.display());
    assert!(tls(&mut open(&named, Some(&other)).unwrap()).is_some());

    refused(&wrong("verify-full"), Some(&ours), &["elsewhere.example.org", "db.example.org", "verify-ca"]);
    assert!(tls(&mut open(&wrong("verify-ca"), Some(&ours)).unwrap()).is_some());

    for mode in ["verify-full", "verify-ca", "require", "prefer"] {
        refused(&right(mode), Some(&other), &["UnknownIssuer", "other.pem", "database.ca_file"]);
    }
    for mode in ["verify-full", "verify-ca"] {
        // The authorities of this system do not have ours; where there are none, that is said.
        refused(&right(mode), None, &["database.ca_file", "sslrootcert", "system"]);
    }
    assert!(tls(&mut open(&wrong("require"), None).unwrap()).is_some());
    assert!(tls(&mut open(&wrong("prefer"), None).unwrap()).is_some());
    assert_eq!(tls(&mut open(&right("disable"), Some(&other)).unwrap()), None);
    let by_socket = server.url();
    // On this host, without a word about TLS.
    assert!(tls(&mut open(&server.url_of_host("daq", "localhost"), None).unwrap()).is_some());
    assert_eq!(tls(&mut open(&by_socket, None).unwrap()), None);

    let missing = Credentials { ca_file: Some("/nowhere/ca.pem".into()), ..Credentials::default() };
    let error = Database::open(&right("require").parse().unwrap(), &missing, PATIENCE).err().unwrap();
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
}

#[test]
fn a_password_is_bound_to_the_connection() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new(place.path(), "ours.pem");
    let [certificate, key] = ours.issue("db.example.org");
    let Some(server) = Server::start_with_address(Some([&certificate, &key])) else { return };
    let url = format!("{}&sslmode=verify-full", server.url_of_host("careful", "db.example.org"));
    let mut database = open(&format!("{url}&channel_binding=require"), Some(&ours)).unwrap();
    assert_eq!(database.query("SELECT 7::bigint", &[]).unwrap(), [[Value::Integer(7)]]);
    let wrong = Credentials { password: Some("secrets".into()), ca_file: Some(ours.file.clone()) };
    let error = Database::open(&url.parse().unwrap(), &wrong, PATIENCE).err().unwrap().to_string();
    assert!(error.contains("password authentication failed") && !error.contains("secrets"), "{error}");
}

#[test]
fn a_server_without_tls_is_taken_only_where_that_is_right() {
    let Some(server) = Server::start_with_address(None) else { return };
    for mode in ["require", "verify-ca", "verify-full"] {
        let url = format!("{}&sslmode={mode}", server.url_of_host("daq", "db.example.org"));
        // The authorities of the system are read before the server is asked; a host may have none.
        refused(
            &url,
            None,
            if mode == "require" { &["does not support TLS", "sslmode=disable"] } else { &[] },
        );
    }
    for mode in ["", "&sslmode=prefer", "&sslmode=disable"] {
        let url = format!("{}{mode}", server.url_of_host("daq", "localhost"));
        assert_eq!(tls(&mut open(&url, None).unwrap()), None);
    }
    // Not asked for: there is no TLS on a socket.
    assert_eq!(tls(&mut open(&format!("{}?sslmode=verify-full", server.url()), None).unwrap()), None);
}

#[test]
fn the_certificate_of_an_authority_is_none_of_a_server_and_that_is_said() {
    let place = tempfile::tempdir().unwrap();
    let ours = Authority::new(place.path(), "ours.pem");
    let Some(server) = Server::start_with_address(Some([&ours.pem, &ours.key])) else { return };
    let url = format!("{}&sslmode=verify-full", server.url_of_host("daq", "db.example.org"));
    refused(&url, Some(&ours), &["CA:FALSE"]);
}
