//! Sockets at which requesters join a spool, and a thread for each of them.
//!
//! A requester is answered by its own thread, which reads segments and writes to its socket. So a slow requester, or one that
//! reads from a slow disk, holds up itself alone.

use crate::archive::{Archive, WindowAnswer};
use crate::conversation::{Conversation, ConversationStep};
use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Token, Waker};
use sheaf_key::{DoorProof, DoorPurposes, RunKey};
use sheaf_machine::listen_at;
use sheaf_telemetry::log_as;
use sheaf_wire::spool_link::{EndReason, Frame, MAX_HITS_BYTES, WindowRequest, emit_hits};
use sheaf_wire::times::Times;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const WAKER: Token = Token(0);
const SOCKET: Token = Token(1);
const LISTEN: Token = Token(2);

/// Number of bytes read from a socket at a time.
const READ_BYTES: usize = 4 << 10;

/// Number of bytes of an answer that are sent together: windows of many sources have many small frames.
const SEND_BYTES: usize = 64 << 10;

/// Name of the socket in the directory of a spool.
pub const SOCKET_NAME: &str = "spool.sock";

/// Options of the door of a spool.
#[derive(Clone, Debug)]
pub struct DoorOptions {
    /// Path of the Unix socket. An existing file is replaced.
    pub socket: Option<PathBuf>,
    /// The TCP address.
    pub listen: Option<SocketAddr>,
    /// The key that requesters over the network must have.
    pub key: Option<RunKey>,
    /// Maximum number of requesters at a time.
    pub connections: usize,
    /// Time that a requester has to prove that it has the key.
    pub greeting: Duration,
    /// Time for which a requester may read nothing while an answer waits for it.
    pub patience: Duration,
}

impl Default for DoorOptions {
    fn default() -> Self {
        Self {
            socket: None,
            listen: None,
            key: None,
            connections: 16,
            greeting: Duration::from_secs(5),
            patience: Duration::from_secs(10),
        }
    }
}

/// Reason why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The Unix socket cannot be made.
    #[error("cannot make the socket {path} for requests: {error}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The TCP address cannot be listened on.
    #[error(
        "cannot listen on {address} for requests: {error}; is it in use, or does it belong to another host?"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The thread of the door cannot be had.
    #[error("cannot start the thread for requests: {0}")]
    Thread(#[source] io::Error),
}

/// Counts of a door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorCounts {
    /// Requesters that were let in.
    pub joined: u64,
    /// Those that came when there was no place for another.
    pub refused: u64,
    /// Those that did not prove that they have the key of the run.
    pub wrong_key: u64,
    /// Those that were dropped because they read nothing.
    pub slow: u64,
    /// Those that were dropped because they sent invalid data.
    pub invalid: u64,
    /// Windows that were answered.
    pub windows: u64,
    /// Hits in them.
    pub hits: u64,
    /// Intervals in them that the spool does not have.
    pub gaps: u64,
    /// Windows of which a file could not be read.
    pub failed: u64,
}

impl DoorCounts {
    /// Names and values.
    #[must_use]
    pub const fn fields(&self) -> [(&'static str, u64); 9] {
        [
            ("requesters_joined", self.joined),
            ("requesters_refused", self.refused),
            ("requesters_wrong_key", self.wrong_key),
            ("requesters_slow", self.slow),
            ("requesters_invalid", self.invalid),
            ("windows", self.windows),
            ("window_hits", self.hits),
            ("window_gaps", self.gaps),
            ("windows_failed", self.failed),
        ]
    }
}

#[derive(Debug, Default)]
struct SharedCounts([AtomicU64; 9]);

#[derive(Clone, Copy)]
enum Count {
    Joined,
    Refused,
    WrongKey,
    Slow,
    Invalid,
    Windows,
    Hits,
    Gaps,
    Failed,
}

impl SharedCounts {
    fn add(&self, count: Count, by: u64) -> u64 {
        self.0[count as usize].fetch_add(by, Ordering::Relaxed) + by
    }

    fn read(&self) -> DoorCounts {
        let [joined, refused, wrong_key, slow, invalid, windows, hits, gaps, failed] =
            std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed));
        DoorCounts { joined, refused, wrong_key, slow, invalid, windows, hits, gaps, failed }
    }
}

/// State that the threads of a door share.
#[derive(Debug)]
struct Shared {
    options: DoorOptions,
    archive: Archive,
    counts: SharedCounts,
    over: AtomicBool,
    /// Sockets of requesters, to end their threads.
    sockets: Mutex<Vec<(u64, RequesterSocket)>>,
}

/// An open door.
#[derive(Debug)]
pub struct Door {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    address: Option<SocketAddr>,
}

#[derive(Debug)]
enum RequesterSocket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl RequesterSocket {
    fn set_timeouts(&self, read: Option<Duration>, write: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(Some(write))
            }
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(Some(write))
            }
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    fn shutdown(&self) {
        // A connection that is closed already needs no end.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        }
    }
}

impl Door {
    /// Opens the door of an archive.
    ///
    /// # Errors
    /// A [`DoorError`].
    pub fn open(options: DoorOptions, archive: Archive) -> Result<Self, DoorError> {
        let mut socket = options.socket.as_deref().map(listen_at_path).transpose()?;
        let mut listen = options.listen.map(listen_at_address).transpose()?;
        let address = listen.as_ref().and_then(|listen| listen.local_addr().ok());
        let poll = Poll::new().map_err(DoorError::Thread)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(DoorError::Thread)?;
        if let Some(socket) = &mut socket {
            poll.registry().register(socket, SOCKET, Interest::READABLE).map_err(DoorError::Thread)?;
        }
        if let Some(listen) = &mut listen {
            poll.registry().register(listen, LISTEN, Interest::READABLE).map_err(DoorError::Thread)?;
        }
        let shared = Arc::new(Shared {
            options,
            archive,
            counts: SharedCounts::default(),
            over: AtomicBool::new(false),
            sockets: Mutex::default(),
        });
        let keeper = Keeper { shared: shared.clone(), poll, socket, listen, threads: Vec::new(), next: 0 };
        let thread = std::thread::Builder::new().name("spool door".into()).spawn(move || keeper.run());
        Ok(Self { shared, waker, thread: Some(thread.map_err(DoorError::Thread)?), address })
    }

    /// Returns the TCP address, with the port that the system chose if it was 0.
    #[must_use]
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> DoorCounts {
        self.shared.counts.read()
    }

    /// Closes the door. Answers in progress are cut off.
    #[must_use]
    pub fn close(mut self) -> DoorCounts {
        self.end();
        self.shared.counts.read()
    }

    fn end(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Err(error) = self.waker.wake() {
            log_as!(SPOOL_INCOMPLETE; "the thread for requests cannot be woken: {error}");
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log_as!(THREAD_PANICKED; "the thread for requests ended early: this is a bug in sheaf");
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen_at_path(path: &Path) -> Result<UnixListener, DoorError> {
    let bound = listen_at(path).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(UnixListener::from_std(listener))
    });
    bound.map_err(|error| DoorError::Socket { path: path.to_owned(), error })
}

fn listen_at_address(address: SocketAddr) -> Result<TcpListener, DoorError> {
    TcpListener::bind(address).map_err(|error| DoorError::Listen { address, error })
}

/// The thread that lets requesters in.
struct Keeper {
    shared: Arc<Shared>,
    poll: Poll,
    socket: Option<UnixListener>,
    listen: Option<TcpListener>,
    threads: Vec<(u64, JoinHandle<()>)>,
    next: u64,
}

impl Keeper {
    fn run(mut self) {
        let mut events = Events::with_capacity(8);
        while !self.shared.over.load(Ordering::Acquire) {
            if let Err(error) = self.poll.poll(&mut events, None)
                && error.kind() != ErrorKind::Interrupted
            {
                log_as!(SPOOL_FAILED; "the spool takes no more requests: {error}");
                break;
            }
            self.accept();
        }
        let sockets = std::mem::take(&mut *self.shared.sockets());
        sockets.iter().for_each(|(_, socket)| socket.shutdown());
        for (_, thread) in self.threads.drain(..) {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
        if let Some(path) = self.shared.options.socket.as_deref().filter(|_| self.socket.is_some()) {
            // A socket that remains leads nowhere, and is replaced by the next recording.
            let _ = std::fs::remove_file(path);
        }
    }

    fn accept(&mut self) {
        loop {
            let socket = match (&self.socket, &self.listen) {
                (Some(socket), _) if let Some(found) = accepted(socket.accept()) => {
                    RequesterSocket::Unix(found.0.into())
                }
                (_, Some(listen)) if let Some(found) = accepted(listen.accept()) => {
                    RequesterSocket::Tcp(found.0.into())
                }
                _ => return,
            };
            self.admit(socket);
        }
    }

    fn admit(&mut self, mut socket: RequesterSocket) {
        let shared = &self.shared;
        let options = &shared.options;
        self.threads.retain(|(_, thread)| !thread.is_finished());
        if self.threads.len() >= options.connections {
            let times = shared.counts.add(Count::Refused, 1);
            if let Some(times) = Times::to_log(times) {
                log_as!(
                    REQUESTER_REFUSED;
                    "a requester was refused: {} have joined{times}", options.connections
                );
            }
            // The socket's buffer is empty; whoever does not get this message finds the connection closed.
            let _ = socket.write_all(&Frame::End(EndReason::Full).emit());
            return;
        }
        let key = options.key.clone().filter(|_| matches!(socket, RequesterSocket::Tcp(_)));
        let number = self.next;
        self.next += 1;
        let begun = key.map(|key| DoorProof::new(key, DoorPurposes::SPOOLS)).transpose();
        let begun = begun.map_err(io::Error::other).and_then(|proof| {
            socket.set_timeouts(proof.as_ref().map(|_| options.greeting), options.patience)?;
            shared.sockets().push((number, socket.try_clone()?));
            let shared = shared.clone();
            let body = move || {
                serve(&shared, socket, proof);
                shared.sockets().retain(|(other, _)| *other != number);
            };
            std::thread::Builder::new().name(format!("spool door {number}")).spawn(body)
        });
        match begun {
            Ok(thread) => self.threads.push((number, thread)),
            Err(error) => log_as!(REQUESTER_REFUSED; "a requester cannot join: {error}"),
        }
    }
}

/// Returns a new connection; `None` if there is none now.
fn accepted<S>(accepted: io::Result<S>) -> Option<S> {
    match accepted {
        Ok(socket) => Some(socket),
        Err(error) => {
            if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) {
                log_as!(REQUESTER_REFUSED; "a requester cannot join: {error}");
            }
            None
        }
    }
}

impl Shared {
    fn sockets(&self) -> std::sync::MutexGuard<'_, Vec<(u64, RequesterSocket)>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs what anyone who can reach the door can cause at any rate.
    fn warn(&self, count: Count, what: &str) {
        match Times::to_log(self.counts.add(count, 1)) {
            Some(times) => log_as!(REQUESTER_REFUSED; "{what}{times}"),
            None => log::debug!("{what}"),
        }
    }
}

/// Answers one requester until it leaves.
fn serve(shared: &Shared, mut socket: RequesterSocket, proof: Option<DoorProof>) {
    let is_guarded = proof.is_some();
    let mut conversation = Conversation::new(welcome(&shared.archive), proof);
    let ended = converse(shared, &mut socket, &mut conversation, is_guarded);
    socket.shutdown();
    if conversation.is_wrong_key() || (is_guarded && conversation.is_unproven()) {
        shared.warn(
            Count::WrongKey,
            "a requester was turned away: it did not prove that it has the key of the run; give it a copy of \
             `transport.key_file` (`sheaf extract --key`)",
        );
        return;
    }
    match ended {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            shared.warn(Count::Slow, "a requester read nothing and was dropped");
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            shared.warn(Count::Invalid, &format!("a requester was dropped: {error}"));
        }
        Err(error) => log::debug!("a requester left: {error}"),
        Ok(()) => {}
    }
}

/// Returns when the requester has left.
fn converse(
    shared: &Shared,
    socket: &mut RequesterSocket,
    conversation: &mut Conversation,
    is_guarded: bool,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut is_welcome = false;
    loop {
        let next = conversation.poll_event();
        socket.write_all(&conversation.poll_transmit())?;
        if !is_welcome && !conversation.is_unproven() && !conversation.is_wrong_key() {
            is_welcome = true;
            shared.counts.add(Count::Joined, 1);
            if is_guarded {
                // From here on it may be silent for as long as it likes.
                socket.set_timeouts(None, shared.options.patience)?;
            }
        }
        match next.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))? {
            ConversationStep::Read => match socket.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => conversation.handle_input(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            },
            ConversationStep::Serve(request) => answer(shared, socket, &request)?,
            ConversationStep::Close => return Ok(()),
        }
    }
}

fn answer(shared: &Shared, socket: &mut RequesterSocket, request: &WindowRequest) -> io::Result<()> {
    // An error of the socket ends the conversation, one of a file ends it with a reason.
    let mut is_broken = false;
    let mut unsent = Vec::new();
    let mut send = |frame: Vec<u8>| {
        unsent.extend(frame);
        if unsent.len() < SEND_BYTES {
            return Ok(());
        }
        let sent = socket.write_all(&unsent).inspect_err(|_| is_broken = true);
        unsent.clear();
        sent
    };
    let done = shared.archive.answer(request, &mut |answer| match answer {
        WindowAnswer::Hits(part, hits) => {
            let mut pieces = hits.chunks(MAX_HITS_BYTES as usize);
            send(emit_hits(&part, pieces.next().unwrap_or_default()))?;
            pieces.try_for_each(|piece| send(emit_hits(&part, piece)))
        }
        WindowAnswer::Gap(part, reason) => send(Frame::Gap(part, reason).emit()),
    });
    match done {
        Ok(done) => {
            shared.counts.add(Count::Windows, 1);
            shared.counts.add(Count::Hits, done.hits);
            shared.counts.add(Count::Gaps, done.gaps.into());
            unsent.extend(Frame::Done(done).emit());
            socket.write_all(&unsent)
        }
        Err(error) if is_broken => Err(error),
        Err(error) => {
            shared.warn(Count::Failed, &format!("a window cannot be read: {error}"));
            unsent.extend(Frame::End(EndReason::Failed).emit());
            socket.write_all(&unsent)?;
            Err(io::Error::other(error))
        }
    }
}

/// Returns the description of a spool: a JSON object.
#[must_use]
pub fn welcome(archive: &Archive) -> String {
    let latest = archive.latest();
    let sessions: Vec<_> = archive
        .sessions()
        .into_iter()
        .map(|held| {
            let intervals = held.sources.values().map(|part| part.interval);
            let whole = intervals.reduce(|one, other| one.hull(other));
            serde_json::json!({
                "session": format!("{:016x}", held.session.0),
                "run": held.run.0,
                "metadata": serde_json::from_str::<serde_json::Value>(&held.metadata).unwrap_or_default(),
                "from_ps": whole.map(|whole| whole.from_ps),
                "until_ps": whole.map(|whole| whole.until_ps),
                "sources": held.sources.len(),
                "hits": held.sources.values().map(|part| part.hits).sum::<u64>(),
                "segments": held.segments,
                "bytes": held.bytes,
                "has_deleted": held.has_deleted,
            })
        })
        .collect();
    let latest = latest.map(|latest| format!("{:016x}", latest.0));
    serde_json::json!({ "format": "sheaf-spool", "version": 1, "latest": latest, "sessions": sessions })
        .to_string()
}
