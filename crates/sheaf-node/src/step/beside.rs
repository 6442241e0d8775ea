//! A step filter on a separate thread, for one that is not known to be fast.
//!
//! Parts wait for it in the order in which they were built. There are at most as many as the builder unit has slots: an
//! event has one part at a time with its step filter.

use super::{StepFailure, StepFilter, StepVerdict, judge};
use bytes::Bytes;
use sheaf_wire::Event;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// A part with the verdict of its step filter.
pub(crate) type JudgedPart = (Event<Bytes>, Result<StepVerdict, StepFailure>);

/// Counts of a step filter, by name.
type Counters = Vec<(&'static str, u64)>;

/// Time for which the end of a run waits for the thread.
const FAREWELL: Duration = Duration::from_secs(2);

/// A step filter and the way to its thread.
pub(crate) struct StepsBeside {
    parts: Option<Sender<Event<Bytes>>>,
    judged: Receiver<JudgedPart>,
    thread: Option<JoinHandle<Counters>>,
    waiting: usize,
}

impl StepsBeside {
    /// Starts the thread, which calls `waker` when a part is finished.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub(crate) fn start(mut filter: Box<dyn StepFilter>, waker: Waker) -> io::Result<Self> {
        let (parts, incoming) = channel::<Event<Bytes>>();
        let (outgoing, judged) = channel();
        let body = move || {
            for part in incoming {
                let answer = judge(&mut *filter, &part);
                if outgoing.send((part, answer)).is_err() {
                    // The builder unit has ended.
                    break;
                }
                waker.wake_by_ref();
            }
            filter.counters()
        };
        let thread = Builder::new().name("steps".to_owned()).spawn(body)?;
        Ok(Self { parts: Some(parts), judged, thread: Some(thread), waiting: 0 })
    }

    /// Has a part judged.
    pub(crate) fn give(&mut self, part: Event<Bytes>) {
        // Fails only where the thread has panicked, which `poll` finds.
        let _ = self.parts.as_ref().map(|parts| parts.send(part));
        self.waiting += 1;
    }

    /// The next part that is judged.
    ///
    /// # Panics
    /// If the step filter has panicked: its builder unit ends as if it had judged on its own thread, and its events are built by
    /// another.
    pub(crate) fn poll(&mut self) -> Option<JudgedPart> {
        match self.judged.try_recv() {
            Ok(judged) => {
                self.waiting -= 1;
                Some(judged)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                assert!(self.waiting == 0, "the step filter panicked; its message is above");
                None
            }
        }
    }

    /// Returns whether a part is not finished yet.
    pub(crate) fn is_judging(&self) -> bool {
        self.waiting > 0
    }

    /// Ends the thread and returns the step filter's counters. A thread that hangs is abandoned, without counters.
    pub(crate) fn finish(&mut self) -> Counters {
        self.parts = None;
        let start = Instant::now();
        while self.thread.as_ref().is_some_and(|it| !it.is_finished()) && start.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = self.thread.take_if(|it| it.is_finished());
        // A thread that panicked has printed a message.
        ended.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::event;
    use crate::filter::{FilterFailure, Prescale};
    use crate::step::Accepted;
    use std::sync::{Arc, Condvar, Mutex};
    use std::task::Wake;

    /// Wakes a test that waits.
    #[derive(Default)]
    struct Bell(Mutex<u64>, Condvar);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() += 1;
            self.1.notify_all();
        }
    }

    #[test]
    fn every_part_comes_back_in_order_with_its_verdict() {
        let bell = Arc::new(Bell::default());
        let filter = Accepted(Prescale { factor: 3 });
        let mut steps = StepsBeside::start(Box::new(filter), bell.clone().into()).unwrap();
        for id in 0..100 {
            steps.give(event(id));
        }
        let mut judged = Vec::new();
        while judged.len() < 100 {
            while let Some((part, answer)) = steps.poll() {
                judged.push((part.id.0, answer.unwrap() == StepVerdict::Reject));
            }
            let rung = bell.0.lock().unwrap();
            let few = |rung: &mut u64| *rung < 100;
            let (rung, timeout) = bell.1.wait_timeout_while(rung, Duration::from_secs(100), few).unwrap();
            assert!(!timeout.timed_out(), "rung {rung} times only");
        }
        let expected: Vec<_> = (0..100).map(|id| (id, id % 3 != 0)).collect();
        assert_eq!(judged, expected);
        assert!(!steps.is_judging());
        assert_eq!(steps.finish(), []);
    }

    struct Panics;

    impl StepFilter for Panics {
        fn judge(&mut self, _part: &Event<Bytes>) -> Result<StepVerdict, FilterFailure> {
            panic!("it panics, as it is to")
        }
    }

    #[test]
    #[should_panic(expected = "the step filter panicked")]
    fn a_part_is_not_lost_silently_with_a_step_filter_that_panics() {
        let bell = Arc::new(Bell::default());
        let mut steps = StepsBeside::start(Box::new(Panics), bell.into()).unwrap();
        steps.give(event(1));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(100) {
            assert!(steps.poll().is_none());
            std::thread::yield_now();
        }
    }
}
