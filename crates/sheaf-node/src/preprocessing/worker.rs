//! A worker: a thread that processes the fragments of answers.

use super::growth::Growth;
use super::made::Made;
use super::outputs::OutputMemory;
use bytes::Bytes;
use rtrb::{Consumer, Producer, RingBuffer};
use sheaf_filter::{FilterFailure, Preprocessor, Processed, RawFragment};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{Fragment, Nanos, SourceId, Timestamp};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest sleep of a worker. Nothing waits for it to end.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The preprocessor that takes the place of the present one, where there is one.
#[derive(Default)]
struct Exchange {
    is_there: AtomicBool,
    next: Mutex<Option<Box<dyn Preprocessor>>>,
}

impl Exchange {
    fn put(&self, next: Box<dyn Preprocessor>) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
        self.is_there.store(true, Ordering::Release);
    }

    /// Takes it. No lock is taken where there is none.
    fn take(&self) -> Option<Box<dyn Preprocessor>> {
        if !self.is_there.load(Ordering::Relaxed) || !self.is_there.swap(false, Ordering::Acquire) {
            return None;
        }
        self.next.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The fragments of an answer.
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) fragments: Arc<Vec<Fragment<Bytes>>>,
}

/// A finished job: the result of each fragment, in order.
pub(super) struct Done {
    pub(super) number: u64,
    pub(super) made: Vec<Made>,
    /// Number of times in all its life that its preprocessor has replaced the process doing the work.
    pub(super) restarts: u64,
}

/// The way to a worker.
pub(super) struct Line {
    to: Option<Producer<Job>>,
    from: Consumer<Done>,
    asleep: Arc<AtomicBool>,
    next: Arc<Exchange>,
    /// Number of fragments that the worker has processed.
    progress: Arc<AtomicU64>,
    gave: bool,
    /// Jobs that it has, and the fragments in them.
    jobs: usize,
    queued: usize,
    /// Number of times that its preprocessor has replaced the process doing the work.
    restarts: u64,
    /// Last observed value of its progress, and the time of that change.
    seen: (u64, Option<Timestamp>),
    thread: Option<JoinHandle<()>>,
}

/// Environment of a worker.
pub(super) struct WorkerContext {
    pub(super) preprocessor: Box<dyn Preprocessor>,
    pub(super) sources: Option<BTreeSet<SourceId>>,
    pub(super) outputs: Box<dyn OutputMemory>,
    pub(super) growth: Growth,
    pub(super) waker: Waker,
}

impl Line {
    /// Starts a worker that may be given `jobs` at a time.
    pub(super) fn start(name: String, jobs: usize, mut context: WorkerContext) -> std::io::Result<Self> {
        let (to, mut work) = RingBuffer::new(jobs);
        let (mut answers, from) = RingBuffer::new(jobs);
        let (asleep, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (its_sleep, its_progress) = (asleep.clone(), progress.clone());
        let next = Arc::new(Exchange::default());
        let its_next = next.clone();
        let body = move || context.run((&mut work, &mut answers), &its_sleep, &its_progress, &its_next);
        let thread = Some(std::thread::Builder::new().name(name).spawn(body)?);
        let seen = (0, None);
        Ok(Self {
            to: Some(to),
            from,
            asleep,
            next,
            progress,
            gave: false,
            jobs: 0,
            queued: 0,
            restarts: 0,
            seen,
            thread,
        })
    }

    /// Returns whether it takes jobs.
    pub(super) fn is_open(&self) -> bool {
        self.to.is_some()
    }

    /// Returns the number of fragments that wait for it.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Gives it a job with a number of fragments, or returns the job if it has the maximum number of jobs.
    pub(super) fn give(&mut self, job: Job, fragments: usize) -> Result<(), Job> {
        let Some(to) = self.to.as_mut() else { return Err(job) };
        to.push(job).map_err(|rtrb::PushError::Full(job)| job)?;
        self.gave = true;
        self.jobs += 1;
        self.queued += fragments;
        Ok(())
    }

    /// Has it process all further jobs with another preprocessor.
    pub(super) fn exchange(&mut self, preprocessor: Box<dyn Preprocessor>) {
        self.next.put(preprocessor);
        (self.gave, self.restarts) = (true, 0);
    }

    /// Wakes it where it was given something.
    pub(super) fn flush(&mut self) {
        if !std::mem::take(&mut self.gave) {
            return;
        }
        // A fence separates the publication of the job from the read of the flag, as the worker has one between its
        // flag and its last check: one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// The next job that is done.
    pub(super) fn receive(&mut self, now: Timestamp) -> Option<Done> {
        let progress = self.progress.load(Ordering::Relaxed);
        if progress != self.seen.0 || self.jobs == 0 {
            self.seen = (progress, None);
        }
        if self.jobs > 0 && self.seen.1.is_none() {
            self.seen.1 = Some(now);
        }
        let done = self.from.pop().ok()?;
        self.jobs -= 1;
        self.queued = self.queued.saturating_sub(done.made.len());
        self.seen.1 = (self.jobs > 0).then_some(now);
        Some(done)
    }

    /// Records how often its preprocessor has been replaced; returns the number of replacements since the last call.
    pub(super) fn note_restarts(&mut self, restarts: u64) -> u64 {
        restarts.saturating_sub(std::mem::replace(&mut self.restarts, restarts))
    }

    /// Returns whether it has worked on one fragment for longer than the limit.
    pub(super) fn is_behind(&self, now: Timestamp, limit: Nanos) -> bool {
        self.deadline(limit).is_some_and(|at| at <= now)
    }

    /// When it will be behind, if it does nothing until then.
    pub(super) fn deadline(&self, limit: Nanos) -> Option<Timestamp> {
        self.seen.1.filter(|_| self.is_open()).map(|since| since + limit)
    }

    /// Returns whether its thread has ended without being told to.
    pub(super) fn has_died(&self) -> bool {
        self.is_open() && self.from.is_abandoned() && self.from.is_empty()
    }

    /// Nothing more will come: a worker that works ends, one that hangs is left behind.
    pub(super) fn close(&mut self) {
        self.to = None;
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Waits for its end, once it was told to end.
    pub(super) fn join(&mut self, patience: Duration) {
        let start = Instant::now();
        while self.thread.as_ref().is_some_and(|it| !it.is_finished()) && start.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(thread) = self.thread.take_if(|it| it.is_finished()) {
            // If this fails, the thread has panicked and printed a message.
            let _ = thread.join();
        }
    }
}

impl WorkerContext {
    fn run(
        &mut self,
        (work, answers): (&mut Consumer<Job>, &mut Producer<Done>),
        asleep: &AtomicBool,
        progress: &AtomicU64,
        next: &Exchange,
    ) {
        let mut room = Vec::new();
        let mut looked = 0;
        loop {
            let job = work.pop();
            // A job that was given after the exchange is processed after it.
            if let Some(next) = next.take() {
                self.preprocessor = next;
            }
            if let Ok(Job { number, fragments }) = job {
                let mut made = Vec::with_capacity(fragments.len());
                for fragment in fragments.iter() {
                    made.push(self.process(fragment, &mut room));
                    looked += 1;
                    progress.store(looked, Ordering::Relaxed);
                }
                drop(fragments);
                let restarts = self.preprocessor.restarts();
                // There is room for as many as may be given; a unit that has given this worker up does not listen.
                if answers.push(Done { number, made, restarts }).is_err() {
                    return;
                }
                self.waker.wake_by_ref();
                continue;
            }
            if work.is_abandoned() || answers.is_abandoned() {
                return;
            }
            asleep.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if work.is_empty() && !work.is_abandoned() {
                std::thread::park_timeout(LONGEST_SLEEP);
            }
            asleep.store(false, Ordering::Relaxed);
        }
    }

    /// Processes a fragment. The result is written into `room`, which stays in the cache, and copied from there to where it
    /// stays: so a preprocessor that writes nonsense and fails leaves nothing behind.
    fn process(&mut self, fragment: &Fragment<Bytes>, room: &mut Vec<u8>) -> Made {
        if self.sources.as_ref().is_some_and(|sources| !sources.contains(&fragment.source)) {
            return Made::NotWanted;
        }
        let raw = RawFragment {
            event: fragment.event,
            source: fragment.source,
            time: fragment.time,
            payload: &fragment.payload,
        };
        let most = self.growth.room(fragment.payload.len());
        if room.len() < most {
            room.resize(most, 0);
        }
        let written = match self.preprocessor.process(&raw, &mut room[..most]) {
            Ok(Processed::Kept) => return Made::Kept,
            Ok(Processed::Written(bytes)) if bytes <= most => &room[..bytes],
            Ok(Processed::Written(bytes)) => {
                let raw = fragment.payload.len();
                return Made::Failed(FilterFailure(format!(
                    "the result has {bytes} bytes for a fragment of {raw}; at most {most} fit"
                )));
            }
            Err(failure) => return Made::Failed(failure),
        };
        match self.outputs.keep(written) {
            None => Made::NoMemory,
            Some(payload) => {
                // A result has a checksum if the source gave one: it protects the transfer, not the source.
                let checksum = fragment.checksum.map(|_| crc32c(&payload));
                Made::New { payload, checksum }
            }
        }
    }
}
