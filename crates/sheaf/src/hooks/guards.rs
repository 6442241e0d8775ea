//! The threads that wait for the start of a run and for requests to stop it, where there are hooks for them.

use super::RunHooks;
use crate::page::Page;
use crate::signals::Steering;
use anyhow::Context as _;
use sheaf_config::HookTransition;
use sheaf_telemetry::catalog;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A thread that hooks are called on, which ends when this is dropped: a hook that is being called has its time.
pub(crate) struct HookGuard<'a> {
    is_over: Arc<AtomicBool>,
    /// Whose requests to stop go through the thread.
    steering: Option<&'a Steering>,
    thread: Option<JoinHandle<()>>,
}

impl RunHooks {
    /// Waits for the run to take triggers, and calls the hooks after the start. A run that has ended before anybody saw it begin has its
    /// hooks called then.
    pub(crate) fn watch_start(
        self: &Arc<Self>,
        page: Option<&Page>,
    ) -> anyhow::Result<Option<HookGuard<'_>>> {
        let Some(page) = page.filter(|_| self.has(HookTransition::AfterStart)) else { return Ok(None) };
        let (hooks, hub) = (self.clone(), page.hub());
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let body = move || {
            loop {
                // First: the end of the run is noted before.
                let is_over = over.load(Ordering::Acquire);
                let has_begun = hub.snapshot().sum(&catalog::RUN_START) > 0;
                if has_begun || hooks.end().as_ref().is_some_and(|end| end.begun) {
                    let _ = hooks.call_all(HookTransition::AfterStart, || false);
                    return;
                }
                if is_over {
                    return;
                }
                std::thread::sleep(PAUSE);
            }
        };
        Ok(Some(HookGuard { is_over, steering: None, thread: Some(spawn(body)?) }))
    }

    /// Calls the hooks before a stop between a request to stop the run and its end. A second request does not wait for them.
    pub(crate) fn guard_stop<'a>(
        self: &Arc<Self>,
        steering: &'a Steering,
    ) -> anyhow::Result<Option<HookGuard<'a>>> {
        if !self.has(HookTransition::BeforeStop) {
            return Ok(None);
        }
        let (sender, requests) = channel();
        let stop = Stop {
            hooks: self.clone(),
            stop: steering.stop().clone(),
            count: Arc::default(),
            is_over: Arc::default(),
        };
        let (count, is_over) = (stop.count.clone(), stop.is_over.clone());
        let thread = spawn(move || stop.run(&requests))?;
        steering.set_gate(Some(Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            // A thread that has gone has no run any more.
            let _ = sender.send(());
        })));
        Ok(Some(HookGuard { is_over, steering: Some(steering), thread: Some(thread) }))
    }
}

/// Requests to stop, on their way to the run.
struct Stop {
    hooks: Arc<RunHooks>,
    /// The flag of the run, which takes it down again.
    stop: Arc<AtomicBool>,
    /// Number of requests so far.
    count: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
}

impl Stop {
    fn run(&self, requests: &Receiver<()>) {
        for (number, ()) in requests.iter().enumerate() {
            if number == 0 {
                let _ = self
                    .hooks
                    .call_all(HookTransition::BeforeStop, || self.count.load(Ordering::Relaxed) > 1);
            }
            // The run must see each request.
            while self.stop.load(Ordering::Relaxed) && !self.is_over.load(Ordering::Acquire) {
                std::thread::sleep(PAUSE);
            }
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) -> anyhow::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("hooks".into()).spawn(body).context("cannot start a thread")
}

impl Drop for HookGuard<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(steering) = self.steering {
            // With the gate goes the end of the line that the thread listens to.
            steering.set_gate(None);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
