//! Workers that are threads: events go to them by reference, through rings without locks.

use super::give::GiveError;
use crate::filter::{Filter, FilterFailure};
use crate::judging::{self, EventExchange, SharedTimes, WorkerTimes};
use bytes::Bytes;
use rtrb::{Consumer, Producer, RingBuffer};
use sheaf_protocol::farm::{Departure, Processor, ProcessorEvent, Seat, Ticket, Word};
use sheaf_wire::{Event, Nanos, NodeId, Verdict};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Waker;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Makes a filter for each worker; called again for one that takes the place of another.
pub type FilterMaker = Box<dyn FnMut() -> Result<Box<dyn Filter>, FilterFailure> + Send>;

type Handle = Arc<Event<Bytes>>;

/// A message of a thread, with the event that it returns.
type Answer = (Word<Verdict>, Option<Handle>);

/// The way to a thread.
pub(super) struct ThreadLine {
    to: Option<Producer<(Ticket, Handle)>>,
    from: Consumer<Answer>,
    asleep: Arc<AtomicBool>,
    gave: bool,
    times: Arc<SharedTimes>,
    thread: Option<JoinHandle<Counters>>,
    /// Counts of its filter, once it has ended.
    counters: Counters,
}

/// Counts of a filter, by name.
type Counters = Vec<(&'static str, u64)>;

/// Starts a worker.
pub(super) fn start(
    node: NodeId,
    seat: Seat,
    ahead: u32,
    mut filter: Box<dyn Filter>,
    waker: Waker,
) -> std::io::Result<ThreadLine> {
    let ahead_events = ahead as usize;
    let (to, events) = RingBuffer::new(ahead_events);
    // For each event an answer, and questions between them.
    let (answers, from) = RingBuffer::new(2 * ahead_events + 2);
    let (asleep, times) = (Arc::new(AtomicBool::new(false)), Arc::new(SharedTimes::default()));
    let (its_sleep, its_times) = (asleep.clone(), times.clone());
    let body = move || {
        let mut exchange = ThreadExchange {
            role: Processor::new(ahead),
            events,
            answers,
            asleep: its_sleep,
            said: false,
            waker,
            times: its_times,
        };
        exchange.say();
        exchange.ring();
        // Ends when the way to it is closed. If the filter panics the rings are dropped, which the dispatcher sees.
        let Ok(_) = judging::work(&mut exchange, &mut *filter);
        filter.counters()
    };
    let name = format!("{node}.w{}", seat.place);
    let thread = std::thread::Builder::new().name(name).spawn(body)?;
    Ok(ThreadLine {
        to: Some(to),
        from,
        asleep,
        gave: false,
        times,
        thread: Some(thread),
        counters: Vec::new(),
    })
}

impl ThreadLine {
    pub(super) fn receive(&mut self) -> Result<Option<Word<Verdict>>, Departure> {
        match self.from.pop() {
            // The thread has released the event before its answer arrives.
            Ok((word, _)) => Ok(Some(word)),
            Err(_) if self.from.is_abandoned() => match self.from.pop() {
                Ok((word, _)) => Ok(Some(word)),
                Err(_) => Err(Departure::Died),
            },
            Err(_) => Ok(None),
        }
    }

    pub(super) fn give(&mut self, ticket: Ticket, event: &Handle) -> Result<(), GiveError> {
        let to = self.to.as_mut().ok_or(GiveError::Gone)?;
        // It is given at most as many events as it asked for, and the ring has room for them.
        to.push((ticket, event.clone())).map_err(|_| GiveError::Full)?;
        self.gave = true;
        Ok(())
    }

    pub(super) fn flush(&mut self) {
        if std::mem::take(&mut self.gave) {
            self.wake();
        }
    }

    /// A fence separates the publication of the event from the read of the flag, as the thread has one between its flag
    /// and its last check: one of the two sees the other.
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed)
            && let Some(thread) = self.thread()
        {
            thread.unpark();
        }
    }

    fn thread(&self) -> Option<&Thread> {
        self.thread.as_ref().map(JoinHandle::thread)
    }

    /// Nothing more will come: a thread that works ends, one that hangs is left behind.
    pub(super) fn close(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread() {
            thread.unpark();
        }
    }

    /// Waits for the thread's end, once it was told to end. A thread that hangs is abandoned.
    pub(super) fn join(&mut self, patience: Duration) {
        let start = Instant::now();
        while self.thread.as_ref().is_some_and(|it| !it.is_finished()) && start.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(thread) = self.thread.take_if(|it| it.is_finished()) {
            // If this fails, the thread has panicked and printed a message.
            self.counters = thread.join().unwrap_or_default();
        }
    }

    /// Counts of its filter; empty before it has ended.
    pub(super) fn filter_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    pub(super) fn times(&self) -> WorkerTimes {
        self.times.read()
    }
}

/// The thread's side.
struct ThreadExchange {
    role: Processor<Handle, Verdict>,
    events: Consumer<(Ticket, Handle)>,
    answers: Producer<Answer>,
    asleep: Arc<AtomicBool>,
    /// Whether a message was sent and the builder unit was not woken.
    said: bool,
    waker: Waker,
    times: Arc<SharedTimes>,
}

impl ThreadExchange {
    fn say(&mut self) {
        while let Some(word) = self.role.poll_transmit() {
            self.push(word, None);
        }
    }

    fn push(&mut self, word: Word<Verdict>, event: Option<Handle>) {
        // The ring has room for all messages about the events that it holds.
        if self.answers.push((word, event)).is_ok() {
            self.said = true;
        }
    }

    fn ring(&mut self) {
        if std::mem::take(&mut self.said) {
            self.waker.wake_by_ref();
        }
    }
}

impl EventExchange for ThreadExchange {
    type Event = Handle;
    type Error = Infallible;

    fn take(&mut self) -> Result<Option<(Ticket, Handle)>, Infallible> {
        let Ok((ticket, event)) = self.events.pop() else { return Ok(None) };
        let asked = self.role.handle_input(ticket, event);
        debug_assert!(asked, "a dispatcher gives what was asked for");
        Ok(match self.role.poll_event() {
            Some(ProcessorEvent::Judge(ticket, event)) => Some((ticket, event)),
            Some(ProcessorEvent::Closed) | None => None,
        })
    }

    fn answer(
        &mut self,
        ticket: Ticket,
        event: Handle,
        answer: Result<Verdict, FilterFailure>,
    ) -> Result<(), Infallible> {
        self.role.handle_answer(ticket, answer);
        if let Some(word) = self.role.poll_transmit() {
            self.push(word, Some(event));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        self.say();
        self.ring();
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        self.events.is_abandoned() && self.events.is_empty()
    }

    fn sleep(&mut self, longest: Nanos) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.events.is_empty() && !self.events.is_abandoned() {
            std::thread::park_timeout(longest.to_std());
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    fn show(&mut self, times: &WorkerTimes) {
        self.times.show(times);
    }
}
