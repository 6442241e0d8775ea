//! The event manager's side of the trigger protocol over datagrams: between datagrams and the messages of a [`Receiver`].

use super::{Datagram, End, Novelty, Outgoing};
use crate::trigger_link::{DatagramCounts, LinkId, Receiver};
use sheaf_wire::trigger_link::{DatagramHead, FromManager, FromSupervisor, NONCE_BYTES, Refusal};
use sheaf_wire::{Nanos, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Interval at which the event manager sends at least a head, to which a live supervisor answers.
const HEARTBEAT: Nanos = Nanos::from_millis(50);

/// Maximum number of answers to callers that are not connected. Further callers are only counted.
const MAX_ANSWERS: usize = 64;

/// Maximum number of a hello: a caller that was asked for the key sends its second datagram.
const MAX_FIRST_NUMBER: u64 = 16;

/// Nonce and proof of a caller.
type Answer = ([u8; NONCE_BYTES], [u8; NONCE_BYTES]);

/// The key of a run, at its door.
pub trait DoorKey: std::fmt::Debug + Send {
    /// Returns the nonce of the next meeting.
    fn challenge(&self) -> [u8; NONCE_BYTES];

    /// Takes an answer. Returns the proof of this side if the caller has the key; the nonce is then used up.
    fn verify(&mut self, nonce: &[u8; NONCE_BYTES], proof: &[u8; NONCE_BYTES]) -> Option<[u8; NONCE_BYTES]>;
}

/// See the [module](super) and the contract in the [crate documentation](crate). `A` are addresses of callers. The events are those of the
/// [`Receiver`], which is passed to each verb.
#[derive(Debug)]
pub struct DatagramDoor<A> {
    key: Option<Box<dyn DoorKey>>,
    /// Time after which a silent supervisor counts as gone.
    silence: Nanos,
    member: Option<Member<A>>,
    /// Callers that are being refused.
    refused: BTreeMap<LinkId, (A, DatagramHead)>,
    challenges: VecDeque<(A, Datagram<FromManager>)>,
    next: u64,
    counts: DatagramCounts,
}

/// The connected supervisor.
#[derive(Debug)]
struct Member<A> {
    id: LinkId,
    address: A,
    end: End<FromManager>,
    heard_at: Timestamp,
    /// Messages from the first one on for which there was no room.
    held: VecDeque<FromSupervisor>,
    /// Number of the datagram with the end of triggers.
    ended: Option<u64>,
    /// The proof of this side, to be sent before the welcome.
    proof: Option<[u8; NONCE_BYTES]>,
}

impl<A: Copy + PartialEq> DatagramDoor<A> {
    /// Creates a door without a supervisor.
    #[must_use]
    pub fn new(key: Option<Box<dyn DoorKey>>, silence: Nanos) -> Self {
        Self {
            key,
            silence,
            member: None,
            refused: BTreeMap::new(),
            challenges: VecDeque::new(),
            next: 0,
            counts: DatagramCounts::default(),
        }
    }

    /// Returns whether messages wait for room. A driver then leaves further datagrams where they are.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.member.as_ref().is_some_and(|member| !member.held.is_empty())
    }

    /// Returns whether the supervisor has acknowledged everything.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.member.as_ref().is_none_or(|member| member.end.kept.is_none())
    }

    /// Returns the account so far.
    #[must_use]
    pub fn counts(&self) -> DatagramCounts {
        let lost = self.member.as_ref().map_or(0, |member| member.end.lost());
        DatagramCounts { lost: self.counts.lost + lost, ..self.counts }
    }

    /// Counts a datagram that cannot be read.
    pub fn note_invalid(&mut self) {
        self.counts.invalid += 1;
    }

    /// Takes a datagram.
    pub fn handle_input(
        &mut self,
        now: Timestamp,
        from: A,
        datagram: Datagram<FromSupervisor>,
        receiver: &mut Receiver,
    ) {
        let head = datagram.head;
        if self.member.as_ref().is_some_and(|member| member.address == from && member.end.link == head.link) {
            return self.receive(now, datagram, receiver);
        }
        let has_messages = !datagram.messages.is_empty();
        let (mut name, mut answer) = (None, None);
        for message in datagram.messages {
            match message {
                FromSupervisor::Hello { name: it } => name = Some(it),
                FromSupervisor::Answer { nonce, proof } => answer = Some((nonce, proof)),
                _ => {}
            }
        }
        match name {
            Some(name) if head.number <= MAX_FIRST_NUMBER => {
                self.meet(now, (from, head), (name, answer), receiver);
            }
            Some(_) => self.counts.invalid += 1,
            None => {
                self.counts.strangers += 1;
                // A head alone may have overtaken its sender's hello.
                if has_messages {
                    self.refuse((from, head), Refusal::NotConnected, receiver);
                }
            }
        }
    }

    /// Takes the hello of a caller. It is answered with a challenge until the caller has proven that it has the key.
    fn meet(
        &mut self,
        now: Timestamp,
        caller: (A, DatagramHead),
        (name, answer): (String, Option<Answer>),
        receiver: &mut Receiver,
    ) {
        let proof = match (&mut self.key, answer) {
            (None, _) => None,
            (Some(key), None) => {
                let (from, head) = caller;
                // The answer of the caller has the next number, and so has that of this side.
                let head = DatagramHead { seen: head.number, ..head };
                let messages = vec![FromManager::Challenge(key.challenge())];
                if self.challenges.len() < MAX_ANSWERS {
                    self.challenges.push_back((from, Datagram { head, messages }));
                }
                return;
            }
            (Some(key), Some((nonce, proof))) => match key.verify(&nonce, &proof) {
                Some(own) => Some(own),
                None => {
                    self.counts.strangers += 1;
                    self.refuse(caller, Refusal::WrongKey, receiver);
                    return;
                }
            },
        };
        // A supervisor that was started again calls from the address of its earlier life. Triggers of that life that wait for room are
        // taken first; the caller repeats its hello.
        if self.member.as_ref().is_some_and(|member| member.address == caller.0 && !member.held.is_empty()) {
            return;
        }
        if let Some(earlier) = self.member.take_if(|member| member.address == caller.0) {
            self.part(now, earlier, receiver);
        }
        let id = self.next_id();
        receiver.handle_connection(id);
        receiver.handle_input(now, id, FromSupervisor::Hello { name });
        if !receiver.is_supervisor(id) {
            self.refused.insert(id, caller);
            return;
        }
        let (address, head) = caller;
        let mut end = End::new(head.link, head.number - 1, head.number - 1);
        end.receive(&DatagramHead { seen: 0, ..head }, true);
        self.counts.received += 1;
        let held = VecDeque::new();
        self.member = Some(Member { id, address, end, heard_at: now, held, ended: None, proof });
    }

    fn next_id(&mut self) -> LinkId {
        self.next += 1;
        LinkId(self.next)
    }

    fn refuse(&mut self, caller: (A, DatagramHead), refusal: Refusal, receiver: &mut Receiver) {
        if self.refused.len() < MAX_ANSWERS {
            let id = self.next_id();
            receiver.handle_connection(id);
            receiver.refuse(id, refusal);
            self.refused.insert(id, caller);
        }
    }

    /// Takes a datagram of the supervisor.
    fn receive(&mut self, now: Timestamp, datagram: Datagram<FromSupervisor>, receiver: &mut Receiver) {
        let Some(member) = &mut self.member else { return };
        let Datagram { head, messages } = datagram;
        member.heard_at = now;
        let novelty = member.end.receive(&head, !messages.is_empty());
        member.end.owes_acknowledgement |= messages.iter().any(FromSupervisor::is_kept);
        let has_triggers = messages.iter().any(|message| !message.is_kept());
        match novelty {
            Novelty::Empty => return,
            Novelty::Repeated => {
                self.counts.repeated += u64::from(has_triggers);
                return;
            }
            Novelty::New => {}
            Novelty::Overtaken => self.counts.out_of_order += 1,
        }
        self.counts.received += 1;
        for message in messages {
            match message {
                // The end of triggers has overtaken them: they are among those that were not delivered.
                FromSupervisor::Triggers(_) if member.ended.is_some_and(|end| head.number < end) => {}
                FromSupervisor::Triggers(triggers) => {
                    if member.held.is_empty() {
                        receiver.note_late((triggers.len() as u64).saturating_sub(receiver.room()));
                    } else {
                        receiver.note_late(triggers.len() as u64);
                    }
                    member.held.push_back(FromSupervisor::Triggers(triggers));
                }
                FromSupervisor::End { .. } => {
                    member.ended = Some(head.number);
                    member.held.push_back(message);
                }
                _ => member.held.push_back(message),
            }
        }
        self.hand_over(now, receiver);
    }

    /// Hands over the messages of the supervisor, as far as there is room for their triggers.
    pub fn hand_over(&mut self, now: Timestamp, receiver: &mut Receiver) {
        let Some(Member { id, held, .. }) = &mut self.member else { return };
        while let Some(message) = held.pop_front() {
            let FromSupervisor::Triggers(mut triggers) = message else {
                receiver.handle_input(now, *id, message);
                continue;
            };
            let room = usize::try_from(receiver.room()).unwrap_or(usize::MAX).min(triggers.len());
            let rest = triggers.split_off(room);
            if !triggers.is_empty() {
                receiver.handle_input(now, *id, FromSupervisor::Triggers(triggers));
            }
            if !rest.is_empty() {
                held.push_front(FromSupervisor::Triggers(rest));
                return;
            }
        }
    }

    /// Returns the next datagram and its address.
    pub fn poll_transmit(
        &mut self,
        now: Timestamp,
        receiver: &mut Receiver,
    ) -> Option<(A, Datagram<FromManager>)> {
        if let Some(challenge) = self.challenges.pop_front() {
            return Some(challenge);
        }
        while let Some((id, message)) = receiver.poll_refusal() {
            if let Some((address, head)) = self.refused.remove(&id) {
                receiver.handle_disconnection(now, id);
                // It is new for its receiver, whatever that has received before.
                let head = DatagramHead { number: u64::MAX, seen: head.number, ..head };
                return Some((address, Datagram { head, messages: vec![message] }));
            }
            if let Some(mut member) = self.member.take_if(|member| member.id == id) {
                member.end.kept = None;
                let last = (member.address, member.end.send(now, vec![message]));
                self.part(now, member, receiver);
                return Some(last);
            }
        }
        let member = self.member.as_mut()?;
        if let Some(repeated) = member.end.repeat(now) {
            return Some((member.address, repeated));
        }
        if member.end.kept.is_none() {
            let mut messages: Vec<_> = member.proof.take().map(FromManager::Proof).into_iter().collect();
            messages.extend(std::iter::from_fn(|| receiver.poll_transmit(now)).map(|(_, message)| message));
            if !messages.is_empty() {
                return Some((member.address, member.end.send(now, messages)));
            }
        }
        let is_due = member.end.owes_acknowledgement || member.end.sent_at + HEARTBEAT <= now;
        is_due.then(|| (member.address, member.end.acknowledge(now)))
    }

    /// Ends the connection to a supervisor that was silent for too long. All datagrams that have arrived must have been handled.
    pub fn handle_timeout(&mut self, now: Timestamp, receiver: &mut Receiver) {
        let silence = self.silence;
        if let Some(member) = self.member.as_mut().filter(|member| !member.held.is_empty()) {
            // It was not listened to.
            member.heard_at = now;
        }
        if let Some(silent) = self.member.take_if(|member| now.since(member.heard_at) >= silence) {
            self.part(now, silent, receiver);
        }
    }

    /// Returns when [`Self::handle_timeout`] or [`Self::poll_transmit`] must be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let member = self.member.as_ref()?;
        let (silent, heartbeat) = (member.heard_at + self.silence, member.end.sent_at + HEARTBEAT);
        member.end.repeat_at().into_iter().chain([silent, heartbeat]).min()
    }

    fn part(&mut self, now: Timestamp, member: Member<A>, receiver: &mut Receiver) {
        self.counts.lost += member.end.lost();
        receiver.handle_disconnection(now, member.id);
    }
}
