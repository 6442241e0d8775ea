//! Requests over HTTP, each repeated while the controller is not reached.

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;
use sheaf_key::read_certificates;
use sheaf_monitor::is_this_host;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use ureq::http::{Method, Request, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Error};

/// Time for which a controller that is not reached is called again: it may just be starting anew.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two calls.
const PAUSE: Duration = Duration::from_millis(200);

/// Time that an answer may take. A request for an operation waits for its end.
const ANSWER: Duration = Duration::from_secs(30);

/// Options for a page of another host.
#[derive(Debug, Default, Args)]
pub(crate) struct Trust {
    /// File with a token, instead of the one in the directory of the controller or in the address.
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// File with the certificate of the page of another host, or of the authority that has signed it (PEM) [default: the authorities that
    /// browsers know].
    #[arg(long, value_name = "FILE", global = true)]
    certificate: Option<PathBuf>,
}

/// See the [module](self).
pub(crate) struct Client {
    agent: Agent,
    url: String,
    token: Option<String>,
}

impl Client {
    /// Makes a client of the page at an address, which may have a token, as in the address that `sheaf serve` prints. `other` is a token to
    /// use if neither it nor `trust` has one.
    pub(crate) fn new(address: &str, trust: &Trust, other: Option<String>) -> anyhow::Result<Self> {
        let (url, fragment) = address.trim().split_once('#').unwrap_or((address.trim(), ""));
        let given = fragment.strip_prefix("token=").map(str::to_owned);
        let token = match &trust.token_file {
            Some(path) => Some(
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
            ),
            None => given.or(other),
        };
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        let url = url.trim_end_matches('/');
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        if token.is_some() && !keeps_secrets(&url) {
            bail!(
                "a token would be readable on the way to {url}; use https://, or forward the port with `ssh -L`"
            );
        }
        let mut config =
            Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER)).proxy(None);
        if let Some(path) = &trust.certificate {
            config = config.tls_config(TlsConfig::builder().root_certs(roots(path)?).build());
        }
        Ok(Self { agent: config.build().new_agent(), url, token })
    }

    /// Returns the address, without its token.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(&Method::GET, path, None)
    }

    /// As [`Client::get`], without a second attempt.
    pub(crate) fn get_once(&self, path: &str) -> anyhow::Result<Value> {
        let (status, text) = self.ask_once(&Method::GET, path, None)?;
        self.understand(status, &text)
    }

    pub(crate) fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(&Method::DELETE, path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(&Method::POST, path, Some(body))
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(&Method::PUT, path, Some(body))
    }

    /// As [`Client::put`]. Returns nothing if there is nothing of that name.
    pub(crate) fn put_if_there(&self, path: &str, body: &Value) -> anyhow::Result<Option<Value>> {
        match self.repeat(&Method::PUT, path, Some(body))? {
            (404, _) => Ok(None),
            (status, text) => self.understand(status, &text).map(Some),
        }
    }

    fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, text) = self.repeat(method, path, body)?;
        self.understand(status, &text)
    }

    /// Every request has the same effect once and several times: commands have names.
    fn repeat(&self, method: &Method, path: &str, body: Option<&Value>) -> anyhow::Result<(u16, String)> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.ask_once(method, path, body) {
                Ok(answer) => return Ok(answer),
                Err(error) if is_distrusted(&error) => {
                    bail!(
                        "the certificate of {} is not trusted: {error}; name it, or that of its authority, with --certificate",
                        self.url
                    )
                }
                Err(error) if Instant::now() > until => {
                    bail!(
                        "the controller at {} does not answer: {error}; is `sheaf serve` running?",
                        self.url
                    )
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn ask_once(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<(u16, String), Error> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        request = request.header("Sheaf-Via", via(std::env::var("SHEAF_HOOK").ok().as_deref()));
        let mut response = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json");
                self.agent.run(request.body(body.to_string())?)?
            }
            None => self.agent.run(request.body(())?)?,
        };
        let text = response.body_mut().read_to_string()?;
        Ok((response.status().as_u16(), text))
    }

    fn understand(&self, status: u16, text: &str) -> anyhow::Result<Value> {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        if (200..300).contains(&status) {
            return Ok(value);
        }
        match (value["text"].as_str(), value["remedy"].as_str()) {
            // Several lines end with a line break.
            (Some(text), Some(remedy)) if text.ends_with('\n') => bail!("{text}\n{remedy}"),
            (Some(text), Some(remedy)) => bail!("{text}; {remedy}"),
            _ => bail!("the controller at {} answers with status {status}: {}", self.url, text.trim()),
        }
    }
}

/// Returns where commands come from, for the records of runs: a hook that calls this program, or a person.
fn via(hook: Option<&str>) -> String {
    // Other characters cannot be in a header.
    let plain = |name: &str| name.chars().filter(char::is_ascii_graphic).collect::<String>();
    hook.map_or_else(|| "sheaf ctl".to_owned(), |name| format!("hook {}", plain(name)))
}

/// Returns whether the other end is reached, and may be somebody else.
fn is_distrusted(error: &Error) -> bool {
    let of_tls = |error: &io::Error| {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
    };
    match error {
        Error::Io(error) => of_tls(error),
        Error::Rustls(error) => matches!(error, rustls::Error::InvalidCertificate(_)),
        _ => false,
    }
}

/// Returns whether nobody can read what is sent to an address: because it is encrypted, or stays on this host.
fn keeps_secrets(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return true };
    uri.scheme_str() == Some("https") || uri.authority().is_some_and(|host| is_this_host(host.as_str()))
}

/// Reads the certificates that are trusted.
fn roots(path: &Path) -> anyhow::Result<RootCerts> {
    let certificates = read_certificates(path)?;
    let certificates = certificates.iter().map(|found| Certificate::from_der(found).to_owned()).collect();
    Ok(RootCerts::Specific(Arc::new(certificates)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_a_hook_says_so() {
        assert_eq!(via(None), "sheaf ctl");
        assert_eq!(via(Some("10-volt\u{e4}ge\n")), "hook 10-voltge");
    }

    #[test]
    fn tokens_leave_the_host_encrypted_only() {
        for url in
            ["http://127.0.0.1:7070", "http://[::1]:1", "http://localhost", "https://daq.example.org:7443"]
        {
            assert!(keeps_secrets(url), "{url}");
        }
        for url in ["http://daq1:7070", "http://10.0.0.1:80", "http://localhost.example.org", "http://[::2]"]
        {
            assert!(!keeps_secrets(url), "{url}");
        }
        let client = |url: &str| Client::new(url, &Trust::default(), None);
        assert_eq!(client("https://daq1:7443/#token=abc").unwrap().token.as_deref(), Some("abc"));
        assert_eq!(client("127.0.0.1:7070/").unwrap().url, "http://127.0.0.1:7070");
        assert!(client("http://daq1:7070/#token=abc").is_err() && client("http://daq1:7070/").is_ok());
    }
}
