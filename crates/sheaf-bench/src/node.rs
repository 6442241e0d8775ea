//! A sender, a receiver, the two sides of a round trip: each drives an endpoint as a node of the event builder does.

use crate::cpu;
use crate::job::{Assignment, BenchError, Job, Outcome, Task, Times};
use crate::payload::{self, Writer};
use crate::wiring::{self, Connection, HEAD_BYTES};
use bytes::{Bytes, BytesMut};
use hdrhistogram::Histogram;
use sheaf_node::worker;
use sheaf_shm::Lender;
use sheaf_transport::{DownReason, Endpoint, Event, Frame, SendError};
use sheaf_wire::{Nanos, NodeId};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for which nodes wait for each other at the start.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that the last messages may take to arrive.
const LINGER: Nanos = Nanos::from_secs(60);
/// The longest sleep: it bounds how late a flag is seen.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(10);
/// Sleep of a sender that has no memory left, since nothing wakes it when memory becomes free.
const SHORT_SLEEP: Nanos = Nanos::from_micros(50);
/// Time for which senders continue after the measured time, so that receivers that began later have their full time.
const MARGIN: Duration = Duration::from_millis(20);
/// Maximum number of messages offered to a link before the next link's turn, as a node sends what it has in one round.
const BURST: u32 = 16;
/// Number of frames of one round between two reads of the clock.
const FRAMES_A_LOOK: u64 = 64;
/// Size of the memory blocks from which message heads are cut.
const HEADS_BYTES: usize = 32 << 10;

/// Runs one node of a measurement in this process, from its endpoint to its outcome.
///
/// # Errors
/// The problem.
pub fn run_assigned(
    assignment: &Assignment,
    socket: Option<OwnedFd>,
    stop: &AtomicBool,
) -> Result<Outcome, BenchError> {
    let pinned = cpu::pin(&assignment.processors);
    pinned.map_err(|source| BenchError::System { what: "stay on the processors asked for", source })?;
    let connection = wiring::in_own_process(assignment, socket)?;
    run(connection, &assignment.job, assignment.sends, stop)
}

/// Runs one node to its end. `stop` ends it early, with [`BenchError::Interrupted`].
///
/// # Errors
/// The problem.
pub fn run(connection: Connection, job: &Job, sends: bool, stop: &AtomicBool) -> Result<Outcome, BenchError> {
    let Connection { endpoint, lender } = connection;
    let letters = Letters::new(job, lender);
    let peers = usize::from(if sends { job.receivers } else { job.senders });
    let mut driver =
        Driver { endpoint, job, stop, idle: 0, starved: false, up: 0, down: 0, outcome: Outcome::default() };
    driver.connect(peers)?;
    match (job.task, sends) {
        (Task::Stream, true) => driver.send_stream(letters)?,
        (Task::Stream, false) => driver.receive_stream(peers)?,
        (Task::RoundTrip | Task::Exchange, true) => driver.count_trips(letters)?,
        (Task::RoundTrip | Task::Exchange, false) => driver.answer_trips(letters)?,
    }
    Ok(driver.outcome)
}

/// An endpoint and the thread that drives it.
struct Driver<'a> {
    endpoint: Box<dyn Endpoint>,
    job: &'a Job,
    stop: &'a AtomicBool,
    /// Rounds since there was anything to do.
    idle: u32,
    /// Whether there was no memory for the next message.
    starved: bool,
    up: usize,
    down: usize,
    outcome: Outcome,
}

/// Content of a round.
enum News {
    Frame(Frame),
    Other,
}

impl Driver<'_> {
    fn node(&self) -> NodeId {
        self.endpoint.node()
    }

    fn broken(&self, what: impl Into<String>) -> BenchError {
        BenchError::Broken { node: self.node(), what: what.into() }
    }

    /// Waits until all peers are there. The other side may be faster: it sends only when it sees all of its own.
    fn connect(&mut self, peers: usize) -> Result<(), BenchError> {
        let start = Instant::now();
        while self.up < peers {
            // A frame of a sender whose peers are all there may come before another sender has called.
            while self.up < peers
                && let Some(news) = self.poll()?
            {
                if let News::Frame(frame) = news {
                    self.take(&frame)?;
                }
            }
            self.endpoint.flush();
            if start.elapsed() > PATIENCE {
                let missing = peers - self.up;
                return Err(BenchError::NotConnected { node: self.node(), waited: PATIENCE, missing });
            }
            if self.up < peers {
                self.rest()?;
            }
        }
        Ok(())
    }

    /// The next thing that happened; links that go up and down are counted.
    fn poll(&mut self) -> Result<Option<News>, BenchError> {
        let Some(event) = self.endpoint.poll() else { return Ok(None) };
        self.idle = 0;
        // The memory transport links all nodes with one another; senders do not use their links to other senders.
        let role = self.node().role;
        let other_kind = |peer: NodeId| peer.role != role;
        match event {
            Event::Received { frame, .. } => return Ok(Some(News::Frame(frame))),
            Event::PeerUp { peer } if other_kind(peer) => self.up += 1,
            Event::PeerDown { peer, reason: DownReason::Closed } if other_kind(peer) => self.down += 1,
            Event::PeerDown { peer, reason } if other_kind(peer) => {
                return Err(self.broken(format!("link to {peer}: {reason}")));
            }
            Event::PeerUp { .. } | Event::PeerDown { .. } => {}
            Event::Refused { reason, .. } => return Err(self.broken(format!("link refused: {reason}"))),
        }
        Ok(Some(News::Other))
    }

    /// Counts a message that arrived, and uses its payload.
    fn take(&mut self, frame: &Frame) -> Result<(), BenchError> {
        let bytes = frame.payload_bytes();
        if frame.head.len() != HEAD_BYTES || bytes != self.job.length() {
            return Err(self.broken(format!("a message of {bytes} bytes, not {}", self.job.bytes)));
        }
        for piece in &frame.payload {
            payload::take(piece, self.job.payload);
        }
        self.outcome.received += 1;
        Ok(())
    }

    /// After a round without anything to do: looks again some times, then sleeps.
    fn rest(&mut self) -> Result<(), BenchError> {
        self.idle += 1;
        if self.idle > self.job.spins {
            self.endpoint.wait(if self.starved { SHORT_SLEEP } else { LONGEST_SLEEP });
            self.starved = false;
        } else {
            std::hint::spin_loop();
        }
        self.heed_stop()
    }

    /// Sleeps until an instant; not at all if it has passed.
    fn wait_until(&mut self, due: Instant) -> Result<(), BenchError> {
        loop {
            let left = Nanos::from(due.saturating_duration_since(Instant::now()));
            if left == Nanos::ZERO {
                return Ok(());
            }
            self.endpoint.wait(left.min(LONGEST_SLEEP));
            self.heed_stop()?;
        }
    }

    fn heed_stop(&self) -> Result<(), BenchError> {
        if self.stop.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
    }

    fn send_stream(&mut self, mut letters: Letters) -> Result<(), BenchError> {
        let receivers: Vec<NodeId> = self.job.receiver_nodes().collect();
        let start = Instant::now();
        let mut window = Window::new(self.job, start);
        let end = self.job.warm_up() + self.job.span() + MARGIN;
        // A machine that did something else all the time is measured by one message, however late.
        while start.elapsed() < end || self.outcome.sent == 0 {
            window.look(self.outcome.sent);
            self.heed_stop()?;
            while self.poll()?.is_some() {}
            if self.down > 0 {
                return Err(self.broken("a receiver ended before its senders"));
            }
            let mut sent = 0;
            for receiver in &receivers {
                for _ in 0..BURST {
                    let Some(frame) = letters.next_frame() else {
                        self.starved = true;
                        break;
                    };
                    match self.endpoint.send(*receiver, frame) {
                        Ok(()) => sent += 1,
                        Err(SendError::Full(frame)) => {
                            letters.take_back(frame);
                            break;
                        }
                        Err(error) => return Err(self.broken(error.to_string())),
                    }
                }
            }
            self.endpoint.flush();
            self.outcome.sent += sent;
            if sent > 0 {
                self.idle = 0;
            } else {
                self.rest()?;
            }
        }
        // A sender counts no messages, but what it costs.
        window.close(&mut self.outcome);
        self.outcome.counted = 0;
        self.endpoint.close(LINGER);
        Ok(())
    }

    fn receive_stream(&mut self, senders: usize) -> Result<(), BenchError> {
        let mut window = Window::new(self.job, Instant::now());
        while self.down < senders {
            let before = self.outcome.received;
            while let Some(news) = self.poll()? {
                if let News::Frame(frame) = news {
                    self.take(&frame)?;
                    if self.outcome.received.is_multiple_of(FRAMES_A_LOOK) {
                        window.look(self.outcome.received);
                    }
                }
            }
            window.look(self.outcome.received);
            self.endpoint.flush();
            if self.outcome.received == before && self.down < senders {
                self.rest()?;
            }
        }
        window.close(&mut self.outcome);
        self.endpoint.close(LINGER);
        Ok(())
    }

    /// The side that begins, and has the clock.
    fn count_trips(&mut self, mut letters: Letters) -> Result<(), BenchError> {
        let to = NodeId::builder(0);
        // Up to a minute, three digits.
        let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)
            .map_err(|error| self.broken(error.to_string()))?;
        let start = Instant::now();
        let mut window = Window::new(self.job, start);
        let end = self.job.warm_up() + self.job.span();
        let period = self.job.period();
        if period.is_some() {
            worker::end_sleeps_in_time();
        }
        let mut due = start;
        let mut trips = 0;
        loop {
            if let Some(period) = period {
                // Where the next would begin after the end, none does.
                self.wait_until(due.min(start + end))?;
                due += period;
            }
            let begun = Instant::now();
            // A machine that did something else all the time is measured by one trip, however late.
            if begun.duration_since(start) >= end && !times.is_empty() {
                break;
            }
            let counts = window.look_at(begun, trips);
            self.send_one(&mut letters, to)?;
            self.receive_one()?;
            trips += 1;
            if counts {
                let time = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                times.saturating_record(time);
            }
        }
        window.look(trips);
        window.close(&mut self.outcome);
        if self.job.task == Task::Exchange {
            // In an exchange the other side is one message ahead.
            self.receive_one()?;
        }
        if !times.is_empty() {
            let at = |quantile| times.value_at_quantile(quantile);
            self.outcome.times =
                Some(Times { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: times.max() });
        }
        self.endpoint.close(LINGER);
        Ok(())
    }

    /// The other side: answers, or for an exchange sends as soon as it has received, which is when the first side sends
    /// its next message.
    fn answer_trips(&mut self, mut letters: Letters) -> Result<(), BenchError> {
        let to = NodeId::readout(0);
        let mut window = Window::new(self.job, Instant::now());
        let exchange = self.job.task == Task::Exchange;
        if exchange {
            self.send_one(&mut letters, to)?;
        }
        while self.down == 0 {
            let received = self.receive_or_end()?;
            window.look(self.outcome.received);
            if received {
                self.send_one(&mut letters, to)?;
            }
        }
        window.close(&mut self.outcome);
        self.outcome.counted = 0;
        self.endpoint.close(LINGER);
        Ok(())
    }

    fn send_one(&mut self, letters: &mut Letters, to: NodeId) -> Result<(), BenchError> {
        loop {
            if let Some(frame) = letters.next_frame() {
                match self.endpoint.send(to, frame) {
                    Ok(()) => break,
                    Err(SendError::Full(frame)) => letters.take_back(frame),
                    Err(error) => return Err(self.broken(error.to_string())),
                }
            } else {
                self.starved = true;
            }
            self.endpoint.flush();
            self.rest()?;
        }
        self.outcome.sent += 1;
        self.endpoint.flush();
        Ok(())
    }

    fn receive_one(&mut self) -> Result<(), BenchError> {
        if self.receive_or_end()? { Ok(()) } else { Err(self.broken("the other side ended first")) }
    }

    /// True when a message came, false when the other side has ended.
    fn receive_or_end(&mut self) -> Result<bool, BenchError> {
        loop {
            while let Some(news) = self.poll()? {
                if let News::Frame(frame) = news {
                    self.take(&frame)?;
                    return Ok(true);
                }
            }
            if self.down > 0 {
                return Ok(false);
            }
            self.endpoint.flush();
            self.rest()?;
        }
    }
}

/// Makes frames, and keeps one that was refused.
struct Letters {
    writer: Writer,
    heads: BytesMut,
    number: u64,
    refused: Option<Frame>,
}

impl Letters {
    fn new(job: &Job, lender: Option<Lender>) -> Self {
        let writer = match lender {
            Some(lender) => Writer::with_memory(lender, job.length(), job.payload),
            None => Writer::new(job.length(), job.payload),
        };
        Self { writer, heads: BytesMut::new(), number: 0, refused: None }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        if let Some(frame) = self.refused.take() {
            return Some(frame);
        }
        let payload = self.writer.next_payload()?;
        Some(Frame::new(self.next_head(), Some(payload)))
    }

    fn take_back(&mut self, frame: Frame) {
        self.refused = Some(frame);
    }

    /// The number of the message; heads are cut from one piece of memory, which is used again when all are gone.
    fn next_head(&mut self) -> Bytes {
        if self.heads.capacity() < HEAD_BYTES {
            self.heads.reserve(HEADS_BYTES);
        }
        self.heads.extend_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        self.heads.split().freeze()
    }
}

/// The measured time of a node: begins after the warm-up, ends after the span or with the node.
struct Window {
    start: Mark,
    opens: Instant,
    span: Duration,
    open: Option<Mark>,
    closed: Option<Mark>,
    last: Option<Mark>,
}

#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    count: u64,
    cpu_seconds: f64,
}

impl Window {
    fn new(job: &Job, start: Instant) -> Self {
        Self {
            start: Mark { at: start, count: 0, cpu_seconds: cpu::thread_seconds() },
            opens: start + job.warm_up(),
            span: job.span(),
            open: None,
            closed: None,
            last: None,
        }
    }

    /// Updates the state; called in every round with the current counts.
    fn look(&mut self, count: u64) {
        self.look_at(Instant::now(), count);
    }

    /// The same at an instant that was read already. Returns whether what happens now counts.
    fn look_at(&mut self, at: Instant, count: u64) -> bool {
        let mark = || Mark { at, count, cpu_seconds: cpu::thread_seconds() };
        if self.open.is_none() && at >= self.opens {
            self.open = Some(mark());
        }
        let over = self.open.is_some_and(|open| at.duration_since(open.at) >= self.span);
        if self.closed.is_none() && over {
            self.closed = Some(mark());
        }
        self.last = Some(Mark { at, count, cpu_seconds: 0.0 });
        self.open.is_some() && self.closed.is_none()
    }

    /// Writes what counted. A node that ended before its time counts up to then. If a busy machine let nothing happen in the measured
    /// time, the whole run counts, warm-up included, so that there is a rate.
    fn close(self, outcome: &mut Outcome) {
        let Some(last) = self.last else { return };
        let end = Mark { cpu_seconds: cpu::thread_seconds(), ..last };
        let measured = self.open.map(|open| (open, self.closed.unwrap_or(end)));
        let measured = measured.filter(|(open, closed)| closed.count > open.count);
        let (from, to) = measured.unwrap_or((self.start, end));
        outcome.counted = to.count - from.count;
        outcome.seconds = to.at.duration_since(from.at).as_secs_f64();
        outcome.cpu_seconds = to.cpu_seconds - from.cpu_seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Use;
    use crate::transport::Transport;

    /// Returns what counts if a node looks at these times in milliseconds and counts, with 10 ms of warm-up and 30 ms of measurement.
    fn counted(looks: &[(u64, u64)]) -> (u64, f64) {
        let job = Job {
            task: Task::Stream,
            transport: Transport::Memory,
            senders: 1,
            receivers: 1,
            bytes: 64,
            payload: Use::WriteRead,
            warm_up_s: 0.01,
            seconds: 0.03,
            spins: 0,
            rate_hz: None,
        };
        let start = Instant::now();
        let mut window = Window::new(&job, start);
        for &(at, count) in looks {
            window.look_at(start + Duration::from_millis(at), count);
        }
        let mut outcome = Outcome::default();
        window.close(&mut outcome);
        (outcome.counted, outcome.seconds)
    }

    #[test]
    fn messages_of_the_measured_time_count() {
        assert_eq!(counted(&[(1, 5), (10, 7), (25, 8), (40, 107), (60, 300)]), (100, 0.03));
        assert_eq!(counted(&[(1, 5), (10, 7), (25, 107)]), (100, 0.015));
    }

    #[test]
    fn the_whole_run_counts_if_nothing_came_in_the_measured_time() {
        assert_eq!(counted(&[(5, 3), (10, 3), (40, 3), (50, 8)]), (8, 0.05));
        assert_eq!(counted(&[(90, 8), (100, 8)]), (8, 0.1));
        assert_eq!(counted(&[(8, 8)]), (8, 0.008));
        assert_eq!(counted(&[]), (0, 0.0));
    }
}
