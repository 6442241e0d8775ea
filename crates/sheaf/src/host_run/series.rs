//! The runs of this host that follow one another in the same processes: the present one, the next one, and those that have ended.

use super::closer::{Closer, Closing, PartToClose};
use super::nodes::Nodes;
use super::preparing::{self, HostedRun};
use super::{Reports, Work};
use crate::claims::Claim;
use crate::console;
use crate::host_message::{HostOrder, HostReady, HostReport, HostRun};
use crate::space;
use crate::steered::NodeRequest;
use anyhow::{Context as _, bail};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

/// Longest time for the preparation of a run that is not wanted any more: it is removed only then.
const LAST_PREPARATION: Duration = Duration::from_secs(20);

/// A run in progress.
struct Present {
    hosted: HostedRun,
    watch: Option<space::Watch>,
    no_space: Arc<AtomicBool>,
}

impl Present {
    /// Begins the part of this host in a run.
    fn begin(hosted: HostedRun) -> anyhow::Result<Self> {
        hosted.part.begin();
        console::begin_run(hosted.run.number, None);
        let no_space = Arc::new(AtomicBool::new(false));
        let keep = hosted.plan.config.output.keep_free.0;
        let watch = Some(space::Watch::begin(hosted.part.path(), keep, &no_space)?);
        Ok(Self { hosted, watch, no_space })
    }

    /// Ends it: its disk is not watched any more.
    fn end(mut self) -> HostedRun {
        drop(self.watch.take().and_then(space::Watch::end));
        self.hosted
    }

    /// Returns why the run must end, once.
    fn take_no_space(&mut self) -> Option<String> {
        if !self.no_space.load(Ordering::Relaxed) {
            return None;
        }
        self.watch.take().and_then(space::Watch::end)
    }
}

/// A run that is to follow the present one.
enum Next {
    Nothing,
    /// A thread prepares it.
    Prepares {
        run: u32,
        /// Requests to nodes, which need its configuration.
        waiting: Vec<(String, NodeRequest)>,
        is_called_off: bool,
    },
    Ready(Box<HostedRun>),
}

/// See the [module](self).
pub(super) struct Series {
    first: HostRun,
    nodes: Nodes,
    /// `None` from the time at which it is closed until the next one begins.
    present: Option<Present>,
    next: Next,
    /// A run that is to be prepared when the thread is free.
    queued: Option<Box<HostRun>>,
    /// Runs that are to be closed.
    ended: BTreeMap<u32, HostedRun>,
    closer: Closer,
    claim: Option<Claim>,
    work: SyncSender<Work>,
    reports: Reports,
}

impl Series {
    /// Prepares the first run.
    ///
    /// # Errors
    /// Why the nodes cannot be started on this host.
    pub(super) fn begin(run: HostRun, work: SyncSender<Work>, reports: &Reports) -> anyhow::Result<Self> {
        let (hosted, ready, lasting) = preparing::prepare(run)?;
        let launch = hosted.launch()?;
        let nodes =
            Nodes::new(launch, (&hosted.plan, lasting.listeners), hosted.run.is_steered, reports.clone());
        let first = hosted.run.clone();
        let present = Present::begin(hosted)?;
        let closer = Closer::begin(reports.clone())?;
        reports.write(&HostReport::Ready(ready));
        Ok(Self {
            first,
            nodes,
            present: Some(present),
            next: Next::Nothing,
            queued: None,
            ended: BTreeMap::new(),
            closer,
            claim: lasting.claim,
            work,
            reports: reports.clone(),
        })
    }

    /// Carries out an order. Returns whether it was the last one.
    ///
    /// # Errors
    /// The nodes cannot go on.
    pub(super) fn follow(&mut self, order: HostOrder) -> anyhow::Result<bool> {
        match order {
            HostOrder::Start { node, start } => self.nodes.start(&node, start),
            HostOrder::Signal { node, signal } => self.nodes.signal(&node, signal),
            HostOrder::Request { node, request } => self.request(node, request),
            HostOrder::PrepareNext(run) => self.prepare_next(run)?,
            HostOrder::Begin { run, following } => self.begin_next(run, following)?,
            HostOrder::Close { run, manifest, is_last } => {
                if is_last {
                    self.nodes.end_all();
                }
                self.close(run, manifest);
                if is_last {
                    self.end();
                }
                return Ok(is_last);
            }
            HostOrder::Abandon { run, is_last } => {
                self.abandon(run, is_last);
                return Ok(is_last);
            }
            HostOrder::Describe | HostOrder::Prepare(_) => {}
        }
        Ok(false)
    }

    /// Reports what has changed.
    pub(super) fn check(&mut self) {
        self.nodes.check();
        let Some(present) = &mut self.present else { return };
        if let Some(why) = present.take_no_space() {
            let (run, why) = (present.hosted.run.number, format!("{}: {why}", crate::next::host()));
            self.reports.write(&HostReport::NoSpace { run, why });
        }
    }

    fn request(&mut self, node: String, request: NodeRequest) {
        if let (Next::Prepares { run, waiting, .. }, NodeRequest::Prepare(next)) = (&mut self.next, &request)
            && *run == next.run
        {
            waiting.push((node, request));
            return;
        }
        let request = self.of_this_host(request);
        self.nodes.request(&node, &request);
    }

    /// Returns a request with the paths of this host.
    fn of_this_host(&self, request: NodeRequest) -> NodeRequest {
        let configuration = |run: u32| {
            let present = self.present.iter().map(|present| &present.hosted);
            let next = match &self.next {
                Next::Ready(next) => Some(&**next),
                Next::Nothing | Next::Prepares { .. } => None,
            };
            let found = present.chain(next).find(|hosted| hosted.run.number == run);
            found.map(|hosted| hosted.configuration.clone())
        };
        match request {
            NodeRequest::Prepare(mut next) => {
                next.configuration = configuration(next.run).unwrap_or(next.configuration);
                NodeRequest::Prepare(next)
            }
            NodeRequest::Begin(mut next) => {
                next.configuration = configuration(next.run).unwrap_or(next.configuration);
                NodeRequest::Begin(next)
            }
            other => other,
        }
    }

    /// Prepares the next run on a thread: nodes go on meanwhile, and records pass.
    fn prepare_next(&mut self, run: Box<HostRun>) -> anyhow::Result<()> {
        if matches!(self.next, Next::Prepares { .. }) {
            self.queued = Some(run);
            return Ok(());
        }
        self.abandon_next();
        self.next = Next::Prepares { run: run.number, waiting: Vec::new(), is_called_off: false };
        let work = self.work.clone();
        let body = move || {
            let prepared = preparing::prepare_next(*run);
            // Somebody takes it as long as this process lives.
            let _ = work.send(Work::Prepared(Box::new(prepared)));
        };
        std::thread::Builder::new().name("next run".into()).spawn(body).context("cannot start a thread")?;
        Ok(())
    }

    /// Takes the next run when its thread has prepared it.
    pub(super) fn note_prepared(
        &mut self,
        prepared: anyhow::Result<(HostedRun, HostReady)>,
    ) -> anyhow::Result<()> {
        let Next::Prepares { run, waiting, is_called_off } = std::mem::replace(&mut self.next, Next::Nothing)
        else {
            return Ok(());
        };
        match prepared {
            Ok((hosted, _)) if is_called_off => hosted.part.abandon(),
            Ok((hosted, ready)) => {
                self.next = Next::Ready(Box::new(hosted));
                self.reports.write(&HostReport::Ready(ready));
                waiting.into_iter().for_each(|(node, request)| self.request(node, request));
            }
            Err(error) if is_called_off => log::debug!("run {run}: {error:#}"),
            Err(error) => {
                let why = crate::describe(&error);
                self.reports.write(&HostReport::NotPrepared { run, why });
            }
        }
        self.queued.take().map_or(Ok(()), |run| self.prepare_next(run))
    }

    /// Begins the run that was prepared.
    fn begin_next(&mut self, number: u32, following: (u32, u64)) -> anyhow::Result<()> {
        let mut hosted = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Ready(next) if next.run.number == number => *next,
            _ => bail!("run {number} begins, and this host has not prepared it"),
        };
        hosted.run.following = Some(following);
        self.nodes.begin_run(hosted.launch()?);
        if let Some(before) = self.present.take() {
            let before = before.end();
            self.ended.insert(before.run.number, before);
        }
        self.present = Some(Present::begin(hosted)?);
        if let Some(claim) = &mut self.claim {
            claim.note_run(number);
        }
        Ok(())
    }

    /// Takes a run that has begun out of those in progress.
    fn take_begun(&mut self, run: u32) -> Option<HostedRun> {
        if let Some(present) = self.present.take_if(|present| present.hosted.run.number == run) {
            // The file with the key is in the directory of the run.
            self.nodes.forget_key();
            return Some(present.end());
        }
        self.ended.remove(&run)
    }

    /// Closes the part of a run, on a thread.
    fn close(&mut self, run: u32, manifest: String) {
        let part = match self.take_begun(run) {
            Some(HostedRun { part, scratch, .. }) => PartToClose::Begun(Box::new(part), scratch),
            // The process before has begun it, and was lost.
            None => PartToClose::Remains(Box::new(self.first.clone())),
        };
        self.closer.close(Closing { run, part, manifest });
    }

    /// Removes what was prepared for a run.
    fn abandon(&mut self, run: u32, is_last: bool) {
        if is_last {
            self.nodes.end_all();
        }
        self.queued.take_if(|queued| queued.number == run);
        match &mut self.next {
            Next::Prepares { run: prepared, is_called_off, .. } if *prepared == run => *is_called_off = true,
            Next::Ready(next) if next.run.number == run => self.abandon_next(),
            _ => {}
        }
        match self.take_begun(run) {
            // Their key is in the directory, and is removed.
            Some(hosted) if is_last && !hosted.run.is_back => hosted.part.abandon(),
            Some(hosted) => hosted.part.leave(),
            None => {}
        }
        if is_last {
            self.end();
        }
    }

    fn abandon_next(&mut self) {
        if let Next::Ready(next) = std::mem::replace(&mut self.next, Next::Nothing) {
            next.part.abandon();
        }
    }

    /// Waits until everything is closed, and removes the run that was to follow.
    fn end(&mut self) {
        self.abandon_next();
        self.closer.end();
    }

    /// Ends the nodes with their agent, or because their run is gone. Files stay as they are.
    pub(super) fn leave(mut self, work: &Receiver<Work>) {
        self.nodes.end_with_agent();
        self.queued = None;
        while matches!(self.next, Next::Prepares { .. }) {
            match work.recv_timeout(LAST_PREPARATION) {
                Ok(Work::Prepared(prepared)) => {
                    if let Ok((hosted, _)) = *prepared {
                        hosted.part.abandon();
                    }
                    self.next = Next::Nothing;
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.end();
        self.nodes.forget_key();
        let present = self.present.take().map(Present::end);
        present.into_iter().chain(self.ended.into_values()).for_each(|hosted| hosted.part.leave());
    }
}
