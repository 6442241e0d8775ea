//! Metrics, messages and stamps of a node, on the way to the process that has started it.
//!
//! A child writes them to its standard output as a JSON text sequence (RFC 7464): a record separator, one JSON text, a line feed. What it
//! prints at its end has no record separator, so the parent can tell the two apart.

use crate::console;
use crate::console::message::Message;
use crate::page::Page;
use crate::steered::NodeRequest;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sheaf_monitor::traces::{CollectorNews, LocalStamps, TraceStamp};
use sheaf_node::RunControls;
use sheaf_node::report::Gauges;
use sheaf_telemetry::stamps::StampHub;
use sheaf_telemetry::{Kind, NodeSnapshot, Publication, Publisher, SeriesList, Snapshot, TALLY, catalog};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Begins each record of a JSON text sequence.
pub(crate) const RECORD_SEPARATOR: char = '\u{1e}';

/// Interval at which a child looks for new values and stamps.
const PERIOD: Duration = Duration::from_millis(100);

/// Time that a node with stamps answers its parent after its end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Longest row of values that a child may announce: there are at most so many nodes of a role.
const LONGEST_ROW: usize = 65_535;

/// Messages that wait for the thread that writes; further ones are on standard error only.
const MESSAGES: usize = 256;

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    /// The series of a node that begins, or begins again: names of metrics, values of their labels, and numbers of values.
    Series(Vec<(String, Vec<String>, usize)>),
    /// Values of these series, published together at this time on the clock of the node.
    Values {
        /// Nanoseconds.
        at_ns: u64,
        values: Vec<u64>,
    },
    /// Nodes and programs that the run waits for.
    WaitsFor(Option<String>),
    /// A message of the log.
    Message(Message),
    /// A remark about an event, as words.
    Remark([u64; 4]),
    /// Stamps of an event.
    Stamps(u64, Vec<TraceStamp>),
    /// All stamps of these events have been passed on.
    Answered(Vec<u64>),
    /// Numbers of stamps and remarks that were overwritten before they were read.
    StampsLost(u64, u64),
    /// Events of the sample, and slow ones, that are too many in a second for a trace of each.
    TracesTooMany(u64, u64),
    /// The node has ended. Its process answers requests until the parent sends [`NodeRequest::End`].
    NodeEnded,
    /// News of the run that follows without a gap.
    Succession(Succession),
    /// The node is a standby event manager that has taken over.
    TookOver,
    /// The event manager does not step down, although the operator wants it, for this reason.
    StaysManager(String),
}

/// News of a node, of the run that follows its present one without a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Succession {
    /// The node is at work to prepare the run of this order.
    Prepares(u32),
    /// It has prepared the run of this order, or cannot, for this reason.
    Prepared(u32, Option<String>),
    /// The triggers of this run have ended, and another one is to follow.
    Due(u32),
    /// The node has ended its part in a run, and waits for the next one.
    HandedOver(HandedOver),
}

/// Part of a node in a run that another one follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedOver {
    pub(crate) run: u32,
    /// First event of the next run, if the node knows it.
    pub(crate) next_event: Option<u64>,
    /// Summary of the node, as JSON: a node that has ended prints it.
    pub(crate) report: String,
}

impl From<Succession> for Record {
    fn from(news: Succession) -> Self {
        Self::Succession(news)
    }
}

impl From<CollectorNews> for Record {
    fn from(news: CollectorNews) -> Self {
        match news {
            CollectorNews::Remark(words) => Self::Remark(words),
            CollectorNews::Stamps(event, stamps) => Self::Stamps(event, stamps),
            CollectorNews::Answered(events) => Self::Answered(events),
            CollectorNews::Lost(stamps, remarks) => Self::StampsLost(stamps, remarks),
            CollectorNews::TooMany(samples, slow) => Self::TracesTooMany(samples, slow),
            CollectorNews::Ended => Self::NodeEnded,
        }
    }
}

/// Work for the thread that writes.
enum Work {
    Write(Record),
    /// Write a record behind everything that the node has published.
    WriteLast(Record),
    /// Write what is left, and end: the node leaves a run that goes on.
    Leave,
    /// Stamps of these events are wanted.
    Find(Vec<u64>),
}

/// Subjects that a child tells its parent about, besides messages.
#[derive(Default)]
pub(crate) struct Subjects {
    /// Whether it passes on metrics.
    pub(crate) metrics: bool,
    /// Stamps of its node.
    pub(crate) stamps: Option<StampHub>,
    /// Whether it is a standby event manager that has taken over.
    pub(crate) took_over: Arc<AtomicBool>,
    /// Requests of the operator, some of which it refuses.
    pub(crate) controls: Arc<RunControls>,
}

/// Writes the records of a child until it is dropped.
pub(crate) struct Relay {
    /// The thread ends when no sender is left.
    sender: Option<SyncSender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Begins to write what the node publishes at the hub of `gauges`, and all messages of this process.
    pub(crate) fn begin(gauges: Arc<Gauges>, subjects: Subjects) -> anyhow::Result<Self> {
        let Subjects { metrics, stamps, took_over, controls } = subjects;
        let (sender, records) = sync_channel(MESSAGES);
        let messages = sender.clone();
        console::listen(Some(Box::new(move |message| {
            // A parent that does not read must not hold up this node.
            if messages.try_send(Work::Write(Record::Message(message.clone()))).is_err() {
                TALLY.count_dropped(1);
            }
        })));
        let stamps = stamps.map(LocalStamps::new);
        let feed = metrics.then(Feed::default);
        let batch = Batch::default();
        let writer = Writer { gauges, feed, waits_for: None, stamps, took_over, controls, batch };
        let body = move || writer.run(&records);
        let thread = std::thread::Builder::new().name("relay".into()).spawn(body);
        Ok(Self { sender: Some(sender), thread: Some(thread.context("cannot start a thread")?) })
    }

    /// Says that the node has ended its part in a run, after everything else that it says of that run.
    pub(crate) fn hand_over(&self, handed_over: HandedOver) {
        console::flush();
        if let Some(sender) = &self.sender {
            let _ = sender.send(Work::WriteLast(Succession::HandedOver(handed_over).into()));
        }
    }

    /// Ends without reporting that the node has ended: the run goes on, and another process acts in its place.
    pub(crate) fn leave(mut self) {
        self.send_last(Work::Leave);
    }

    fn send_last(&mut self, work: Work) {
        let Some(sender) = self.sender.take() else { return };
        // The last messages are on their way.
        console::flush();
        console::listen(None);
        let _ = sender.send(work);
    }

    /// Returns a way to pass it requests of the parent. It ends when that is dropped, and the relay is.
    pub(crate) fn requests(&self) -> impl FnMut(NodeRequest) + Send + use<> {
        let sender = self.sender.clone();
        move |request| {
            if let (NodeRequest::Stamps(events), Some(sender)) = (request, &sender) {
                let _ = sender.send(Work::Find(events));
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.send_last(Work::Write(Record::NodeEnded));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Writer {
    gauges: Arc<Gauges>,
    /// Metrics that the parent has, if it wants any.
    feed: Option<Feed>,
    waits_for: Option<String>,
    stamps: Option<LocalStamps>,
    took_over: Arc<AtomicBool>,
    controls: Arc<RunControls>,
    /// Records of the present turn.
    batch: Batch,
}

impl Writer {
    /// Writes until no sender is left; then what is left.
    ///
    /// A node with stamps that has ended answers the parent for a while: only then it is known which of its last events are remarkable.
    fn run(mut self, records: &Receiver<Work>) {
        let mut next = Instant::now();
        let mut until = None;
        while until.is_none_or(|until| Instant::now() < until) {
            match records.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Work::Write(Record::NodeEnded)) => {
                    self.add_news();
                    self.batch.add(&Record::NodeEnded);
                    until = Some(Instant::now() + PATIENCE);
                }
                Ok(Work::Write(record)) => self.batch.add(&record),
                Ok(Work::WriteLast(record)) => {
                    self.add_news();
                    self.batch.add(&record);
                }
                Ok(Work::Find(events)) => self.find(&events),
                Ok(Work::Leave) => {
                    self.add_news();
                    return self.batch.write();
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.add_news();
                    next = Instant::now() + PERIOD;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.add_news();
                    return self.batch.write();
                }
            }
            self.batch.write();
        }
    }

    fn add_news(&mut self) {
        let Self { gauges, feed, waits_for, stamps, took_over, controls, batch } = self;
        if took_over.swap(false, Ordering::Relaxed) {
            batch.add(&Record::TookOver);
        }
        if let Some(why) = controls.take_refusal() {
            batch.add(&Record::StaysManager(why));
        }
        let now_waits_for = console::waits_for(&gauges.snapshot());
        if now_waits_for != *waits_for {
            batch.add(&Record::WaitsFor(now_waits_for.clone()));
            *waits_for = now_waits_for;
        }
        if let Some(stamps) = stamps {
            stamps.take(|news| batch.add(&news.into()));
        }
        // A process is one node.
        if let Some(feed) = feed {
            feed.each(&gauges.hub().snapshot(), |_, record| batch.add(&record));
        }
    }

    fn find(&mut self, events: &[u64]) {
        let Self { stamps, batch, .. } = self;
        if let Some(stamps) = stamps {
            stamps.take(|news| batch.add(&news.into()));
            stamps.find(events, |news| batch.add(&news.into()));
        }
        batch.add(&Record::Answered(events.to_vec()));
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
            let series =
                series.map(|series| (series.metric.name.to_owned(), series.labels.clone(), series.len()));
            pass(name, Record::Series(series.collect()));
            self.known.insert(name.to_owned(), (publication.clone(), 0));
        }
        let publications = node.publications();
        if publications != seen && !node.values().is_empty() {
            self.known.insert(name.to_owned(), (publication.clone(), publications));
            pass(name, Record::Values { at_ns: node.at_ns, values: node.values().to_vec() });
        }
    }
}

/// Writes a record for the parent.
pub(crate) fn write(record: &Record) {
    let mut batch = Batch::default();
    batch.add(record);
    batch.write();
}

/// Records that are written together: most are short, and a system call for each would cost more than to make it.
#[derive(Default)]
struct Batch(Vec<u8>);

impl Batch {
    /// Size from which on the records are written at once.
    const LARGE: usize = 64 << 10;

    fn add(&mut self, record: &Record) {
        let begin = self.0.len();
        let _ = write!(self.0, "{RECORD_SEPARATOR}");
        match serde_json::to_writer(&mut self.0, record) {
            Ok(()) => self.0.push(b'\n'),
            Err(_) => self.0.truncate(begin),
        }
        if self.0.len() >= Self::LARGE {
            self.write();
        }
    }

    fn write(&mut self) {
        if !self.0.is_empty() {
            // Without a parent there is nobody to tell.
            let _ = std::io::stdout().lock().write_all(&self.0);
            self.0.clear();
        }
    }
}

/// Handles the records of one child, in its parent.
pub(crate) struct Relayed {
    node: String,
    /// Shows them, if there is one.
    page: Option<Page>,
    publisher: Option<Publisher>,
    /// Takes stamps and remarks, if traces are wanted.
    stamps: Option<TakeStamps>,
    /// Takes news of the next run, if one can follow without a gap.
    succession: Option<TakeSuccession>,
    /// Called when the node has taken over as the event manager.
    took_over: Option<Box<dyn Fn() + Send>>,
    /// Called with the reason when the event manager does not step down.
    stays: Option<Box<dyn Fn(String) + Send>>,
    /// Whether it prints its messages on another host.
    is_elsewhere: bool,
}

/// Takes stamps and remarks of other processes.
pub(crate) type TakeStamps = Arc<dyn Fn(CollectorNews) + Send + Sync>;

/// Takes news of the next run.
pub(crate) type TakeSuccession = Box<dyn Fn(Succession) + Send>;

impl Relayed {
    pub(crate) fn new(node: &str, page: Option<Page>, stamps: Option<TakeStamps>) -> Self {
        Self {
            node: node.to_owned(),
            page,
            publisher: None,
            stamps,
            succession: None,
            took_over: None,
            stays: None,
            is_elsewhere: false,
        }
    }

    /// Calls `take` with the reason when the node is the event manager and does not step down.
    pub(crate) fn staying(self, take: Box<dyn Fn(String) + Send>) -> Self {
        Self { stays: Some(take), ..self }
    }

    /// Calls `take` when the node has taken over as the event manager.
    pub(crate) fn taking_over(self, take: Box<dyn Fn() + Send>) -> Self {
        Self { took_over: Some(take), ..self }
    }

    /// Passes news of the next run to `take`.
    pub(crate) fn succeeding(self, take: TakeSuccession) -> Self {
        Self { succession: Some(take), ..self }
    }

    /// Prints the messages as well: the node is on another host.
    pub(crate) fn printing(self) -> Self {
        Self { is_elsewhere: true, ..self }
    }

    /// Takes a record, without its separator, and returns whether it is the last one of the node. What it does not understand it leaves
    /// out: it comes from the same program.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        match serde_json::from_str(text) {
            Ok(Record::NodeEnded) => return true,
            Ok(record) => self.take_record(record),
            Err(error) => log::debug!("{}: a record of its metrics cannot be read: {error}", self.node),
        }
        false
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
            Record::WaitsFor(waits_for) => {
                self.page.iter().for_each(|page| page.note_waiting(waits_for.clone()));
            }
            Record::Message(message) => {
                if let Some(page) = &self.page {
                    page.add_message(&message);
                }
                if self.is_elsewhere { console::pass_on(message) } else { console::store(message) }
            }
            Record::Remark(words) => self.collect(CollectorNews::Remark(words)),
            Record::Stamps(event, stamps) => self.collect(CollectorNews::Stamps(event, stamps)),
            Record::Answered(events) => self.collect(CollectorNews::Answered(events)),
            Record::StampsLost(stamps, remarks) => self.collect(CollectorNews::Lost(stamps, remarks)),
            Record::TracesTooMany(samples, slow) => self.collect(CollectorNews::TooMany(samples, slow)),
            Record::TookOver => self.took_over.iter().for_each(|take| take()),
            Record::StaysManager(why) => self.stays.iter().for_each(|take| take(why.clone())),
            Record::Succession(news) => self.succession.iter().for_each(|take| take(news.clone())),
            Record::NodeEnded => {}
        }
    }

    fn collect(&self, news: CollectorNews) {
        if let Some(take) = &self.stamps {
            take(news);
        }
    }

    fn begin(&mut self, series: &[(String, Vec<String>, usize)]) {
        let mut list = SeriesList::default();
        for (name, labels, length) in series {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            match catalog::find(name).filter(|metric| metric.labels.len() == labels.len()) {
                Some(metric) if metric.kind == Kind::Row => {
                    _ = list.add_row(metric, (*length).min(LONGEST_ROW))
                }
                Some(metric) => _ = list.add(metric, &labels),
                // The places of the values that follow would be wrong.
                None => return log::debug!("{}: there is no metric {name}", self.node),
            }
        }
        let publisher = list.publish();
        if let Some(page) = &self.page {
            page.hub().add(&self.node, publisher.publication());
            self.publisher = Some(publisher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_telemetry::Hub;

    #[test]
    fn records_of_a_batch_are_read_one_by_one() {
        let records = [Record::Remark([1, u64::MAX, 0, 7]), Record::Answered(vec![]), Record::NodeEnded];
        let mut batch = Batch::default();
        records.iter().for_each(|record| batch.add(record));
        let text = String::from_utf8(batch.0).expect("JSON is UTF-8");
        let read = text.split_terminator('\n').map(|line| {
            let record = line.strip_prefix(RECORD_SEPARATOR).expect("a record begins with its separator");
            serde_json::from_str::<Record>(record).expect("a record can be read")
        });
        assert!(read.eq(records), "{text}");
    }

    /// The last values of a node must reach its parent, also if they are published while a thread takes the values before.
    #[test]
    fn values_that_are_published_after_a_snapshot_are_passed_on_with_the_next_one() {
        let (hub, mut list) = (Hub::default(), SeriesList::default());
        let stored = list.add(&catalog::EVENTS, &["stored"]);
        let mut publisher = list.publish();
        hub.add("bu0", publisher.publication());
        let mut feed = Feed::default();
        let mut passed = |snapshot: &Snapshot| {
            let mut values = Vec::new();
            feed.each(snapshot, |_, record| {
                if let Record::Values { values: new, .. } = record {
                    values.extend(new);
                }
            });
            values
        };
        publisher.publish(1, |to| to.set(stored, 300));
        let before = hub.snapshot();
        publisher.publish(2, |to| to.set(stored, 600));
        assert_eq!(passed(&before), [300]);
        assert_eq!(passed(&hub.snapshot()), [600]);
        assert!(passed(&hub.snapshot()).is_empty(), "nothing has changed");
    }
}
