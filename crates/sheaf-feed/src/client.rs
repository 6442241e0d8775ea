//! The side of a program that feeds sources.

mod error;
mod kept;
mod link;
mod records;
mod reserve;
mod started;

use bytes::BytesMut;
pub use error::FeedError;
use kept::{Kept, KeptMessage};
use link::{Address, Link};
pub use records::SourceRecord;
use reserve::Draft;
use sheaf_protocol::feed::{Client, ClientEvent};
pub use sheaf_tcp::{TlsError, TlsFiles};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::feed::{
    FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES, FragmentHead, FragmentsHead, FromReadout, Hello, Phase,
    Refusal,
};
use sheaf_wire::run_record::RecordAnswer;
use sheaf_wire::{ByteCount, EventId, Nanos, RunNumber, SourceId, Timestamp};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest sleep while a client waits for room in the ring: its reader does not wake the writer.
const RING_PAUSE: Nanos = Nanos::from_millis(1);

/// Time that a readout unit that has accepted a connection has for its answer, at least: its machine may be busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest sleep while something is awaited.
const LOOK: Duration = Duration::from_millis(100);

/// Pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Options of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Sources that it feeds.
    pub sources: Vec<SourceId>,
    /// Its name, for people.
    pub name: String,
    /// Whether it sends run records after the end of the run. The run ends only when it has closed its connection, or ten seconds
    /// later.
    pub late_records: bool,
    /// Whether each fragment gets a CRC-32C of its payload.
    pub checksum: bool,
    /// Whether fragments are kept until they are accepted, and sent again when a connection ends.
    pub keep: bool,
    /// Time for which the readout unit may be absent, at first and after its connection has ended.
    pub patience: Duration,
    /// `HOST:PORT` of the same readout unit, to which the client connects if this host does not have its socket.
    pub network: Option<String>,
    /// Its certificate, where it connects over a network that is secured so (`transport.tls` of the run).
    pub tls: Option<TlsFiles>,
    /// File with the key of the run, where it connects over the network and the run has one (`transport.key_file`).
    pub key: Option<PathBuf>,
}

impl Default for ClientOptions {
    /// Options without sources, whose client waits ten seconds for a readout unit, and keeps nothing.
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            name: String::new(),
            late_records: false,
            checksum: false,
            keep: false,
            patience: Duration::from_secs(10),
            network: None,
            tls: None,
            key: None,
        }
    }
}

/// A fragment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceFragment<'a> {
    /// The event.
    pub event: EventId,
    /// The source's own time; zero where it has none.
    pub time: Timestamp,
    /// Data.
    pub payload: &'a [u8],
}

/// Feeds sources of one readout unit.
///
/// Every call that sends or waits also reads what the readout unit says.
#[derive(Debug)]
pub struct SourceClient {
    address: Address,
    options: ClientOptions,
    machine: Client,
    link: Option<Link>,
    message: BytesMut,
    draft: Option<Draft>,
    heads: Vec<[u8; FRAGMENT_HEAD_BYTES]>,
    received: Vec<u8>,
    kept: Kept,
    /// Event id of the last fragment that the readout unit has of each source.
    last_events: Vec<Option<EventId>>,
    joined_run: Option<RunNumber>,
    refused: Option<(Refusal, Option<SourceId>, String)>,
    phases: VecDeque<Phase>,
    /// Run in which the last run record was sent, until it is known whether it was refused.
    records_in: Option<RunNumber>,
    /// A run record that was refused, by source.
    unrecorded: Option<(SourceId, RecordAnswer)>,
    reconnections: u64,
}

impl SourceClient {
    /// Connects to the readout unit at `address`, and waits for its answer. The address is the path of its socket on this host, such
    /// as `runs/ru0.feed`, or `HOST:PORT`.
    ///
    /// # Errors
    /// If there is none within the patience, or it refuses the sources.
    pub fn connect(address: &Path, options: ClientOptions) -> Result<Self, FeedError> {
        let machine = Client::new(Hello {
            sources: options.sources.clone(),
            name: options.name.clone(),
            late_records: options.late_records,
        });
        let mut client = Self {
            address: Address::of(address),
            machine,
            link: None,
            message: BytesMut::new(),
            draft: None,
            heads: Vec::new(),
            received: Vec::new(),
            kept: Kept::new(options.sources.len()),
            last_events: vec![None; options.sources.len()],
            joined_run: None,
            refused: None,
            phases: VecDeque::new(),
            records_in: None,
            unrecorded: None,
            reconnections: 0,
            options,
        };
        client.reconnect()?;
        Ok(client)
    }

    /// Its sources.
    #[must_use]
    pub fn sources(&self) -> &[SourceId] {
        self.machine.sources()
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> Option<RunNumber> {
        self.machine.run()
    }

    /// Phase of the run, as far as it is known.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.machine.phase()
    }

    /// Returns the number of fragments of a source that were sent in this run, and of those that were accepted.
    #[must_use]
    pub fn progress(&self, source: usize) -> (u64, u64) {
        self.machine.sent(source)
    }

    /// Returns the event id of the last fragment that the readout unit had of a source when the connection began: a program that
    /// was restarted continues behind it.
    #[must_use]
    pub fn last_event(&self, source: usize) -> Option<EventId> {
        self.last_events[source]
    }

    /// Returns whether a source has ended in this run: by this program, or by an earlier one in its place. It takes no more fragments.
    #[must_use]
    pub fn has_ended(&self, source: usize) -> bool {
        self.machine.has_ended(source)
    }

    /// Number of times that the connection ended and was made again.
    #[must_use]
    pub fn reconnections(&self) -> u64 {
        self.reconnections
    }

    /// Waits until the run is in progress, or has ended. Returns whether it is in progress.
    ///
    /// # Errors
    /// If the connection ends.
    pub fn wait_for_start(&mut self, timeout: Option<Duration>) -> Result<bool, FeedError> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        while self.phase() == Phase::Waiting {
            if until.is_some_and(|until| until <= Instant::now()) {
                break;
            }
            self.wait(LOOK)?;
        }
        Ok(matches!(self.phase(), Phase::Running | Phase::Paused))
    }

    /// Declines the start of the run.
    ///
    /// # Errors
    /// If the connection ends.
    pub fn decline(&mut self, reason: &str) -> Result<(), FeedError> {
        self.machine.handle_decline(reason.to_owned());
        self.exchange()
    }

    /// Sends a fragment of the source with this index. Waits while there is no room.
    ///
    /// # Errors
    /// If the fragment is too large, the run has ended, or the connection ends for longer than the patience.
    pub fn send(&mut self, source: usize, fragment: SourceFragment<'_>) -> Result<(), FeedError> {
        self.send_all(source, std::slice::from_ref(&fragment))
    }

    /// Sends a fragment if there is room for it. Returns whether there was.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn try_send(&mut self, source: usize, fragment: SourceFragment<'_>) -> Result<bool, FeedError> {
        Ok(self.send_some(source, std::slice::from_ref(&fragment))? == 1)
    }

    /// Sends fragments of the source with this index, many in one message. Waits while there is no room.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_all(&mut self, source: usize, mut fragments: &[SourceFragment<'_>]) -> Result<(), FeedError> {
        while !fragments.is_empty() {
            let sent = self.send_some(source, fragments)?;
            fragments = &fragments[sent..];
            if sent == 0 {
                self.wait(LOOK)?;
            }
        }
        Ok(())
    }

    /// Sends as many of the fragments as there is room for, and returns how many.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_some(&mut self, source: usize, fragments: &[SourceFragment<'_>]) -> Result<usize, FeedError> {
        self.exchange()?;
        let largest = fragments.iter().map(|fragment| fragment.payload.len()).max();
        self.check(source, largest.unwrap_or(0))?;
        if !self.kept.is_sent(source, self.machine.sent(source).0) {
            // Earlier fragments are sent again first.
            return Ok(0);
        }
        let (number, length) = self.fitting(source, fragments);
        if number == 0 || !self.send_message(source, &fragments[..number], length) {
            return Ok(0);
        }
        let payload = length - FRAGMENTS_HEAD_BYTES - number * FRAGMENT_HEAD_BYTES;
        self.machine.handle_sent(source, number as u64, ByteCount(payload as u64));
        Ok(number)
    }

    /// Ends a source: it sends nothing more in this run.
    ///
    /// # Errors
    /// If the connection ends for longer than the patience.
    pub fn end(&mut self, source: usize) -> Result<(), FeedError> {
        self.send_draft();
        let sent = self.machine.sent(source).0.max(self.kept.end(source));
        self.machine.handle_end(source, sent);
        self.exchange()
    }

    /// Waits until all fragments that were sent are accepted, or the run has ended. Returns whether all are accepted.
    ///
    /// # Errors
    /// If the connection ends for longer than the patience.
    pub fn drain(&mut self) -> Result<bool, FeedError> {
        while !self.is_drained() {
            match self.wait(LOOK) {
                Ok(()) if self.phase() == Phase::Ended => break,
                Ok(()) => {}
                // What was accepted was said before.
                Err(FeedError::RunEnded(_)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.is_drained())
    }

    /// Waits until the run has ended, at most for `timeout`. Returns whether it has. Records of the end of the run follow
    /// ([`ClientOptions::late_records`]).
    ///
    /// # Errors
    /// If the connection ends for longer than the patience.
    pub fn wait_for_end(&mut self, timeout: Option<Duration>) -> Result<bool, FeedError> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        while self.phase() != Phase::Ended {
            let left = until
                .map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
                .min(LOOK);
            match self.wait(left) {
                Ok(()) | Err(FeedError::RunEnded(_)) => {}
                Err(error) => return Err(error),
            }
            if left.is_zero() {
                break;
            }
        }
        Ok(self.phase() == Phase::Ended)
    }

    /// Returns whether all fragments are accepted.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let has_draft = self.draft.as_ref().is_some_and(Draft::has_fragments);
        !has_draft
            && (0..self.sources().len()).all(|source| {
                let (sent, accepted) = self.machine.sent(source);
                sent == accepted && self.kept.is_sent(source, sent)
            })
    }

    /// Sleeps until the readout unit says something, at most for `timeout`, and takes note of it.
    ///
    /// # Errors
    /// If the connection ends for longer than the patience, or the readout unit has refused this program.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), FeedError> {
        let timeout = Nanos(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        self.send_draft();
        if let Some(link) = &mut self.link {
            link.wait(if link.is_full() { timeout.min(RING_PAUSE) } else { timeout });
        }
        self.exchange()
    }

    /// Returns the next phase that the run has entered since the last call.
    pub fn poll_phase(&mut self) -> Option<Phase> {
        self.phases.pop_front()
    }

    /// Takes what the readout unit has sent, and sends what is due.
    fn exchange(&mut self) -> Result<(), FeedError> {
        self.send_draft();
        match self.take_messages() {
            Ok(()) => {}
            Err(FeedError::Closed) => {
                if let Some(link) = self.link.take() {
                    self.kept.leave(&link);
                }
                self.machine.handle_disconnection();
                self.take_events();
                self.fail_if_refused()?;
                if self.phase() == Phase::Ended {
                    return Err(self.run_ended());
                }
                self.reconnections += 1;
                self.reconnect()?;
            }
            Err(error) => return Err(error),
        }
        self.take_events();
        self.fail_if_refused()?;
        self.send_again();
        self.send_control();
        Ok(())
    }

    fn take_messages(&mut self) -> Result<(), FeedError> {
        let Some(link) = &mut self.link else { return Err(FeedError::Closed) };
        while link.take(&mut self.received)? {
            self.machine.handle_input(FromReadout::read(&self.received)?)?;
        }
        Ok(())
    }

    fn take_events(&mut self) {
        let mut has_forgotten = false;
        while let Some(event) = self.machine.poll_event() {
            match event {
                ClientEvent::Joined { run, resumed } => {
                    let before = self.joined_run.replace(run);
                    match (before == Some(run), resumed) {
                        (true, true) => {}
                        // Another session of the readout unit has received nothing.
                        (true, false) => self.kept.renumber(),
                        (false, _) => self.kept.clear(),
                    }
                }
                ClientEvent::Resume { source, last_event, .. } => {
                    let index = self.index_of(source);
                    self.last_events[index] = last_event;
                }
                ClientEvent::Accepted { source, fragments } => {
                    let index = self.index_of(source);
                    self.kept.forget(index, fragments);
                    has_forgotten = true;
                }
                ClientEvent::Recorded(answer) => self.note_answer(answer.source, answer.answer),
                ClientEvent::Phase(phase) => self.phases.push_back(phase),
                ClientEvent::Refused { refusal, source, text } => {
                    self.refused = Some((refusal, source, text))
                }
            }
        }
        if has_forgotten && let Some(link) = &mut self.link {
            self.kept.release(link);
        }
    }

    /// The machine speaks only of its own sources.
    fn index_of(&self, source: SourceId) -> usize {
        self.machine.sources().iter().position(|ours| *ours == source).unwrap_or(0)
    }

    fn fail_if_refused(&mut self) -> Result<(), FeedError> {
        match self.refused.take() {
            Some((Refusal::RunEnded, ..)) => Err(self.run_ended()),
            Some((refusal, of, text)) => Err(FeedError::Refused { refusal, of, text }),
            None => Ok(()),
        }
    }

    fn run_ended(&self) -> FeedError {
        FeedError::RunEnded(self.machine.run().unwrap_or(RunNumber(0)))
    }

    /// Sends messages that the readout unit has not received, as far as there is room.
    fn send_again(&mut self) {
        for index in 0..self.machine.sources().len() {
            while let Some((message, content)) = self.kept.unsent(index, self.machine.sent(index).0) {
                let room = self.machine.credit(index);
                let Some(link) = &mut self.link else { return };
                if message.fragments > room.fragments || message.bytes > room.bytes || !link.send(content) {
                    break;
                }
                self.machine.handle_sent(index, message.fragments, message.bytes);
            }
        }
    }

    fn send_control(&mut self) {
        let Some(link) = &mut self.link else { return };
        link.flush_unsent();
        while !link.is_full()
            && let Some(message) = self.machine.poll_transmit()
        {
            link.send_or_keep(message.emit().into());
        }
    }

    /// Connects again, and waits for the answer of the readout unit.
    fn reconnect(&mut self) -> Result<(), FeedError> {
        let (began, patience) = (Instant::now(), self.options.patience);
        let is_final = |error: &FeedError| began.elapsed() >= error.worth_repeating(patience);
        loop {
            match Link::connect(&self.address, &self.options) {
                Ok(link) => {
                    self.link = Some(link);
                    self.machine.handle_connection();
                    self.send_control();
                    let answered_until =
                        Instant::now() + patience.saturating_sub(began.elapsed()).max(ANSWER_TIMEOUT);
                    match self.await_welcome(answered_until) {
                        // The connection may have ended between two runs, or an earlier one of this source may not have ended yet.
                        Err(error) if !is_final(&error) => {}
                        result => return result,
                    }
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(_) => {}
            }
            std::thread::sleep(CONNECT_PAUSE);
        }
    }

    fn await_welcome(&mut self, until: Instant) -> Result<(), FeedError> {
        while !self.machine.is_welcomed() {
            // The refusal is the last message before the end of the connection, and is taken together with it.
            let taken = self.take_messages();
            self.take_events();
            self.fail_if_refused()?;
            taken?;
            if self.machine.is_welcomed() {
                break;
            }
            if Instant::now() >= until {
                return Err(FeedError::NoAnswer);
            }
            if let Some(link) = &mut self.link {
                link.wait(Nanos::from_millis(100));
            }
        }
        self.take_events();
        Ok(())
    }

    /// Checks that the run takes fragments of a source, and of this size.
    fn check(&self, source: usize, largest: usize) -> Result<(), FeedError> {
        if self.phase() == Phase::Ended {
            return Err(self.run_ended());
        }
        let ((most, _), length) = (self.machine.limits(), ByteCount(largest as u64));
        if length > most {
            return Err(FeedError::TooLarge { length, most });
        }
        if self.machine.has_ended(source) {
            return Err(FeedError::SourceEnded(self.machine.sources()[source]));
        }
        Ok(())
    }

    /// Returns the length of the longest message that the run takes and the connection carries.
    fn longest_message(&self) -> usize {
        let most = usize::try_from(self.machine.limits().1.0).unwrap_or(usize::MAX);
        self.link.as_ref().map_or(0, |link| most.min(link.longest()))
    }

    /// Returns the number of fragments that fit into a message and into the credit, and the length of this message.
    fn fitting(&self, source: usize, fragments: &[SourceFragment<'_>]) -> (usize, usize) {
        let (credit, most) = (self.machine.credit(source), self.longest_message());
        let (mut number, mut length, mut bytes) = (0_usize, FRAGMENTS_HEAD_BYTES, 0_u64);
        for fragment in fragments {
            let longer = length + FRAGMENT_HEAD_BYTES + fragment.payload.len();
            bytes += fragment.payload.len() as u64;
            if longer > most || bytes > credit.bytes.0 || number as u64 >= credit.fragments {
                break;
            }
            (number, length) = (number + 1, longer);
        }
        (number, length)
    }

    /// Sends fragments in one message of this length. Returns `false` if there is no room for it now.
    fn send_message(&mut self, source: usize, fragments: &[SourceFragment<'_>], length: usize) -> bool {
        let Some(link) = &mut self.link else { return false };
        let first = self.machine.sent(source).0;
        let (id, count) = (self.machine.sources()[source], fragments.len() as u32);
        // A message is at most as long as its field allows.
        let head = FragmentsHead { source: id, count, first }.emit(length as u32);
        let checksum = self.options.checksum;
        self.heads.clear();
        self.heads.extend(fragments.iter().map(|fragment| fragment.head(checksum).emit()));
        let parts =
            self.heads.iter().zip(fragments).flat_map(|(head, fragment)| [&head[..], fragment.payload]);
        let parts = std::iter::once(&head[..]).chain(parts);
        let payload = length - FRAGMENTS_HEAD_BYTES - fragments.len() * FRAGMENT_HEAD_BYTES;
        let bytes = ByteCount(payload as u64);
        let about = KeptMessage { first, fragments: fragments.len() as u64, bytes };
        if link.is_shared() {
            // Payload is copied once, from where the caller has it to the memory that both sides share, and stays there.
            let record = loop {
                match link.send_parts(length, parts.clone()) {
                    Some(record) => break record,
                    None if self.kept.make_room(link) => {}
                    None => return false,
                }
            };
            if self.options.keep {
                self.kept.push_in_ring(source, about, record, link);
            }
            return true;
        }
        self.message.reserve(length);
        parts.for_each(|part| self.message.extend_from_slice(part));
        // The memory is used again when the message has left.
        let message = self.message.split().freeze();
        let sent = link.send(&message);
        if sent && self.options.keep {
            self.kept.push(source, about, message);
        }
        sent
    }
}

impl SourceFragment<'_> {
    fn head(&self, checksum: bool) -> FragmentHead {
        FragmentHead {
            event: self.event,
            time: self.time,
            // At most the longest message.
            length: self.payload.len() as u32,
            checksum: checksum.then(|| crc32c(self.payload)),
        }
    }
}
