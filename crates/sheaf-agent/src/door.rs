//! Answers calls.

use crate::LinkOptions;
use crate::caller::prepare;
use crate::conversation::{Conversation, Shared, Waker};
use crate::frame::{Frame, Name};
use crate::pump::{self, Place};
use crate::secure::{Secured, Tls};
use sheaf_key::{Purpose, RunKey};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Connections whose other end has not proven anything yet. Of more, the oldest is ended: strangers cannot keep others out.
const UNPROVEN: usize = 64;

/// New conversations that nobody has taken yet.
const NEW: usize = 64;

/// Pause after an error of the listening socket, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// Where an agent is called.
#[derive(Debug)]
pub struct Door {
    address: SocketAddr,
    new: Receiver<Conversation>,
}

impl Door {
    /// Begins to listen at an address, `host:port`; with port 0, at a free port.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn listen(address: &str, key: RunKey, options: &LinkOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (sender, new) = sync_channel(NEW);
        let guard = Guard {
            key,
            tls: Tls::new()?,
            options: options.clone(),
            known: Mutex::default(),
            unproven: Mutex::default(),
            new: sender,
        };
        let guard = Arc::new(guard);
        std::thread::Builder::new().name("agent-door".into()).spawn(move || listen(&listener, &guard))?;
        Ok(Self { address, new })
    }

    /// Returns the address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a new conversation, but no longer than `timeout`.
    #[must_use]
    pub fn accept(&self, timeout: Duration) -> Option<Conversation> {
        self.new.recv_timeout(timeout).ok()
    }
}

fn listen(listener: &TcpListener, guard: &Arc<Guard>) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, from)) => {
                log::trace!("a connection from {from}");
                stream
            }
            Err(error) => {
                log::debug!("a connection cannot be accepted: {error}");
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        let Some(number) = guard.note_unproven(&stream) else { continue };
        let own = guard.clone();
        let body = move || own.answer(stream, number);
        if let Err(error) = std::thread::Builder::new().name("agent-call".into()).spawn(body) {
            log::debug!("a connection cannot be answered: {error}");
            guard.forget_unproven(number);
        }
    }
}

/// A connection whose ends are known, its conversation, and its place in that.
type Met = (Secured, Arc<Shared>, Place);

/// State that all connections of a door share.
struct Guard {
    key: RunKey,
    tls: Tls,
    options: LinkOptions,
    known: Mutex<BTreeMap<Name, Weak<Shared>>>,
    unproven: Mutex<Unproven>,
    new: SyncSender<Conversation>,
}

#[derive(Default)]
struct Unproven {
    streams: VecDeque<(u64, TcpStream)>,
    next: u64,
}

impl Guard {
    fn unproven(&self) -> MutexGuard<'_, Unproven> {
        self.unproven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection whose other end has not proven anything yet. Returns its number.
    fn note_unproven(&self, stream: &TcpStream) -> Option<u64> {
        let stream = stream.try_clone().ok()?;
        let mut unproven = self.unproven();
        if unproven.streams.len() == UNPROVEN
            && let Some((_, oldest)) = unproven.streams.pop_front()
        {
            // It may have ended.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let number = unproven.next;
        unproven.next += 1;
        unproven.streams.push_back((number, stream));
        Some(number)
    }

    fn forget_unproven(&self, number: u64) {
        self.unproven().streams.retain(|(other, _)| *other != number);
    }

    fn answer(&self, stream: TcpStream, number: u64) {
        let met = self.meet(stream);
        self.forget_unproven(number);
        match met {
            Ok(Some((secured, shared, place))) => pump::run(secured, &shared, place),
            Ok(None) => {}
            Err(error) => log::debug!("a connection is not used: {error}"),
        }
    }

    /// Has both ends prove that they have the key, and finds the conversation.
    fn meet(&self, stream: TcpStream) -> io::Result<Option<Met>> {
        prepare(&stream)?;
        let mut secured = Secured::answer(stream, &self.tls, self.options.connect_timeout)?;
        let Frame::Call { proof, name, is_first, received } = secured.read()? else {
            return Err(io::Error::other("the caller does not begin with a call"));
        };
        if !secured.is_proven(&self.key, Purpose::AgentCaller, &proof) {
            log::warn!("a caller is refused that does not have the key of this agent");
            secured.write(&Frame::Refusal)?;
            return Ok(None);
        }
        let proof = secured.prove(&self.key, Purpose::AgentDoor);
        let found = self.find(name, is_first);
        let mine = found.as_ref().map_or(0, |(shared, _)| shared.state().exchange.received());
        let is_known = found.is_some();
        secured.write(&Frame::Answer { proof, is_known, received: mine })?;
        let Some((shared, is_new)) = found else { return Ok(None) };
        shared.state().exchange.connect(received).map_err(io::Error::other)?;
        let waker = Waker::new()?;
        let connection = shared.connect(waker.clone());
        if is_new && let Err(error) = self.new.try_send(Conversation::of(shared.clone())) {
            let why = match error {
                TrySendError::Full(_) => "too many conversations begin at once",
                TrySendError::Disconnected(_) => "the agent ends",
            };
            return Err(io::Error::other(why));
        }
        Ok(Some((secured, shared, Place { connection, waker })))
    }

    /// Returns the conversation with this name, and whether it is new. `None` if it should be known and is not.
    fn find(&self, name: Name, is_first: bool) -> Option<(Arc<Shared>, bool)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, shared| shared.strong_count() > 0);
        if let Some(shared) = known.get(&name).and_then(Weak::upgrade) {
            return Some((shared, false));
        }
        is_first.then(|| {
            let shared = Shared::new(&self.options);
            known.insert(name, Arc::downgrade(&shared));
            (shared, true)
        })
    }
}
