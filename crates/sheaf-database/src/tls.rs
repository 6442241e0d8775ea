//! TLS to PostgreSQL: `sslmode` and `sslrootcert` in the URL, with the meaning that they have for programs of PostgreSQL.
//!
//! One thing differs: without `sslmode` a server on another host must show a certificate for its name, whereas those programs also take a
//! connection that is not encrypted. A server on this host needs none.

mod verifier;

use percent_encoding::percent_decode_str;
use postgres::Config;
use postgres::config::{Host, SslMode};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;
use verifier::AnyName;

/// The protocol above TLS, by the name that servers from version 17 on ask for.
const PROTOCOL: &[u8] = b"postgresql";

/// Parameters of a URL that are about TLS.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    sslmode: Option<String>,
    sslrootcert: Option<String>,
}

impl Parameters {
    /// Returns the parameters, and the URL without them: the library knows less of them.
    pub(crate) fn take(url: &str) -> (String, Self) {
        let mut taken = Self::default();
        // A password may have a question mark.
        let place = url.rfind('@').map_or(0, |at| at + 1);
        let Some(mark) = url[place..].find('?').map(|mark| place + mark) else {
            return (url.to_owned(), taken);
        };
        let mut rest = Vec::new();
        for parameter in url[mark + 1..].split('&') {
            let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            match parameter.split_once('=') {
                Some(("sslmode", value)) => taken.sslmode = Some(decoded(value)),
                Some(("sslrootcert", value)) => taken.sslrootcert = Some(decoded(value)),
                _ => rest.push(parameter),
            }
        }
        let separator = if rest.is_empty() { "" } else { "?" };
        (format!("{}{separator}{}", &url[..mark], rest.join("&")), taken)
    }
}

/// Values of `sslmode`, from the weakest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    /// Not encrypted.
    Disable,
    /// Encrypted if the server can.
    Prefer,
    /// Encrypted, whoever the server is.
    Require,
    /// The certificate of the server must be signed by an authority.
    VerifyCa,
    /// It must also be for the name of the server.
    VerifyFull,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(format!(
                    "sslmode={text} is not known; use disable, prefer, require, verify-ca or verify-full"
                ));
            }
        })
    }
}

/// Whose signature a certificate needs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Authorities {
    File(PathBuf),
    /// Those that the administrator of this host trusts.
    System,
}

/// The security of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Security {
    mode: Mode,
    /// `None`: any certificate is taken.
    authorities: Option<Authorities>,
}

impl Security {
    /// Decides, by the parameters of the URL, the file of authorities of the configuration, and where the server is.
    pub(crate) fn new(
        parameters: &Parameters,
        ca_file: Option<&Path>,
        config: &Config,
    ) -> Result<Self, String> {
        let named = match parameters.sslrootcert.as_deref() {
            Some("system") => Some(Authorities::System),
            Some(file) => Some(Authorities::File(file.into())),
            None => ca_file.map(|file| Authorities::File(file.to_owned())),
        };
        let given = parameters.sslmode.as_deref().map(str::parse).transpose()?;
        let mode = match given {
            // Servers have no TLS on a socket of the file system, whatever is asked for.
            _ if is_all_sockets(config) => Mode::Disable,
            Some(mode) => mode,
            None if named.is_none() && is_on_this_host(config) => Mode::Prefer,
            None => Mode::VerifyFull,
        };
        // As for programs of PostgreSQL: who names authorities wants them to be asked.
        let authorities = named.or_else(|| (mode >= Mode::VerifyCa).then_some(Authorities::System));
        Ok(Self { mode, authorities: authorities.filter(|_| mode != Mode::Disable) })
    }

    pub(crate) const fn mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// Returns what makes TLS of a connection.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = self.authorities.as_ref().map(roots).transpose()?;
        let verifier: Arc<dyn ServerCertVerifier> = match roots {
            Some(roots) if self.mode == Mode::VerifyFull => {
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|error| error.to_string())?
            }
            roots => Arc::new(AnyName::new(roots, &provider)),
        };
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        client.alpn_protocols = vec![PROTOCOL.to_owned()];
        Ok(MakeRustlsConnect::new(client))
    }

    /// Returns what to do about an error of TLS.
    pub(crate) fn advice(&self, error: &(dyn Error + 'static)) -> Option<String> {
        let authorities = match &self.authorities {
            Some(Authorities::File(file)) => format!("in {}", file.display()),
            Some(Authorities::System) | None => "of this system".to_owned(),
        };
        match certificate_error(error) {
            // The latter: another authority has the same name.
            Some(CertificateError::UnknownIssuer | CertificateError::BadSignature) => Some(format!(
                "none of the authorities {authorities} has signed it: name the file of the right one, as database.ca_file or with sslrootcert in the URL"
            )),
            Some(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => Some(
                "use a name that is on the certificate as a subject alternative name, or sslmode=verify-ca"
                    .into(),
            ),
            Some(CertificateError::Other(other)) if other.to_string().contains("CaUsedAsEndEntity") => Some(
                "the server needs a certificate that is not that of an authority itself (basicConstraints=CA:FALSE)"
                    .into(),
            ),
            Some(_) => None,
            None if has_no_tls(error) => Some(
                "switch TLS on in the server, or allow a connection that is not encrypted with sslmode=disable in the URL"
                    .into(),
            ),
            None => None,
        }
    }
}

/// Reads certificates of authorities.
fn roots(authorities: &Authorities) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Authorities::File(file) => {
            let certificates = sheaf_key::read_certificates(file).map_err(|error| words(&error))?;
            for certificate in certificates {
                roots.add(certificate).map_err(|error| {
                    format!("{} has a certificate that cannot be an authority's: {error}", file.display())
                })?;
            }
        }
        Authorities::System => {
            let found = rustls_native_certs::load_native_certs();
            // A store may have some of kinds that the library does not know.
            let (added, _) = roots.add_parsable_certificates(found.certs);
            if added == 0 {
                let problems: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
                return Err(format!(
                    "this system has no certificates of authorities ({}): name a file, as database.ca_file or with sslrootcert in the URL",
                    if problems.is_empty() { "none found".to_owned() } else { problems.join("; ") }
                ));
            }
        }
    }
    Ok(roots)
}

fn is_all_sockets(config: &Config) -> bool {
    let hosts = config.get_hosts();
    config.get_hostaddrs().is_empty()
        && !hosts.is_empty()
        && hosts.iter().all(|host| matches!(host, Host::Unix(_)))
}

/// Returns whether no connection leaves this host.
fn is_on_this_host(config: &Config) -> bool {
    let is_here = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        Host::Unix(_) => true,
    };
    // Where both are given, the address is the one that is called.
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(is_here),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Returns an error with its causes.
pub(crate) fn words(error: &(dyn Error + 'static)) -> String {
    causes(error).fold(String::new(), |text, error| match error.to_string() {
        words if text.is_empty() => words,
        words if text.contains(&words) => text,
        words => format!("{text}: {words}"),
    })
}

/// Returns what is wrong with the certificate of the server.
fn certificate_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CertificateError> {
    let of_io = |error: &'a (dyn Error + 'static)| error.downcast_ref::<io::Error>()?.get_ref();
    let of_tls = causes(error).filter_map(of_io).find_map(|error| error.downcast_ref::<rustls::Error>());
    match of_tls {
        Some(rustls::Error::InvalidCertificate(error)) => Some(error),
        _ => None,
    }
}

/// The library has no other sign of it than its text.
fn has_no_tls(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|error| error.to_string() == "server does not support TLS")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn security(url: &str, ca_file: Option<&str>) -> Result<Security, String> {
        let (rest, parameters) = Parameters::take(url);
        Security::new(&parameters, ca_file.map(Path::new), &rest.parse().unwrap())
    }

    #[test]
    fn parameters_of_tls_are_taken_and_others_stay() {
        for (url, rest, sslmode, sslrootcert) in [
            ("postgres://db/runs", "postgres://db/runs", None, None),
            ("postgres://d@db/runs?sslmode=disable", "postgres://d@db/runs", Some("disable"), None),
            (
                "postgres://d:a?b@db/runs?sslrootcert=%2Fa%20b&connect_timeout=3&sslmode=require",
                "postgres://d:a?b@db/runs?connect_timeout=3",
                Some("require"),
                Some("/a b"),
            ),
        ] {
            let taken =
                Parameters { sslmode: sslmode.map(Into::into), sslrootcert: sslrootcert.map(Into::into) };
            assert_eq!(Parameters::take(url), (rest.to_owned(), taken));
        }
    }

    #[test]
    fn a_server_elsewhere_shows_a_certificate_for_its_name_unless_the_url_says_otherwise() {
        let file = || Some(Authorities::File("/ca.pem".into()));
        let system = || Some(Authorities::System);
        for (url, ca_file, mode, authorities) in [
            ("postgres://%2Frun%2Fpostgresql/runs", None, Mode::Disable, None),
            ("postgres://%2Frun%2Fpostgresql/runs?sslmode=verify-full", Some("/ca.pem"), Mode::Disable, None),
            ("postgres://localhost/runs", None, Mode::Prefer, None),
            ("postgres://127.0.0.1,[::1]/runs", None, Mode::Prefer, None),
            ("postgres://localhost/runs", Some("/ca.pem"), Mode::VerifyFull, file()),
            ("postgres://localhost/runs?sslrootcert=system", Some("/ca.pem"), Mode::VerifyFull, system()),
            ("postgres://localhost/runs?hostaddr=192.0.2.1", None, Mode::VerifyFull, system()),
            ("postgres://localhost,db/runs", None, Mode::VerifyFull, system()),
            ("postgres://db.example.org/runs", None, Mode::VerifyFull, system()),
            ("postgres://db.example.org/runs?sslrootcert=/ca.pem", None, Mode::VerifyFull, file()),
            ("postgres://db.example.org/runs?sslmode=disable", Some("/ca.pem"), Mode::Disable, None),
            ("postgres://db.example.org/runs?sslmode=require", None, Mode::Require, None),
            ("postgres://db.example.org/runs?sslmode=require", Some("/ca.pem"), Mode::Require, file()),
            ("postgres://db.example.org/runs?sslmode=verify-ca", None, Mode::VerifyCa, system()),
        ] {
            assert_eq!(security(url, ca_file), Ok(Security { mode, authorities }), "{url}");
        }
        assert!(security("postgres://db/runs?sslmode=allow", None).unwrap_err().contains("verify-full"));
    }
}
