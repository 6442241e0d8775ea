//! Stamps of the nodes of a run, collected from their processes.
//!
//! Where another run follows without a gap, each run has a collector of its own. The last stamps of a run are asked for while the next one
//! goes on: stamps go to the collector of the run whose event it is.

use super::Family;
use super::process::Process;
use crate::page::Page;
use crate::plan::Plan;
use crate::relay::TakeStamps;
use crate::steered::NodeRequest;
use crate::tracing;
use anyhow::Context as _;
use sheaf_monitor::traces::{Ask, Collector, CollectorNews};
use sheaf_telemetry::stamps::Remark;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Collects the stamps of a run.
pub(super) struct Collecting {
    collector: Collector,
    take: TakeStamps,
}

/// Ways of stamps to collectors.
#[derive(Clone, Default)]
pub(super) struct StampRoutes(Arc<Mutex<Routes>>);

#[derive(Default)]
struct Routes {
    present: Option<TakeStamps>,
    /// The collector of the run before, until it has the last stamps.
    before: Option<TakeStamps>,
    /// First event of the present run.
    first: u64,
}

impl StampRoutes {
    /// Returns a way to pass on stamps.
    pub(super) fn take(&self) -> TakeStamps {
        let routes = self.clone();
        Arc::new(move |news| routes.lock().pass(news))
    }

    fn lock(&self) -> MutexGuard<'_, Routes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Routes {
    fn pass(&self, news: CollectorNews) {
        let pass = |to: &Option<TakeStamps>, news| {
            if let Some(take) = to {
                take(news);
            }
        };
        let is_before = |event: u64| event < self.first;
        match news {
            CollectorNews::Remark(words) => {
                let is_before = Remark::from_words(words).is_some_and(|remark| is_before(remark.event));
                pass(if is_before { &self.before } else { &self.present }, CollectorNews::Remark(words));
            }
            CollectorNews::Stamps(event, stamps) => {
                let to = if is_before(event) { &self.before } else { &self.present };
                pass(to, CollectorNews::Stamps(event, stamps));
            }
            CollectorNews::Answered(events) => {
                let (before, present): (Vec<_>, Vec<_>) =
                    events.into_iter().partition(|event| is_before(*event));
                pass(&self.before, CollectorNews::Answered(before));
                pass(&self.present, CollectorNews::Answered(present));
            }
            other => pass(&self.present, other),
        }
    }
}

impl Family {
    /// Begins to collect the stamps of a run, if traces are wanted.
    pub(super) fn begin_traces(&mut self, plan: &Plan, file: Option<&Path>) -> anyhow::Result<()> {
        let (Some(routes), Some(tracing)) = (&self.stamps, tracing::tracing(&plan.config)) else {
            return Ok(());
        };
        let lines = self.next.lines.clone();
        let ask: Ask = Box::new(move |events| lines.tell_all(&NodeRequest::Stamps(events.to_vec())));
        let outside = (self.page.as_ref().map(Page::hub), Some(ask));
        let collector = tracing::collect(plan, &tracing, file.map(Path::to_owned), outside)?;
        let take: TakeStamps = Arc::new(collector.sender());
        let mut routes = routes.lock();
        routes.present = Some(take.clone());
        routes.first = self.next_event.map_or(0, |first| first.0);
        drop(routes);
        self.collecting = Some(Collecting { collector, take });
        Ok(())
    }

    /// Has the nodes answer requests for stamps of the last events. They have ended apart from that.
    fn ask_for_last_stamps(&mut self) {
        if let Some(Collecting { take, .. }) = &self.collecting {
            take(CollectorNews::Ended);
        }
    }

    /// Writes the last traces, once the output of all nodes is read. If the nodes go on with the next run, a thread waits for the last stamps, and
    /// is returned.
    pub(super) fn end_traces(&mut self, hands_over: bool) -> anyhow::Result<Option<JoinHandle<()>>> {
        let (Some(Collecting { collector, take }), Some(routes)) = (self.collecting.take(), &self.stamps)
        else {
            return Ok(None);
        };
        if !hands_over {
            for process in &mut self.processes {
                process.child.text()?;
            }
            *routes.lock() = Routes::default();
            drop(take);
            collector.finish();
            return Ok(None);
        }
        {
            let mut routes = routes.lock();
            routes.before = routes.present.take();
            // All events are those of the run before, until the next one begins.
            routes.first = u64::MAX;
        }
        let routes = routes.clone();
        let last = move || {
            take(CollectorNews::Ended);
            drop(take);
            std::thread::sleep(LAST_STAMPS);
            routes.lock().before = None;
            collector.finish();
        };
        let thread = std::thread::Builder::new().name("last traces".into()).spawn(last);
        Ok(Some(thread.context("cannot start a thread")?))
    }
}

/// The last stamps of a run, which are asked for when the event manager has ended: then it is known which events are remarkable.
#[derive(Default)]
pub(super) struct LastStamps {
    manager_ended: Option<Instant>,
    is_asked: bool,
    are_there: bool,
}

/// Time after the end of the event manager in which the other nodes pass on their last remarks.
const LAST_REMARKS: Duration = Duration::from_millis(150);

/// Time that the collector has then to ask for the last stamps. Nodes answer before they take the request to end.
const LAST_STAMPS: Duration = Duration::from_millis(250);

impl LastStamps {
    pub(super) fn advance(&mut self, family: &mut Family) {
        // A replica may end before the other one has said that it acts now.
        let has_ended = |process: &Process| process.child.node_has_ended() || process.ended.is_some();
        if self.manager_ended.is_none() && family.managers().all(has_ended) {
            self.manager_ended = Some(Instant::now());
        }
        let Some(at) = self.manager_ended else { return };
        if !self.is_asked && at.elapsed() >= LAST_REMARKS {
            self.is_asked = true;
            family.ask_for_last_stamps();
        }
        if !self.are_there && at.elapsed() >= LAST_STAMPS {
            self.are_there = true;
            family.next.lines.tell_all(&NodeRequest::End);
        }
    }
}
