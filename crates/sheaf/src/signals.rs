//! Ctrl-C, termination, and the signal that asks for the next run.

use crate::run_directory::remains;
use crate::{console, user_command};
use anyhow::Context;
use sheaf_node::{Clock, RunControls};
use sheaf_telemetry::log_as;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of signals after which the process ends at once, for when nothing else helps.
const SIGNALS_TO_ABORT: u32 = 3;

/// Exit status that shells report for a process that Ctrl-C has ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Returns a flag that Ctrl-C and SIGTERM set; code that acts on it clears it. The third such signal ends the process
/// at once and leaves the files of its run as they are.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    watch(&[SIGINT, SIGTERM], move |_| raised.store(true, Ordering::Relaxed))?;
    Ok(flag)
}

/// Has SIGUSR2 ask the event manager to step down in favour of its standby.
pub(crate) fn watch_step_down(controls: &RunControls) -> anyhow::Result<()> {
    signal_hook::flag::register(SIGUSR2, controls.step_down.clone()).context("cannot handle SIGUSR2")?;
    Ok(())
}

/// Calls `note` for every such signal on a separate thread; the third request to stop ends the process.
fn watch(which: &[c_int], mut note: impl FnMut(c_int) + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new(which).context("cannot handle signals")?;
    let body = move || {
        let mut count = 0;
        for signal in signals.forever() {
            count += u32::from(signal != SIGUSR1);
            if count >= SIGNALS_TO_ABORT {
                if let Some(run) = remains::remove() {
                    log_as!(
                        RUN_ABORTED;
                        "{run} is aborted: its files are not closed, and the events that count are not recorded; \
                         `sheaf verify {run}` checks them",
                        run = run.display()
                    );
                }
                user_command::kill_all();
                console::flush();
                std::process::exit(EXIT_INTERRUPTED);
            }
            note(signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}

/// Takes requests to end a run in place of the flag.
pub(crate) type StopGate = Box<dyn FnMut() + Send>;

/// Requests by signals to a series of runs. SIGUSR1 ends the current run, so that the next begins. Ctrl-C and SIGTERM
/// end it and let no other begin.
#[derive(Clone, Default)]
pub(crate) struct Steering {
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<Asked>>,
    gate: Arc<Mutex<Option<StopGate>>>,
    succession: Arc<Succession>,
}

/// The next run, where it follows without a gap.
#[derive(Debug, Default)]
struct Succession {
    /// Whether the present run hands over to the next one.
    hands_over: AtomicBool,
    /// Whether the next one is wanted now.
    is_wanted: AtomicBool,
}

/// A signal that has arrived.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pub(crate) at_ms: u64,
    pub(crate) name: &'static str,
    /// Command that it stands for.
    pub(crate) command: &'static str,
}

impl Signal {
    fn new(signal: c_int) -> Self {
        let (name, command) = match signal {
            SIGINT => ("SIGINT", "stop"),
            SIGTERM => ("SIGTERM", "stop"),
            _ => ("SIGUSR1", "next"),
        };
        Self { at_ms: Clock::new().now().as_millis(), name, command }
    }
}

/// Most signals of a run that are kept for its record.
const SIGNALS: usize = 8;

/// Requests received so far.
#[derive(Debug, Default)]
struct Asked {
    /// Signals since the run began.
    signals: Vec<Signal>,
    /// Whether no further run is requested.
    over: bool,
    /// Whether this run is to end.
    next: bool,
}

impl Asked {
    /// Records a signal. Returns whether to pass it to the run, which takes a second one as a request to drop the
    /// events in flight.
    fn note(&mut self, signal: c_int) -> bool {
        if signal == SIGUSR1 {
            return !self.over && !std::mem::replace(&mut self.next, true);
        }
        let again = std::mem::replace(&mut self.over, true);
        again || !self.next
    }
}

impl Steering {
    /// Starts handling signals.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        let steering = Self::default();
        let of_signals = steering.clone();
        watch(&[SIGINT, SIGTERM, SIGUSR1], move |signal| {
            let is_passed_on = {
                let mut asked = of_signals.asked();
                if asked.signals.len() < SIGNALS {
                    asked.signals.push(Signal::new(signal));
                }
                let Succession { hands_over, is_wanted } = &*of_signals.succession;
                let is_next = signal == SIGUSR1 && hands_over.load(Ordering::Relaxed);
                if is_next {
                    is_wanted.store(true, Ordering::Relaxed);
                }
                !is_next && asked.note(signal)
            };
            if is_passed_on {
                of_signals.raise();
            }
        })?;
        Ok(steering)
    }

    /// The flag that ends the run that is under way.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Asks for the end of the run and lets no other begin, as Ctrl-C does.
    pub(crate) fn ask_to_stop(&self) {
        if self.asked().note(SIGINT) {
            self.raise();
        }
    }

    /// Returns the signals since the run began, for its record.
    pub(crate) fn signals(&self) -> Vec<Signal> {
        self.asked().signals.clone()
    }

    /// Passes requests to end the run to `gate` from now on, or to the flag if there is none.
    pub(crate) fn set_gate(&self, gate: Option<StopGate>) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = gate;
    }

    fn raise(&self) {
        match &mut *self.gate.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(gate) => gate(),
            None => self.stop.store(true, Ordering::Relaxed),
        }
    }

    /// Returns whether no run is wanted any more.
    pub(crate) fn is_over(&self) -> bool {
        self.asked().over
    }

    /// Sets whether the run hands over to the next one: then a request for the next one does not end it by the flag.
    pub(crate) fn set_handover(&self, hands_over: bool) {
        self.succession.is_wanted.store(false, Ordering::Relaxed);
        self.succession.hands_over.store(hands_over, Ordering::Relaxed);
    }

    /// Returns whether the next run is wanted now, to which the run hands over.
    pub(crate) fn is_next_wanted(&self) -> bool {
        self.succession.is_wanted.load(Ordering::Relaxed)
    }

    /// Begins a run, unless none is to follow. Requests for the run before are cleared, since it has ended.
    pub(crate) fn begin_run(&self) -> bool {
        let mut asked = self.asked();
        self.stop.store(false, Ordering::Relaxed);
        asked.next = false;
        if !asked.over {
            asked.signals.clear();
        }
        !asked.over
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_once_to_end_and_a_second_time_only_by_who_wants_it_at_once() {
        let mut asked = Asked::default();
        assert!(asked.note(SIGUSR1), "the run ends, and another follows");
        assert!(!asked.note(SIGUSR1), "it ends already");
        assert!(!asked.note(SIGINT), "it ends already, and none follows");
        assert!(asked.note(SIGINT), "at once");
        let mut asked = Asked::default();
        assert!(asked.note(SIGTERM));
        assert!(!asked.note(SIGUSR1), "there is no next run");
    }

    #[test]
    fn a_boundary_is_forgotten_when_the_next_run_begins_and_the_end_is_not() {
        let steering = Steering::default();
        assert!(steering.begin_run());
        steering.stop.store(steering.asked().note(SIGUSR1), Ordering::Relaxed);
        assert!(steering.stop.load(Ordering::Relaxed));
        assert!(steering.begin_run());
        assert!(!steering.stop.load(Ordering::Relaxed));
        steering.asked().note(SIGINT);
        assert!(!steering.begin_run());
    }
}
