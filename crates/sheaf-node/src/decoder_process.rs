//! Decoders of hits in a process, for functions in Python.
//!
//! A thread writes requests to the process and reads its answers, so that the readout unit does not wait for them. The module
//! `sheaf.decoding` of the Python package documents the bytes. A process that dies is started again, and the request that it did not
//! answer is repeated once.

use crate::hit_decoder::read_hits;
use crate::restarts::{RestartPolicy, Restarts};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sheaf_source::timed::{CounterBits, DecodeFailure, Decoder, Packet, PacketError, PacketHead, Reading};
use sheaf_source::{Batch, BatchEnd, Source, SourceEvent, SourcePoll, SourceStats};
use sheaf_telemetry::log_as;
use sheaf_wire::{EventId, Fragment, Nanos, NumberMark, SourceId, Timestamp};
use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

/// Fragments of a request at most.
const FRAGMENTS_A_REQUEST: usize = 64;

/// Requests of a source that wait for their answers at most.
const REQUESTS_OF_A_SOURCE: usize = 4;

/// Requests of all sources that wait for the process at most.
const REQUESTS: usize = 1_024;

/// Time after a poll without answer until the source is polled again.
const LOOK_AGAIN: Nanos = Nanos(100_000);

/// Time that a process may take to load its decoder, with all that this imports, perhaps from a cold disk.
const LOADING_LIMIT: Duration = Duration::from_secs(300);

/// A process that dies at its start is started again after these pauses.
const RESTARTS: RestartPolicy = RestartPolicy {
    pause: (Nanos::from_millis(50), Nanos::from_secs(1)),
    works_after: Nanos::from_secs(10),
    in_a_row: None,
};

/// Makes the command of a decoder.
pub type DecoderCommand = Box<dyn Fn() -> Command + Send>;

/// Hits of a fragment as bytes, or the reason why it cannot be decoded.
type Answer = Result<Bytes, DecodeFailure>;

/// A process that decodes fragments of several sources. It ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct DecoderProcess {
    requests: SyncSender<Request>,
}

#[derive(Debug)]
struct Request {
    fragments: Vec<Fragment<Bytes>>,
    answers: Sender<Vec<Answer>>,
}

impl DecoderProcess {
    /// Starts the process, and waits until it has loaded its decoder. An answer may take `time_limit`.
    ///
    /// # Errors
    /// If the process or the thread cannot be started, or the process ends before it is ready; it has said why on its standard error.
    pub fn start(command: DecoderCommand, time_limit: Duration) -> io::Result<Self> {
        let mut worker = Worker { command, time_limit, running: None, restarts: Restarts::new(RESTARTS) };
        worker.launch()?;
        let (sender, requests) = sync_channel::<Request>(REQUESTS);
        let answer_all = move || {
            for Request { fragments, answers } in requests {
                // Fails where the source has gone, at the end of a run.
                let _ = answers.send(worker.answer(&fragments));
            }
        };
        std::thread::Builder::new().name("hit decoder".into()).spawn(answer_all)?;
        Ok(Self { requests: sender })
    }

    /// Returns the decoded fragments of `source`. The payload of each is hits of 16 bytes ([`read_hits`]).
    #[must_use]
    pub fn decode(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        let (answer_to, answers) = channel();
        Box::new(DecodedSource {
            inner: source,
            process: self.clone(),
            unsent: None,
            asked: VecDeque::new(),
            answer_to,
            answers,
            decoded: VecDeque::new(),
            has_ended: false,
            undecoded: 0,
            last_failure: None,
        })
    }

    /// Returns a decoder that waits for the process in each call.
    #[must_use]
    pub fn waiting_decoder(&self, counter_bits: u32) -> Box<dyn Decoder> {
        let (answer_to, answers) = channel();
        Box::new(WaitingDecoder { process: self.clone(), answer_to, answers, counter_bits })
    }
}

/// The process, as its thread has it.
struct Worker {
    command: DecoderCommand,
    time_limit: Duration,
    running: Option<Running>,
    restarts: Restarts,
}

struct Running {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    since: Instant,
}

impl Worker {
    fn launch(&mut self) -> io::Result<()> {
        let mut command = (self.command)();
        // In a group of its own: Ctrl-C ends the run, and that ends its processes.
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a process has no pipes"));
        };
        let mut running =
            Running { child, requests, answers: BufReader::new(answers), since: Instant::now() };
        running.wait(LOADING_LIMIT)?;
        running.read_number().map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("the process ended while it loaded the decoder"),
            _ => error,
        })?;
        self.running = Some(running);
        Ok(())
    }

    /// Returns the answer for each fragment.
    fn answer(&mut self, fragments: &[Fragment<Bytes>]) -> Vec<Answer> {
        let mut failure = DecodeFailure("the decoder's process has died".into());
        for _ in 0..2 {
            match self.try_answer(fragments) {
                Ok(answers) => return answers,
                Err(error) => {
                    log_as!(DECODER_RESTARTED; "the decoder's process is started again: {error}");
                    failure = DecodeFailure(format!("the decoder's process died or hung: {error}"));
                    self.bury();
                    if error.kind() == io::ErrorKind::TimedOut {
                        break;
                    }
                }
            }
        }
        fragments.iter().map(|_| Err(failure.clone())).collect()
    }

    fn try_answer(&mut self, fragments: &[Fragment<Bytes>]) -> io::Result<Vec<Answer>> {
        if self.running.is_none() {
            self.launch()?;
        }
        let Some(running) = &mut self.running else { return Err(io::Error::other("it does not run")) };
        running.write(fragments)?;
        running.wait(self.time_limit)?;
        fragments.iter().map(|_| running.read_answer()).collect()
    }

    /// Ends a process that has died or hangs, and pauses before the next one.
    fn bury(&mut self) {
        let lived = self.running.as_ref().map_or(Duration::ZERO, |running| running.since.elapsed());
        self.running = None;
        let lived = Nanos(u64::try_from(lived.as_nanos()).unwrap_or(u64::MAX));
        let pause = self.restarts.died(lived).unwrap_or(RESTARTS.pause.1);
        std::thread::sleep(Duration::from_nanos(pause.0));
    }
}

impl Running {
    fn write(&mut self, fragments: &[Fragment<Bytes>]) -> io::Result<()> {
        let bytes = fragments.iter().map(|fragment| 24 + fragment.payload.len()).sum::<usize>();
        let mut request = Vec::with_capacity(4 + bytes);
        request.extend(length(fragments.len())?.to_le_bytes());
        for Fragment { event, source, time, payload, .. } in fragments {
            request.extend(source.0.to_le_bytes());
            request.extend(event.0.to_le_bytes());
            request.extend(time.0.to_le_bytes());
            request.extend(length(payload.len())?.to_le_bytes());
            request.extend_from_slice(payload);
        }
        self.requests.write_all(&request)
    }

    /// Waits for the beginning of an answer.
    fn wait(&self, time_limit: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(time_limit).ok();
        let mut pipes = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
        loop {
            match poll(&mut pipes, timeout.as_ref()) {
                Ok(0) => {
                    let late = format!(
                        "no answer within {} s (`source.decoder.time_limit_s`)",
                        time_limit.as_secs_f64()
                    );
                    return Err(io::Error::new(io::ErrorKind::TimedOut, late));
                }
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read_number(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.answers.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn read_answer(&mut self) -> io::Result<Answer> {
        let (status, size) = (self.read_number()?, self.read_number()?);
        let mut data = vec![0; size as usize];
        self.answers.read_exact(&mut data)?;
        Ok(match status {
            0 => Ok(data.into()),
            _ => Err(DecodeFailure(String::from_utf8_lossy(&data).into_owned())),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::other("a request is larger than 4 GiB"))
}

/// A source whose fragments are decoded by a process.
struct DecodedSource {
    inner: Box<dyn Source>,
    process: DecoderProcess,
    /// A request for which the process had no room.
    unsent: Option<Request>,
    /// Event ids and times of the fragments of each request that is not answered.
    asked: VecDeque<Vec<(EventId, Timestamp)>>,
    answer_to: Sender<Vec<Answer>>,
    answers: Receiver<Vec<Answer>>,
    decoded: VecDeque<Fragment<Bytes>>,
    has_ended: bool,
    undecoded: u64,
    last_failure: Option<DecodeFailure>,
}

impl DecodedSource {
    /// Takes the answers that are there.
    fn take_answers(&mut self) {
        while let Ok(answers) = self.answers.try_recv() {
            let Some(asked) = self.asked.pop_front() else { return };
            self.inner.handle_accepted(asked.len());
            for ((event, time), answer) in asked.into_iter().zip(answers) {
                match answer {
                    Ok(payload) => self.decoded.push_back(Fragment {
                        event,
                        source: self.inner.id(),
                        time,
                        checksum: None,
                        processed: false,
                        mark: NumberMark::NONE,
                        payload,
                    }),
                    Err(failure) => {
                        self.undecoded += 1;
                        self.last_failure = Some(failure);
                    }
                }
            }
        }
    }

    /// Takes fragments from the source and asks for their hits. Returns what the source said.
    fn ask(&mut self, now: Timestamp) -> BatchEnd {
        let mut batch = Batch::default();
        let end = self.inner.poll_batch(now, FRAGMENTS_A_REQUEST, &mut batch);
        let mut fragments = Vec::with_capacity(batch.fragments.len());
        while let Some(fragment) = batch.pop() {
            fragments.push(fragment);
        }
        fragments.reverse();
        self.has_ended |= end == BatchEnd::Ended;
        if !fragments.is_empty() {
            self.asked.push_back(fragments.iter().map(|fragment| (fragment.event, fragment.time)).collect());
            self.unsent = Some(Request { fragments, answers: self.answer_to.clone() });
            self.send();
        }
        end
    }

    fn send(&mut self) {
        let Some(request) = self.unsent.take() else { return };
        if let Err(TrySendError::Full(request)) = self.process.requests.try_send(request) {
            self.unsent = Some(request);
        }
    }
}

impl Source for DecodedSource {
    fn id(&self) -> SourceId {
        self.inner.id()
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        self.take_answers();
        if let Some(fragment) = self.decoded.pop_front() {
            return SourcePoll::Fragment(fragment);
        }
        self.send();
        let may_ask = self.unsent.is_none() && self.asked.len() < REQUESTS_OF_A_SOURCE && !self.has_ended;
        let end = if may_ask { self.ask(now) } else { BatchEnd::More };
        if !self.asked.is_empty() {
            return SourcePoll::NotBefore(now + LOOK_AGAIN);
        }
        match end {
            _ if self.has_ended => SourcePoll::Ended,
            BatchEnd::More | BatchEnd::Ended => SourcePoll::NotBefore(now),
            BatchEnd::NotBefore(at) => SourcePoll::NotBefore(at),
            BatchEnd::Idle => SourcePoll::Idle,
            BatchEnd::OutOfMemory => SourcePoll::OutOfMemory,
        }
    }

    sheaf_source::forward_to_source!(inner);

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.inner.poll_event()
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.inner.prepare_to_sleep()
    }

    fn stop(&mut self) {
        self.inner.stop();
    }

    fn stats(&self) -> SourceStats {
        let mut stats = self.inner.stats();
        let failure =
            self.last_failure.as_ref().map(|failure| format!("a fragment cannot be decoded: {failure}"));
        stats.undecoded += self.undecoded;
        stats.last_error = stats.last_error.or(failure);
        stats
    }
}

/// A decoder that waits for the process in each call.
#[derive(Debug)]
struct WaitingDecoder {
    process: DecoderProcess,
    answer_to: Sender<Vec<Answer>>,
    answers: Receiver<Vec<Answer>>,
    counter_bits: u32,
}

impl Decoder for WaitingDecoder {
    fn head(&self, _packet: &[u8]) -> Result<PacketHead, PacketError> {
        Ok(PacketHead { card: SourceId(0), number: 0 })
    }

    fn read(&mut self, packet: &Packet<'_>, take: &mut dyn FnMut(Reading)) -> Result<(), DecodeFailure> {
        let Packet { source, event, time, bytes } = *packet;
        let fragment = Fragment {
            event,
            source,
            time,
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: Bytes::copy_from_slice(bytes),
        };
        let request = Request { fragments: vec![fragment], answers: self.answer_to.clone() };
        let has_gone = || DecodeFailure("the thread of the decoder has ended".into());
        self.process.requests.send(request).map_err(|_| has_gone())?;
        let mut answers = self.answers.recv().map_err(|_| has_gone())?;
        read_hits(&answers.pop().ok_or_else(has_gone)??, take);
        Ok(())
    }

    fn counter_bits(&self) -> CounterBits {
        CounterBits { time: self.counter_bits, packet: 0 }
    }
}

#[cfg(test)]
mod tests;
