//! The thread that takes stamps out of the rings of all nodes, and writes the traces of remarkable events.

use super::limit::{Limit, MOST_IN_A_SECOND};
use super::model::{LeftOut, Trace, TraceEnd, TraceHeader, TraceStamp};
use super::open::OpenTraces;
use super::trace_file::TraceWriter;
use crate::unix_time::unix_ns;
use sheaf_telemetry::log_as;
use sheaf_telemetry::stamps::{Remark, RemarkKind, StampHub, StampStore};
use sheaf_telemetry::{Hub, Publisher, SeriesId, SeriesList, catalog};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the rings are emptied.
const PERIOD: Duration = Duration::from_millis(50);

/// Messages of other processes that wait for the collector; further ones are lost.
const WAITING: usize = 1 << 12;

/// Name under which a collector publishes its counts.
const NAME: &str = "traces";

/// Asks other processes for the stamps of events, and returns their number. Each answers with [`CollectorNews::Stamps`] and, after those,
/// [`CollectorNews::Answered`].
pub type Ask = Box<dyn FnMut(&[u64]) -> usize + Send>;

/// Options of a collector.
pub struct CollectorOptions {
    /// First line of the file.
    pub header: TraceHeader,
    /// File of traces, if one is written. It and its directory are made with the first trace.
    pub file: Option<PathBuf>,
    /// Maximum size of the file in bytes. Events that are traced without a remark get a quarter of it.
    pub file_bytes: u64,
    /// Names of sources that have one.
    pub source_names: BTreeMap<u32, String>,
    /// The stamps of the nodes of this process.
    pub stamps: StampHub,
    /// Where it publishes its counts, if somebody reads them.
    pub metrics: Option<Hub>,
    /// Asks other processes of the run, if there are any.
    pub ask: Option<Ask>,
}

/// Messages to a collector.
#[derive(Debug)]
pub enum CollectorNews {
    /// Remark of a node in another process.
    Remark([u64; 4]),
    /// Stamps of an event, made in another process.
    Stamps(u64, Vec<TraceStamp>),
    /// Another process has passed on all stamps of these events that it has.
    Answered(Vec<u64>),
    /// Stamps and remarks of another process that were overwritten before they were read.
    Lost(u64, u64),
    /// Events of the sample, and slow ones, that another process has not passed on because there were too many in a second.
    TooMany(u64, u64),
    /// The run has ended: the last stamps are to be asked for at once.
    Ended,
}

/// Messages to the thread of a collector.
#[derive(Debug)]
enum Order {
    Hear(CollectorNews),
    /// Write what earlier orders are about, and end.
    Finish,
}

/// Takes stamps and writes traces until it is finished or dropped.
#[derive(Debug)]
pub struct Collector {
    orders: SyncSender<Order>,
    thread: Option<JoinHandle<TraceEnd>>,
}

impl Collector {
    /// Begins to take stamps.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start(options: CollectorOptions) -> std::io::Result<Self> {
        let (orders, waiting) = sync_channel(WAITING);
        let body = move || Collecting::new(options).run(&waiting);
        let thread = std::thread::Builder::new().name("traces".into()).spawn(body)?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Returns a way to pass it messages of other processes. Those after its end are lost.
    pub fn sender(&self) -> impl Fn(CollectorNews) + Send + Sync + Clone + 'static {
        let orders = self.orders.clone();
        move |news| {
            // The thread that reads the output of a process must not wait.
            if let Err(TrySendError::Full(_)) = orders.try_send(Order::Hear(news)) {
                log::debug!("a part of a trace is lost: the collector is held up");
            }
        }
    }

    /// Writes what is left, and returns the counts. What other processes have passed before is part of it.
    pub fn finish(mut self) -> TraceEnd {
        self.end()
    }

    fn end(&mut self) -> TraceEnd {
        let Some(thread) = self.thread.take() else { return TraceEnd::default() };
        // Not by the end of all senders: whoever gives up a run because of an error holds some while it drops this. It fails if the thread
        // has panicked.
        let _ = self.orders.send(Order::Finish);
        thread.join().unwrap_or_default()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.end();
    }
}

struct Collecting {
    run: u32,
    source_names: BTreeMap<u32, String>,
    hub: StampHub,
    store: StampStore,
    open: OpenTraces,
    file: Option<TraceWriter>,
    ask: Option<Ask>,
    /// Whether other processes have lately taken long to answer.
    answers_are_late: bool,
    /// Traces that have begun in the present second.
    limit: Limit,
    end: TraceEnd,
    /// Number of traces by reason.
    reasons: BTreeMap<&'static str, u64>,
    metrics: Option<Counts>,
}

impl Collecting {
    fn new(options: CollectorOptions) -> Self {
        let CollectorOptions { header, file, file_bytes, source_names, stamps, metrics, ask } = options;
        Self {
            run: header.run,
            source_names,
            hub: stamps,
            store: StampStore::default(),
            open: OpenTraces::default(),
            file: file.map(|path| TraceWriter::new(path, header, file_bytes)),
            ask,
            answers_are_late: false,
            limit: Limit::default(),
            end: TraceEnd::default(),
            reasons: BTreeMap::new(),
            metrics: metrics.as_ref().map(Counts::begin),
        }
    }

    /// Works until it is to finish; then writes what is left.
    fn run(mut self, orders: &Receiver<Order>) -> TraceEnd {
        let mut next = Instant::now();
        loop {
            match orders.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Order::Hear(news)) => self.hear(news),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Order::Finish) | Err(RecvTimeoutError::Disconnected) => {
                    self.work(true);
                    return self.close();
                }
            }
            // Also if there are always messages.
            if Instant::now() >= next {
                self.work(false);
                next = Instant::now() + PERIOD;
            }
        }
    }

    fn hear(&mut self, message: CollectorNews) {
        match message {
            CollectorNews::Remark(words) => self.note(words),
            CollectorNews::Stamps(event, stamps) => {
                if let Some(trace) = self.open.of(event) {
                    trace.add_stamps(stamps);
                }
            }
            CollectorNews::Answered(events) => self.open.note_answer(&events, Instant::now()),
            CollectorNews::Ended => self.ask_others(true),
            CollectorNews::Lost(stamps, remarks) => {
                self.end.left_out.stamps += stamps;
                self.end.left_out.remarks += remarks;
            }
            CollectorNews::TooMany(samples, slow) => {
                self.end.left_out.samples += samples;
                self.end.left_out.too_many += slow;
            }
        }
    }

    fn note(&mut self, words: [u64; 4]) {
        let Some(remark) = Remark::from_words(words) else { return };
        let now = Instant::now();
        let is_new = self.open.of(remark.event).is_none();
        let names = &self.source_names;
        let has_room = self.limit.has_room(&remark, now);
        if is_new && has_room && remark.is_only_slow() && self.answers_are_late {
            self.end.left_out.late_answers += 1;
            return;
        }
        let is_taken = (!is_new || has_room)
            && self.open.note(self.run, &remark, now, |source| names.get(&source).cloned());
        if is_taken {
            if is_new {
                self.limit.count(&remark);
            }
        } else if remark.is_sample() {
            self.end.left_out.samples += 1;
        } else if remark.kind == RemarkKind::Ended {
            // An event has several remarks, and one end.
            self.end.left_out.too_many += 1;
        }
    }

    fn work(&mut self, is_last: bool) {
        let mut remarks = Vec::new();
        self.answers_are_late = self.ask.is_some() && self.open.answers_are_late(Instant::now());
        self.store.take(&self.hub, unix_ns(), &mut |words| remarks.push(words));
        let lost = self.store.take_overwritten();
        self.end.left_out.stamps += lost.stamps;
        self.end.left_out.remarks += lost.remarks;
        remarks.into_iter().for_each(|words| self.note(words));
        let due = self.open.due(Instant::now(), is_last);
        if !due.is_empty() {
            let Self { store, open, .. } = self;
            store.find(&due, &mut |event, found| {
                if let Some(trace) = open.of(event) {
                    trace.add_stamps(TraceStamp::of_all(&found));
                }
            });
            for trace in self.open.settle(&due, is_last) {
                self.write(&trace);
            }
            if let Some(file) = &mut self.file {
                file.flush();
            }
        }
        self.ask_others(false);
        self.publish();
    }

    /// Asks other processes for the stamps of events that are due soon, or of all that are open.
    fn ask_others(&mut self, all: bool) {
        if let Some(ask) = &mut self.ask {
            let soon = self.open.next_questions(Instant::now(), (all, self.answers_are_late));
            if !soon.is_empty() {
                let processes = ask(&soon);
                self.open.note_questions(&soon, processes, Instant::now());
            }
        }
    }

    fn write(&mut self, trace: &Trace) {
        if !self.file.as_mut().is_none_or(|file| file.write(trace)) {
            match trace.is_remarkable() {
                true => self.end.left_out.file_full += 1,
                false => self.end.left_out.samples += 1,
            }
            return;
        }
        self.end.traces += 1;
        for reason in REASONS.iter().filter(|reason| trace.reasons.iter().any(|it| it == *reason)) {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    fn publish(&mut self) {
        if let Some(counts) = &mut self.metrics {
            counts.publish(&self.reasons, &self.end.left_out);
        }
    }

    fn close(mut self) -> TraceEnd {
        // Its last values stay.
        self.metrics.iter().for_each(|counts| counts.hub.note_end_of(NAME, &counts.publisher.publication()));
        if let Some(file) = &mut self.file {
            file.close(self.end);
        }
        let left_out = self.end.left_out;
        let LeftOut { file_full, too_many, late_answers, remarks, stamps, .. } = left_out;
        if left_out.remarkable() > 0 {
            log_as!(
                TRACES_INCOMPLETE;
                "{} remarkable events have no trace: {file_full} for lack of room in the file (`trace.file_bytes`), {too_many} beyond \
                 {MOST_IN_A_SECOND} in a second, {late_answers} slow ones while nodes answered late, {remarks} overwritten",
                left_out.remarkable()
            );
        }
        if stamps > 0 {
            log::debug!("{stamps} stamps were overwritten before they were read; traces may lack stages");
        }
        self.end
    }
}

const REASONS: [&str; 5] = ["incomplete", "slow", "dropped", "quarantined", "sampled"];
const CAUSES: [&str; 6] =
    ["file_full", "too_many", "late_answers", "sample", "remark_overwritten", "stamp_overwritten"];

/// Counts of a collector, as metrics.
struct Counts {
    hub: Hub,
    publisher: Publisher,
    traces: SeriesId,
    left_out: SeriesId,
}

impl Counts {
    fn begin(hub: &Hub) -> Self {
        let mut list = SeriesList::default();
        let traces = REASONS.map(|reason| list.add(&catalog::TRACES, &[reason]));
        let left_out = CAUSES.map(|cause| list.add(&catalog::TRACES_LEFT_OUT, &[cause]));
        let publisher = list.publish();
        hub.add(NAME, publisher.publication());
        Self { hub: hub.clone(), publisher, traces: traces[0], left_out: left_out[0] }
    }

    fn publish(&mut self, reasons: &BTreeMap<&'static str, u64>, left_out: &LeftOut) {
        let LeftOut { file_full, too_many, late_answers, samples, remarks, stamps } = *left_out;
        let (traces, causes) = (self.traces, self.left_out);
        self.publisher.publish(unix_ns(), |to| {
            for (place, reason) in REASONS.iter().enumerate() {
                to.set(traces.plus(place), reasons.get(reason).copied().unwrap_or(0));
            }
            for (place, count) in
                [file_full, too_many, late_answers, samples, remarks, stamps].into_iter().enumerate()
            {
                to.set(causes.plus(place), count);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector() -> Collector {
        let header = TraceHeader { run: 1, host: "host".into(), sample: 0, slow_ns: 0 };
        let options = CollectorOptions {
            header,
            file: None,
            file_bytes: 0,
            source_names: BTreeMap::new(),
            stamps: StampHub::default(),
            metrics: None,
            ask: None,
        };
        Collector::start(options).expect("a thread can be started")
    }

    #[test]
    fn what_was_sent_before_the_end_counts_although_the_sender_is_kept() {
        let collector = collector();
        let send = collector.sender();
        (0..100).for_each(|_| send(CollectorNews::Lost(2, 1)));
        let left_out = collector.finish().left_out;
        assert_eq!((left_out.stamps, left_out.remarks), (200, 100));
        send(CollectorNews::Lost(2, 1));
    }

    #[test]
    fn a_collector_that_is_given_up_does_not_wait_for_its_senders() {
        let collector = collector();
        let _kept = collector.sender();
        let (ended, end) = sync_channel(1);
        std::thread::spawn(move || {
            drop(collector);
            ended.send(())
        });
        end.recv_timeout(Duration::from_secs(300)).expect("it ends under the watchdog");
    }
}
