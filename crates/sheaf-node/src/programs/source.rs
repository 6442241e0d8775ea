//! A source whose program may have ended for good.

use super::{Outlook, ProgramSetup, Shared};
use sheaf_source::{Batch, BatchEnd, Source, SourceEvent, SourcePoll, SourceStats};
use sheaf_wire::{Nanos, SourceId, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that a connection of a program that has ended may need to be noticed. Its fragments are taken first.
const LAST_CONNECTION: Duration = Duration::from_secs(1);

/// A fed source. It ends when its program has ended for good, and stops the programs when it is stopped.
pub(super) struct ProgramSource {
    source: Box<dyn Source>,
    /// The program that feeds it, and whether the run waits for it; `None`: one that somebody else starts.
    program: Option<(usize, bool)>,
    name: String,
    shared: Arc<Shared>,
    has_started: bool,
    /// Time at which its program ended for good.
    alone_since: Option<Instant>,
    has_ended: bool,
}

impl ProgramSource {
    pub(super) fn new(
        source: Box<dyn Source>,
        program: Option<usize>,
        setups: &[ProgramSetup],
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            source,
            program: program.map(|index| (index, setups[index].awaited)),
            name: program.map(|index| setups[index].name.clone()).unwrap_or_default(),
            shared,
            has_started: false,
            alone_since: None,
            has_ended: false,
        }
    }

    fn outlook(&self) -> Outlook {
        self.program.map_or(Outlook::Feeds, |(index, _)| self.shared.with(index, |it| it.outlook.clone()))
    }

    /// Returns the time left until the source is known to stay without a program; `None` while it may have one.
    fn left(&mut self) -> Option<Nanos> {
        // A program that was started by hand may have taken the place of the one that ended.
        if self.outlook() == Outlook::Feeds || self.source.is_fed() {
            self.alone_since = None;
            return None;
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        Some(LAST_CONNECTION.saturating_sub(since.elapsed()).into())
    }

    /// Returns the state of the source after it had nothing: it ends if no program will feed it.
    fn nothing(&mut self, now: Timestamp) -> BatchEnd {
        match self.left() {
            None => BatchEnd::Idle,
            Some(Nanos::ZERO) => BatchEnd::Ended,
            Some(left) => BatchEnd::NotBefore(now + left),
        }
    }

    fn note_end(&mut self) {
        if let Some((index, _)) = self.program
            && !std::mem::replace(&mut self.has_ended, true)
        {
            self.shared.with(index, |program| program.open_sources -= 1);
        }
    }

    /// Returns why the run cannot start, once, if it waits for a program that does not come.
    fn decline(&mut self) -> Option<SourceEvent> {
        let (index, _) = self.program.filter(|(_, awaited)| *awaited && !self.has_started)?;
        if self.left()? > Nanos::ZERO {
            return None;
        }
        let reason = match self.outlook() {
            Outlook::Feeds => return None,
            Outlook::Finished => "it has ended before the start of the run".to_owned(),
            Outlook::GivenUp(reason) => reason,
        };
        let is_first = self.shared.with(index, |program| !std::mem::replace(&mut program.has_declined, true));
        let name = format!("program {}", self.name);
        is_first.then_some(SourceEvent::Declined { name, reason })
    }
}

impl Source for ProgramSource {
    fn id(&self) -> SourceId {
        self.source.id()
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        sheaf_source::poll_one(self, now)
    }

    fn poll_batch(&mut self, now: Timestamp, most: usize, batch: &mut Batch) -> BatchEnd {
        let end = match self.source.poll_batch(now, most, batch) {
            BatchEnd::Idle if batch.fragments.is_empty() => self.nothing(now),
            end => end,
        };
        if end == BatchEnd::Ended {
            self.note_end();
        }
        end
    }

    sheaf_source::forward_to_source!(source, without start);

    fn start(&mut self) {
        self.has_started = true;
        self.source.start();
    }

    fn handle_accepted(&mut self, fragments: usize) {
        self.source.handle_accepted(fragments);
    }

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.source.poll_event().or_else(|| self.decline())
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.source.prepare_to_sleep()
    }

    fn stop(&mut self) {
        // In this order: a program that ends because the run has ended has not failed.
        self.shared.bell.stop();
        self.source.stop();
    }

    fn stats(&self) -> SourceStats {
        self.source.stats()
    }
}

impl Drop for ProgramSource {
    /// A readout unit may end without the end of the run.
    fn drop(&mut self) {
        self.shared.bell.stop();
    }
}
