//! The page for other hosts: connections with TLS.
//!
//! Strangers can connect. What one of them holds is bounded: the number of connections, the time for a handshake, and the time without a byte.

use crate::access::Access;
use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use sheaf_key::{CertificateError, read_certificates, read_private_key};
use sheaf_telemetry::log_as;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Most connections at a time, also those whose handshake is not complete.
const CONNECTIONS: usize = 512;

/// Time that a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Time without a byte after which a connection is closed. It is longer than any answer takes.
const IDLE: Duration = Duration::from_secs(120);

/// Pause after the system has refused a connection, such as for lack of descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// A page for other hosts.
#[derive(Clone, Debug)]
pub struct RemotePage {
    /// Where to listen.
    pub address: SocketAddr,
    /// File with the certificate, followed by any intermediate certificates (PEM).
    pub certificate: PathBuf,
    /// File with its private key (PEM).
    pub key: PathBuf,
    /// Who may look.
    pub access: Arc<dyn Access>,
}

/// Reason why there is no page for other hosts.
#[derive(Debug, thiserror::Error)]
pub enum RemotePageError {
    /// A file is of no use.
    #[error(transparent)]
    File(#[from] CertificateError),
    /// Certificate and key do not belong together, or are of a kind that is not known.
    #[error("certificate {} and key {} cannot be used together", .certificate.display(), .key.display())]
    Mismatch {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// Error of the certificates.
        #[source]
        source: rustls::Error,
    },
    /// The TLS library cannot be initialised; never seen.
    #[error("TLS cannot be set up")]
    SetUp(#[source] rustls::Error),
}

/// The certificate of the page, which may be renewed while it is served.
#[derive(Debug)]
pub(crate) struct Identity {
    certificate: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    certified: Arc<CertifiedKey>,
    /// The files when they were read last.
    seen: Seen,
}

/// Times and sizes of both files, `None` for one that is not there.
type Seen = [Option<(SystemTime, u64)>; 2];

impl Identity {
    /// Reads certificate and key.
    pub(crate) fn load(page: &RemotePage) -> Result<Arc<Self>, RemotePageError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let RemotePage { certificate, key, .. } = page.clone();
        let seen = look(&certificate, &key);
        let certified = read(&certificate, &key, &provider)?;
        let current = Mutex::new(Current { certified, seen });
        Ok(Arc::new(Self { certificate, key, provider, current }))
    }

    /// Returns the settings of connections.
    pub(crate) fn settings(self: &Arc<Self>) -> Result<Arc<ServerConfig>, RemotePageError> {
        let mut settings = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(RemotePageError::SetUp)?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        settings.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(settings))
    }

    /// Takes a renewed certificate. One that is of no use is refused once, and the current one stays.
    pub(crate) fn renew(&self) {
        let seen = look(&self.certificate, &self.key);
        if self.current().seen == seen {
            return;
        }
        let read = read(&self.certificate, &self.key, &self.provider);
        let mut current = self.current();
        current.seen = seen;
        match read {
            Ok(certified) => {
                current.certified = certified;
                log_as!(CERTIFICATE_RENEWED; "the page for other hosts has the new certificate of {}", self.certificate.display());
            }
            Err(error) => {
                let error = in_full(&error);
                log_as!(CERTIFICATE_REFUSED; "the page for other hosts keeps its certificate, because the new one is of no use: {error}");
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().certified.clone())
    }
}

fn look(certificate: &Path, key: &Path) -> Seen {
    [certificate, key].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

fn read(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, RemotePageError> {
    let (chain, private) = (read_certificates(certificate)?, read_private_key(key)?);
    let certified = CertifiedKey::from_der(chain, private, provider);
    let mismatch = |source| RemotePageError::Mismatch {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        source,
    };
    certified.map(Arc::new).map_err(mismatch)
}

/// Returns an error with all of its causes.
fn in_full(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {}", in_full(cause)))
}

/// A connection after its handshake, with who called.
type Called = (TlsStream<TcpStream>, SocketAddr, OwnedSemaphorePermit);

/// Takes connections with TLS.
pub(crate) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    connections: Arc<Semaphore>,
    handshakes: JoinSet<io::Result<Called>>,
}

impl TlsListener {
    pub(crate) fn new(listener: TcpListener, settings: Arc<ServerConfig>) -> Self {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        Self { listener, acceptor: settings.into(), connections, handshakes: JoinSet::new() }
    }
}

impl Listener for TlsListener {
    type Io = Connection;
    type Addr = SocketAddr;

    /// Returns the next connection whose handshake is complete: one that is slow holds up nobody else.
    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next() => match done {
                    Ok(Ok((stream, caller, permit))) => return (Connection::new(stream, permit), caller),
                    Ok(Err(error)) => log::debug!("a connection to the page has no TLS: {error}"),
                    Err(error) => log::debug!("a handshake has failed: {error}"),
                },
                (stream, caller, permit) = next(&self.listener, &self.connections) => {
                    let accepted = self.acceptor.accept(stream);
                    self.handshakes.spawn(async move {
                        let stream = timeout(HANDSHAKE, accepted).await.map_err(|_| ErrorKind::TimedOut)??;
                        Ok((stream, caller, permit))
                    });
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Waits until there is room for a connection, and takes the next one.
async fn next(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        if connections.available_permits() == 0 {
            log_as!(PAGE_CROWDED; "the page for other hosts has {CONNECTIONS} connections, and takes others when one of them ends");
        }
        let Ok(permit) = connections.clone().acquire_owned().await else { std::future::pending().await };
        match listener.accept().await {
            Ok((stream, caller)) => {
                // Without it, small answers would wait for acknowledgements.
                let _ = stream.set_nodelay(true);
                return (stream, caller, permit);
            }
            Err(error) => {
                log::debug!("a connection to the page cannot be taken: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// A connection that ends when nothing is read or written for long.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    idle: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: TlsStream<TcpStream>, permit: OwnedSemaphorePermit) -> Self {
        Self { stream, idle: Box::pin(sleep(IDLE)), _permit: permit }
    }

    /// Passes on what has come of an attempt to move bytes, and how long there have been none.
    fn watched<T>(&mut self, context: &mut Context<'_>, moved: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE);
            return moved;
        }
        self.idle.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watched(context, moved)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, moved)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watched(context, moved)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Credentials;
    use crate::control::Answer;

    #[derive(Debug)]
    struct Nobody;

    impl Access for Nobody {
        fn admit(&self, _credentials: &Credentials) -> Result<(), Answer> {
            Err(Answer::error(401, "token", "", ""))
        }
    }

    /// Writes a certificate and its key, and returns the certificate.
    fn issue(page: &RemotePage) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(&page.certificate, made.cert.pem()).expect("it is ours");
        std::fs::write(&page.key, made.signing_key.serialize_pem()).expect("it is ours");
        made.cert.der().to_vec()
    }

    fn page(place: &Path) -> RemotePage {
        let (certificate, key) = (place.join("page.pem"), place.join("page.key"));
        RemotePage { address: ([127, 0, 0, 1], 0).into(), certificate, key, access: Arc::new(Nobody) }
    }

    fn served(identity: &Identity) -> Vec<u8> {
        identity.current().certified.cert[0].to_vec()
    }

    #[test]
    fn a_renewed_certificate_is_served_and_one_of_no_use_is_not() {
        let place = tempfile::tempdir().expect("a directory");
        let page = page(place.path());
        let first = issue(&page);
        let identity = Identity::load(&page).expect("it is good");
        identity.renew();
        assert_eq!(served(&identity), first);
        std::fs::write(&page.certificate, "half a certific").expect("it is ours");
        identity.renew();
        assert_eq!(served(&identity), first, "half of a file is no certificate");
        let second = issue(&page);
        let key = std::fs::read(&page.key).expect("it is there");
        issue(&page);
        std::fs::write(&page.key, &key).expect("it is ours");
        identity.renew();
        assert_eq!(served(&identity), first, "the key is of another certificate");
        let third = issue(&page);
        identity.renew();
        assert_eq!(served(&identity), third);
        assert_ne!(second, third);
        std::fs::remove_file(&page.key).expect("it is there");
        identity.renew();
        assert_eq!(served(&identity), third);
    }

    #[test]
    fn files_of_no_use_are_named() {
        let place = tempfile::tempdir().expect("a directory");
        let page = page(place.path());
        let error = Identity::load(&page).expect_err("there is none");
        assert!(error.to_string().contains("page.pem"), "{error}");
        issue(&page);
        std::fs::write(&page.key, "no key").expect("it is ours");
        let error = Identity::load(&page).expect_err("it is no key");
        assert!(error.to_string().contains("cannot read a private key"), "{error}");
        let other = RemotePage { certificate: place.path().join("other.pem"), ..page.clone() };
        issue(&page);
        let key = std::fs::read(&page.key).expect("it is there");
        issue(&other);
        std::fs::write(&page.key, key).expect("it is ours");
        let error = Identity::load(&other).expect_err("they do not belong together");
        assert!(error.to_string().contains("cannot be used together"), "{error}");
    }
}
