//! The example library of sources in Rust: each source has a board whose samples are a ramp. Parameters: `events=1000
//! samples=64`.

use sheaf_filter::{
    EventId, FilterFailure, PollEnd, PollRoom, SourceId, SourcePlugin, SourcePluginSetup, Timestamp,
    export_source,
};

/// The boards of a readout unit.
#[derive(Debug)]
pub struct Ramp {
    sources: Vec<SourceId>,
    next: u64,
    events: u64,
    samples: u64,
}

export_source!(Ramp);

impl SourcePlugin for Ramp {
    fn open(setup: &SourcePluginSetup) -> Result<Self, FilterFailure> {
        let numbers = setup.parameters.strip_prefix("events=").and_then(|text| text.split_once(" samples="));
        let numbers =
            numbers.and_then(|(events, samples)| Some((events.parse().ok()?, samples.parse().ok()?)));
        let Some((events, samples)) = numbers.filter(|(_, samples)| *samples <= 9_999) else {
            let right = "`source.library.parameters` should be like \"events=1000 samples=64\"";
            return Err(FilterFailure(right.into()));
        };
        // Connect to the hardware here.
        Ok(Self { sources: setup.sources.clone(), next: 0, events, samples })
    }

    fn poll(&mut self, room: &mut PollRoom<'_>) -> Result<PollEnd, FilterFailure> {
        if room.left() < self.sources.len() {
            let right = "raise `source.library.batch_fragments` to the number of sources";
            return Err(FilterFailure(right.into()));
        }
        while self.next < self.events && room.left() >= self.sources.len() {
            let (event, time) = (EventId(self.next), Timestamp(1_000 * self.next));
            for source in &self.sources {
                // Read the hardware here.
                let first = self.next + u64::from(source.0);
                let payload: Vec<u8> =
                    (first..first + self.samples).flat_map(|sample| (sample as u16).to_le_bytes()).collect();
                room.push(*source, event, time, &payload);
            }
            self.next += 1;
        }
        Ok(if self.next < self.events { PollEnd::More } else { PollEnd::Ended })
    }
}
