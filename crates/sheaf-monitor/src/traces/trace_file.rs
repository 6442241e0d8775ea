//! Files of traces: a line of JSON for each.

use super::model::{Trace, TraceEnd, TraceHeader, TraceLine};
use sheaf_telemetry::log_as;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Name of the file of traces in the directory of a run.
pub const TRACE_NAME: &str = "traces.jsonl";

/// Part of the file for events that are traced without a remark.
const SAMPLE_SHARE: u64 = 4;

/// Room that is kept for the last line.
const LAST_LINE: u64 = 512;

/// Writes traces up to a limit.
#[derive(Debug)]
pub(super) struct TraceWriter {
    path: PathBuf,
    header: TraceHeader,
    /// Limit in bytes.
    most: u64,
    /// Bytes written, and those of events without a remark among them.
    written: (u64, u64),
    /// Lines that are not written yet.
    buffer: Vec<u8>,
    file: Option<File>,
    has_failed: bool,
}

impl TraceWriter {
    pub(super) const fn new(path: PathBuf, header: TraceHeader, most: u64) -> Self {
        Self { path, header, most, written: (0, 0), buffer: Vec::new(), file: None, has_failed: false }
    }

    /// Takes a trace. Returns `false` if there is no room for it.
    pub(super) fn write(&mut self, trace: &Trace) -> bool {
        if self.written.0 == 0 {
            self.add(&TraceLine::Header(self.header.clone()));
        }
        let Some(line) = line(&TraceLine::Trace(trace.clone())) else { return false };
        let bytes = line.len() as u64;
        let of_sample = if trace.is_remarkable() { 0 } else { bytes };
        let has_room = self.written.0 + bytes + LAST_LINE <= self.most
            && (of_sample == 0 || self.written.1 + of_sample <= self.most / SAMPLE_SHARE);
        if !has_room || self.has_failed {
            return false;
        }
        self.written = (self.written.0 + bytes, self.written.1 + of_sample);
        self.buffer.extend_from_slice(&line);
        true
    }

    fn add(&mut self, content: &TraceLine) {
        let line = line(content).unwrap_or_default();
        self.written.0 += line.len() as u64;
        self.buffer.extend_from_slice(&line);
    }

    /// Writes the lines that were added. Reports a failure once and writes nothing more: the data of the run are on the same disk, and
    /// have alarms of their own.
    pub(super) fn flush(&mut self) {
        if self.buffer.is_empty() || self.has_failed {
            return;
        }
        let lines = std::mem::take(&mut self.buffer);
        let written = self.open().and_then(|mut file| file.write_all(&lines));
        if let Err(error) = written {
            self.has_failed = true;
            log_as!(TRACES_INCOMPLETE; "cannot write traces to {}: {error}; the run goes on without", self.path.display());
        }
    }

    fn open(&mut self) -> io::Result<&File> {
        if self.file.is_none() {
            if let Some(directory) = self.path.parent() {
                fs::create_dir_all(directory)?;
            }
            self.file = Some(OpenOptions::new().create(true).append(true).open(&self.path)?);
        }
        self.file.as_ref().ok_or_else(|| io::Error::other("no file"))
    }

    /// Ends the file, which has a header at least.
    pub(super) fn close(&mut self, end: TraceEnd) {
        if self.written.0 == 0 {
            self.add(&TraceLine::Header(self.header.clone()));
        }
        self.add(&TraceLine::End(end));
        self.flush();
    }
}

fn line(content: &TraceLine) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(content).ok()?;
    line.push(b'\n');
    Some(line)
}

/// Entry of a list of traces.
#[derive(Clone, Debug)]
struct Listed {
    /// The trace without its stamps.
    trace: Trace,
    /// Place and length of its line.
    at: (u64, u64),
}

/// Reads a file of traces, and follows it while it grows.
#[derive(Debug, Default)]
pub struct TraceReader {
    path: PathBuf,
    /// Place behind the last whole line that was read.
    read: u64,
    header: TraceHeader,
    end: Option<TraceEnd>,
    /// The traces, in the order of the file.
    listed: Vec<Listed>,
    by_event: BTreeMap<u64, Vec<usize>>,
}

impl TraceReader {
    /// Makes a reader of a file, which need not exist yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what was added since the last call. A file that does not exist has nothing yet.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn follow(&mut self) -> io::Result<()> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut file = BufReader::new(file);
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            let at = (self.read, line.len() as u64);
            self.read += at.1;
            match serde_json::from_slice(&line) {
                Ok(TraceLine::Header(header)) => self.header = header,
                Ok(TraceLine::End(end)) => self.end = Some(end),
                Ok(TraceLine::Trace(mut trace)) => {
                    trace.stamps = Vec::new();
                    self.by_event.entry(trace.event).or_default().push(self.listed.len());
                    self.listed.push(Listed { trace, at });
                }
                // Of a newer version, or damaged: the others are of use.
                Err(error) => log::debug!("{}: a line cannot be read: {error}", self.path.display()),
            }
            line.clear();
        }
        Ok(())
    }

    /// Returns the first line.
    #[must_use]
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Returns the last line, if the run has ended.
    #[must_use]
    pub fn end(&self) -> Option<TraceEnd> {
        self.end
    }

    /// Returns all traces without their stamps, in the order of the file.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Trace> + ExactSizeIterator {
        self.listed.iter().map(|listed| &listed.trace)
    }

    /// Returns the trace of an event with its stamps.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn find(&self, event: u64) -> io::Result<Option<Trace>> {
        let mut found: Option<Trace> = None;
        for place in self.by_event.get(&event).into_iter().flatten() {
            let (start, bytes) = self.listed[*place].at;
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(start))?;
            let mut line = Vec::new();
            file.take(bytes).read_to_end(&mut line)?;
            if let Ok(TraceLine::Trace(trace)) = serde_json::from_slice(&line) {
                match &mut found {
                    None => found = Some(trace),
                    Some(known) => join(known, trace, 0),
                }
            }
        }
        Ok(found)
    }
}

/// Joins the traces of an event that several hosts have, each with its host. Their clocks are not compared.
#[must_use]
pub fn merge(parts: Vec<(String, Trace)>) -> Option<Trace> {
    let mut hosts: Vec<String> = Vec::new();
    let mut whole: Option<Trace> = None;
    // That of the event manager has the end, and its clock is the first one.
    let mut parts = parts;
    parts.sort_by_key(|(_, trace)| trace.ended_ns.is_none());
    for (host, mut trace) in parts {
        let clock = hosts.iter().position(|known| *known == host).unwrap_or_else(|| {
            hosts.push(host);
            hosts.len() - 1
        });
        trace.stamps.iter_mut().for_each(|stamp| stamp.clock = clock);
        match &mut whole {
            None => whole = Some(trace),
            Some(whole) => join(whole, trace, clock),
        }
    }
    whole
}

fn join(whole: &mut Trace, part: Trace, clock: usize) {
    part.reasons.iter().for_each(|reason| whole.add_reason(reason));
    part.missing.into_iter().for_each(|missing| whole.add_missing(missing));
    whole.outcome = whole.outcome.take().or(part.outcome);
    whole.drop_reason = whole.drop_reason.take().or(part.drop_reason);
    if clock == 0 {
        whole.began_ns = whole.began_ns.or(part.began_ns);
        whole.ended_ns = whole.ended_ns.or(part.ended_ns);
    }
    whole.add_stamps(part.stamps);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::model::TraceStamp;

    fn trace(event: u64, reason: &str) -> Trace {
        let stamp = TraceStamp {
            node: "ru0".into(),
            at_ns: event * 10,
            stage: "sent".into(),
            peer: None,
            source: None,
            attempt: None,
            clock: 0,
        };
        Trace { run: 3, event, reasons: vec![reason.into()], stamps: vec![stamp], ..Trace::default() }
    }

    #[test]
    fn a_reader_follows_a_file_that_grows_and_finds_each_event() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("made/with/it").join(TRACE_NAME);
        let mut reader = TraceReader::new(&path);
        reader.follow().unwrap();
        let header = TraceHeader { run: 3, host: "here".into(), sample: 10, slow_ns: 7 };
        let mut writer = TraceWriter::new(path, header.clone(), 1 << 20);
        for event in 0..100 {
            assert!(writer.write(&trace(event, "slow")));
            if event % 10 == 0 {
                writer.flush();
                reader.follow().unwrap();
                assert_eq!(reader.all().len() as u64, event + 1);
            }
        }
        writer.close(TraceEnd { traces: 100, ..TraceEnd::default() });
        reader.follow().unwrap();
        assert_eq!((reader.header(), reader.end().unwrap().traces), (&header, 100));
        for event in 0..100 {
            assert_eq!(reader.find(event).unwrap(), Some(trace(event, "slow")));
        }
        assert_eq!(reader.find(100).unwrap(), None);
    }

    #[test]
    fn the_file_is_bounded_and_events_without_a_remark_get_a_quarter() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(TRACE_NAME);
        let mut writer = TraceWriter::new(path.clone(), TraceHeader::default(), 100_000);
        let samples = (0..10_000).filter(|event| writer.write(&trace(*event, "sampled"))).count();
        let others = (10_000..20_000).filter(|event| writer.write(&trace(*event, "slow"))).count();
        writer.close(TraceEnd::default());
        let bytes = fs::metadata(&path).unwrap().len();
        assert!(bytes <= 100_000 && bytes > 98_000, "{bytes}");
        assert!(samples * 2 < others && samples > 0, "{samples} and {others}");
        let mut reader = TraceReader::new(&path);
        reader.follow().unwrap();
        assert_eq!(reader.all().len(), samples + others);
        assert!(reader.end().is_some());
    }

    #[test]
    fn parts_of_several_hosts_have_clocks_of_their_own() {
        let mut with_end = trace(5, "slow");
        (with_end.began_ns, with_end.ended_ns) = (Some(1), Some(100));
        let parts = vec![("b".to_owned(), trace(5, "incomplete")), ("a".to_owned(), with_end)];
        let whole = merge(parts).unwrap();
        assert_eq!(whole.reasons, ["slow", "incomplete"]);
        assert_eq!(whole.stamps.iter().map(|stamp| stamp.clock).collect::<Vec<_>>(), [0, 1]);
    }
}
