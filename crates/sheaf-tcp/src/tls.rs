//! TLS 1.3 on the connections of links, with certificates on both sides.
//!
//! A node belongs to the system if it holds a certificate of the configured authority. The names on the certificate
//! identify the node: a caller checks that the certificate is for the host that it called, and the called side that it
//! is for the node that greets, by its name or by the host in its address. Nothing else is trusted, no system store is
//! read, and older versions of TLS are not supported. Greetings, frames and numbers are unchanged: this module converts
//! bytes to records and back.

use super::socket;
use mio::net::TcpStream;
use rustls::client::{Resumption, verify_server_name};
use rustls::pki_types::ServerName;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use sheaf_key::{CertificateError, read_certificates, read_private_key};
use sheaf_transport::TlsProblem;
use std::io::{self, BufRead, ErrorKind, IoSlice, Write};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;

/// Number of bytes of records read from a socket at once: four records of the largest size.
const RECORD_BYTES: usize = 64 << 10;

/// Files of a node's certificate, in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The node's certificate, and behind it those between it and the authority, if there are any.
    pub certificate: PathBuf,
    /// The key that belongs to it, without a password.
    pub key: PathBuf,
    /// The certificates of the authorities that the other nodes' certificates are signed by.
    pub authority: PathBuf,
}

impl From<[PathBuf; 3]> for TlsFiles {
    /// Takes certificate, key and authority.
    fn from([certificate, key, authority]: [PathBuf; 3]) -> Self {
        Self { certificate, key, authority }
    }
}

/// A node's certificate and trusted authorities, ready for use. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// Reason why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file has no certificate, or no key.
    #[error(transparent)]
    File(#[from] CertificateError),
    /// A certificate of an authority that cannot be one.
    #[error("{} has a certificate that cannot be an authority's", .path.display())]
    BadAuthority {
        /// The file.
        path: PathBuf,
        /// Error of the certificate.
        #[source]
        source: rustls::Error,
    },
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

impl Tls {
    /// Reads certificate, key and authorities.
    ///
    /// # Errors
    /// Which file is invalid.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let TlsFiles { certificate, key, authority } = files;
        let chain = read_certificates(certificate)?;
        let private = read_private_key(key)?;
        let mut roots = RootCertStore::empty();
        for root in read_certificates(authority)? {
            let bad = |source| TlsError::BadAuthority { path: authority.clone(), source };
            roots.add(root).map_err(bad)?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mismatch =
            |source| TlsError::Mismatch { certificate: certificate.clone(), key: key.clone(), source };
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::SetUp)?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain.clone(), private.clone_key())
            .map_err(mismatch)?;
        // Links are few and live long: nothing is gained by resuming, and nothing is kept that could be stolen.
        client.resumption = Resumption::disabled();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| TlsError::SetUp(rustls::Error::General(error.to_string())))?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::SetUp)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, private)
            .map_err(mismatch)?;
        server.send_tls13_tickets = 0;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    /// The calling end of a connection to `host`, a name or an address.
    pub(super) fn call(&self, host: &str) -> Result<Session, TlsProblem> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsProblem::WrongName)?;
        let client = ClientConnection::new(self.client.clone(), name).map_err(|error| problem(&error))?;
        Ok(Session::new(client.into()))
    }

    /// The called end.
    pub(super) fn answer(&self) -> Result<Session, TlsProblem> {
        let server = ServerConnection::new(self.server.clone()).map_err(|error| problem(&error))?;
        Ok(Session::new(server.into()))
    }
}

/// One end of one connection.
#[derive(Debug)]
pub(super) struct Session {
    inner: rustls::Connection,
    /// Records as they came, from `from` to `to`.
    arrived: Box<[u8]>,
    from: usize,
    to: usize,
    /// Decrypted bytes that were not taken yet.
    decrypted: usize,
    /// Whether the socket had no more data at the last read.
    drained: bool,
    problem: Option<TlsProblem>,
}

impl Session {
    fn new(mut inner: rustls::Connection) -> Self {
        // The outbox and the kernel hold back the writer; a bound here would need a third queue.
        inner.set_buffer_limit(None);
        Self {
            inner,
            arrived: vec![0; RECORD_BYTES].into_boxed_slice(),
            from: 0,
            to: 0,
            decrypted: 0,
            drained: false,
            problem: None,
        }
    }

    /// Returns whether the other end has shown a certificate for one of these names: of nodes, of hosts, or addresses.
    pub(super) fn is_for_one_of(&self, names: &[String]) -> bool {
        let Some([certificate, ..]) = self.inner.peer_certificates() else { return false };
        let Ok(certificate) = ParsedCertificate::try_from(certificate) else { return false };
        let is_for = |name: &String| {
            ServerName::try_from(name.as_str())
                .is_ok_and(|name| verify_server_name(&certificate, &name).is_ok())
        };
        names.iter().any(is_for)
    }

    /// Returns the problem with the peer, after an error.
    pub(super) fn problem(&self) -> Option<TlsProblem> {
        self.problem
    }

    /// Returns whether records wait for the socket.
    pub(super) fn has_unsent(&self) -> bool {
        self.inner.wants_write()
    }

    /// Records that the kernel has signalled more data on the socket: it signals once, mostly while earlier data are
    /// still being taken from here.
    pub(super) fn note_readable(&mut self) {
        self.drained = false;
    }

    /// Returns whether there are received bytes that were not taken.
    pub(super) fn has_received(&self) -> bool {
        self.decrypted > 0 || self.from < self.to
    }

    /// Returns whether there is more to receive, as far as known without asking the kernel.
    pub(super) fn has_more(&self) -> bool {
        self.decrypted > 0 || self.from < self.to || !self.drained
    }

    /// Encrypts all of `pieces` and sends as much as the socket takes; the rest is sent by the next call, which takes
    /// nothing before that. So at most one call's bytes wait here.
    ///
    /// # Errors
    /// Those of the socket; [`ErrorKind::WouldBlock`] if nothing was taken.
    pub(super) fn send(&mut self, stream: &TcpStream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush(stream)?;
        let taken = self.inner.writer().write_vectored(pieces)?;
        match self.flush(stream) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Receives into the front of `room`, at most one record; returns the filled part, which is empty at the end of the
    /// stream.
    ///
    /// # Errors
    /// Those of the socket; [`ErrorKind::InvalidData`] if [`Session::problem`] has the details.
    pub(super) fn receive<'a>(
        &mut self,
        stream: &TcpStream,
        room: &'a mut [MaybeUninit<u8>],
    ) -> io::Result<&'a mut [u8]> {
        while self.decrypted == 0 {
            if !self.decrypt(stream)? {
                return Ok(&mut []);
            }
        }
        let mut reader = self.inner.reader();
        let record = reader.fill_buf()?;
        let bytes = record.len().min(room.len());
        let filled = room[..bytes].write_copy_of_slice(&record[..bytes]);
        reader.consume(bytes);
        self.decrypted -= bytes;
        Ok(filled)
    }

    /// As [`Session::receive`], for room that is initialised.
    pub(super) fn receive_slice(&mut self, stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
        while self.decrypted == 0 {
            if !self.decrypt(stream)? {
                return Ok(0);
            }
        }
        let bytes = io::Read::read(&mut self.inner.reader(), room)?;
        self.decrypted -= bytes;
        Ok(bytes)
    }

    /// Signals that no more data will be sent.
    pub(super) fn end(&mut self, stream: &TcpStream) {
        self.inner.send_close_notify();
        // If it is not sent, the goodbye among the frames has the same meaning.
        let _ = self.flush(stream);
    }

    /// Sends records that wait for the socket.
    ///
    /// # Errors
    /// Those of the socket; [`ErrorKind::WouldBlock`] if some still wait.
    pub(super) fn flush(&mut self, stream: &TcpStream) -> io::Result<()> {
        while self.inner.wants_write() {
            self.inner.write_tls(&mut Raw(stream))?;
        }
        Ok(())
    }

    /// Takes more of the received data. Returns `false` at the end of the stream.
    fn decrypt(&mut self, stream: &TcpStream) -> io::Result<bool> {
        if self.from == self.to {
            let read = socket::receive_slice(stream, &mut self.arrived);
            self.drained = !matches!(read, Ok(RECORD_BYTES));
            match read? {
                0 => return Ok(false),
                read => (self.from, self.to) = (0, read),
            }
        }
        let taken = self.inner.read_tls(&mut &self.arrived[self.from..self.to])?;
        if taken == 0 {
            // The peer has signalled the end of its data; anything that follows is ignored.
            (self.from, self.drained) = (self.to, true);
            return Ok(false);
        }
        self.from += taken;
        let outcome = self.inner.process_new_packets();
        // A step of the handshake, or the reason of its failure: if it is not sent now, a later call sends it.
        let _ = self.flush(stream);
        match outcome {
            Ok(state) => {
                self.decrypted = state.plaintext_bytes_to_read();
                Ok(true)
            }
            Err(error) => {
                self.problem = Some(problem(&error));
                Err(ErrorKind::InvalidData.into())
            }
        }
    }
}

/// The socket below, as a writer.
struct Raw<'a>(&'a TcpStream);

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(self.0, &[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send(self.0, pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn problem(error: &rustls::Error) -> TlsProblem {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
    match error {
        Error::InvalidCertificate(bad) => match bad {
            Bad::UnknownIssuer | Bad::BadSignature => TlsProblem::UnknownAuthority,
            Bad::Expired | Bad::ExpiredContext { .. } => TlsProblem::Expired,
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => TlsProblem::NotValidYet,
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => TlsProblem::WrongName,
            _ => TlsProblem::BadCertificate,
        },
        Error::NoCertificatesPresented => TlsProblem::NoCertificate,
        Error::InvalidMessage(_) => TlsProblem::PeerHasNone,
        Error::AlertReceived(Alert::UnknownCA | Alert::DecryptError) => TlsProblem::UnknownThere,
        Error::AlertReceived(Alert::CertificateExpired) => TlsProblem::ExpiredThere,
        Error::AlertReceived(_) => TlsProblem::RefusedThere,
        _ => TlsProblem::Failed,
    }
}
