//! The output of a program: each line in a file, and as many as the log of the run can bear in it.

use super::COUNT;
use sheaf_telemetry::log_as;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of counts with different names.
const MOST_COUNTS: usize = 64;

/// Longest line; longer ones are divided.
const LINE_BYTES: usize = 4_096;

/// Output of one program.
#[derive(Debug)]
pub(super) struct ProgramOutput {
    /// Node and name, in front of each line in the log.
    title: String,
    /// A line whose end has not come.
    begun: Vec<u8>,
    file: Option<LogFile>,
    in_log: Allowance,
    lines: u64,
    dropped: u64,
    /// Counts of the lines that report them; `None` if lines are not read for them.
    counts: Option<BTreeMap<String, u64>>,
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    writer: BufWriter<File>,
    /// Bytes that may still be written.
    room: u64,
    is_full: bool,
}

/// Lines that may still go to the log of the run, each second anew.
#[derive(Debug)]
struct Allowance {
    per_second: u32,
    since: Instant,
    used: u32,
    left_out: u64,
}

impl ProgramOutput {
    /// Begins to take the output of a program. A file that exists is continued.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn open(
        title: String,
        path: Option<&Path>,
        max_bytes: u64,
        lines_per_second: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            title,
            begun: Vec::new(),
            file: path.map(|path| LogFile::open(path, max_bytes)).transpose()?,
            in_log: Allowance { per_second: lines_per_second, since: Instant::now(), used: 0, left_out: 0 },
            lines: 0,
            dropped: 0,
            counts: None,
        })
    }

    /// Has lines with counts read.
    pub(super) fn count(&mut self) {
        self.counts = Some(BTreeMap::new());
    }

    /// Returns what was counted.
    pub(super) fn take_counts(&mut self) -> BTreeMap<String, u64> {
        self.counts.take().unwrap_or_default()
    }

    /// Reads a line with a count. Returns whether it is one.
    fn read_count(&mut self, line: &str) -> bool {
        let Some(counts) = &mut self.counts else { return false };
        let count = line.strip_prefix(COUNT).and_then(|count| count.split_once(' '));
        let Some((name, Ok(more))) = count.map(|(name, more)| (name, more.parse::<u64>())) else {
            return false;
        };
        // A library in the process may write such lines, too.
        if counts.len() < MOST_COUNTS || counts.contains_key(name) {
            let sum = counts.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(more);
        }
        true
    }

    /// Takes a part of the output.
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..end]);
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, mut bytes: &[u8]) {
        while self.begun.len() + bytes.len() > LINE_BYTES {
            let (now, later) = bytes.split_at(LINE_BYTES - self.begun.len());
            self.begun.extend_from_slice(now);
            self.end_line();
            bytes = later;
        }
        self.begun.extend_from_slice(bytes);
    }

    /// Takes note that the program has ended: a line that was begun is whole.
    pub(super) fn end(&mut self) {
        if !self.begun.is_empty() {
            self.end_line();
        }
        self.tell_left_out();
        self.flush();
    }

    fn end_line(&mut self) {
        let begun = std::mem::take(&mut self.begun);
        // Control characters could change the terminal of the reader.
        let line: String = String::from_utf8_lossy(&begun)
            .trim_end_matches('\r')
            .chars()
            .map(|character| if character.is_control() && character != '\t' { '\u{fffd}' } else { character })
            .collect();
        self.begun = begun;
        self.begun.clear();
        if self.read_count(&line) {
            return;
        }
        self.lines += 1;
        if let Some(file) = &mut self.file {
            self.dropped += u64::from(!file.write(&self.title, &line));
        }
        if self.in_log.passes() {
            self.tell_left_out();
            let (node, program) = parts(&self.title);
            log_as!(PROGRAM_OUTPUT, node = node, peer = program; "{}: {line}", self.title);
        }
    }

    /// Writes a line about the program into its file.
    pub(super) fn note(&mut self, text: &str) {
        if let Some(file) = &mut self.file {
            file.write(&self.title, text);
        }
    }

    /// Writes what was taken, and says which lines the log lacks once that is known.
    pub(super) fn flush(&mut self) {
        if self.in_log.since.elapsed() >= Duration::from_secs(1) {
            self.tell_left_out();
        }
        if let Some(file) = &mut self.file {
            file.flush(&self.title);
        }
    }

    /// Returns when [`Self::flush`] is due, where no more output comes.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        (self.in_log.left_out > 0 && self.in_log.per_second > 0)
            .then(|| self.in_log.since + Duration::from_secs(1))
    }

    fn tell_left_out(&mut self) {
        let left_out = std::mem::take(&mut self.in_log.left_out);
        if left_out == 0 || self.in_log.per_second == 0 {
            return;
        }
        let place = self.path().map_or_else(String::new, |path| format!("; they are in {}", path.display()));
        let (node, program) = parts(&self.title);
        log_as!(PROGRAM_OUTPUT, node = node, peer = program; "{}: {left_out} further lines in this second{place}", self.title);
    }

    /// The file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// Number of lines, and of those that the file has not.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.lines, self.dropped)
    }
}

impl LogFile {
    fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let room = max_bytes.saturating_sub(file.metadata()?.len());
        Ok(Self { path: path.to_owned(), writer: BufWriter::new(file), room, is_full: false })
    }

    /// Writes a line with the time. Returns whether there was room for it.
    fn write(&mut self, title: &str, line: &str) -> bool {
        if self.is_full {
            return false;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = format!("{} {line}\n", utc(since));
        if line.len() as u64 > self.room {
            self.is_full = true;
            let (node, program) = parts(title);
            log_as!(
                PROGRAM_LOG_INCOMPLETE, node = node, peer = program;
                "{title}: {} is full (`source.command.log_bytes`); further lines are dropped",
                self.path.display()
            );
            return false;
        }
        self.room -= line.len() as u64;
        match self.writer.write_all(line.as_bytes()) {
            Ok(()) => true,
            Err(error) => {
                self.fail(title, &error);
                false
            }
        }
    }

    fn flush(&mut self, title: &str) {
        if !self.is_full
            && let Err(error) = self.writer.flush()
        {
            self.fail(title, &error);
        }
    }

    fn fail(&mut self, title: &str, error: &io::Error) {
        self.is_full = true;
        let (node, program) = parts(title);
        log_as!(
            PROGRAM_LOG_INCOMPLETE, node = node, peer = program;
            "{title}: cannot write {}: {error}; further lines are dropped", self.path.display()
        );
    }
}

impl Allowance {
    /// Returns whether another line may pass now, and counts it.
    fn passes(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            (self.since, self.used) = (Instant::now(), 0);
        }
        let passes = self.used < self.per_second;
        self.used += u32::from(passes);
        self.left_out += u64::from(!passes);
        passes
    }
}

/// Returns the node and the program of a title.
fn parts(title: &str) -> (&str, &str) {
    title.split_once(": ").unwrap_or((title, ""))
}

/// Returns a time since 1970 as `2026-11-23T16:12:29.001Z`.
fn utc(since: Duration) -> String {
    let seconds = since.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that the day of a leap year is its last; eras have 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_709_251_199, "2024-02-29T23:59:59.007Z"),
            (1_795_450_349, "2026-11-23T16:12:29.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(utc(Duration::new(seconds, 7_000_000)), text);
        }
    }

    #[test]
    fn lines_come_whole_however_they_are_cut_and_those_without_room_are_counted() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep/board.log");
        let mut output = ProgramOutput::open("ru0: board".into(), Some(&path), 5_000, 0).expect("a file");
        for part in [&b"one\ntw"[..], b"o\r\n\x1b[2Jthree \xff\n", b"without end"] {
            output.take(part);
        }
        output.end();
        let text = std::fs::read_to_string(&path).expect("it is there");
        let lines: Vec<&str> = text.lines().map(|line| &line[25..]).collect();
        assert_eq!(lines, ["one", "two", "\u{fffd}[2Jthree \u{fffd}", "without end"]);
        assert_eq!(output.counts(), (4, 0));
        // A line of 4,999 bytes is two; the first fits.
        output.take(&[b'x'; 4_999]);
        output.take(b"\nlast\n");
        output.end();
        assert_eq!(output.counts(), (7, 2));
        assert!(std::fs::metadata(&path).expect("it is there").len() <= 5_000);
    }
}
