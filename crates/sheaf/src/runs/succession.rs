//! One run after the other, with a gap or without.
//!
//! Where one run follows another without a gap, the next one is prepared while the present one still goes on, and the present one is closed
//! while the next one goes on. In between is the time in which nodes end and begin: triggers and fragments of that time wait.

use super::before::Before;
use super::conducting::Conducted;
use super::{Present, Ready, Runs, Wanted};
use crate::Verdict;
use crate::arguments::ControlledArguments;
use crate::plan::Plan;
use crate::remote::{GiveUp, Hosts};
use sheaf_config::Config;
use sheaf_control::NextRun;
use sheaf_node::Clock;
use sheaf_telemetry::log_as;
use sheaf_wire::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::scope;
use std::time::Duration;

/// Pause between two looks at whether the next run is due: triggers wait meanwhile.
const LOOK_IF_DUE: Duration = Duration::from_millis(2);

/// Pause between two looks at whether an operator wants the next run, where none follows otherwise.
const LOOK_IF_WANTED: Duration = Duration::from_millis(20);

/// Maximum number of runs that wait to be closed, the one that is being closed included. With more, the next run is not prepared.
const CLOSING: usize = 8;

/// A run that has ended, and what it leaves for one that follows without a gap.
type EndedRun = (Conducted, Option<Before>);

/// Runs on their way to the thread that closes one after the other.
struct Closings<'a> {
    sender: Sender<Conducted>,
    waiting: &'a AtomicUsize,
}

impl Closings<'_> {
    fn give(&self, conducted: Conducted) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread takes runs as long as this lives.
        let _ = self.sender.send(conducted);
    }
}

impl Runs<'_> {
    /// Makes runs until their number is reached, or no further run is wanted.
    ///
    /// # Errors
    /// That a run could not begin or did not complete. No other run follows, because it would fail in the same way.
    pub(super) fn make_all(&self, config: &Config) -> anyhow::Result<Verdict> {
        let (sender, conducted) = channel();
        let waiting = AtomicUsize::new(0);
        scope(|threads| {
            let closer = threads.spawn(|| self.close_each(conducted, &waiting));
            // The thread ends when this has been dropped.
            let made = self.make_each(config, &Closings { sender, waiting: &waiting });
            let closed = closer.join().expect("it does not panic");
            Ok(made?.max(closed?))
        })
    }

    fn make_each(&self, config: &Config, closings: &Closings<'_>) -> anyhow::Result<Verdict> {
        let mut verdict = Verdict::Good;
        let (mut last, mut next) = (None, None);
        let mut before: Option<Before> = None;
        for count in 1_u32.. {
            if !self.steering.begin_run() {
                break;
            }
            let is_enough = config.run.runs.is_some_and(|runs| count >= runs);
            let hands_over = config.run.continuous && !is_enough;
            self.steering.set_handover(hands_over);
            if let Some(controls) = self.controls {
                controls.succession.begin_run(hands_over);
            }
            let ready = match next.take() {
                Some(ready) => ready,
                None => self.begin(&self.wanted(config), last, (Clock::new(), None))?,
            };
            last = Some(ready.plan.config.run.number);
            let (conducted, prepared) =
                self.conduct_and_prepare(config, (ready, before.take()), closings.waiting);
            let (conducted, following) = match conducted {
                Ok(ended) => ended,
                Err(error) => {
                    prepared.and_then(Result::ok).into_iter().for_each(Ready::abandon);
                    return Err(error);
                }
            };
            before = following;
            next = match prepared.transpose() {
                Ok(next) => next,
                Err(error) => {
                    before.into_iter().for_each(Before::abandon);
                    self.close(conducted)?;
                    return Err(error);
                }
            };
            if let Some(lost) = next.take_if(|next| before.is_none() && next.prepared.hosts.is_some()) {
                self.give_up_next(lost);
            }
            if next.is_some() {
                closings.give(conducted);
                continue;
            }
            // A run that was not prepared begins anew: its nodes have neither its configuration nor its clock.
            before.take().into_iter().for_each(Before::abandon);
            verdict = verdict.max(self.close(conducted)?);
            if is_enough {
                break;
            }
        }
        before.into_iter().for_each(Before::abandon);
        next.into_iter().for_each(Ready::abandon);
        self.early_farms.end();
        Ok(verdict)
    }

    /// Gives up a run whose hosts have prepared it for nodes that go on: they have ended.
    fn give_up_next(&self, lost: Ready) {
        let run = lost.plan.config.run.number;
        let why = format!("the nodes have ended before run {run} could begin in them");
        match self.switching.zip(lost.asked) {
            Some((switching, (asked, _))) => switching.note_refused(asked, why),
            None => log_as!(NO_HANDOVER; "{why}: it begins anew, with a gap"),
        }
        lost.abandon();
    }

    /// Closes runs that others have followed. If that fails, the run in progress ends as well.
    fn close_each(&self, all: Receiver<Conducted>, waiting: &AtomicUsize) -> anyhow::Result<Verdict> {
        let mut verdict = Ok(Verdict::Good);
        for conducted in all {
            let end = conducted.end();
            let closed = self.close(conducted);
            waiting.fetch_sub(1, Ordering::Relaxed);
            if closed.is_err() {
                self.steering.ask_to_stop();
            }
            let Some(switching) = self.switching else {
                verdict = verdict.and_then(|verdict| Ok(closed?.max(verdict)));
                continue;
            };
            // The result of the process is that of its last run.
            switching.note_closed(end.result(&closed));
            verdict = verdict.and_then(|verdict| closed.map(|_| verdict));
        }
        verdict
    }

    /// Returns whether a run may be followed by another one without a gap. Otherwise nobody can ask for that.
    pub(super) fn goes_on(&self, config: &Config) -> bool {
        config.run.continuous || (self.switching.is_some() && self.can_switch)
    }

    /// Returns the run that was asked for when this process was started.
    fn wanted(&self, config: &Config) -> Wanted {
        let ControlledArguments { comment, operator, .. } = &self.arguments.control;
        Wanted {
            config: config.clone(),
            comment: comment.clone(),
            operator: operator.clone(),
            sequence: self.arguments.control.sequence_record(),
            asked: None,
        }
    }

    /// Returns the run that a controller has asked for to follow another one.
    fn wanted_next(&self, config: &Config, NextRun { asked, at_ms, settings, by }: NextRun) -> Wanted {
        let mut config = config.clone();
        config.run.events = settings.events.or(self.limits.events);
        config.run.duration = settings.duration_ms.map(Nanos::from_millis).or(self.limits.duration);
        Wanted {
            config,
            comment: settings.comment,
            operator: Some(by),
            sequence: None,
            asked: Some((asked, at_ms)),
        }
    }

    /// Makes a run, and prepares the one that follows it without a gap, if one does.
    fn conduct_and_prepare(
        &self,
        config: &Config,
        (ready, before): (Ready, Option<Before>),
        closing: &AtomicUsize,
    ) -> (anyhow::Result<EndedRun>, Option<anyhow::Result<Ready>>) {
        let (plan, clock, is_over) = (ready.plan.clone(), ready.clock, AtomicBool::new(false));
        let hosts = ready.prepared.hosts.clone();
        scope(|threads| {
            let prepare = || self.prepare_next(config, (&plan, hosts, clock), (&is_over, closing));
            // Nobody can ask for a run without a gap otherwise.
            let preparing = self.goes_on(config).then(|| threads.spawn(prepare));
            let conducted = self.conduct(ready, before);
            is_over.store(true, Ordering::Release);
            let prepared = preparing.and_then(|thread| {
                thread.thread().unpark();
                thread.join().expect("it does not panic")
            });
            (conducted, prepared)
        })
    }

    /// Prepares the run that follows the present one without a gap, when it is due or somebody has asked for it. Returns `None` if the present
    /// one ends before.
    fn prepare_next(
        &self,
        config: &Config,
        (plan, hosts, clock): (&Arc<Plan>, Option<Arc<Hosts>>, Clock),
        (is_over, closing): (&AtomicBool, &AtomicUsize),
    ) -> Option<anyhow::Result<Ready>> {
        let succession = &self.controls?.succession;
        let prepare = |wanted: &Wanted| {
            // Where the present run has ended for the next one, the next one is wanted in any case.
            let is_due = succession.is_due.load(Ordering::Relaxed);
            let is_over = || self.steering.is_over() || (!is_due && is_over.load(Ordering::Relaxed));
            let give_up = GiveUp { is_over: &is_over, is_due };
            let present = Present { key: plan.key.as_ref(), hosts: hosts.as_ref(), give_up };
            let ready = self.begin(wanted, Some(plan.config.run.number), (clock, Some(&present)))?;
            let directory = ready.directory.as_ref().map(|directory| directory.path.clone());
            let absent = ready.prepared.hosts.as_ref().map(|hosts| hosts.absent()).unwrap_or_default();
            let prepared = match self.has_processes(&ready.plan) {
                true => self.next_in_processes.prepare(
                    &ready.plan,
                    &ready.prepared.scratch.path,
                    &absent,
                    give_up,
                ),
                false => self.early_farms.make(&ready.plan, directory.as_deref(), (clock, &is_over)),
            };
            match prepared {
                Ok(()) => Ok(ready),
                Err(error) => {
                    self.next_in_processes.call_off();
                    ready.abandon();
                    Err(error)
                }
            }
        };
        let pause = if config.run.continuous { LOOK_IF_DUE } else { LOOK_IF_WANTED };
        loop {
            // A run that ends for the next one says so before it is over, and may be over soon after: so look in this order.
            let was_over = is_over.load(Ordering::Acquire);
            if succession.is_due.load(Ordering::Relaxed) {
                let ready = prepare(&self.wanted(config));
                // Somebody has stopped the runs meanwhile.
                let is_called_off = ready.is_err() && self.steering.is_over();
                return (!is_called_off).then_some(ready);
            }
            if was_over {
                return None;
            }
            if self.steering.is_next_wanted() {
                match prepare(&self.wanted(config)) {
                    Ok(ready) => {
                        succession.end_run();
                        return Some(Ok(ready));
                    }
                    Err(error) => {
                        self.steering.set_handover(true);
                        log_as!(NO_HANDOVER; "the present run goes on: {}", crate::describe(&error));
                    }
                }
            }
            if closing.load(Ordering::Relaxed) < CLOSING
                && let Some((switching, next)) = self.switching.and_then(|it| Some((it, it.take()?)))
            {
                let asked = next.asked;
                match prepare(&self.wanted_next(config, next)) {
                    Ok(ready) => {
                        succession.end_run();
                        return Some(Ok(ready));
                    }
                    Err(error) => switching.note_refused(asked, crate::describe(&error)),
                }
            }
            std::thread::park_timeout(pause);
        }
    }
}
