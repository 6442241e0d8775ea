//! One run after the other, with a gap or without.
//!
//! Where one run follows another without a gap, the next one is prepared while the present one still goes on, and the present one is closed
//! while the next one goes on. In between is the time in which nodes end and begin: triggers and fragments of that time wait.

use super::conducting::Conducted;
use super::{Ready, Runs, Wanted};
use crate::Verdict;
use crate::arguments::ControlledArguments;
use crate::plan::Plan;
use crate::run::Following;
use sheaf_config::Config;
use sheaf_control::NextRun;
use sheaf_node::Clock;
use sheaf_wire::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, scope};
use std::time::Duration;

/// Pause between two looks at whether the next run is due.
const PAUSE: Duration = Duration::from_millis(2);

/// A run that is being closed.
type Closing<'scope> = ScopedJoinHandle<'scope, anyhow::Result<Verdict>>;

impl Runs<'_> {
    /// Makes runs until their number is reached, or no further run is wanted.
    ///
    /// # Errors
    /// That a run could not begin or did not complete. No other run follows, because it would fail in the same way.
    pub(super) fn make_all(&self, config: &Config) -> anyhow::Result<Verdict> {
        scope(|threads| {
            let mut verdict = Verdict::Good;
            let (mut last, mut next) = (None, None);
            let (mut before, mut closing): (Option<Following>, Option<Closing<'_>>) = (None, None);
            for count in 1_u32.. {
                if !self.steering.begin_run() {
                    break;
                }
                let is_enough = config.run.runs.is_some_and(|runs| count >= runs);
                let hands_over = config.run.continuous && !is_enough;
                if let Some(controls) = self.controls {
                    controls.succession.begin_run(hands_over);
                }
                let ready = match next.take() {
                    Some(ready) => ready,
                    None => self.begin(&self.wanted(config), last, (Clock::new(), None))?,
                };
                last = Some(ready.plan.config.run.number);
                let (conducted, prepared) = self.conduct_and_prepare(config, ready, before.take());
                // At most one run is closed beside the one that goes on.
                verdict = verdict.max(wait(closing.take())?);
                let (conducted, following) = conducted?;
                (before, next) = (following, prepared.transpose()?);
                if next.is_some() {
                    closing = Some(threads.spawn(|| self.close_beside(conducted)));
                    continue;
                }
                verdict = verdict.max(self.close(conducted)?);
                if is_enough {
                    break;
                }
            }
            before.into_iter().for_each(Following::abandon);
            next.into_iter().for_each(Ready::abandon);
            Ok(verdict.max(wait(closing)?))
        })
    }

    /// Closes a run that another one has followed. If that fails, the other one ends as well.
    fn close_beside(&self, conducted: Conducted) -> anyhow::Result<Verdict> {
        let end = conducted.end();
        let closed = self.close(conducted);
        if closed.is_err() {
            self.steering.ask_to_stop();
        }
        let Some(switching) = self.switching else { return closed };
        switching.note_closed(end.result(&closed));
        // The result of the process is that of its last run.
        closed.map(|_| Verdict::Good)
    }

    /// Returns the run that was asked for when this process was started.
    fn wanted(&self, config: &Config) -> Wanted {
        let ControlledArguments { comment, operator, .. } = &self.arguments.control;
        Wanted {
            config: config.clone(),
            comment: comment.clone(),
            operator: operator.clone(),
            sequence: self.arguments.control.sequence_record(),
            asked: 0,
        }
    }

    /// Returns the run that a controller has asked for to follow another one.
    fn wanted_next(&self, config: &Config, NextRun { asked, settings, by }: NextRun) -> Wanted {
        let mut config = config.clone();
        config.run.events = settings.events.or(self.limits.events);
        config.run.duration = settings.duration_ms.map(Nanos::from_millis).or(self.limits.duration);
        Wanted { config, comment: settings.comment, operator: Some(by), sequence: None, asked }
    }

    /// Makes a run, and prepares the one that follows it without a gap, if one does.
    fn conduct_and_prepare(
        &self,
        config: &Config,
        ready: Ready,
        before: Option<Following>,
    ) -> (anyhow::Result<(Conducted, Option<Following>)>, Option<anyhow::Result<Ready>>) {
        let (plan, clock, is_over) = (ready.plan.clone(), ready.clock, AtomicBool::new(false));
        scope(|threads| {
            let preparing = self.controls.map(|_| {
                threads.spawn(|| self.prepare_next(config, (&plan, clock), &is_over))
            });
            let conducted = self.conduct(ready, before);
            is_over.store(true, Ordering::Relaxed);
            let prepared = preparing.and_then(|thread| thread.join().expect("it does not panic"));
            (conducted, prepared)
        })
    }

    /// Prepares the run that follows the present one without a gap, when it is due or somebody has asked for it. Returns `None` if the present
    /// one ends before.
    fn prepare_next(
        &self,
        config: &Config,
        (plan, clock): (&Arc<Plan>, Clock),
        is_over: &AtomicBool,
    ) -> Option<anyhow::Result<Ready>> {
        let succession = &self.controls?.succession;
        let prepare = |wanted: &Wanted| {
            self.begin(wanted, Some(plan.config.run.number), (clock, plan.key.as_ref()))
        };
        while !is_over.load(Ordering::Relaxed) {
            if succession.is_due.load(Ordering::Relaxed) {
                return Some(prepare(&self.wanted(config)));
            }
            if let Some((switching, next)) = self.switching.and_then(|it| Some((it, it.take()?))) {
                let asked = next.asked;
                match prepare(&self.wanted_next(config, next)) {
                    Ok(ready) => {
                        succession.end_run();
                        return Some(Ok(ready));
                    }
                    Err(error) => switching.note_refused(asked, crate::describe(&error)),
                }
            }
            std::thread::sleep(PAUSE);
        }
        None
    }
}

fn wait(closing: Option<Closing<'_>>) -> anyhow::Result<Verdict> {
    closing.map_or(Ok(Verdict::Good), |thread| thread.join().expect("it does not panic"))
}
