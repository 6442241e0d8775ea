//! An end of a conversation, for the threads of its owner and the thread of its connection.

use crate::LinkOptions;
use crate::exchange::Exchange;
pub use crate::exchange::SendError;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Notices of connections that are kept for a reader; of more, the oldest are dropped.
const NOTICES: usize = 16;

/// Why a conversation is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The other end has closed it, or this one has.
    Closed,
    /// The other end has another key, is of another release, or is no agent: the text has the reason.
    Refused(String),
    /// The agent does not know the conversation any more: it was started again.
    Unknown,
    /// There was no connection for [`LinkOptions::patience`]: the text has the last reason.
    Patience(String),
}

/// A message, a notice, or the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of the other end.
    Message(Vec<u8>),
    /// Nothing in the time that was given.
    Nothing,
    /// A connection was made, or made again.
    Connected,
    /// The connection was lost, or cannot be made, with the reason. It is tried again.
    Lost(String),
    /// The conversation is over. All messages were received.
    Ended(EndReason),
}

/// One end of a conversation. Dropping it ends the conversation without notice.
#[derive(Debug)]
pub struct Conversation {
    shared: Arc<Shared>,
}

impl Conversation {
    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Sends a message. It is kept until the other end has acknowledged it. Never waits.
    ///
    /// # Errors
    /// If there is no room, the message is too long, or the conversation is over.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        let mut state = self.shared.state();
        if state.over.is_some() {
            return Err(SendError::Ended);
        }
        state.exchange.send(message)?;
        state.wake();
        Ok(())
    }

    /// Sends a message that may as well be lost, where there is a connection and half of the room is free. Returns whether it is sent; if not,
    /// it counts as [dropped](Self::dropped).
    pub fn offer(&self, message: &[u8]) -> bool {
        let mut state = self.shared.state();
        let is_sent = state.over.is_none()
            && state.is_connected
            && state.exchange.has_spare_room(message.len())
            && state.exchange.send(message).is_ok();
        if is_sent {
            state.wake();
        } else {
            state.dropped += 1;
        }
        is_sent
    }

    /// Returns the number of offered messages that were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.state().dropped
    }

    /// Waits for a message or a notice, but no longer than `timeout`.
    #[must_use]
    pub fn receive(&self, timeout: Duration) -> Received {
        let until = Instant::now() + timeout;
        let mut state = self.shared.state();
        loop {
            if let Some(received) = state.next(self.shared.patience) {
                return received;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Received::Nothing;
            }
            let left = left.min(self.shared.patience);
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whether there is a connection.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.state().is_connected
    }

    /// Returns whether the other end has hung up, and does not only fail to answer: its process has probably ended.
    #[must_use]
    pub fn was_hung_up(&self) -> bool {
        let state = self.shared.state();
        !state.is_connected && state.was_hung_up
    }

    /// Ends the conversation. The other end learns of it when it has received everything that was sent. Waits for that, but no longer than
    /// `deadline`, and returns whether it is so.
    pub fn close(&self, deadline: Duration) -> bool {
        let until = Instant::now() + deadline;
        let mut state = self.shared.state();
        state.exchange.close();
        state.wake();
        while !state.exchange.is_settled() && state.over.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_settled = state.exchange.is_settled();
        state.end(EndReason::Closed);
        self.shared.changed.notify_all();
        is_settled
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.shared.state().end(EndReason::Closed);
        self.shared.changed.notify_all();
    }
}

/// State that the owner of an end and the thread of its connection share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    patience: Duration,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) exchange: Exchange,
    /// Number of connections so far. A newer one takes the place of an older one.
    connections: u64,
    is_connected: bool,
    was_hung_up: bool,
    unconnected_since: Instant,
    /// Why there is no connection.
    trouble: String,
    notices: VecDeque<Received>,
    pub(crate) over: Option<EndReason>,
    waker: Option<Arc<Waker>>,
    dropped: u64,
}

impl Shared {
    pub(crate) fn new(options: &LinkOptions) -> Arc<Self> {
        let state = State {
            exchange: Exchange::new(options.room),
            connections: 0,
            is_connected: false,
            was_hung_up: false,
            unconnected_since: Instant::now(),
            trouble: "it does not answer".into(),
            notices: VecDeque::new(),
            over: None,
            waker: None,
            dropped: 0,
        };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), patience: options.patience })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everybody who waits that something has changed.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change, but no longer than `timeout`, unless the conversation is over. Returns whether it is.
    pub(crate) fn is_over_after(&self, timeout: Duration) -> bool {
        let state = self.state();
        if state.over.is_some() {
            return true;
        }
        let (state, _) = self.changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
        state.over.is_some()
    }

    /// Begins a connection, and ends the one before. Returns its number.
    pub(crate) fn connect(&self, waker: Arc<Waker>) -> u64 {
        let mut state = self.state();
        state.wake();
        state.connections += 1;
        (state.is_connected, state.was_hung_up) = (true, false);
        state.waker = Some(waker);
        state.notice(Received::Connected);
        self.changed.notify_all();
        state.connections
    }

    /// Ends a connection, unless a newer one has taken its place.
    pub(crate) fn disconnect(&self, connection: u64, why: &str, was_hung_up: bool) {
        let mut state = self.state();
        if state.connections != connection || !state.is_connected {
            return;
        }
        state.is_connected = false;
        state.was_hung_up = was_hung_up;
        state.waker = None;
        state.unconnected_since = Instant::now();
        state.note_trouble(why);
        self.changed.notify_all();
    }

    /// Notes why a connection cannot be made.
    pub(crate) fn note_trouble(&self, why: &str) {
        self.state().note_trouble(why);
        self.changed.notify_all();
    }

    /// Ends the conversation.
    pub(crate) fn end(&self, over: EndReason) {
        self.state().end(over);
        self.changed.notify_all();
    }
}

impl State {
    /// Returns whether a connection is the present one, of a conversation that is not over.
    pub(crate) fn is_current(&self, connection: u64) -> bool {
        self.connections == connection && self.over.is_none()
    }

    /// Ends the conversation with the last word of the other end, if it has said it.
    pub(crate) fn note_last_word(&mut self) {
        if self.exchange.is_over() && self.exchange.is_settled() {
            self.end(EndReason::Closed);
        }
    }

    fn next(&mut self, patience: Duration) -> Option<Received> {
        if let Some(notice) = self.notices.pop_front() {
            return Some(notice);
        }
        if let Some(message) = self.exchange.read() {
            // The connection waits for room.
            self.wake();
            return Some(Received::Message(message));
        }
        if self.exchange.is_over() {
            self.over.get_or_insert(EndReason::Closed);
        }
        if !self.is_connected && self.over.is_none() && self.unconnected_since.elapsed() >= patience {
            self.end(EndReason::Patience(self.trouble.clone()));
        }
        self.over.clone().map(Received::Ended)
    }

    fn notice(&mut self, notice: Received) {
        if self.notices.len() == NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }

    fn note_trouble(&mut self, why: &str) {
        why.clone_into(&mut self.trouble);
        // A connection that cannot be made is tried often, mostly in vain for the same reason.
        let lost = Received::Lost(why.to_owned());
        if self.notices.back() != Some(&lost) {
            self.notice(lost);
        }
    }

    fn end(&mut self, over: EndReason) {
        self.over.get_or_insert(over);
        self.wake();
    }

    fn wake(&self) {
        self.waker.iter().for_each(|waker| waker.wake());
    }
}

/// Wakes the thread of a connection.
#[derive(Debug)]
pub(crate) struct Waker {
    reader: UnixStream,
    writer: UnixStream,
}

impl Waker {
    pub(crate) fn new() -> std::io::Result<Arc<Self>> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Arc::new(Self { reader, writer }))
    }

    fn wake(&self) {
        // A pipe that is full has woken it already.
        let _ = (&self.writer).write(&[0]);
    }

    /// Takes all calls.
    pub(crate) fn take(&self) {
        let mut calls = [0; 64];
        loop {
            match (&self.reader).read(&mut calls) {
                Ok(0) => return,
                Err(error) if error.kind() != ErrorKind::Interrupted => return,
                Ok(_) | Err(_) => {}
            }
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
