//! Ctrl-C and termination.

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many signals end the process at once, for when nothing else helps.
const SIGNALS_TO_ABORT: u32 = 3;

/// What shells report for a process that Ctrl-C has ended.
const EXIT_INTERRUPTED: i32 = 130;

/// A flag that is set by Ctrl-C and by SIGTERM; whoever acts on it clears it. The third such signal ends the process
/// at once.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot handle signals")?;
    let raised = flag.clone();
    let watch = move || {
        for (count, _) in (1..).zip(signals.forever()) {
            if count >= SIGNALS_TO_ABORT {
                std::process::exit(EXIT_INTERRUPTED);
            }
            raised.store(true, Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).context("cannot start a thread")?;
    Ok(flag)
}
