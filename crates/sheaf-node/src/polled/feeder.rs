//! A process that polls a library and feeds a readout unit (`source.library.isolated`): a crash or a hang affects nothing else.

use crate::programs::count_line;
use sheaf_feed::FeedError;
use sheaf_feed::client::{SourceClient, SourceFragment};
use sheaf_filter::{LibrarySource, PollEnd, PollError, PolledFragment};
use sheaf_source::poll_books::PollBooks;
use sheaf_wire::SourceId;
use sheaf_wire::feed::Phase;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

/// Pause after a poll that failed.
const FAILED_PAUSE: Duration = Duration::from_millis(100);

/// Interval at which counts are reported.
const REPORT: Duration = Duration::from_secs(1);

/// Polls `library` and feeds the sources of `client`, until the run or the sources end. Counts go to `output`, for the program
/// that started this process. Fragments have at most `max_fragment` bytes.
///
/// # Errors
/// If the connection to the readout unit ends before the run.
pub fn feed(
    mut library: LibrarySource,
    mut client: SourceClient,
    max_fragment: u64,
    output: &mut dyn Write,
) -> Result<(), FeedError> {
    let places = client.sources().iter().enumerate().map(|(at, source)| (*source, at)).collect();
    let mut feeder =
        Feeder { places, max_fragment, books: PollBooks::default(), reported: PollBooks::default() };
    client.wait_for_start(None)?;
    library.start();
    let result = match feeder.feed(&mut library, &mut client, output) {
        Err(FeedError::RunEnded(_)) => Ok(()),
        result => result,
    };
    library.stop();
    feeder.report(output);
    result
}

struct Feeder {
    /// Places of the sources in the list of the client.
    places: BTreeMap<SourceId, usize>,
    max_fragment: u64,
    books: PollBooks,
    /// Part of `books` that was reported.
    reported: PollBooks,
}

impl Feeder {
    fn feed(
        &mut self,
        library: &mut LibrarySource,
        client: &mut SourceClient,
        output: &mut dyn Write,
    ) -> Result<(), FeedError> {
        let mut report_at = Instant::now() + REPORT;
        while client.phase() != Phase::Ended {
            self.books.polls += 1;
            let end = match library.poll() {
                Ok(end) => end,
                Err(error) => {
                    match error {
                        PollError::Failed(_) => self.books.polls_failed += 1,
                        PollError::Invalid(_) => self.books.batches_invalid += 1,
                    }
                    // Bounded by the pause; the run bounds what it logs.
                    let _ = writeln!(output, "the library failed: {error}");
                    client.wait(FAILED_PAUSE)?;
                    continue;
                }
            };
            self.send(library, client)?;
            match end {
                PollEnd::More => {}
                PollEnd::After(pause) => client.wait(pause.to_std())?,
                PollEnd::Ended => {
                    (0..self.places.len()).try_for_each(|place| client.end(place))?;
                    client.drain()?;
                    return Ok(());
                }
            }
            if Instant::now() >= report_at {
                report_at = Instant::now() + REPORT;
                self.report(output);
            }
        }
        Ok(())
    }

    /// Sends the fragments of the last poll, consecutive ones of the same source in one call.
    fn send(&mut self, library: &LibrarySource, client: &mut SourceClient) -> Result<(), FeedError> {
        let mut together: Vec<SourceFragment<'_>> = Vec::new();
        let mut of = 0;
        let mut at = 0;
        while let Some(fragment) = library.fragment(at) {
            at += 1;
            let Some((place, fragment)) = self.check(fragment) else { continue };
            if place != of && !together.is_empty() {
                client.send_all(of, &together)?;
                together.clear();
            }
            of = place;
            together.push(fragment);
        }
        if !together.is_empty() {
            client.send_all(of, &together)?;
        }
        Ok(())
    }

    /// Counts a fragment that is invalid.
    fn check<'a>(&mut self, found: PolledFragment<'a>) -> Option<(usize, SourceFragment<'a>)> {
        let books = &mut self.books;
        match (self.places.get(&found.source), found.payload) {
            (None, _) => books.fragments_unknown_source += 1,
            (Some(_), None) => books.fragments_without_data += 1,
            (Some(_), Some(payload)) if payload.len() as u64 > self.max_fragment => {
                books.fragments_too_large += 1;
            }
            (Some(place), Some(payload)) => {
                let fragment = SourceFragment { event: found.event, time: found.time, payload };
                return Some((*place, fragment));
            }
        }
        None
    }

    /// Reports what was counted since the last report.
    fn report(&mut self, output: &mut dyn Write) {
        for ((name, now), (_, before)) in self.books.fields().zip(self.reported.fields()) {
            if now > before {
                // Nobody may be there to read it.
                let _ = writeln!(output, "{}", count_line(name, now - before));
            }
        }
        self.reported = self.books;
        let _ = output.flush();
    }
}
