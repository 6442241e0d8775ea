//! Fragment streams generated for tests, and copies of streams with records omitted.

use bytes::Bytes;
use sheaf_store::fragment_stream::{StreamReader, StreamWriter};
use sheaf_wire::stream_file::{EXTENSION, StreamHeader};
use sheaf_wire::{EventId, Fragment, NumberMark, RunNumber, SourceId, Timestamp};
use std::path::{Path, PathBuf};

/// Returns the streams of a directory, by name.
pub(crate) fn paths(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.collect();
    paths.sort();
    paths
}

/// Writes streams of sources 1 to `sources` with the events 0 to `events` - 1. Payloads differ in size and content.
pub(crate) fn make(directory: &Path, sources: u32, events: u64) {
    std::fs::create_dir_all(directory).unwrap();
    for source in (1..=sources).map(SourceId) {
        let header =
            StreamHeader { source, run: RunNumber(5), has_events: true, has_times: true, time_base: None };
        let path = directory.join(format!("source{:06}.{EXTENSION}", source.0));
        let mut writer = StreamWriter::create(&path, header, "{}").unwrap();
        for event in 0..events {
            let length = 20 + (event * 37 + u64::from(source.0) * 101) % 900;
            let payload: Vec<u8> =
                (0..length).map(|at| (at * (event + 3) + u64::from(source.0)) as u8).collect();
            let fragment = Fragment {
                event: EventId(event),
                source,
                time: Timestamp(1_000_000 * event),
                checksum: None,
                processed: false,
                mark: NumberMark::NONE,
                payload,
            };
            writer.append(&fragment).unwrap();
        }
        writer.finish().unwrap();
    }
}

/// Copies streams without unwanted records.
pub(crate) fn copy(from: &Path, to: &Path, wanted: impl Fn(u32, u64) -> bool) {
    std::fs::create_dir_all(to).unwrap();
    for path in paths(from) {
        let reader = StreamReader::open(&path).unwrap();
        let (header, metadata) = (*reader.header(), reader.metadata().to_owned());
        let mut writer =
            StreamWriter::create(&to.join(path.file_name().unwrap()), header, &metadata).unwrap();
        for fragment in reader {
            let fragment: Fragment<Bytes> = fragment.unwrap();
            if wanted(fragment.source.0, fragment.event.0) {
                writer.append(&fragment).unwrap();
            }
        }
        writer.finish().unwrap();
    }
}

/// Writes a stream anew, in which a second fragment follows one of the events: the same, or with other last bytes.
pub(crate) fn repeat(directory: &Path, source: u32, event: u64, last: Option<&[u8]>) {
    let path = directory.join(format!("source{source:06}.{EXTENSION}"));
    let reader = StreamReader::open(&path).unwrap();
    let (header, metadata) = (*reader.header(), reader.metadata().to_owned());
    let fragments: Vec<Fragment<Bytes>> = reader.map(Result::unwrap).collect();
    std::fs::remove_file(&path).unwrap();
    let mut writer = StreamWriter::create(&path, header, &metadata).unwrap();
    for fragment in &fragments {
        writer.append(fragment).unwrap();
        if fragment.event.0 == event {
            let mut payload = fragment.payload.to_vec();
            if let Some(last) = last {
                payload.truncate(payload.len() - last.len());
                payload.extend(last);
            }
            let second = Fragment { payload, checksum: None, ..fragment_head(fragment) };
            writer.append(&second).unwrap();
        }
    }
    writer.finish().unwrap();
}

/// Returns a fragment with the same event, source and time, and no payload.
fn fragment_head(fragment: &Fragment<Bytes>) -> Fragment<Vec<u8>> {
    Fragment {
        event: fragment.event,
        source: fragment.source,
        time: fragment.time,
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Vec::new(),
    }
}
