//! Metrics and messages of a node, on the way to the process that has started it.
//!
//! A child writes them to its standard output as a JSON text sequence (RFC 7464): a record separator, one JSON text, a line feed. What it
//! prints at its end has no record separator, so the parent can tell the two apart.

use crate::console;
use crate::page::Page;
use anyhow::Context as _;
use log::Level;
use serde::{Deserialize, Serialize};
use sheaf_node::report::Gauges;
use sheaf_telemetry::{NodeSnapshot, Publication, Publisher, SeriesList, Snapshot, catalog};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Begins each record of a JSON text sequence.
pub(crate) const RECORD_SEPARATOR: char = '\u{1e}';

/// Interval at which a child looks for new values.
const PERIOD: Duration = Duration::from_millis(100);

/// Messages that wait for the thread that writes; further ones are on standard error only.
const MESSAGES: usize = 256;

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    /// The series of a node that begins, or begins again: names of metrics and values of their labels.
    Series(Vec<(String, Vec<String>)>),
    /// Values of these series, published together at this time on the clock of the node.
    Values {
        /// Nanoseconds.
        at_ns: u64,
        values: Vec<u64>,
    },
    /// Nodes and programs that the run waits for.
    WaitsFor(Option<String>),
    /// A message of the log.
    Message { level: String, text: String },
}

/// Writes the records of a child until it is dropped.
pub(crate) struct Relay {
    /// The thread ends when no sender is left.
    sender: Option<SyncSender<Record>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Begins to write what the node publishes at the hub of `gauges`, and all messages of this process.
    pub(crate) fn begin(gauges: Arc<Gauges>) -> anyhow::Result<Self> {
        let (sender, records) = sync_channel(MESSAGES);
        let messages = sender.clone();
        console::listen(Some(Box::new(move |level, text| {
            if level <= Level::Info {
                let record = Record::Message { level: level.to_string(), text: text.to_owned() };
                // A parent that does not read must not hold up this node.
                let _ = messages.try_send(record);
            }
        })));
        let body = move || Writer { gauges, feed: Feed::default(), waits_for: None }.run(&records);
        let thread = std::thread::Builder::new().name("relay".into()).spawn(body);
        Ok(Self { sender: Some(sender), thread: Some(thread.context("cannot start a thread")?) })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        console::listen(None);
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Writer {
    gauges: Arc<Gauges>,
    feed: Feed,
    waits_for: Option<String>,
}

impl Writer {
    /// Writes until no sender is left; then what is left.
    fn run(&mut self, records: &Receiver<Record>) {
        let mut next = Instant::now();
        loop {
            match records.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(record) => write(&record),
                Err(RecvTimeoutError::Timeout) => {
                    self.write_news();
                    next = Instant::now() + PERIOD;
                }
                Err(RecvTimeoutError::Disconnected) => return self.write_news(),
            }
        }
    }

    fn write_news(&mut self) {
        let waits_for = console::waits_for(&self.gauges.snapshot());
        if waits_for != self.waits_for {
            write(&Record::WaitsFor(waits_for.clone()));
            self.waits_for = waits_for;
        }
        // A process is one node.
        self.feed.each(&self.gauges.hub().snapshot(), |_, record| write(&record));
    }
}

/// Turns what nodes publish into records, for a reader that has seen those before.
#[derive(Default)]
pub(crate) struct Feed {
    /// For each node the publication whose series the reader knows, and the number of publications that it has.
    known: BTreeMap<String, (Arc<Publication>, u64)>,
}

impl Feed {
    /// Passes on everything in `snapshot` that the nodes have published since the last call.
    pub(crate) fn each(&mut self, snapshot: &Snapshot, mut pass: impl FnMut(&str, Record)) {
        for (name, node) in &snapshot.nodes {
            self.of_node(name, node, &mut pass);
        }
    }

    fn of_node(&mut self, name: &str, node: &NodeSnapshot, pass: &mut impl FnMut(&str, Record)) {
        let publication = node.publication();
        let known = self.known.get(name).filter(|(known, _)| Arc::ptr_eq(known, publication));
        let seen = known.map_or(0, |(_, publications)| *publications);
        if known.is_none() {
            let series = publication.series().iter();
            let series = series.map(|series| (series.metric.name.to_owned(), series.labels.clone()));
            pass(name, Record::Series(series.collect()));
            self.known.insert(name.to_owned(), (publication.clone(), 0));
        }
        let publications = publication.publications();
        if publications != seen && !node.values().is_empty() {
            self.known.insert(name.to_owned(), (publication.clone(), publications));
            pass(name, Record::Values { at_ns: node.at_ns, values: node.values().to_vec() });
        }
    }
}

fn write(record: &Record) {
    let Ok(text) = serde_json::to_string(record) else { return };
    // Without a parent there is nobody to tell.
    let _ = writeln!(std::io::stdout().lock(), "{RECORD_SEPARATOR}{text}");
}

/// Handles the records of one child, in its parent.
pub(crate) struct Relayed {
    node: String,
    page: Page,
    publisher: Option<Publisher>,
}

impl Relayed {
    pub(crate) fn new(node: &str, page: Page) -> Self {
        Self { node: node.to_owned(), page, publisher: None }
    }

    /// Takes a record, without its separator. What it does not understand it leaves out: it comes from the same program.
    pub(crate) fn take(&mut self, text: &str) {
        match serde_json::from_str(text) {
            Ok(record) => self.take_record(record),
            Err(error) => log::debug!("{}: a record of its metrics cannot be read: {error}", self.node),
        }
    }

    /// Takes a record that has been read.
    pub(crate) fn take_record(&mut self, record: Record) {
        match record {
            Record::Series(series) => self.begin(&series),
            Record::Values { at_ns, values } => {
                if let Some(publisher) = &mut self.publisher {
                    publisher.publish(at_ns, |to| to.set_all(&values));
                }
            }
            Record::WaitsFor(waits_for) => self.page.note_waiting(waits_for),
            Record::Message { level, text } => {
                self.page.add_message(
                    Level::from_str(&level).unwrap_or(Level::Info),
                    Some(&self.node),
                    &text,
                );
            }
        }
    }

    fn begin(&mut self, series: &[(String, Vec<String>)]) {
        let mut list = SeriesList::default();
        for (name, labels) in series {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            match catalog::find(name).filter(|metric| metric.labels.len() == labels.len()) {
                Some(metric) => _ = list.add(metric, &labels),
                // The places of the values that follow would be wrong.
                None => return log::debug!("{}: there is no metric {name}", self.node),
            }
        }
        let publisher = list.publish();
        self.page.hub().add(&self.node, publisher.publication());
        self.publisher = Some(publisher);
    }
}
