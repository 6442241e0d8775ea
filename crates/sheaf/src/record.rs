//! `sheaf record`: writes the fragments of live sources to fragment streams, which replay as they came.

use crate::check_source::seconds;
use crate::console::{count, plural};
use crate::listening::{Arrived, Then, listen};
use crate::recorded_slices::{KEY, RecordedSlices};
use crate::{Verdict, print, signals, space};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use sheaf_config::{Config, Source};
use sheaf_store::fragment_stream::{EXTENSION, StreamHeader, StreamWriter, file_name};
use sheaf_wire::{EventId, Fragment, NumberMark, RunNumber, SourceId, TimeBase, TimeUnit, Timestamp};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Times of the fragments in the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Times {
    /// Of the source, if its first two fragments have one that is not 0; else of their arrival.
    #[default]
    Source,
    /// Of their arrival.
    Arrival,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// Configuration file whose sources are recorded.
    config: PathBuf,
    /// Directory for the streams, one for each source. It is made if it does not exist, and must have no streams.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Number of fragments after which it ends.
    #[arg(long, value_name = "N")]
    fragments: Option<u64>,
    /// Bytes of payload after which it ends.
    #[arg(long, value_name = "BYTES")]
    bytes: Option<u64>,
    /// Time after the start of the sources after which it ends.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Times in the streams, at which they can be replayed.
    #[arg(long, value_enum, default_value_t, value_name = "TIMES")]
    times: Times,
}

/// Runs `sheaf record`.
pub(crate) fn command(arguments: &RecordArguments) -> anyhow::Result<Verdict> {
    let config = Config::load(&arguments.config)?;
    crate::console::name_sources(&config.names);
    let directory = &arguments.output;
    let keep = config.output.keep_free.0;
    prepare(directory)?;
    space::require(directory, keep)?;
    let stop = signals::stop_flag()?;
    let watch = space::Watch::begin(Some(directory), keep, &stop)?;
    let run = RunNumber(config.run.number.0.max(1));
    let Source { time_unit, epoch, .. } = config.source;
    // The fragments of time slices have nanoseconds since time 0 of the run.
    let has_its_times = arguments.times == Times::Source && !config.source.is_timed();
    let is_stated = has_its_times && (time_unit.is_some() || epoch.is_some());
    let unit = time_unit.unwrap_or(TimeUnit::NANOSECOND);
    let time_base = is_stated.then_some(TimeBase { unit, epoch });
    let mut metadata = serde_json::json!({ "software": crate::SOFTWARE });
    if config.source.is_timed() {
        metadata[KEY] = serde_json::json!(RecordedSlices::of(&config.source.timed));
    }
    let mut recording = Recording {
        directory,
        metadata: metadata.to_string(),
        run,
        times: arguments.times,
        time_base,
        streams: BTreeMap::new(),
        fragments: 0,
        bytes: 0,
    };
    let (most, most_bytes) = (arguments.fragments.unwrap_or(u64::MAX), arguments.bytes.unwrap_or(u64::MAX));
    let mut take = |arrived: Arrived<'_>| {
        recording.take(&arrived)?;
        let is_full = recording.fragments >= most || recording.bytes >= most_bytes;
        Ok(if is_full { Then::Stop } else { Then::GoOn })
    };
    let recorded = listen(config, Some(directory), (&stop, arguments.seconds), &mut take, &mut |_| {});
    let ended_early = watch.end();
    // What was written before an error is closed, too.
    let text = recording.finish();
    let recorded = recorded?;
    print::print(&format!("{}in {:.3} s\n", text?, recorded.time.as_secs_f64()))?;
    if let Some(why) = ended_early {
        log::warn!("{why}");
        return Ok(Verdict::NotGood);
    }
    for (source, stats) in &recorded.stats {
        if let Some(error) = &stats.last_error {
            log::warn!("the last loss of source {source}: {error}");
        }
    }
    Ok(Verdict::Good)
}

/// Makes the directory, if it is not there. It must have no fragment streams.
pub(crate) fn prepare(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {shown}"))?;
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("cannot read the directory {shown}"))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read the directory {shown}"))?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            bail!("{shown} has fragment streams, such as {}; choose another directory", path.display());
        }
    }
    Ok(())
}

struct Recording<'a> {
    directory: &'a Path,
    /// Metadata of each stream.
    metadata: String,
    run: RunNumber,
    times: Times,
    /// Unit and epoch of times, if the configuration states them. Times are then those of the source.
    time_base: Option<TimeBase>,
    streams: BTreeMap<SourceId, Stream>,
    fragments: u64,
    bytes: u64,
}

struct Stream {
    source: SourceId,
    writer: StreamWriter<File>,
    /// Whether fragments get the time of their arrival; `None` until it is known whether the source has times.
    by_arrival: Option<bool>,
    /// The first fragment, until then: its time may be 0 where the source has times.
    first: Option<Held>,
}

/// A fragment that is not written yet.
struct Held {
    event: EventId,
    time: Timestamp,
    now: Timestamp,
    payload: Vec<u8>,
}

impl Recording<'_> {
    fn take(&mut self, arrived: &Arrived<'_>) -> anyhow::Result<()> {
        let stream = match self.streams.entry(arrived.source) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let header = StreamHeader {
                    source: arrived.source,
                    run: self.run,
                    has_events: true,
                    has_times: true,
                    time_base: self.time_base,
                };
                let stream = Stream::create(self.directory, header, &self.metadata, self.times)?;
                entry.insert(stream)
            }
        };
        stream.take(arrived)?;
        self.fragments += 1;
        self.bytes += arrived.payload.len() as u64;
        Ok(())
    }

    /// Closes the streams, and describes them.
    fn finish(self) -> anyhow::Result<String> {
        let mut text = String::new();
        for (source, mut stream) in self.streams {
            stream.write_first(Timestamp::ZERO)?;
            let times = if stream.by_arrival == Some(true) { "arrival" } else { "the source" };
            let summary = stream.writer.finish()?;
            let (records, bytes) = (plural(summary.records, "fragment"), count(summary.payload_bytes));
            text += &format!("source {source}: {records}, {bytes} bytes, times of {times}\n");
        }
        let (fragments, bytes) = (plural(self.fragments, "fragment"), count(self.bytes));
        Ok(format!("{text}{fragments}, {bytes} bytes in {} ", self.directory.display()))
    }
}

impl Stream {
    fn create(directory: &Path, header: StreamHeader, metadata: &str, times: Times) -> anyhow::Result<Self> {
        let source = header.source;
        let writer = StreamWriter::create(&directory.join(file_name(source)), header, metadata)?;
        let is_known = times == Times::Arrival || header.time_base.is_some();
        let by_arrival = is_known.then_some(times == Times::Arrival);
        Ok(Self { source, writer, by_arrival, first: None })
    }

    fn take(&mut self, arrived: &Arrived<'_>) -> anyhow::Result<()> {
        let Arrived { event, time, now, payload, .. } = *arrived;
        if self.by_arrival.is_none() && self.first.is_none() && time == Timestamp::ZERO {
            self.first = Some(Held { event, time, now, payload: payload.to_vec() });
            return Ok(());
        }
        self.write_first(time)?;
        self.write(event, (time, now), payload)
    }

    /// Writes the first fragment if it was held, now that the time of the second is known.
    fn write_first(&mut self, second: Timestamp) -> anyhow::Result<()> {
        self.by_arrival.get_or_insert(second == Timestamp::ZERO);
        match self.first.take() {
            Some(Held { event, time, now, payload }) => self.write(event, (time, now), &payload),
            None => Ok(()),
        }
    }

    fn write(
        &mut self,
        event: EventId,
        (own, now): (Timestamp, Timestamp),
        payload: &[u8],
    ) -> anyhow::Result<()> {
        let time = if self.by_arrival == Some(true) { now } else { own };
        let fragment = Fragment {
            event,
            source: self.source,
            time,
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload,
        };
        Ok(self.writer.append(&fragment)?)
    }
}
