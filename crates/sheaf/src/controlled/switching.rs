//! Requests of a controller for the next run, between the station and the thread that prepares that run.

use sheaf_control::{NextRun, RefusedOrder, RunResult};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Results that are kept for a controller that calls later. Each run has its record.
const ENDED: usize = 16;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Switching(Mutex<Switches>);

/// Requests so far, and what became of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Switches {
    /// A request that nobody has taken. A later one takes its place.
    wanted: Option<NextRun>,
    /// Number of the order that had asked for the present run; 0 for the first one.
    pub(super) switched: u64,
    pub(super) not_switched: Option<RefusedOrder>,
    /// Results of the last runs before that are closed, in ascending order.
    pub(super) ended: Vec<RunResult>,
}

impl Switching {
    /// Asks for the next run.
    pub(super) fn ask(&self, next: NextRun) {
        self.lock().wanted = Some(next);
    }

    /// Takes the request for the next run, if there is one.
    pub(crate) fn take(&self) -> Option<NextRun> {
        self.lock().wanted.take()
    }

    /// Notes that the run has begun that order `asked` had asked for.
    pub(crate) fn note_begun(&self, asked: u64) {
        self.lock().switched = asked;
    }

    /// Notes that the present run goes on, although order `asked` had asked for another one.
    pub(crate) fn note_refused(&self, asked: u64, why: String) {
        self.lock().not_switched = Some(RefusedOrder { asked, why });
    }

    /// Notes the result of a run that another one has followed.
    pub(crate) fn note_closed(&self, result: RunResult) {
        let ended = &mut self.lock().ended;
        ended.push(result);
        if ended.len() > ENDED {
            ended.remove(0);
        }
    }

    pub(super) fn get(&self) -> Switches {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Switches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
