//! A board reader: feeds one source of a run.   board runs/ru0.feed 0 1000

#![allow(clippy::print_stderr, reason = "a program")]

use sheaf_feed::client::SourceFragment;
use sheaf_feed::{ClientOptions, FeedError, SourceClient};
use sheaf_wire::{EventId, SourceId, Timestamp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [address, source, events]: [String; 3] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "usage: board ADDRESS SOURCE EVENTS")?;
    let source = SourceId(source.parse()?);
    let options = ClientOptions {
        sources: vec![source],
        name: format!("board {source}"),
        keep: true,
        ..ClientOptions::default()
    };
    let mut board = SourceClient::connect(address.as_ref(), options)?;
    board.wait_for_start(None)?;
    // Calls name a source by its place in the list of sources.
    let first = board.last_event(0).map_or(0, |event| event.0 + 1);
    for event in first..events.parse()? {
        let payload = [event as u8; 128]; // your board is read here
        let fragment =
            SourceFragment { event: EventId(event), time: Timestamp(event * 1_000), payload: &payload };
        match board.send(0, fragment) {
            Err(FeedError::RunEnded(run)) => {
                eprintln!("run {run} has ended");
                return Ok(());
            }
            sent => sent?,
        }
    }
    board.end(0)?;
    board.drain()?;
    Ok(())
}
