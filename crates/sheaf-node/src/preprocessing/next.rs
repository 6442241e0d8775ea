//! Preprocessors of the next run, where it follows without a gap: they are made while the present run goes on.

use super::{PreprocessingError, PreprocessorMaker};
use sheaf_filter::{FilterFailure, Preprocessor};
use sheaf_wire::NodeId;
use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Pause between two looks at whether the present run goes on.
const PAUSE: Duration = Duration::from_millis(20);

/// Thread that has made preprocessors. It ends when this is dropped, and not before: processes that it has started for them end with it.
pub(super) struct Keeper {
    _until: Sender<Infallible>,
}

/// Preprocessors of the next run of a readout unit, one for each worker.
pub struct NextPreprocessors {
    pub(super) made: Vec<Box<dyn Preprocessor>>,
    pub(super) make: PreprocessorMaker,
    pub(super) keeper: Keeper,
}

type Made = Result<(Vec<Box<dyn Preprocessor>>, PreprocessorMaker), FilterFailure>;

impl NextPreprocessors {
    /// Makes a preprocessor for each of the `workers` of a readout unit. Returns `None` if the present run is over before.
    ///
    /// # Errors
    /// If a preprocessor cannot be made, or a thread cannot be started.
    pub fn make(
        node: NodeId,
        workers: u16,
        make: PreprocessorMaker,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Self>, PreprocessingError> {
        let thread = |what| PreprocessingError::Thread { node, what };
        let ((give, made), (until, end)) = (channel(), channel());
        let body = move || make_all(workers, make, (&give, &end));
        let thread_name = format!("{node}.next");
        let spawned = std::thread::Builder::new().name(thread_name).spawn(body);
        // The thread is not joined: code of users may hang in it.
        drop(spawned.map_err(|error| thread(error.to_string()))?);
        loop {
            match made.recv_timeout(PAUSE) {
                Ok(Ok((made, make))) => {
                    return Ok(Some(Self { made, make, keeper: Keeper { _until: until } }));
                }
                Ok(Err(what)) => return Err(PreprocessingError::Preprocessor { node, what }),
                Err(RecvTimeoutError::Timeout) if is_over() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(thread("it has panicked".to_owned())),
            }
        }
    }
}

/// Makes the preprocessors and gives them away, and lives until there are none.
fn make_all(workers: u16, mut make: PreprocessorMaker, (give, end): (&Sender<Made>, &Receiver<Infallible>)) {
    let made: Result<Vec<_>, _> = (0..workers.max(1)).map(|_| make()).collect();
    let _ = give.send(made.map(|made| (made, make)));
    let _ = end.recv();
}
