//! The threads that keep the log of a run: one takes messages from all others, limits their repeats and stores them, and one prints.
//!
//! A thread that logs puts its message into a bounded queue and goes on. So it waits neither for the reader of standard error nor for a
//! disk. A message that finds the queue full is counted, and the log says later how many there were.

use super::file::{LeftOut, LogFile};
use super::limiter::Limiter;
use super::message::Message;
use super::time::unix_us;
use super::{Print, tell_listener};
use anyhow::Context as _;
use log::Level;
use sheaf_config::LogFormat;
use sheaf_telemetry::{Code, TALLY, codes};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Messages that wait to be stored.
const WAITING: usize = 4_096;

/// Lines that wait to be printed.
const LINES: usize = 1_024;

/// Messages that are kept for the file of a run whose directory is not there yet.
const EARLY: usize = 256;

/// Interval at which repeats are looked at.
const TICK: Duration = Duration::from_secs(1);

/// Time that the last messages of a process may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Names of these threads.
pub(super) const THREADS: [&str; 2] = ["log", "stderr"];

pub(super) enum Item {
    /// A message of this process.
    Message(Message),
    /// A message of another process, which has printed it.
    Foreign(Message),
    /// A message of a process whose standard error is elsewhere.
    PassedOn(Message),
    /// A line of the progress, which is only printed.
    Line(String),
    /// The file of the run that begins, and its upper limit in bytes.
    Open(PathBuf, u64),
    /// The file of the run is to be closed; then the sender is dropped.
    Close(SyncSender<()>),
    /// Everything before is to be stored and printed; then the sender is dropped.
    Flush(SyncSender<()>),
}

/// The other end of the queue.
#[derive(Clone)]
pub(super) struct Keeper {
    queue: SyncSender<Item>,
    left_out: Arc<AtomicU64>,
}

impl Keeper {
    pub(super) fn begin(format: LogFormat, print: Print) -> anyhow::Result<Self> {
        let (queue, items) = sync_channel(WAITING);
        let left_out = Arc::new(AtomicU64::new(0));
        let body = Body {
            format,
            printer: Printer::begin(print)?,
            limiter: Limiter::default(),
            file: None,
            early: VecDeque::new(),
            left_out: left_out.clone(),
        };
        let thread = std::thread::Builder::new().name(THREADS[0].into()).spawn(move || body.run(&items));
        thread.context("cannot start a thread")?;
        Ok(Self { queue, left_out })
    }

    /// Puts an item into the queue, or counts it.
    pub(super) fn put(&self, item: Item) {
        if self.queue.try_send(item).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            TALLY.count_dropped(1);
        }
    }

    /// Waits until everything is stored and printed, but not for a reader who reads nothing.
    pub(super) fn flush(&self) {
        self.wait_for(Item::Flush);
    }

    /// Waits until the file of the run is closed, but not for a disk that takes nothing.
    pub(super) fn close(&self) {
        self.wait_for(Item::Close);
    }

    fn wait_for(&self, item: impl FnOnce(SyncSender<()>) -> Item) {
        let (done, wait) = sync_channel(0);
        if self.queue.try_send(item(done)).is_ok() {
            let _ = wait.recv_timeout(PATIENCE);
        }
    }
}

struct Body {
    format: LogFormat,
    printer: Printer,
    limiter: Limiter,
    file: Option<LogFile>,
    early: VecDeque<Message>,
    /// Messages that found the queue full.
    left_out: Arc<AtomicU64>,
}

impl Body {
    fn run(mut self, items: &Receiver<Item>) {
        loop {
            match items.recv_timeout(TICK) {
                Ok(item) => self.take(item),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.limiter.tick(unix_us()).into_iter().for_each(|message| self.show(message));
            self.say_left_out();
        }
    }

    fn take(&mut self, item: Item) {
        match item {
            Item::Message(message) => {
                self.limiter.take(message).into_iter().for_each(|message| self.show(message));
            }
            Item::Foreign(message) => self.store(message),
            Item::PassedOn(message) => self.printer.print(match self.format {
                LogFormat::Text => format!("{}: {}", message.node, message.readable()),
                LogFormat::Json => line_of(self.format, &message),
            }),
            Item::Line(text) => match self.format {
                LogFormat::Text => self.printer.print(text),
                LogFormat::Json => {
                    let message = Message::new(Level::Info, codes::PROGRESS.name, &text, &super::origin());
                    self.printer.print(line_of(self.format, &message));
                }
            },
            Item::Open(path, max_bytes) => self.open(path, max_bytes),
            Item::Close(done) => {
                self.close_gap();
                self.file = None;
                drop(done);
            }
            Item::Flush(done) => {
                self.limiter.end_all(unix_us()).into_iter().for_each(|message| self.show(message));
                self.close_gap();
                self.printer.flush(done);
            }
        }
    }

    fn open(&mut self, path: PathBuf, max_bytes: u64) {
        self.close_gap();
        match LogFile::open(&path, max_bytes) {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                self.file = None;
                let text = format!("there is no log of this run: {error:#}");
                self.say(&codes::LOG_INCOMPLETE, &text);
            }
        }
        let early = std::mem::take(&mut self.early);
        early.into_iter().for_each(|message| self.store(message));
    }

    /// Prints and stores a message, and tells who else wants to know.
    fn show(&mut self, message: Message) {
        self.print_and_tell(&message);
        if message.is_kept() {
            self.store(message);
        }
    }

    fn store(&mut self, message: Message) {
        let Some(file) = &mut self.file else {
            if self.early.len() == EARLY {
                self.early.pop_front();
            }
            return self.early.push_back(message);
        };
        match file.write(&message) {
            Ok(()) => self.close_gap(),
            Err(LeftOut(None)) => {}
            Err(LeftOut(Some(why))) => {
                let text = format!("{why}; messages are left out of the log of the run");
                self.print_and_tell(&Message::new(
                    Level::Warn,
                    codes::LOG_INCOMPLETE.name,
                    &text,
                    &super::origin(),
                ));
            }
        }
    }

    /// Writes into the file how many messages are not there, if some are not.
    fn close_gap(&mut self) {
        let Some(file) = &mut self.file else { return };
        if let Some(left_out) = file.take_left_out() {
            let text = format!("{} are not in {}", super::plural(left_out, "message"), file.path().display());
            file.write_last(&Message::new(Level::Warn, codes::LOG_INCOMPLETE.name, &text, &super::origin()));
        }
    }

    /// Says how many messages were left out because this thread or the reader of standard error did not keep up.
    fn say_left_out(&mut self) {
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let text =
                format!("{} are left out: there were too many at once", super::plural(left_out, "message"));
            self.say(&codes::LOG_INCOMPLETE, &text);
        }
        if let Some(unprinted) = self.printer.take_unprinted() {
            let text =
                format!("{} are not on standard error, which was not read", super::plural(unprinted, "line"));
            self.say(&codes::LOG_INCOMPLETE, &text);
        }
    }

    fn say(&mut self, code: &'static Code, text: &str) {
        self.show(Message::new(code.severity.level(), code.name, text, &super::origin()));
    }

    fn print_and_tell(&mut self, message: &Message) {
        if message.severity <= super::verbosity() {
            self.printer.print(line_of(self.format, message));
        }
        if message.is_kept() {
            tell_listener(message);
        }
    }
}

/// Returns the form of a message on standard error, without a line feed.
fn line_of(format: LogFormat, message: &Message) -> String {
    match format {
        LogFormat::Text => message.readable(),
        LogFormat::Json => message.json_line().trim_end().to_owned(),
    }
}

/// The thread that prints.
struct Printer {
    queue: SyncSender<Printed>,
    unprinted: u64,
    /// Whether the last line was taken.
    is_read: bool,
}

enum Printed {
    Line(String),
    Flush(SyncSender<()>),
}

impl Printer {
    fn begin(print: Print) -> anyhow::Result<Self> {
        let (queue, lines) = sync_channel(LINES);
        let body = move || {
            for line in lines {
                match line {
                    Printed::Line(line) => print(&line),
                    Printed::Flush(done) => drop(done),
                }
            }
        };
        let thread = std::thread::Builder::new().name(THREADS[1].into()).spawn(body);
        thread.context("cannot start a thread")?;
        Ok(Self { queue, unprinted: 0, is_read: true })
    }

    fn print(&mut self, line: String) {
        self.is_read = self.queue.try_send(Printed::Line(line)).is_ok();
        if !self.is_read {
            self.unprinted += 1;
            TALLY.count_dropped(1);
        }
    }

    /// Returns the number of lines that were not printed, if some were not and lines are taken again.
    fn take_unprinted(&mut self) -> Option<u64> {
        (self.is_read && self.unprinted > 0).then(|| std::mem::take(&mut self.unprinted))
    }

    fn flush(&self, done: SyncSender<()>) {
        // A full queue is that of a reader who does not read: whoever waits need not wait longer.
        let _ = self.queue.try_send(Printed::Flush(done));
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Origin;
    use super::*;
    use std::sync::mpsc::channel;

    fn message(text: &str) -> Message {
        Message::new(Level::Info, "other", text, &Origin::default())
    }

    /// Waits for a condition; the watchdog of the tests ends a test in which it does not come true.
    fn wait_for(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_reader_who_does_not_read_holds_up_nobody_and_misses_what_is_counted() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        let (read, reads) = channel::<()>();
        let printed = Arc::new(std::sync::Mutex::new(Vec::new()));
        let lines = printed.clone();
        let print: Print = Box::new(move |line| {
            // It reads nothing until the other end is dropped.
            let _ = reads.recv();
            lines.lock().unwrap().push(line.to_owned());
        });
        let keeper = Keeper::begin(LogFormat::Text, print).unwrap();
        keeper.put(Item::Open(path.clone(), 1 << 20));
        let written = || std::fs::read_to_string(&path).unwrap_or_default().lines().count();
        let all = LINES + 100;
        for number in 0..all {
            // Lines of programs are no repeats.
            keeper.put(Item::Message(Message { code: codes::PROGRAM_OUTPUT.name.into(), ..message("line") }));
            if number % 100 == 0 {
                wait_for(|| written() == number + 1);
            }
        }
        wait_for(|| written() == all);
        drop(read);
        wait_for(|| {
            keeper.put(Item::Message(message("read again")));
            let printed = printed.lock().unwrap();
            printed.iter().any(|line| line.contains("lines are not on standard error, which was not read"))
        });
    }

    #[test]
    fn messages_before_the_directory_of_a_run_are_in_its_log() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        let keeper = Keeper::begin(LogFormat::Json, Box::new(|_| {})).unwrap();
        keeper.put(Item::Message(message("early")));
        keeper.put(Item::Open(path.clone(), 1 << 20));
        keeper.put(Item::Foreign(message("of another process")));
        keeper.put(Item::Line("no message".into()));
        keeper.flush();
        let text = std::fs::read_to_string(&path).unwrap();
        let texts: Vec<_> =
            text.lines().map(|line| serde_json::from_str::<Message>(line).unwrap().text).collect();
        assert_eq!(texts, ["early", "of another process"]);
    }
    #[test]
    fn a_closed_log_is_not_made_again() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("run");
        let keeper = Keeper::begin(LogFormat::Json, Box::new(|_| {})).unwrap();
        for _ in 0..100 {
            std::fs::create_dir(&directory).unwrap();
            keeper.put(Item::Message(message("before")));
            keeper.put(Item::Open(directory.join("log.jsonl"), 1 << 20));
            keeper.close();
            std::fs::remove_dir_all(&directory).unwrap();
            keeper.put(Item::Message(message("after")));
            keeper.flush();
            assert!(!directory.exists());
        }
    }
}
