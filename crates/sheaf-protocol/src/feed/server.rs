//! The side of a readout unit: the client of each source, and the progress of each source.

use super::records::SourceRecords;
use rustc_hash::FxHashMap;
use sheaf_wire::feed::{FragmentsHead, FromClient, FromReadout, Hello, Phase, Progress, Refusal, Welcome};
use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::{RecordAnswer, RunRecord};
use sheaf_wire::{ByteCount, EventId, RunNumber, SessionId, SourceId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Inverse of the fraction of the window by which a source must advance before its progress is sent. It is also sent when all
/// received fragments have been accepted.
const PROGRESS_PART: u64 = 8;

/// A client of a readout unit. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The sources of the readout unit.
    pub sources: Vec<SourceId>,
    /// Maximum number of fragments of a source that are sent but not accepted.
    pub window_fragments: u64,
    /// Maximum payload of a source that is sent but not accepted; at least `max_fragment`.
    pub window: ByteCount,
    /// Maximum payload of a fragment.
    pub max_fragment: ByteCount,
    /// Maximum length of a message of fragments.
    pub max_message: ByteCount,
    /// Maximum content of a run record.
    pub max_record: ByteCount,
    /// Maximum number of clients at a time.
    pub max_clients: usize,
}

/// Event for the driver of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A client feeds these sources from now on.
    Joined {
        /// The client.
        client: ClientId,
        /// Its name.
        name: String,
        /// Its sources.
        sources: Vec<SourceId>,
    },
    /// The client of a source has disconnected before the end of the source. Another client may feed it.
    Gone(SourceId),
    /// The source has ended in this run. All its fragments were received.
    Ended(SourceId),
    /// A run record for the event manager. The driver answers with [`Server::handle_recorded`].
    Record(Arc<RunRecord>),
    /// A client declines the start of the run.
    Declined {
        /// Name of the client.
        name: String,
        /// Its reason.
        reason: String,
    },
    /// The connection must be closed after the remaining messages of [`Server::poll_transmit`] for it.
    Refused {
        /// The client.
        client: ClientId,
        /// Its name, empty before its hello.
        name: String,
        /// Reason.
        refusal: Refusal,
        /// The source in question.
        source: Option<SourceId>,
    },
}

/// Admission of a message of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Number of fragments at the start of the message that were received before. The driver skips them.
    pub repeated: u32,
    /// Maximum total payload of the others.
    pub room: ByteCount,
}

/// See the [module](super) and the contract in the [crate documentation](crate). Time has no influence on a server: it has no
/// deadlines.
#[derive(Clone, Debug)]
pub struct Server {
    config: ServerConfig,
    run: RunNumber,
    session: SessionId,
    phase: Phase,
    sources: Vec<Feed>,
    by_source: FxHashMap<SourceId, usize>,
    clients: BTreeMap<ClientId, Member>,
    events: VecDeque<ServerEvent>,
}

/// One source.
#[derive(Clone, Debug)]
struct Feed {
    client: Option<ClientId>,
    progress: Progress,
    accepted_bytes: ByteCount,
    /// Number of accepted fragments that was last sent to the client.
    reported: u64,
    reported_bytes: ByteCount,
    records: SourceRecords,
}

/// One client.
#[derive(Clone, Debug, Default)]
struct Member {
    name: String,
    /// Indices of its sources, in the order of its hello.
    sources: Vec<usize>,
    has_joined: bool,
    welcomed: bool,
    knows_phase: Phase,
    /// Whether the progress of a source is due.
    is_due: bool,
    /// Whether it sends run records after the end of the run.
    late_records: bool,
    /// Whether the answer to a run record is due.
    has_answer: bool,
    refused: Option<(Refusal, Option<SourceId>)>,
    /// Whether the refusal was sent.
    is_over: bool,
}

impl Server {
    /// Creates a server without clients, in the phase [`Phase::Waiting`].
    #[must_use]
    pub fn new(config: ServerConfig, run: RunNumber, session: SessionId) -> Self {
        assert!(
            config.window_fragments > 0 && config.window >= config.max_fragment,
            "a window must hold the largest fragment"
        );
        let sources = config.sources.iter().map(|source| Feed::new(*source)).collect();
        let by_source = config.sources.iter().enumerate().map(|(index, source)| (*source, index)).collect();
        Self {
            config,
            run,
            session,
            phase: Phase::Waiting,
            sources,
            by_source,
            clients: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns whether every source has a client, or has ended, except for those that `is_optional`.
    #[must_use]
    pub fn is_complete(&self, is_optional: impl Fn(SourceId) -> bool) -> bool {
        self.absent(is_optional).next().is_none()
    }

    /// Returns the sources without a client that have not ended, except for those that `is_optional`.
    pub fn absent(&self, is_optional: impl Fn(SourceId) -> bool) -> impl Iterator<Item = SourceId> {
        let absent = self.sources.iter().filter(|feed| feed.client.is_none() && !feed.progress.ended);
        absent.map(|feed| feed.progress.source).filter(move |source| !is_optional(*source))
    }

    /// Returns the phase of the run.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the maximum payload of a fragment.
    #[must_use]
    pub fn max_fragment(&self) -> ByteCount {
        self.config.max_fragment
    }

    /// Returns whether a client was refused, and has been sent the reason.
    #[must_use]
    pub fn is_refused(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|member| member.is_over)
    }

    /// Returns the place of a source in the configuration.
    #[must_use]
    pub fn index_of(&self, source: SourceId) -> Option<usize> {
        self.by_source.get(&source).copied()
    }

    /// Returns whether the source at this place of the configuration has a client, or has ended.
    #[must_use]
    pub fn is_fed(&self, index: usize) -> bool {
        let feed = &self.sources[index];
        feed.client.is_some() || feed.progress.ended
    }

    /// Returns the progress of a source.
    #[must_use]
    pub fn progress(&self, source: SourceId) -> Option<&Progress> {
        self.by_source.get(&source).map(|index| &self.sources[*index].progress)
    }

    /// Returns whether a client has been accepted.
    #[must_use]
    pub fn has_joined(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|member| member.has_joined && member.refused.is_none())
    }

    /// Admits a connection. It must send a hello first.
    pub fn handle_connection(&mut self, client: ClientId) {
        self.clients.insert(client, Member::default());
        if self.clients.len() > self.config.max_clients {
            self.refuse(client, Refusal::Full, None);
        } else if self.phase == Phase::Ended {
            self.refuse(client, Refusal::RunEnded, None);
        }
    }

    /// Takes a message without fragments.
    pub fn handle_input(&mut self, client: ClientId, message: FromClient) {
        let Some(member) = self.clients.get_mut(&client).filter(|member| member.refused.is_none()) else {
            return;
        };
        match message {
            FromClient::Hello(hello) if !member.has_joined => self.join(client, hello),
            FromClient::End { source, fragments } if member.has_joined => self.end(client, source, fragments),
            FromClient::Decline(reason) if member.has_joined => {
                let name = member.name.clone();
                self.events.push_back(ServerEvent::Declined { name, reason });
            }
            FromClient::Record(record) if member.has_joined => self.take_record(client, record),
            FromClient::Hello(_)
            | FromClient::End { .. }
            | FromClient::Decline(_)
            | FromClient::Record(_) => {
                self.refuse(client, Refusal::InvalidMessage, None);
            }
        }
    }

    /// Decides by its head whether a message of fragments is admitted. If it is, the driver stores the fragments except the
    /// repeated ones and calls [`Self::handle_received`]. If their payloads exceed the room or the message is invalid, it
    /// calls [`Self::refuse`].
    ///
    /// Returns `None` for a message that must be ignored: the run has ended, or the client breaks the protocol and is refused.
    pub fn admit(&mut self, client: ClientId, head: &FragmentsHead) -> Option<Admission> {
        // After the end of the run they belong to no run. There may be no memory for them, and what follows them must not wait.
        if self.has_joined(client) && self.phase == Phase::Ended {
            return None;
        }
        let admitted = self.admission(client, head);
        if let Err(refusal) = admitted {
            self.refuse(client, refusal, Some(head.source));
        }
        admitted.ok()
    }

    fn admission(&self, client: ClientId, head: &FragmentsHead) -> Result<Admission, Refusal> {
        let Some(feed) = self.by_source.get(&head.source).map(|index| &self.sources[*index]) else {
            return Err(Refusal::UnknownSource);
        };
        if feed.progress.ended {
            return Err(Refusal::SourceEnded);
        }
        if feed.client != Some(client) {
            return Err(Refusal::UnknownSource);
        }
        let progress = &feed.progress;
        let Some(behind) = progress.received.checked_sub(head.first) else {
            return Err(Refusal::SequenceGap);
        };
        let repeated = u32::try_from(behind).unwrap_or(u32::MAX).min(head.count);
        let number = u64::from(head.count - repeated);
        if number > progress.fragments_limit - progress.received {
            return Err(Refusal::OverCredit);
        }
        Ok(Admission { repeated, room: ByteCount(progress.bytes_limit.0 - progress.received_bytes.0) })
    }

    /// Records that the fragments of an admitted message were stored: `fragments` new ones with a payload of `bytes`. The
    /// last of them belongs to `last_event`.
    pub fn handle_received(
        &mut self,
        source: SourceId,
        fragments: u64,
        bytes: ByteCount,
        last_event: EventId,
    ) {
        let Some(index) = self.by_source.get(&source) else { return };
        let progress = &mut self.sources[*index].progress;
        progress.received += fragments;
        progress.received_bytes.0 += bytes.0;
        progress.last_event = Some(last_event);
        debug_assert!(progress.received <= progress.fragments_limit, "admitted");
        debug_assert!(progress.received_bytes <= progress.bytes_limit, "within the room");
    }

    /// Records that the readout unit has accepted further fragments of a source, in the order of arrival.
    #[inline]
    pub fn handle_accepted(&mut self, source: SourceId, fragments: u64, bytes: ByteCount) {
        let Some(index) = self.by_source.get(&source) else { return };
        let feed = &mut self.sources[*index];
        feed.progress.accepted += fragments;
        feed.accepted_bytes.0 += bytes.0;
        debug_assert!(feed.progress.accepted <= feed.progress.received, "received before");
        if feed.is_due(&self.config, self.phase)
            && let Some(member) = feed.client.and_then(|client| self.clients.get_mut(&client))
        {
            member.is_due = true;
        }
    }

    /// Takes the answer of the event manager to a run record.
    pub fn handle_recorded(&mut self, answer: Recorded) {
        let Some(index) = self.by_source.get(&answer.source) else { return };
        let feed = &mut self.sources[*index];
        self.events.extend(feed.records.handle_answer(answer).map(ServerEvent::Record));
        if let Some(member) = feed.client.and_then(|client| self.clients.get_mut(&client)) {
            member.has_answer = true;
        }
    }

    /// Returns whether run records are awaited after the end of the run: a client that announced them is connected, or one is not
    /// answered.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.clients.values().any(|member| member.late_records && member.refused.is_none())
            || self.sources.iter().any(|feed| feed.records.is_asked())
    }

    /// Enters a phase of the run. Phases only move forward, except between running and paused.
    pub fn handle_phase(&mut self, phase: Phase) {
        self.phase = phase;
        for member in self.clients.values_mut() {
            // The first limits are sent with the progress.
            member.is_due = true;
        }
    }

    /// Records that a connection has ended. All its messages must have been handled.
    pub fn handle_disconnection(&mut self, client: ClientId) {
        if let Some(member) = self.clients.remove(&client) {
            self.release(&member.sources);
        }
    }

    /// Closes a connection. Its sources are free for another client.
    pub fn refuse(&mut self, client: ClientId, refusal: Refusal, source: Option<SourceId>) {
        let Some(member) = self.clients.get_mut(&client).filter(|member| member.refused.is_none()) else {
            return;
        };
        member.refused = Some((refusal, source));
        let (name, sources) = (member.name.clone(), std::mem::take(&mut member.sources));
        self.release(&sources);
        self.events.push_back(ServerEvent::Refused { client, name, refusal, source });
    }

    /// Returns the next message for a client. Messages are composed when they are polled, so that none are queued for a
    /// client that does not read.
    pub fn poll_transmit(&mut self, client: ClientId) -> Option<FromReadout> {
        let member = self.clients.get_mut(&client)?;
        if let Some((refusal, source)) = member.refused {
            let is_first = !std::mem::replace(&mut member.is_over, true);
            return is_first.then(|| FromReadout::Refused { refusal, source, text: refusal.to_string() });
        }
        if !member.has_joined {
            return None;
        }
        if !std::mem::replace(&mut member.welcomed, true) {
            (member.knows_phase, member.is_due) = (self.phase, false);
            let feeds = &mut self.sources;
            let sources =
                member.sources.iter().map(|index| feeds[*index].report(&self.config, self.phase)).collect();
            return Some(FromReadout::Welcome(Welcome {
                run: self.run,
                session: self.session,
                phase: self.phase,
                max_fragment: self.config.max_fragment,
                max_message: self.config.max_message,
                sources,
            }));
        }
        if member.knows_phase != self.phase {
            member.knows_phase = self.phase;
            member.is_due = true;
            return Some(FromReadout::Phase(self.phase));
        }
        if member.has_answer {
            let feeds = &mut self.sources;
            if let Some(answer) = member.sources.iter().find_map(|index| feeds[*index].records.take_due()) {
                return Some(FromReadout::Recorded(answer));
            }
            member.has_answer = false;
        }
        if !std::mem::take(&mut member.is_due) {
            return None;
        }
        let (config, phase, feeds) = (&self.config, self.phase, &mut self.sources);
        let moved = member.sources.iter().filter_map(|index| {
            let feed = &mut feeds[*index];
            (feed.is_due(config, phase) || feed.lacks_limits(config, phase))
                .then(|| feed.report(config, phase))
        });
        let moved: Vec<Progress> = moved.collect();
        (!moved.is_empty()).then_some(FromReadout::Progress(moved))
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    fn join(&mut self, client: ClientId, hello: Hello) {
        let mut indices = Vec::with_capacity(hello.sources.len());
        for source in &hello.sources {
            let Some(index) = self.by_source.get(source).copied() else {
                return self.refuse(client, Refusal::UnknownSource, Some(*source));
            };
            let feed = &self.sources[index];
            if feed.client.is_some() {
                return self.refuse(client, Refusal::SourceTaken, Some(*source));
            }
            indices.push(index);
        }
        for index in &indices {
            self.sources[*index].client = Some(client);
        }
        let Some(member) = self.clients.get_mut(&client) else { return };
        (member.has_joined, member.sources, member.name) = (true, indices, hello.name.clone());
        member.late_records = hello.late_records;
        self.events.push_back(ServerEvent::Joined { client, name: hello.name, sources: hello.sources });
    }

    fn end(&mut self, client: ClientId, source: SourceId, fragments: u64) {
        let Some(index) = self.by_source.get(&source).copied() else {
            return self.refuse(client, Refusal::UnknownSource, Some(source));
        };
        let feed = &mut self.sources[index];
        if feed.client != Some(client) || feed.progress.ended {
            return self.refuse(client, Refusal::InvalidMessage, Some(source));
        }
        if feed.progress.received != fragments {
            if self.phase == Phase::Ended {
                // Fragments that were on their way when the run ended are not taken.
                return;
            }
            return self.refuse(client, Refusal::SequenceGap, Some(source));
        }
        feed.progress.ended = true;
        self.events.push_back(ServerEvent::Ended(source));
    }

    fn take_record(&mut self, client: ClientId, record: Arc<RunRecord>) {
        let source = record.source;
        let feed = self.by_source.get(&source).map(|index| &mut self.sources[*index]);
        let Some(feed) = feed.filter(|feed| feed.client == Some(client)) else {
            return self.refuse(client, Refusal::UnknownSource, Some(source));
        };
        if feed.records.is_unanswered(record.number) {
            return self.refuse(client, Refusal::InvalidMessage, Some(source));
        }
        let Some(member) = self.clients.get_mut(&client) else { return };
        if record.content.len() as u64 > self.config.max_record.0 {
            let (number, answer) = (record.number, RecordAnswer::TooLarge);
            feed.records.refuse(Recorded { number, source, answer });
            member.has_answer = true;
        } else {
            self.events.extend(feed.records.take(record).map(ServerEvent::Record));
        }
    }

    /// Frees the sources of a client that has disconnected.
    fn release(&mut self, sources: &[usize]) {
        for index in sources {
            let feed = &mut self.sources[*index];
            feed.client = None;
            feed.records.handle_disconnection();
            if !feed.progress.ended {
                self.events.push_back(ServerEvent::Gone(feed.progress.source));
            }
        }
    }
}

impl Feed {
    fn new(source: SourceId) -> Self {
        let progress = Progress {
            source,
            received: 0,
            received_bytes: ByteCount::ZERO,
            accepted: 0,
            last_event: None,
            ended: false,
            fragments_limit: 0,
            bytes_limit: ByteCount::ZERO,
        };
        let (accepted_bytes, reported_bytes) = (ByteCount::ZERO, ByteCount::ZERO);
        Self {
            client: None,
            progress,
            accepted_bytes,
            reported: 0,
            reported_bytes,
            records: SourceRecords::default(),
        }
    }

    /// Returns whether the number of accepted fragments must be sent to the client.
    fn is_due(&self, config: &ServerConfig, phase: Phase) -> bool {
        let fragments = self.progress.accepted - self.reported;
        let bytes = self.accepted_bytes.0 - self.reported_bytes.0;
        fragments > 0
            && (self.progress.accepted == self.progress.received
                || phase == Phase::Ended
                || fragments.saturating_mul(PROGRESS_PART) >= config.window_fragments
                || bytes.saturating_mul(PROGRESS_PART) >= config.window.0)
    }

    /// Returns whether the client needs new limits, as at the start of the run. During a pause it has credit too: events that were
    /// triggered before may lack its fragments.
    fn lacks_limits(&self, config: &ServerConfig, phase: Phase) -> bool {
        matches!(phase, Phase::Running | Phase::Paused)
            && self.progress.fragments_limit < self.progress.accepted + config.window_fragments
    }

    /// Returns the progress to send to the client now.
    fn report(&mut self, config: &ServerConfig, phase: Phase) -> Progress {
        (self.reported, self.reported_bytes) = (self.progress.accepted, self.accepted_bytes);
        if matches!(phase, Phase::Running | Phase::Paused) {
            // Limits never decrease, because the accepted numbers only grow.
            self.progress.fragments_limit = self.progress.accepted + config.window_fragments;
            self.progress.bytes_limit = ByteCount(self.accepted_bytes.0 + config.window.0);
        }
        self.progress
    }
}
