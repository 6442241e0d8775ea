//! Feeds sources of one readout unit as fast as it takes them: `load ADDRESS SOURCES BYTES EVENTS BATCH`.

use sheaf_feed::client::SourceFragment;
use sheaf_feed::{ClientOptions, SourceClient};
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::path::Path;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize| arguments[index].parse::<u64>();
    let sources: Vec<SourceId> =
        arguments[2].split(',').map(|it| it.parse().map(SourceId)).collect::<Result<_, _>>()?;
    let (bytes, events, batch) = (number(3)? as usize, number(4)?, number(5)?);
    let options = ClientOptions {
        sources: sources.clone(),
        patience: Duration::from_secs(60),
        ..ClientOptions::default()
    };
    let mut client = SourceClient::connect(Path::new(&arguments[1]), options)?;
    client.wait_for_start(None)?;
    let payload = vec![0x5a; bytes];
    let start = Instant::now();
    let mut next = 0;
    while next < events {
        let end = (next + batch).min(events);
        let fragments: Vec<_> = (next..end)
            .map(|event| SourceFragment { event: EventId(event), time: Timestamp(event), payload: &payload })
            .collect();
        for source in 0..sources.len() {
            client.send_all(source, &fragments)?;
        }
        next = end;
    }
    for source in 0..sources.len() {
        client.end(source)?;
    }
    let drained = client.drain()?;
    let seconds = start.elapsed().as_secs_f64();
    let fragments = events as f64 * sources.len() as f64;
    println!(
        "{:.3} M fragments/s, {:.3} GB/s, all accepted: {drained}",
        fragments / seconds / 1e6,
        fragments * bytes as f64 / seconds / 1e9
    );
    Ok(())
}
