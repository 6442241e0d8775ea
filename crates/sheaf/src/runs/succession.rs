//! One run after the other, with a gap or without.
//!
//! Where one run follows another without a gap, the next one is prepared while the present one still goes on, and the present one is closed
//! while the next one goes on. In between is the time in which nodes end and begin: triggers and fragments of that time wait.

use super::{Ready, Runs};
use crate::Verdict;
use crate::plan::Plan;
use crate::run::Following;
use sheaf_config::Config;
use sheaf_node::Clock;
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
                let is_last = config.run.runs.is_some_and(|runs| count >= runs);
                let hands_over = config.run.continuous && !is_last;
                if let Some(controls) = self.controls {
                    controls.succession.begin_run(hands_over);
                }
                let ready = match next.take() {
                    Some(ready) => ready,
                    None => self.begin(config.clone(), last, (Clock::new(), None))?,
                };
                last = Some(ready.plan.config.run.number);
                let (conducted, prepared) = self.conduct_and_prepare(config, ready, before.take());
                // At most one run is closed beside the one that goes on.
                verdict = verdict.max(wait(closing.take())?);
                let (conducted, following) = conducted?;
                (before, next) = (following, prepared.transpose()?);
                if next.is_some() {
                    closing = Some(threads.spawn(|| {
                        let closed = self.close(conducted);
                        if closed.is_err() {
                            self.steering.ask_to_stop();
                        }
                        closed
                    }));
                } else {
                    verdict = verdict.max(self.close(conducted)?);
                }
                if is_last {
                    break;
                }
            }
            before.into_iter().for_each(Following::abandon);
            next.into_iter().for_each(Ready::abandon);
            Ok(verdict.max(wait(closing)?))
        })
    }

    /// Makes a run, and prepares the one that follows it without a gap, if one does.
    fn conduct_and_prepare(
        &self,
        config: &Config,
        ready: Ready,
        before: Option<Following>,
    ) -> (anyhow::Result<(super::conducting::Conducted, Option<Following>)>, Option<anyhow::Result<Ready>>) {
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

    /// Prepares the run that follows the present one without a gap, when it is due. Returns `None` if the present one ends before.
    fn prepare_next(
        &self,
        config: &Config,
        (plan, clock): (&Arc<Plan>, Clock),
        is_over: &AtomicBool,
    ) -> Option<anyhow::Result<Ready>> {
        let succession = &self.controls?.succession;
        while !succession.is_due.load(Ordering::Relaxed) {
            if is_over.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        Some(self.begin(config.clone(), Some(plan.config.run.number), (clock, plan.key.as_ref())))
    }
}

fn wait(closing: Option<Closing<'_>>) -> anyhow::Result<Verdict> {
    closing.map_or(Ok(Verdict::Good), |thread| thread.join().expect("it does not panic"))
}
