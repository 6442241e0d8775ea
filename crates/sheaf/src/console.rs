//! Standard error: a progress line, and the log above it.
//!
//! The log of a run is kept by threads of its own from [`Console::keep_log`] on. Other commands print their messages at once.
//!
//! | module | holds |
//! |---|---|
//! | `message` | a message, for people and as JSON |
//! | `limiter` | one line for repeats |
//! | `file` | the log in the directory of a run |
//! | `keeper` | the threads |
//! | `time` | RFC 3339 |

mod file;
mod keeper;
mod limiter;
pub(crate) mod message;
pub(crate) mod time;

use crate::periodic::{Periodic, Turns};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use keeper::{Item, Keeper};
use log::{Level, LevelFilter, Log, Metadata, Record};
use message::{Message, Origin};
use sheaf_config::LogFormat;
use sheaf_node::report::{Gauges, Snapshot};
use sheaf_protocol::manager::AwaitedNodes;
use sheaf_telemetry::{Code, Severity, TALLY, codes, log_as};
use sheaf_wire::message::Work;
use sheaf_wire::{Nanos, NodeId, SourceNames};
use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Interval between updates of the progress line on a terminal.
const TERMINAL_PERIOD: Duration = Duration::from_millis(500);

/// Interval between progress lines in a file or pipe.
const PLAIN_PERIOD: Duration = Duration::from_secs(2);

/// Standard error of this process.
#[derive(Clone)]
pub(crate) struct Console {
    line: ProgressBar,
    is_terminal: bool,
    quiet: bool,
}

/// Names of sources in everything that this process prints for people. As the log, there is one for each process.
static NAMES: RwLock<Option<SourceNames>> = RwLock::new(None);

/// Sets the names of sources that this process prints from now on.
pub(crate) fn name_sources(names: &SourceNames) {
    let names = Some(names.clone()).filter(|names| !names.is_empty());
    *NAMES.write().unwrap_or_else(PoisonError::into_inner) = names;
}

/// Adds the names of sources to a text for people.
pub(crate) fn named(text: &str) -> Cow<'_, str> {
    match &*NAMES.read().unwrap_or_else(PoisonError::into_inner) {
        Some(names) => names.annotate(text),
        None => Cow::Borrowed(text),
    }
}

/// Receives every message of the log for people, in addition to standard error.
pub(crate) type Listener = Box<dyn Fn(&Message) + Send + Sync>;

/// As the log, there is one for each process.
static LISTENER: RwLock<Option<Listener>> = RwLock::new(None);

/// Passes all messages also to `listener` from now on.
pub(crate) fn listen(listener: Option<Listener>) {
    *LISTENER.write().unwrap_or_else(PoisonError::into_inner) = listener;
}

fn tell_listener(message: &Message) {
    if let Some(listener) = &*LISTENER.read().unwrap_or_else(PoisonError::into_inner) {
        listener(message);
    }
}

/// Prints a line on standard error.
type Print = Box<dyn Fn(&str) + Send>;

/// Keeps the log of a run, if this process makes one.
static KEEPER: RwLock<Option<Keeper>> = RwLock::new(None);

fn keeper() -> Option<Keeper> {
    KEEPER.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Name of the log in the directory of a run.
pub(crate) const LOG_NAME: &str = "log.jsonl";

/// Messages that this process prints.
static VERBOSITY: OnceLock<LevelFilter> = OnceLock::new();

pub(crate) fn verbosity() -> LevelFilter {
    VERBOSITY.get().copied().unwrap_or(LevelFilter::Info)
}

/// Names of the processes that start nodes: of `sheaf run` and of `sheaf serve`.
pub(crate) const PROCESSES: [&str; 2] = ["run", "controller"];

/// Fields that all messages of this process have.
static ORIGIN: RwLock<Option<Origin>> = RwLock::new(None);

fn origin() -> Origin {
    ORIGIN.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

/// Sets the run that messages of this process are of from now on, and its log, of at most this many bytes, if it has a directory.
pub(crate) fn begin_run(run: u32, log: Option<(&Path, u64)>) {
    if let Some(origin) = &mut *ORIGIN.write().unwrap_or_else(PoisonError::into_inner) {
        origin.run = Some(run);
    }
    if let (Some(keeper), Some((path, max_bytes))) = (keeper(), log) {
        keeper.put(Item::Open(path.to_owned(), max_bytes));
    }
}

/// Closes the log of the run, whose directory is to be removed.
pub(crate) fn close_log() {
    if let Some(keeper) = keeper() {
        keeper.close();
    }
}

/// Stores a message of another process, which that process has printed.
pub(crate) fn store(message: Message) {
    if let Some(keeper) = keeper() {
        keeper.put(Item::Foreign(message));
    }
}

/// Stores a message of this process that is not printed.
pub(crate) fn note(code: &'static Code, text: &str) {
    store(Message::new(code.severity.level(), code.name, &named(text), &origin()));
}

/// Prints a message of another process.
pub(crate) fn pass_on(message: Message) {
    if let Some(keeper) = keeper() {
        keeper.put(Item::PassedOn(message));
    }
}

/// Waits until all messages are stored and printed, but not for long.
pub(crate) fn flush() {
    if let Some(keeper) = keeper() {
        keeper.flush();
    }
}

/// Opens every error that this command prints.
pub(crate) const ERROR: &str = "error: ";

impl Console {
    /// Takes standard error, and the log.
    pub(crate) fn install(level: LevelFilter) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let line = ProgressBar::no_length();
        line.set_draw_target(ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            line.set_style(style);
        }
        let console = Self { line, is_terminal, quiet: level <= LevelFilter::Error };
        if log::set_boxed_logger(Box::new(console.clone())).is_ok() {
            log::set_max_level(level);
            let _ = VERBOSITY.set(level);
        }
        console
    }

    /// Begins the log of the runs of this process, whose messages are of `node` unless they have another.
    pub(crate) fn keep_log(&self, node: &str, format: LogFormat) -> anyhow::Result<()> {
        *ORIGIN.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Origin { node: node.to_owned(), run: None });
        let line = self.line.clone();
        let print: Print = Box::new(move |text| line.suspend(|| write_line(text)));
        *KEEPER.write().unwrap_or_else(PoisonError::into_inner) = Some(Keeper::begin(format, print)?);
        // Messages that are not printed are kept.
        log::set_max_level(verbosity().max(LevelFilter::Info));
        log_panics();
        Ok(())
    }

    /// Prints why the command failed.
    pub(crate) fn error(&self, text: &str) {
        // Errors of a configuration are several, each with this prefix.
        let text = text.trim_start_matches("error: ");
        let code = if keeper().is_some() { codes::NODE_FAILED.name } else { codes::OTHER.name };
        self.take(Message::new(Level::Error, code, &named(text), &origin()));
    }

    /// Prints lines, above the progress line if there is one.
    pub(crate) fn print(&self, text: &str) {
        let text = named(text);
        match keeper() {
            Some(keeper) => keeper.put(Item::Line(text.into_owned())),
            None => self.line.suspend(|| write_line(&text)),
        }
    }

    fn take(&self, message: Message) {
        if message.is_kept() {
            TALLY.count(Severity::from(message.severity));
        }
        if let Some(keeper) = keeper() {
            return keeper.put(Item::Message(message));
        }
        if message.is_kept() {
            tell_listener(&message);
        }
        self.line.suspend(|| write_line(&message.readable()));
    }

    /// The same standard error, without a progress line.
    pub(crate) fn silent(&self) -> Self {
        Self { quiet: true, ..self.clone() }
    }

    /// Shows how many of `steps` steps are done, until the returned guard is dropped.
    pub(crate) fn progress(&self, steps: usize) -> Progress {
        let bar = ProgressBar::new(steps as u64);
        let target = if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        bar.set_draw_target(target);
        if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {pos}/{len}, {eta} left: {wide_msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress { bar }
    }

    /// Shows how many of `total` things are done, until the returned guard is dropped.
    pub(crate) fn counted(&self, total: usize, what: &'static str) -> Counted {
        if self.is_terminal && !self.quiet {
            let template = "{bar:30} {pos} of {len} {msg}, {per_sec}, {elapsed} so far, {eta} to go";
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.line.set_style(style);
            }
            self.line.set_length(total as u64);
            self.line.set_position(0);
            self.line.set_message(what);
            self.line.set_draw_target(ProgressDrawTarget::stderr());
            self.line.enable_steady_tick(TERMINAL_PERIOD);
        }
        Counted { console: self.clone(), total, what, last_shown: Instant::now() }
    }

    /// Shows a run until the returned guard is dropped.
    pub(crate) fn show(&self, gauges: Arc<Gauges>) -> Show {
        if self.quiet {
            return Show { _thread: None };
        }
        let console = self.clone();
        if console.is_terminal {
            console.line.set_draw_target(ProgressDrawTarget::stderr());
        }
        let period = if console.is_terminal { TERMINAL_PERIOD } else { PLAIN_PERIOD };
        let (mut before, mut at) = (gauges.snapshot(), Instant::now());
        let mut last = String::new();
        let line = console.line.clone();
        let show = move || {
            let (now, seconds) = (gauges.snapshot(), at.elapsed().as_secs_f64());
            if now.phase.is_empty() {
                // A standby event manager shows nothing.
                return;
            }
            let text = describe(&before, &now, seconds);
            if console.is_terminal {
                console.line.set_message(text);
            } else if text != last {
                console.print(&text);
                last = text;
            }
            (before, at) = (now, Instant::now());
        };
        Show::every("progress", period, show, move || line.finish_and_clear())
    }
}

/// Has panics of other threads logged. Those of the threads that log are printed.
fn log_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        if keeper::THREADS.contains(&name) || std::env::var_os("RUST_BACKTRACE").is_some() {
            return print(panic);
        }
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("no text");
        log_as!(THREAD_PANICKED; "thread '{name}' panicked at {place}: {text}");
        if name == "main" {
            flush();
        }
    }));
}

/// Writes a line to standard error by one system call, because other processes may write to it, too.
fn write_line(text: &str) {
    // Nothing can be done if standard error is closed.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Shows how much is done while it lives.
pub(crate) struct Counted {
    console: Console,
    total: usize,
    what: &'static str,
    /// When a line was last added to a file or pipe.
    last_shown: Instant,
}

impl Counted {
    /// Sets the number of completed items.
    pub(crate) fn set(&mut self, done: usize) {
        if self.console.quiet {
            return;
        }
        if self.console.is_terminal {
            self.console.line.set_position(done as u64);
        } else if self.last_shown.elapsed() >= PLAIN_PERIOD && done < self.total {
            self.last_shown = Instant::now();
            self.console.print(&format!("{done} of {} {}", self.total, self.what));
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.console.line.disable_steady_tick();
        self.console.line.finish_and_clear();
        self.console.line.set_draw_target(ProgressDrawTarget::hidden());
    }
}

impl Log for Console {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.take(Message::of(record, &origin()));
        }
    }

    fn flush(&self) {}
}

/// A bar, while it lives; where standard error is no terminal, nothing.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows the current activity.
    pub(crate) fn show(&self, text: &str) {
        self.bar.set_message(text.to_owned());
        self.bar.tick();
    }

    /// One step is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Shows a run while it lives.
pub(crate) struct Show {
    /// Without a thread, nothing is shown.
    _thread: Option<Periodic<()>>,
}

impl Show {
    /// Calls `show` after each period on a thread of its own, and `end` at the end.
    pub(crate) fn every(
        name: &str,
        period: Duration,
        mut show: impl FnMut() + Send + 'static,
        end: impl FnOnce() + Send + 'static,
    ) -> Self {
        let body = move |turns: Turns| {
            while turns.next_after(period) {
                show();
            }
            end();
        };
        Self { _thread: Periodic::begin(name, body).ok() }
    }
}

/// Returns what a run waits for, without its phase.
pub(crate) fn waits_for(now: &Snapshot) -> Option<String> {
    waiting(now).and_then(|text| text.split_once(": ").map(|(_, rest)| rest.to_owned()))
}

/// Returns the progress line of a run that waits, before its start or at its end.
fn waiting(now: &Snapshot) -> Option<String> {
    starting(now).or_else(|| held(now)).or_else(|| finishing(now))
}

/// The progress line. The most important figures come first, because a terminal may be narrow.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn describe(before: &Snapshot, now: &Snapshot, seconds: f64) -> String {
    if let Some(text) = waiting(now) {
        return text;
    }
    let events = (now.ended - before.ended) as f64 / seconds;
    let megabytes = (now.bytes.0 - before.bytes.0) as f64 / seconds / 1e6;
    let mut text = format!(
        "{}: {} events, {}/s, {megabytes:.0} MB/s, {:.1} MB buffered, {} incomplete, {} in flight",
        now.phase,
        count(now.ended),
        count_f64(events),
        now.buffered.0 as f64 / 1e6,
        count(now.incomplete),
        count(now.in_flight),
    );
    if let Some((awaited, _)) = now.awaited {
        text.push_str(&format!(", waiting for {} of {}", who(awaited.work), awaited.builder));
    }
    for (value, name) in [
        (now.dropped, "dropped"),
        (now.vetoed, "vetoed triggers"),
        (now.lost_builders, "lost builder sessions"),
    ] {
        if value > 0 {
            text.push_str(&format!(", {name}: {}", count(value)));
        }
    }
    text
}

/// Number of nodes that the progress line names.
const NODES_NAMED: usize = 4;

/// The progress line of a run that waits for nodes, or for programs that feed sources.
fn starting(now: &Snapshot) -> Option<String> {
    let AwaitedNodes { absent, unfed, loading } = now.awaited_nodes.as_ref()?;
    let waits = [("", absent), ("programs that feed ", unfed), ("filter workers of ", loading)];
    let waits = waits.into_iter().filter(|(_, nodes)| !nodes.is_empty());
    let waits: Vec<String> = waits.map(|(prefix, nodes)| format!("{prefix}{}", names(nodes))).collect();
    (!waits.is_empty()).then(|| format!("starting: waiting for {}", waits.join(", and for ")))
}

/// The progress line of a run whose start is held, and that waits for nothing else.
fn held(now: &Snapshot) -> Option<String> {
    (now.phase == "ready").then(|| "ready: waiting for the start command".to_owned())
}

/// Lists nodes by name: `ru0, ru1`, or `ru0, ru1, ru2, ru3 and 12 others`.
fn names(nodes: &[NodeId]) -> String {
    let named: Vec<String> = nodes.iter().take(NODES_NAMED).map(NodeId::to_string).collect();
    let named = named.join(", ");
    match nodes.len().saturating_sub(NODES_NAMED) {
        0 => named,
        1 => format!("{named} and 1 other"),
        others => format!("{named} and {} others", count(others as u64)),
    }
}

/// If the end of a run takes longer than this, the progress line shows what it waits for.
const SHORT_WAIT: Nanos = Nanos::from_secs(2);

/// The progress line of a run that waits for its last events.
fn finishing(now: &Snapshot) -> Option<String> {
    let (awaited, silence) = now.awaited.filter(|(_, silence)| *silence >= SHORT_WAIT)?;
    let (builder, seconds) = (awaited.builder, silence.0 / 1_000_000_000);
    let (who, in_flight) = (who(awaited.work), count(now.in_flight));
    Some(format!(
        "finishing: {in_flight} events in flight, waiting for {who} of {builder}, where none has ended for {seconds} s; \
         Ctrl-C again drops them"
    ))
}

/// Names the nodes that hold the events of a builder unit.
fn who(work: Work) -> &'static str {
    match work {
        Work::Judging => "the filter",
        Work::Storing => "the output",
        Work::None => "fragments or the output",
    }
}

/// A number with thousands separators: `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun in the right form: `1 problem`, `1,234 problems`.
pub(crate) fn plural(value: u64, noun: &str) -> String {
    let ending = if value == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(value))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is positive and below 2^64"
)]
pub(crate) fn count_f64(value: f64) -> String {
    count(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_has_not_started_names_what_it_waits_for() {
        let readouts = |count| (0..count).map(NodeId::readout).collect::<Vec<_>>();
        let text = |absent, unfed| {
            let awaited_nodes = Some(AwaitedNodes { absent, unfed, loading: vec![] });
            starting(&Snapshot { awaited_nodes, ..Snapshot::default() })
        };
        assert_eq!(text(vec![], vec![]), None);
        assert_eq!(text(readouts(2), vec![]).as_deref(), Some("starting: waiting for ru0, ru1"));
        assert_eq!(
            text(readouts(5), vec![NodeId::readout(7)]).as_deref(),
            Some("starting: waiting for ru0, ru1, ru2, ru3 and 1 other, and for programs that feed ru7")
        );
        assert_eq!(
            text(vec![], readouts(1_004)).as_deref(),
            Some("starting: waiting for programs that feed ru0, ru1, ru2, ru3 and 1,000 others")
        );
    }

    #[test]
    fn numbers_have_separators_and_nouns_their_form() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [plural(0, "file"), plural(1, "file"), plural(2_000, "file")],
            ["0 files", "1 file", "2,000 files"]
        );
    }
}
