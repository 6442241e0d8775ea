//! Processes that a farm starts, and starts again when they end before the run does.

use sheaf_wire::{Nanos, NodeId, Timestamp};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Starts one worker that joins at the door; the number tells the farm's workers apart.
pub type Launch = Box<dyn FnMut(&Path, u16) -> std::io::Result<Child> + Send>;

/// Which processes a farm starts.
pub struct LauncherOptions {
    /// How many there are at a time.
    pub count: u16,
    /// Starts one.
    pub launch: Launch,
}

/// How often the children are looked after.
const PERIOD: Nanos = Nanos::from_millis(50);

/// The pause before a worker that ended is started again: at first, and at most. It doubles with every end that comes soon.
const PAUSE: (Nanos, Nanos) = (Nanos::from_millis(10), Nanos::from_secs(5));

/// A worker that has lived so long may be started again at once.
const HEALTHY: Nanos = Nanos::from_secs(10);

/// One place for a worker.
struct Post {
    child: Option<Child>,
    started_at: Timestamp,
    /// When to start the next.
    next_at: Timestamp,
    pause: Nanos,
}

pub(super) struct Launcher {
    node: NodeId,
    door: PathBuf,
    launch: Launch,
    posts: Vec<Post>,
    look_at: Timestamp,
    restarts: u64,
}

impl Launcher {
    pub(super) fn new(node: NodeId, door: &Path, options: LauncherOptions) -> Self {
        let post =
            |_| Post { child: None, started_at: Timestamp::ZERO, next_at: Timestamp::ZERO, pause: PAUSE.0 };
        Self {
            node,
            door: door.into(),
            launch: options.launch,
            posts: (0..options.count).map(post).collect(),
            look_at: Timestamp::ZERO,
            restarts: 0,
        }
    }

    pub(super) fn restarts(&self) -> u64 {
        self.restarts
    }

    pub(super) fn poll_timeout(&self) -> Timestamp {
        self.look_at
    }

    /// Looks after the children, if it is time.
    pub(super) fn look(&mut self, now: Timestamp) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + PERIOD;
        for index in 0..self.posts.len() {
            self.check(now, index);
            let post = &self.posts[index];
            if post.child.is_none() && post.next_at <= now {
                self.start(now, index);
            }
        }
    }

    fn check(&mut self, now: Timestamp, index: usize) {
        let post = &mut self.posts[index];
        let Some(child) = &mut post.child else { return };
        let status = match child.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) => Some(status),
            Err(_) => None,
        };
        post.child = None;
        if now.since(post.started_at) >= HEALTHY {
            post.pause = PAUSE.0;
        }
        post.next_at = now + post.pause;
        post.pause = Nanos((2 * post.pause.0).min(PAUSE.1.0));
        let how = status.as_ref().map_or_else(|| "unknown".into(), ExitStatus::to_string);
        log::warn!("{}: worker {index} ended ({how}); it is started again", self.node);
    }

    fn start(&mut self, now: Timestamp, index: usize) {
        let number = u16::try_from(index).unwrap_or(u16::MAX);
        let is_first = self.posts[index].started_at == Timestamp::ZERO;
        let started = (self.launch)(&self.door, number);
        let post = &mut self.posts[index];
        match started {
            Ok(child) => {
                self.restarts += u64::from(!is_first);
                post.child = Some(child);
                post.started_at = now;
            }
            Err(error) => {
                log::error!("{}: worker {index} cannot be started: {error}; it is tried again", self.node);
                post.next_at = now + post.pause;
                post.pause = Nanos((2 * post.pause.0).min(PAUSE.1.0));
            }
        }
    }

    /// Kills a child that hangs; others are not ours to kill.
    pub(super) fn kill(&mut self, process: u32) {
        let child =
            self.posts.iter_mut().filter_map(|post| post.child.as_mut()).find(|it| it.id() == process);
        if let Some(child) = child {
            // Fails where it has ended.
            let _ = child.kill();
            self.look_at = Timestamp::ZERO;
        }
    }

    /// Waits for the children, which were told that the run is over; kills those that do not end.
    pub(super) fn finish(&mut self, patience: Duration) {
        let start = Instant::now();
        for child in self.posts.iter_mut().filter_map(|post| post.child.as_mut()) {
            while matches!(child.try_wait(), Ok(None)) {
                if start.elapsed() > patience {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self.posts.clear();
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.finish(Duration::ZERO);
    }
}
