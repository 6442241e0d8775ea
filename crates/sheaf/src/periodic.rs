//! Work that is done at intervals, on a thread of its own, until it is ended.

use anyhow::Context as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that works at intervals. Dropping this ends it at once, and waits for what it is doing.
pub(crate) struct Periodic<T> {
    /// The thread notices that it is gone.
    owner: Option<Sender<()>>,
    thread: Option<JoinHandle<T>>,
}

/// Lets the thread wait for its next turn.
pub(crate) struct Turns(Receiver<()>);

impl Turns {
    /// Waits for a period. Returns whether there is another turn.
    pub(crate) fn next_after(&self, period: Duration) -> bool {
        self.0.recv_timeout(period) == Err(RecvTimeoutError::Timeout)
    }
}

impl<T: Send + 'static> Periodic<T> {
    /// Begins a thread, which works until there are no more turns.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn begin(name: &str, work: impl FnOnce(Turns) -> T + Send + 'static) -> anyhow::Result<Self> {
        let (owner, turns) = channel();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || work(Turns(turns)));
        Ok(Self { owner: Some(owner), thread: Some(thread.context("cannot start a thread")?) })
    }

    /// Ends the thread. Returns its result; `None` if it has panicked.
    pub(crate) fn end(mut self) -> Option<T> {
        self.join()
    }
}

impl<T> Periodic<T> {
    fn join(&mut self) -> Option<T> {
        drop(self.owner.take());
        self.thread.take()?.join().ok()
    }
}

impl<T> Drop for Periodic<T> {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_on_until_it_is_ended() {
        let (sender, turns_made) = channel();
        let periodic = Periodic::begin("test", move |turns| {
            let mut made = 0;
            while turns.next_after(Duration::from_millis(1)) {
                made += 1;
                sender.send(made).unwrap();
            }
            made
        })
        .unwrap();
        assert_eq!(turns_made.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(periodic.end().unwrap() >= 3);
        assert!(turns_made.iter().all(|turn| turn > 3), "and the thread has ended");
    }

    #[test]
    fn a_long_period_does_not_hold_up_its_end() {
        drop(Periodic::begin("test", |turns| turns.next_after(Duration::MAX)).unwrap());
    }
}
