//! TLS, and the proofs of both ends.
//!
//! Each process makes a key pair for TLS (RFC 7250: raw public keys). Both ends derive the same value from a TLS session, which nobody else
//! can (RFC 9266: `tls-exporter`), and prove for it that they have the shared key.

use crate::frame::{Frame, Frames};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, ServerConfig, ServerConnection,
    SignatureScheme,
};
use sheaf_key::{Proof, Purpose, RunKey};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Label of the exported value (RFC 9266).
const EXPORTER: &[u8] = b"EXPORTER-Channel-Binding";

/// Number of bytes of the exported value.
const EXPORTED: usize = 32;

/// Name of the called end in TLS. It is not looked at.
const SERVER: &str = "agent.sheaf";

/// Keys and settings of the TLS of one process.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Makes a key pair, and the settings of both ends.
    pub(crate) fn new() -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = key_pair(&provider)?;
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyKey(provider.clone())))
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
        server.send_tls13_tickets = 0;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    fn caller(&self) -> io::Result<Connection> {
        let name = ServerName::try_from(SERVER).map_err(io::Error::other)?;
        ClientConnection::new(self.client.clone(), name).map(Connection::from).map_err(io::Error::other)
    }

    fn called(&self) -> io::Result<Connection> {
        ServerConnection::new(self.server.clone()).map(Connection::from).map_err(io::Error::other)
    }
}

fn key_pair(provider: &CryptoProvider) -> io::Result<Arc<CertifiedKey>> {
    let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
    let made = made.map_err(|_| io::Error::other(sheaf_key::NoRandomness))?;
    let private = PrivatePkcs8KeyDer::from(made.as_ref().to_vec());
    let key = provider.key_provider.load_private_key(private.into()).map_err(io::Error::other)?;
    let public = key.public_key().ok_or_else(|| io::Error::other("the key has no public part"))?;
    let public = CertificateDer::from(public.as_ref().to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

/// Accepts each key, if the other end has its private part: who that is follows from the proof.
#[derive(Debug)]
struct AnyKey(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is used".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(
            message,
            &key,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// A connection with TLS, whose ends are not known yet.
pub(crate) struct Secured {
    pub(crate) stream: TcpStream,
    pub(crate) tls: Connection,
    pub(crate) frames: Frames,
    exported: [u8; EXPORTED],
    until: Instant,
}

impl Secured {
    /// Makes the caller's end of a connection.
    pub(crate) fn call(stream: TcpStream, tls: &Tls, timeout: Duration) -> io::Result<Self> {
        Self::new(stream, tls.caller()?, timeout)
    }

    /// Makes the called end of a connection.
    pub(crate) fn answer(stream: TcpStream, tls: &Tls, timeout: Duration) -> io::Result<Self> {
        Self::new(stream, tls.called()?, timeout)
    }

    fn new(stream: TcpStream, tls: Connection, timeout: Duration) -> io::Result<Self> {
        let until = Instant::now() + timeout;
        let mut secured = Self { stream, tls, frames: Frames::default(), exported: [0; EXPORTED], until };
        while secured.tls.is_handshaking() {
            secured.move_bytes()?;
        }
        let exported = secured.tls.export_keying_material([0; EXPORTED], EXPORTER, None);
        secured.exported = exported.map_err(io::Error::other)?;
        Ok(secured)
    }

    /// Returns the proof of this end that it has the key.
    pub(crate) fn prove(&self, key: &RunKey, purpose: Purpose) -> Proof {
        key.prove(purpose, &[&self.exported])
    }

    /// Returns whether the other end has the key.
    pub(crate) fn is_proven(&self, key: &RunKey, purpose: Purpose, proof: &Proof) -> bool {
        key.is_proof(purpose, &[&self.exported], proof)
    }

    /// Writes a frame.
    pub(crate) fn write(&mut self, frame: &Frame) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        self.tls.writer().write_all(&bytes)?;
        while self.tls.wants_write() {
            let mut stream = Timed { stream: &self.stream, until: self.until };
            self.tls.write_tls(&mut stream)?;
        }
        Ok(())
    }

    /// Reads a frame.
    pub(crate) fn read(&mut self) -> io::Result<Frame> {
        loop {
            let is_over = take_plain(&mut self.tls, &mut self.frames)?;
            if let Some(frame) = self.frames.next().map_err(io::Error::other)? {
                return Ok(frame);
            }
            if is_over {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.move_bytes()?;
        }
    }

    /// Writes what TLS has to say, and reads.
    fn move_bytes(&mut self) -> io::Result<()> {
        let mut stream = Timed { stream: &self.stream, until: self.until };
        while self.tls.wants_write() {
            self.tls.write_tls(&mut stream)?;
        }
        if self.tls.wants_read() && self.tls.read_tls(&mut stream)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let processed = self.tls.process_new_packets();
        if processed.is_err() {
            // The other end learns why.
            let _ = self.tls.write_tls(&mut stream);
        }
        processed.map(drop).map_err(io::Error::other)
    }
}

/// Moves what TLS has decrypted to the frames. Returns whether the other end has closed the connection.
pub(crate) fn take_plain(tls: &mut Connection, frames: &mut Frames) -> io::Result<bool> {
    let mut bytes = [0; 16 << 10];
    loop {
        match tls.reader().read(&mut bytes) {
            Ok(0) => return Ok(true),
            Ok(read) => frames.extend(&bytes[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// A socket with a deadline for everything that is done with it.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(too_late()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        late(self.stream.read(bytes))
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        late(self.stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn too_late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it did not answer in time")
}

fn late(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(too_late()),
        other => other,
    }
}
