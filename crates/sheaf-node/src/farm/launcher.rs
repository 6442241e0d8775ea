//! Processes that a farm starts, and starts again when they end before the run does.

use crate::restarts::{RestartPolicy, Restarts};
use sheaf_protocol::farm::FarmReadiness;
use sheaf_telemetry::log_as;
use sheaf_wire::message::Readiness;
use sheaf_wire::{Nanos, NodeId, Timestamp};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Starts one worker that joins at the door. The number distinguishes the farm's workers.
pub type Launch = Box<dyn FnMut(&Path, u16) -> std::io::Result<Child> + Send>;

/// Which processes a farm starts.
pub struct LauncherOptions {
    /// Number of workers at a time.
    pub count: u16,
    /// Time that a worker has from its start until it joins at the door. Until then it has no events and is unknown to the
    /// dispatcher, so only this limit detects one that hangs. `None`: no limit.
    pub load_time_limit: Option<Nanos>,
    /// Starts one.
    pub launch: Launch,
}

/// Interval at which the children are checked.
const PERIOD: Nanos = Nanos::from_millis(50);

/// A worker that ended is started again whatever happens: events wait for it.
const RESTARTS: RestartPolicy = RestartPolicy {
    pause: (Nanos::from_millis(10), Nanos::from_secs(5)),
    works_after: Nanos::from_secs(10),
    in_a_row: None,
};

/// One place for a worker.
struct Post {
    child: Option<Child>,
    /// Whether it has connected to the door.
    joined: bool,
    started_at: Timestamp,
    /// When to start the next.
    next_at: Timestamp,
    restarts: Restarts,
}

impl Post {
    /// Decides when the next is started, after the end of one.
    fn restart(&mut self, now: Timestamp, lived: Nanos) {
        let pause = self.restarts.died(lived).unwrap_or(RESTARTS.pause.1);
        self.next_at = now + pause;
    }
}

pub(super) struct Launcher {
    node: NodeId,
    door: PathBuf,
    launch: Launch,
    load_time_limit: Option<Nanos>,
    posts: Vec<Post>,
    readiness: FarmReadiness,
    look_at: Timestamp,
    restarts: u64,
}

impl Launcher {
    pub(super) fn new(node: NodeId, door: &Path, options: LauncherOptions) -> Self {
        let post = |_| Post {
            child: None,
            joined: false,
            started_at: Timestamp::ZERO,
            next_at: Timestamp::ZERO,
            restarts: Restarts::new(RESTARTS),
        };
        Self {
            node,
            door: door.into(),
            launch: options.launch,
            load_time_limit: options.load_time_limit,
            posts: (0..options.count).map(post).collect(),
            readiness: FarmReadiness::new(options.count.into()),
            look_at: Timestamp::ZERO,
            restarts: 0,
        }
    }

    pub(super) fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Returns whether a worker in each place has loaded its filter.
    pub(super) fn readiness(&self) -> Readiness {
        self.readiness.readiness()
    }

    pub(super) fn poll_timeout(&self) -> Timestamp {
        self.look_at
    }

    /// Checks the children, if it is time.
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
            Ok(None) => {
                let is_late = |limit| now.since(post.started_at) >= limit;
                if !post.joined && self.load_time_limit.is_some_and(is_late) {
                    log_as!(
                        WORKER_RESTARTED, node = self.node;
                        "{}: worker {index} did not join within `filter.load_time_limit_ms`; it is killed", self.node
                    );
                    // Fails where it has ended.
                    let _ = child.kill();
                }
                return;
            }
            Ok(Some(status)) => Some(status),
            Err(_) => None,
        };
        post.child = None;
        post.restart(now, now.since(post.started_at));
        self.readiness.note_ended(index);
        let how = status.as_ref().map_or_else(|| "unknown".into(), ExitStatus::to_string);
        log_as!(
            WORKER_RESTARTED, node = self.node;
            "{}: worker {index} ended ({how}); it is restarted", self.node
        );
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
                (post.joined, post.started_at) = (false, now);
            }
            Err(error) => {
                log_as!(
                    WORKER_LOST, node = self.node;
                    "{}: worker {index} cannot be started: {error}; it is retried", self.node
                );
                post.restart(now, Nanos::ZERO);
                self.readiness.note_ended(index);
            }
        }
    }

    /// Records a process that connected to the door; it may not be a child of this farm.
    pub(super) fn note_joined(&mut self, process: u32) {
        if let Some(index) = self.post_of(process) {
            self.posts[index].joined = true;
        }
    }

    /// Records that a process has loaded its filter.
    pub(super) fn note_loaded(&mut self, process: u32) {
        if let Some(index) = self.post_of(process) {
            self.readiness.note_loaded(index);
        }
    }

    /// Returns the place of a process, if it is a child of this farm.
    fn post_of(&self, process: u32) -> Option<usize> {
        self.posts.iter().position(|post| post.child.as_ref().is_some_and(|child| child.id() == process))
    }

    /// Kills a child that hangs; others are not ours to kill.
    pub(super) fn kill(&mut self, process: u32) {
        if let Some(child) = self.post_of(process).and_then(|index| self.posts[index].child.as_mut()) {
            // Fails where it has ended.
            let _ = child.kill();
            self.look_at = Timestamp::ZERO;
        }
    }

    /// Waits for the children, which were told that the run is over; kills those that do not exit.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const LOAD_TIME_LIMIT: Nanos = Nanos::from_secs(300);

    fn launcher() -> Launcher {
        let launch = |_: &Path, _| Command::new("sleep").arg("1000").spawn();
        let options =
            LauncherOptions { count: 1, load_time_limit: Some(LOAD_TIME_LIMIT), launch: Box::new(launch) };
        Launcher::new(NodeId::builder(0), Path::new("no door"), options)
    }

    fn process(launcher: &Launcher) -> Option<u32> {
        launcher.posts[0].child.as_ref().map(Child::id)
    }

    /// Checks at one moment, until the child has been replaced or a number of checks were made.
    fn look_until_replaced(launcher: &mut Launcher, at: Timestamp, old: Option<u32>) -> bool {
        for look in 0..1_000 {
            launcher.look(at + Nanos(look * PERIOD.0));
            if process(launcher).is_some_and(|it| Some(it) != old) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    #[test]
    fn a_worker_that_never_comes_to_the_door_is_replaced() {
        let mut launcher = launcher();
        let start = Timestamp(1);
        launcher.look(start);
        let first = process(&launcher);
        assert!(first.is_some());
        assert!(look_until_replaced(&mut launcher, start + LOAD_TIME_LIMIT, first));
        assert_eq!(launcher.restarts(), 1);
    }

    #[test]
    fn a_worker_that_came_to_the_door_may_stay() {
        let mut launcher = launcher();
        launcher.look(Timestamp(1));
        let first = process(&launcher);
        launcher.note_joined(first.expect("it was started"));
        launcher.look(Timestamp(1) + LOAD_TIME_LIMIT);
        launcher.look(Timestamp(1) + LOAD_TIME_LIMIT + LOAD_TIME_LIMIT);
        assert_eq!(process(&launcher), first);
        assert!(launcher.post_of(first.expect("it is there")).is_some());
    }
}
