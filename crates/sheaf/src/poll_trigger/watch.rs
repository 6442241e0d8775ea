//! Calls of a library that do not return.

use sheaf_telemetry::log_as;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time after which a call is reported for the first time.
const FIRST: Duration = Duration::from_secs(2);

/// Reports calls of a library that last long, each time after twice the time.
pub(super) struct CallWatch {
    library: PathBuf,
    /// Begin of the call in progress, and after which time it is reported next.
    call: Option<(Instant, Duration)>,
}

impl CallWatch {
    pub(super) fn new(library: &Path) -> Self {
        Self { library: library.to_owned(), call: None }
    }

    /// Takes note of the call that is in progress.
    pub(super) fn look(&mut self, call: Option<(&'static str, Instant)>) {
        let before = self.call.take();
        if let Some((begin, due)) = before
            && due > FIRST
            && call.is_none_or(|(_, other)| other != begin)
        {
            log::info!("the trigger library has returned after {:.1} s", begin.elapsed().as_secs_f64());
        }
        let Some((name, begin)) = call else { return };
        let mut due = before.filter(|(other, _)| *other == begin).map_or(FIRST, |(_, due)| due);
        let lasted = begin.elapsed();
        if lasted >= due {
            log_as!(
                TRIGGER_LIBRARY_SLOW;
                "the trigger library {} has been in `{name}` for {} s; there are no triggers until it returns",
                self.library.display(),
                lasted.as_secs()
            );
            due *= 2;
        }
        self.call = Some((begin, due));
    }
}
