//! Triggers of a library (`trigger.mode = "library"`), polled by a thread of their process.
//!
//! One thread makes all calls of the library. Another one has the connection to the event manager, so that it is served also while the
//! library blocks. What passes between them is bounded: the answer of one poll, and the state of the run.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use sheaf_filter::{LibraryTrigger, OpenError, PollEnd, PolledTrigger};
use sheaf_wire::trigger_link::{BusyReason, Trigger};
use sheaf_wire::{ByteCount, EventId};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Answer of a poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolledTriggers {
    /// The triggers, up to one that is invalid.
    pub triggers: Vec<Trigger>,
    /// Number of triggers that the device has held back since the last poll.
    pub vetoed: u64,
    /// Reason why the library is not polled again.
    pub end: Option<LibraryEnd>,
}

/// Reason why a library is not polled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryEnd {
    /// It has no more triggers.
    NoMore,
    /// It has failed, or its answer is invalid.
    Failed(String),
}

/// A library of triggers and the thread that calls it.
#[derive(Debug)]
pub struct LibraryCaller {
    desk: Arc<Desk>,
}

/// State that both threads share.
#[derive(Debug)]
struct Desk {
    state: Mutex<State>,
    /// Wakes the thread of the library.
    turn: Condvar,
    /// Wakes the thread of the connection.
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    opened: Option<Result<(), OpenError>>,
    /// Id of the first trigger, once the run takes triggers.
    next: Option<EventId>,
    busy: Option<BusyReason>,
    /// Whether the library is not polled any more.
    stops: bool,
    answer: Option<PolledTriggers>,
    /// The call of the library that is in progress, and its begin.
    call: Option<(&'static str, Instant)>,
    has_finished: bool,
}

/// Next task of the thread of the library.
enum Task {
    Busy(Option<BusyReason>),
    Poll,
    Stop,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state for the thread of the library.
    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.turn.notify_one();
    }

    /// Changes the state for the thread of the connection.
    fn report(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        // The counter cannot overflow: it is read whenever the thread wakes up.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Calls the library.
    fn call<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> T {
        self.lock().call = Some((name, Instant::now()));
        let result = call();
        self.lock().call = None;
        result
    }

    /// Waits until the run takes triggers. Returns the next id; `None` if the run has ended before.
    fn wait_for_start(&self) -> Option<EventId> {
        let mut state = self.lock();
        loop {
            match (state.stops, state.next) {
                (true, _) => return None,
                (false, Some(next)) => return Some(next),
                (false, None) => state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Waits for the next task. `told` is what the library knows of busy; it is not polled before `not_before`.
    fn next_task(&self, told: Option<BusyReason>, not_before: Instant, has_veto: bool) -> Task {
        let mut state = self.lock();
        loop {
            if state.stops {
                return Task::Stop;
            }
            if has_veto && state.busy != told {
                return Task::Busy(state.busy);
            }
            let may_poll = state.answer.is_none() && (has_veto || state.busy.is_none());
            let pause = not_before.saturating_duration_since(Instant::now());
            state = match (may_poll, pause.is_zero()) {
                (true, true) => return Task::Poll,
                (true, false) => {
                    let waited = self.turn.wait_timeout(state, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                (false, _) => self.turn.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Takes note of the end of the thread, also if it panics.
struct Finish(Arc<Desk>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.report(|state| (state.has_finished, state.call) = (true, None));
    }
}

impl LibraryCaller {
    /// Starts a thread that opens a library and closes it in the end. Payloads have at most `max_payload` bytes.
    ///
    /// # Errors
    /// The operating system has no thread or no file descriptor for it.
    pub fn start(
        open: impl FnOnce() -> Result<LibraryTrigger, OpenError> + Send + 'static,
        max_payload: ByteCount,
    ) -> io::Result<Self> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let desk = Arc::new(Desk { state: Mutex::default(), turn: Condvar::new(), bell });
        let finish = Finish(desk.clone());
        let thread = std::thread::Builder::new().name("library".into());
        thread.spawn(move || {
            let desk = &finish.0;
            match desk.call("open", open) {
                Ok(library) => {
                    desk.report(|state| state.opened = Some(Ok(())));
                    serve(library, desk, max_payload);
                }
                Err(error) => desk.report(|state| state.opened = Some(Err(error))),
            }
        })?;
        Ok(Self { desk })
    }

    /// Returns whether the library was opened, or why not; `None` before that is known, and when it was returned.
    #[must_use]
    pub fn take_opened(&self) -> Option<Result<(), OpenError>> {
        self.desk.lock().opened.take()
    }

    /// Has the library polled, from this id on.
    pub fn poll_from(&self, next: EventId) {
        self.desk.tell(|state| state.next = Some(next));
    }

    /// Sets whether the run is busy. Of changes during a call, the library learns the last one.
    pub fn set_busy(&self, reason: Option<BusyReason>) {
        self.desk.tell(|state| state.busy = reason);
    }

    /// Has the library stopped and closed.
    pub fn stop(&self) {
        self.desk.tell(|state| state.stops = true);
    }

    /// Takes the answer of the last poll, so that the library is polled again.
    #[must_use]
    pub fn take(&self) -> Option<PolledTriggers> {
        let mut state = self.desk.lock();
        let answer = state.answer.take();
        if answer.is_some() {
            self.desk.turn.notify_one();
        } else if state.has_finished && !state.stops {
            let end = Some(LibraryEnd::Failed("its thread has ended unexpectedly".into()));
            return Some(PolledTriggers { end, ..PolledTriggers::default() });
        }
        answer
    }

    /// Returns the call of the library that is in progress, and its begin.
    #[must_use]
    pub fn call(&self) -> Option<(&'static str, Instant)> {
        self.desk.lock().call
    }

    /// Returns whether the library was closed.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        self.desk.lock().has_finished
    }

    /// Returns a file that can be read when there is something new, until [`Self::heard`] is called.
    #[must_use]
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.desk.bell.as_fd()
    }

    /// Takes note that everything new is examined from now on.
    pub fn heard(&self) {
        // There may be nothing to read.
        let _ = rustix::io::read(&self.desk.bell, &mut [0; 8]);
    }

    /// Sleeps until there is something new, at most for this time.
    pub fn wait(&self, longest: Duration) {
        let timeout = Timespec::try_from(longest).ok();
        // An interruption is as good as a wake-up.
        let _ = poll(&mut [PollFd::new(&self.desk.bell, PollFlags::IN)], timeout.as_ref());
        self.heard();
    }
}

/// Polls a library until the run or its triggers end, and closes it.
fn serve(mut library: LibraryTrigger, desk: &Desk, max_payload: ByteCount) {
    if let Some(next) = desk.wait_for_start() {
        desk.call("start", || library.start(next));
        poll_until_end(&mut library, desk, max_payload);
        desk.call("stop", || library.stop());
    }
    desk.call("close", || drop(library));
}

fn poll_until_end(library: &mut LibraryTrigger, desk: &Desk, max_payload: ByteCount) {
    let (mut told, mut not_before) = (None, Instant::now());
    loop {
        match desk.next_task(told, not_before, library.has_veto()) {
            Task::Stop => return,
            Task::Busy(reason) => {
                told = reason;
                let text = reason.and_then(|reason| CString::new(reason.cause.name()).ok());
                desk.call("busy", || library.busy(text.as_deref()));
            }
            Task::Poll => {
                let (answer, pause) = answer(library, desk, max_payload);
                let is_last = answer.end.is_some();
                desk.report(|state| {
                    state.answer = Some(answer);
                    state.stops |= is_last;
                });
                if is_last {
                    return;
                }
                not_before = Instant::now() + pause;
            }
        }
    }
}

/// Polls once. Returns the answer, and the time until the next poll.
fn answer(library: &mut LibraryTrigger, desk: &Desk, max_payload: ByteCount) -> (PolledTriggers, Duration) {
    let mut answer = PolledTriggers::default();
    let end = match desk.call("poll", || library.poll()) {
        Ok(end) => end,
        Err(error) => {
            answer.end = Some(LibraryEnd::Failed(error.to_string()));
            return (answer, Duration::ZERO);
        }
    };
    answer.vetoed = library.vetoed();
    for polled in (0..).map_while(|place| library.trigger(place)) {
        match checked(polled, max_payload) {
            Ok(trigger) => answer.triggers.push(trigger),
            Err(reason) => {
                let reason = format!("the answer of the library is invalid: trigger {} {reason}", polled.id);
                answer.end = Some(LibraryEnd::Failed(reason));
                return (answer, Duration::ZERO);
            }
        }
    }
    match end {
        PollEnd::More => (answer, Duration::ZERO),
        PollEnd::After(pause) => (answer, pause.to_std()),
        PollEnd::Ended => (PolledTriggers { end: Some(LibraryEnd::NoMore), ..answer }, Duration::ZERO),
    }
}

/// Returns a trigger with its payload, or the error in it.
fn checked(polled: PolledTrigger<'_>, max_payload: ByteCount) -> Result<Trigger, String> {
    let PolledTrigger { id, time, kind, bits, payload } = polled;
    match payload {
        None => Err("has a payload without data".into()),
        Some(payload) if payload.len() as u64 <= max_payload.0 => {
            Ok(Trigger { id, time, kind, bits, payload: payload.to_vec() })
        }
        Some(payload) if max_payload == ByteCount::ZERO => Err(format!(
            "has a payload of {} bytes, but the run takes none; set `trigger.network.payload_source`",
            payload.len()
        )),
        Some(payload) => Err(format!(
            "has a payload of {} bytes, and the run takes {} (`trigger.network.payload_maximum_bytes`)",
            payload.len(),
            max_payload.0
        )),
    }
}

#[cfg(test)]
mod tests;
