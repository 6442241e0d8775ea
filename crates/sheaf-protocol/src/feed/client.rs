//! The side of a program that feeds sources.

use sheaf_wire::feed::{FromClient, FromReadout, Hello, Phase, Progress, Refusal, Welcome};
use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{ByteCount, EventId, RunNumber, SessionId, SourceId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Event for the driver of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The readout unit has accepted this client for a run.
    Joined {
        /// The run.
        run: RunNumber,
        /// Whether run and session of the readout unit are the same as before. Then fragments that were sent and not
        /// received must be sent again.
        resumed: bool,
    },
    /// A source continues with the fragment of this sequence number. The client may discard earlier ones once they are
    /// accepted.
    Resume {
        /// The source.
        source: SourceId,
        /// Sequence number of the next fragment.
        next: u64,
        /// Event id of the fragment before it, which the readout unit has.
        last_event: Option<EventId>,
    },
    /// Fragments of a source up to this sequence number (exclusive) were accepted.
    Accepted {
        /// The source.
        source: SourceId,
        /// Number of fragments.
        fragments: u64,
    },
    /// The run record of a source was answered.
    Recorded(Recorded),
    /// The run has entered a phase.
    Phase(Phase),
    /// The readout unit closes the connection.
    Refused {
        /// Reason.
        refusal: Refusal,
        /// The source in question.
        source: Option<SourceId>,
        /// Reason as a text.
        text: String,
    },
}

/// Amount that may be sent of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Number of fragments that may be sent.
    pub fragments: u64,
    /// Their payload.
    pub bytes: ByteCount,
}

/// Violation of the protocol by a readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The first message is not a welcome, or a welcome is not the first.
    #[error("the readout unit sent an unexpected message")]
    Unexpected,
    /// A welcome or progress message contains other sources than the hello.
    #[error("the readout unit sent a message about source {0}, which this client does not feed")]
    OtherSource(SourceId),
    /// More fragments are reported as received or accepted than were sent.
    #[error("the readout unit has received more fragments of source {0} than were sent")]
    Overtaken(SourceId),
}

/// See the [module](super) and the contract in the [crate documentation](crate). Time has no influence on a client: it has no
/// deadlines.
#[derive(Clone, Debug)]
pub struct Client {
    hello: Hello,
    /// The run and the session of the readout unit.
    joined: Option<(RunNumber, SessionId)>,
    welcomed: bool,
    phase: Phase,
    max_fragment: ByteCount,
    max_message: ByteCount,
    sources: Vec<Sent>,
    messages: VecDeque<FromClient>,
    events: VecDeque<ClientEvent>,
}

/// One source.
#[derive(Clone, Debug, Default)]
struct Sent {
    fragments: u64,
    bytes: u64,
    accepted: u64,
    fragments_limit: u64,
    bytes_limit: u64,
    /// Number of fragments at which the source ends.
    ends_at: Option<u64>,
    /// Whether the end was sent, or the readout unit has reported it.
    end_sent: bool,
    /// A run record that is not answered.
    record: Option<Unanswered>,
}

/// A run record that is not answered.
#[derive(Clone, Debug)]
struct Unanswered {
    record: Arc<RunRecord>,
    /// Whether it was sent on this connection.
    is_sent: bool,
}

impl Sent {
    /// Returns whether all fragments of a source that ends were sent, but not the end itself.
    fn owes_end(&self) -> bool {
        !self.end_sent && self.ends_at.is_some_and(|end| self.fragments >= end)
    }
}

impl Sent {
    /// Returns the run record that is to be sent, and marks it as sent.
    fn take_unsent(&mut self) -> Option<Arc<RunRecord>> {
        let unanswered = self.record.as_mut().filter(|unanswered| !unanswered.is_sent)?;
        unanswered.is_sent = true;
        Some(unanswered.record.clone())
    }
}

impl Client {
    /// Creates a client that is not connected.
    #[must_use]
    pub fn new(hello: Hello) -> Self {
        let sources = vec![Sent::default(); hello.sources.len()];
        Self {
            hello,
            joined: None,
            welcomed: false,
            phase: Phase::Waiting,
            max_fragment: ByteCount::ZERO,
            max_message: ByteCount::ZERO,
            sources,
            messages: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns the client's sources.
    #[must_use]
    pub fn sources(&self) -> &[SourceId] {
        &self.hello.sources
    }

    /// Returns the run. `None` before the first welcome.
    #[must_use]
    pub fn run(&self) -> Option<RunNumber> {
        self.joined.map(|(run, _)| run)
    }

    /// Returns whether the readout unit has sent a welcome on this connection.
    #[must_use]
    pub fn is_welcomed(&self) -> bool {
        self.welcomed
    }

    /// Returns the phase of the run.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the maximum payload of a fragment, and the maximum length of a message of fragments.
    #[must_use]
    pub fn limits(&self) -> (ByteCount, ByteCount) {
        (self.max_fragment, self.max_message)
    }

    /// Returns the credit of the source with this index.
    #[must_use]
    pub fn credit(&self, source: usize) -> Credit {
        let sent = &self.sources[source];
        if !self.welcomed || sent.end_sent || self.phase == Phase::Ended {
            return Credit::default();
        }
        let limit = sent.fragments_limit.min(sent.ends_at.unwrap_or(u64::MAX));
        Credit {
            fragments: limit.saturating_sub(sent.fragments),
            bytes: ByteCount(sent.bytes_limit.saturating_sub(sent.bytes)),
        }
    }

    /// Returns the number of fragments of a source that were sent, and of those that were accepted.
    #[must_use]
    pub fn sent(&self, source: usize) -> (u64, u64) {
        (self.sources[source].fragments, self.sources[source].accepted)
    }

    /// Returns whether the end of a source has been set or reported.
    #[must_use]
    pub fn has_ended(&self, source: usize) -> bool {
        let sent = &self.sources[source];
        sent.end_sent || sent.ends_at.is_some()
    }

    /// Records that fragments of a source are sent. Returns the sequence number of the first.
    ///
    /// # Panics
    /// If there is no credit for them.
    pub fn handle_sent(&mut self, source: usize, fragments: u64, bytes: ByteCount) -> u64 {
        let credit = self.credit(source);
        assert!(fragments <= credit.fragments && bytes <= credit.bytes, "fragments exceed the credit");
        let sent = &mut self.sources[source];
        let first = sent.fragments;
        sent.fragments += fragments;
        sent.bytes += bytes.0;
        first
    }

    /// Ends a source after `fragments` fragments of this run. If some of them were lost with a connection, they must be sent
    /// again before the end is sent.
    pub fn handle_end(&mut self, source: usize, fragments: u64) {
        self.sources[source].ends_at = Some(fragments);
    }

    /// Takes a run record of a source. It is sent, again on each new connection of this run, until it is answered.
    ///
    /// # Panics
    /// If an earlier one of the source is not answered.
    pub fn handle_record(&mut self, source: usize, record: Arc<RunRecord>) {
        assert!(self.unanswered(source).is_none(), "a source has one record at a time");
        self.sources[source].record = Some(Unanswered { record, is_sent: false });
    }

    /// Returns the number of the source's run record that is not answered, if there is one.
    #[must_use]
    pub fn unanswered(&self, source: usize) -> Option<u64> {
        self.sources[source].record.as_ref().map(|unanswered| unanswered.record.number)
    }

    /// Declines the start of the run.
    pub fn handle_decline(&mut self, reason: String) {
        self.messages.push_back(FromClient::Decline(reason));
    }

    /// Records a new connection to the readout unit.
    pub fn handle_connection(&mut self) {
        self.welcomed = false;
        self.messages.clear();
        self.messages.push_back(FromClient::Hello(self.hello.clone()));
    }

    /// Records that the connection has ended.
    pub fn handle_disconnection(&mut self) {
        self.welcomed = false;
        self.messages.clear();
    }

    /// Takes a message.
    ///
    /// # Errors
    /// Returns an error if the readout unit violates the protocol. The driver must then close the connection.
    pub fn handle_input(&mut self, message: FromReadout) -> Result<(), ClientError> {
        match message {
            FromReadout::Welcome(welcome) if !self.welcomed => self.handle_welcome(&welcome),
            FromReadout::Progress(all) if self.welcomed => {
                all.iter().try_for_each(|progress| self.handle_progress(progress))
            }
            FromReadout::Phase(phase) if self.welcomed => {
                self.phase = phase;
                self.events.push_back(ClientEvent::Phase(phase));
                Ok(())
            }
            FromReadout::Refused { refusal, source, text } => {
                self.events.push_back(ClientEvent::Refused { refusal, source, text });
                Ok(())
            }
            FromReadout::Recorded(answer) if self.welcomed => self.handle_recorded(answer),
            FromReadout::Welcome(_)
            | FromReadout::Progress(_)
            | FromReadout::Phase(_)
            | FromReadout::Recorded(_) => Err(ClientError::Unexpected),
        }
    }

    /// Returns the next message for the readout unit. It must be sent after all fragments so far.
    pub fn poll_transmit(&mut self) -> Option<FromClient> {
        if let Some(message) = self.messages.pop_front() {
            return Some(message);
        }
        if !self.welcomed {
            return None;
        }
        if let Some(record) = self.sources.iter_mut().find_map(Sent::take_unsent) {
            return Some(FromClient::Record(record));
        }
        let index = self.sources.iter().position(Sent::owes_end)?;
        let sent = &mut self.sources[index];
        sent.end_sent = true;
        Some(FromClient::End { source: self.hello.sources[index], fragments: sent.fragments })
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    fn handle_welcome(&mut self, welcome: &Welcome) -> Result<(), ClientError> {
        let theirs = welcome.sources.iter().map(|progress| progress.source);
        if !theirs.clone().eq(self.hello.sources.iter().copied()) {
            let other = theirs.zip(&self.hello.sources).find(|(theirs, ours)| theirs != *ours);
            return Err(other.map_or(ClientError::Unexpected, |(source, _)| ClientError::OtherSource(source)));
        }
        let resumed = self.joined == Some((welcome.run, welcome.session));
        let is_same_run = self.run().is_none_or(|run| run == welcome.run);
        self.joined = Some((welcome.run, welcome.session));
        (self.welcomed, self.phase) = (true, welcome.phase);
        (self.max_fragment, self.max_message) = (welcome.max_fragment, welcome.max_message);
        self.events.push_back(ClientEvent::Joined { run: welcome.run, resumed });
        for (sent, progress) in self.sources.iter_mut().zip(&welcome.sources) {
            *sent = Sent {
                fragments: progress.received,
                bytes: progress.received_bytes.0,
                accepted: progress.accepted,
                fragments_limit: progress.fragments_limit,
                bytes_limit: progress.bytes_limit.0,
                ends_at: sent.ends_at.filter(|_| resumed),
                end_sent: progress.ended,
                record: sent
                    .record
                    .take()
                    .filter(|_| is_same_run)
                    .map(|unanswered| Unanswered { is_sent: false, ..unanswered }),
            };
            let (source, next) = (progress.source, progress.received);
            self.events.push_back(ClientEvent::Resume { source, next, last_event: progress.last_event });
            self.events.push_back(ClientEvent::Accepted { source, fragments: progress.accepted });
        }
        self.events.push_back(ClientEvent::Phase(welcome.phase));
        Ok(())
    }

    fn handle_recorded(&mut self, answer: Recorded) -> Result<(), ClientError> {
        let index = self.hello.sources.iter().position(|ours| *ours == answer.source);
        let index = index.ok_or(ClientError::OtherSource(answer.source))?;
        if self.unanswered(index) != Some(answer.number) {
            return Err(ClientError::Unexpected);
        }
        self.sources[index].record = None;
        self.events.push_back(ClientEvent::Recorded(answer));
        Ok(())
    }

    fn handle_progress(&mut self, progress: &Progress) -> Result<(), ClientError> {
        let source = progress.source;
        let Some(index) = self.hello.sources.iter().position(|ours| *ours == source) else {
            return Err(ClientError::OtherSource(source));
        };
        let sent = &mut self.sources[index];
        if progress.received > sent.fragments || progress.accepted > sent.fragments {
            return Err(ClientError::Overtaken(source));
        }
        sent.fragments_limit = sent.fragments_limit.max(progress.fragments_limit);
        sent.bytes_limit = sent.bytes_limit.max(progress.bytes_limit.0);
        if progress.accepted > sent.accepted {
            sent.accepted = progress.accepted;
            self.events.push_back(ClientEvent::Accepted { source, fragments: progress.accepted });
        }
        Ok(())
    }
}
