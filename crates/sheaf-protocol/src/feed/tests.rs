//! Tests of a client and a server over connections that end at any moment.

use super::*;
use proptest::prelude::*;
use sheaf_wire::feed::{FragmentsHead, FromClient, FromReadout, Hello, Phase, Refusal};
use sheaf_wire::message::Recorded;
use sheaf_wire::run_record::{RecordAnswer, RecordKind, RunRecord};
use sheaf_wire::{ByteCount, EventId, RunNumber, SessionId, SourceId};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

const SOURCES: [SourceId; 2] = [SourceId(4), SourceId(9)];
const WINDOW: u64 = 8;
/// Payload of every fragment in the tests, in bytes.
const EACH: u64 = 100;

fn server() -> Server {
    let config = ServerConfig {
        sources: SOURCES.to_vec(),
        window_fragments: WINDOW,
        window: ByteCount(6 * EACH),
        max_fragment: ByteCount(EACH),
        max_message: ByteCount(1 << 16),
        max_record: ByteCount(EACH),
        max_clients: 3,
    };
    Server::new(config, RunNumber(7), SessionId(1))
}

fn hello(sources: &[SourceId]) -> Hello {
    Hello { sources: sources.to_vec(), name: "board".into(), late_records: false }
}

/// Message in flight from a client to the server.
#[derive(Clone, Debug)]
enum Sent {
    Control(FromClient),
    /// Fragments by their values; the sequence number is in the head.
    Fragments(FragmentsHead, Vec<u64>),
}

/// A client that keeps its fragments until they are accepted, a server, and at most one connection between them.
struct Pair {
    server: Server,
    client: Client,
    connection: Option<ClientId>,
    connections: u64,
    up: VecDeque<Sent>,
    down: VecDeque<FromReadout>,
    /// For each source: fragments that may have to be sent again, with their sequence numbers.
    kept: [VecDeque<(u64, u64)>; 2],
    /// For each source: number of fragments made, which is the value of the next.
    made: [u64; 2],
    received: [VecDeque<u64>; 2],
    accepted: [Vec<u64>; 2],
    ended: [bool; 2],
    /// Records of which the event manager was asked and that it has not answered.
    asked: VecDeque<Arc<RunRecord>>,
    /// Numbers of the records that it has.
    kept_records: BTreeSet<u64>,
    /// For each source: number of records made.
    records: [u64; 2],
    answered: Vec<u64>,
}

impl Pair {
    fn new() -> Self {
        Self {
            server: server(),
            client: Client::new(hello(&SOURCES)),
            connection: None,
            connections: 0,
            up: VecDeque::new(),
            down: VecDeque::new(),
            kept: Default::default(),
            made: [0; 2],
            received: Default::default(),
            accepted: Default::default(),
            ended: [false; 2],
            asked: VecDeque::new(),
            kept_records: BTreeSet::new(),
            records: [0; 2],
            answered: Vec::new(),
        }
    }

    /// Makes a record, unless an earlier one of the source is not answered.
    fn record(&mut self, source: usize) {
        if self.client.unanswered(source).is_none() {
            self.records[source] += 1;
            self.client.handle_record(source, record(SOURCES[source], self.records[source]).into());
        }
    }

    /// Answers as the event manager does.
    fn answer(&mut self) {
        if let Some(record) = self.asked.pop_front() {
            self.kept_records.insert(record.number);
            let (number, source) = (record.number, record.source);
            self.server.handle_recorded(Recorded { number, source, answer: RecordAnswer::Kept });
        }
    }

    fn connect(&mut self) {
        if self.connection.is_none() {
            self.connections += 1;
            let id = ClientId(self.connections);
            self.connection = Some(id);
            self.server.handle_connection(id);
            self.client.handle_connection();
        }
    }

    /// Ends the connection after the server has received `arrived` of the messages in flight.
    fn cut(&mut self, arrived: usize) {
        for _ in 0..arrived {
            self.deliver();
        }
        let Some(id) = self.connection.take() else { return };
        self.server.handle_disconnection(id);
        self.client.handle_disconnection();
        self.up.clear();
        self.down.clear();
    }

    /// Sends kept fragments that were not received, then new ones, within the credit.
    fn send(&mut self, source: usize, new: u64) {
        let (mut next, _) = self.client.sent(source);
        let mut values = Vec::new();
        let first = next;
        let room = |client: &Client, number: u64| {
            let room = client.credit(source);
            room.fragments > number && room.bytes.0 >= (number + 1) * EACH
        };
        for (sequence, value) in &self.kept[source] {
            if *sequence == next && room(&self.client, values.len() as u64) {
                values.push(*value);
                next += 1;
            }
        }
        let all_again = self.kept[source].back().is_none_or(|(last, _)| *last < next);
        for _ in 0..if all_again { new } else { 0 } {
            if room(&self.client, values.len() as u64) {
                values.push(self.made[source]);
                self.kept[source].push_back((next, self.made[source]));
                self.made[source] += 1;
                next += 1;
            }
        }
        if !values.is_empty() {
            let count = values.len() as u64;
            assert_eq!(self.client.handle_sent(source, count, ByteCount(count * EACH)), first);
            let head = FragmentsHead { source: SOURCES[source], count: values.len() as u32, first };
            self.up.push_back(Sent::Fragments(head, values));
        }
    }

    fn deliver(&mut self) {
        let (Some(id), Some(sent)) = (self.connection, self.up.pop_front()) else { return };
        match sent {
            Sent::Control(message) => self.server.handle_input(id, message),
            Sent::Fragments(head, values) => {
                let admission = self.server.admit(id, &head).expect("the client keeps to the protocol");
                let source = SOURCES.iter().position(|source| *source == head.source).expect("one of them");
                let new = &values[admission.repeated as usize..];
                let bytes = ByteCount(new.len() as u64 * EACH);
                assert!(bytes <= admission.room);
                if let Some(last) = new.last() {
                    self.server.handle_received(head.source, new.len() as u64, bytes, EventId(*last));
                }
                self.received[source].extend(new);
            }
        }
    }

    fn accept(&mut self, source: usize, most: usize) {
        for _ in 0..most {
            let Some(value) = self.received[source].pop_front() else { return };
            self.accepted[source].push(value);
            self.server.handle_accepted(SOURCES[source], 1, ByteCount(EACH));
        }
    }

    fn exchange(&mut self) {
        let Some(id) = self.connection else { return };
        self.down.extend(std::iter::from_fn(|| self.server.poll_transmit(id)));
        while let Some(message) = self.down.pop_front() {
            self.client.handle_input(message).expect("the server keeps to the protocol");
        }
        while let Some(event) = self.client.poll_event() {
            match event {
                ClientEvent::Accepted { source, fragments } => {
                    let source = SOURCES.iter().position(|ours| *ours == source).expect("one of them");
                    self.kept[source].retain(|(sequence, _)| *sequence >= fragments);
                }
                ClientEvent::Recorded(answer) => {
                    assert!(self.kept_records.contains(&answer.number), "answered before it was kept");
                    self.answered.push(answer.number);
                }
                ClientEvent::Refused { refusal, .. } => panic!("refused: {refusal}"),
                ClientEvent::Joined { .. } | ClientEvent::Resume { .. } | ClientEvent::Phase(_) => {}
            }
        }
        while let Some(message) = self.client.poll_transmit() {
            self.up.push_back(Sent::Control(message));
        }
        while let Some(event) = self.server.poll_event() {
            match event {
                ServerEvent::Ended(source) => {
                    self.ended[SOURCES.iter().position(|ours| *ours == source).expect("one of them")] = true;
                }
                ServerEvent::Record(record) => self.asked.push_back(record),
                ServerEvent::Refused { refusal, .. } => panic!("refused: {refusal}"),
                ServerEvent::Joined { .. } | ServerEvent::Gone(_) | ServerEvent::Declined { .. } => {}
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Connect,
    Cut(usize),
    Send(usize, u64),
    Deliver,
    Accept(usize, usize),
    Exchange,
    Record(usize),
    Answer,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Connect),
        1 => (0..4_usize).prop_map(Step::Cut),
        6 => (0..2_usize, 1..6_u64).prop_map(|(source, new)| Step::Send(source, new)),
        6 => Just(Step::Deliver),
        4 => (0..2_usize, 1..5_usize).prop_map(|(source, most)| Step::Accept(source, most)),
        6 => Just(Step::Exchange),
        2 => (0..2_usize).prop_map(Step::Record),
        2 => Just(Step::Answer),
    ]
}

proptest! {
    /// Each fragment is accepted once and in order, and within the credit, and each record is answered once, however connections
    /// end.
    #[test]
    fn a_client_that_keeps_fragments_and_records_loses_and_doubles_none(
        steps in prop::collection::vec(step(), 1..200), start_at in 0..50_usize,
    ) {
        let mut pair = Pair::new();
        for (index, step) in steps.into_iter().enumerate() {
            if index == start_at {
                pair.server.handle_phase(Phase::Running);
            } else if index == start_at + 20 {
                pair.server.handle_phase(Phase::Paused);
            }
            match step {
                Step::Connect => pair.connect(),
                Step::Cut(arrived) => pair.cut(arrived),
                Step::Send(source, new) => pair.send(source, new),
                Step::Deliver => pair.deliver(),
                Step::Accept(source, most) => pair.accept(source, most),
                Step::Exchange => pair.exchange(),
                Step::Record(source) => pair.record(source),
                Step::Answer => pair.answer(),
            }
            prop_assert!(pair.asked.len() <= 2, "one of each source");
            for source in 0..2 {
                prop_assert!(pair.received[source].len() as u64 <= WINDOW);
            }
        }
        pair.server.handle_phase(Phase::Running);
        pair.connect();
        let mut rounds = 0;
        while pair.ended != [true; 2] || (0..2).any(|source| pair.client.unanswered(source).is_some()) {
            pair.answer();
            pair.exchange();
            for source in 0..2 {
                let (sent, _) = pair.client.sent(source);
                if pair.kept[source].back().is_none_or(|(last, _)| *last < sent) && pair.client.is_welcomed() {
                    pair.client.handle_end(source, sent);
                }
                pair.send(source, 0);
            }
            while !pair.up.is_empty() {
                pair.deliver();
            }
            pair.accept(0, 3);
            pair.accept(1, 3);
            rounds += 1;
            prop_assert!(rounds < 1000, "the exchange ends");
        }
        pair.accept(0, 1000);
        pair.accept(1, 1000);
        pair.exchange();
        for source in 0..2 {
            prop_assert_eq!(&pair.accepted[source], &(0..pair.made[source]).collect::<Vec<_>>());
            prop_assert!(pair.kept[source].is_empty(), "the client knows that all are accepted");
        }
        let made = pair.records[0] + pair.records[1];
        prop_assert_eq!(pair.answered.len() as u64, made, "each once");
        prop_assert_eq!(pair.kept_records.len() as u64, made, "none is lost");
    }
}

/// Returns a server in a run with one client that has joined.
fn joined(sources: &[SourceId]) -> (Server, ClientId) {
    let (mut server, client) = (server(), ClientId(1));
    server.handle_phase(Phase::Running);
    server.handle_connection(client);
    server.handle_input(client, FromClient::Hello(hello(sources)));
    assert!(matches!(server.poll_transmit(client), Some(FromReadout::Welcome(_))));
    assert!(matches!(server.poll_event(), Some(ServerEvent::Joined { .. })));
    (server, client)
}

/// Events that were triggered before a pause may need more fragments than a client had credit for.
#[test]
fn credit_grows_during_a_pause_and_a_client_that_joins_finds_the_phase() {
    let (mut server, client) = joined(&SOURCES[..1]);
    server.handle_phase(Phase::Paused);
    assert_eq!(server.poll_transmit(client), Some(FromReadout::Phase(Phase::Paused)));
    while server.poll_transmit(client).is_some() {}
    assert!(server.admit(client, &head(4, WINDOW as u32, 0)).is_some());
    server.handle_received(SOURCES[0], WINDOW, ByteCount(8), EventId(9));
    server.handle_accepted(SOURCES[0], WINDOW, ByteCount(8));
    let limits = std::iter::from_fn(|| server.poll_transmit(client)).filter_map(|message| match message {
        FromReadout::Progress(progress) => Some(progress[0].fragments_limit),
        _ => None,
    });
    assert_eq!(limits.last(), Some(2 * WINDOW));
    let other = ClientId(2);
    server.handle_connection(other);
    server.handle_input(other, FromClient::Hello(hello(&SOURCES[1..])));
    let welcome = server.poll_transmit(other);
    assert!(
        matches!(&welcome, Some(FromReadout::Welcome(welcome)) if welcome.phase == Phase::Paused),
        "{welcome:?}"
    );
}

fn record(source: SourceId, time: u64) -> RunRecord {
    let (kind, content) = (RecordKind::SlowControl, "1.5 V".into());
    RunRecord::derived(source, kind, sheaf_wire::Timestamp(time), "supply".into(), content)
}

#[test]
fn a_record_that_is_too_large_is_answered_and_a_second_one_before_the_answer_is_refused() {
    let (mut server, client) = joined(&SOURCES[..1]);
    assert!(!server.is_recording());
    let large = RunRecord { content: vec![0; EACH as usize + 1].into(), ..record(SOURCES[0], 1) };
    let answer = Recorded { number: large.number, source: SOURCES[0], answer: RecordAnswer::TooLarge };
    server.handle_input(client, FromClient::Record(large.into()));
    let answers: Vec<_> = std::iter::from_fn(|| server.poll_transmit(client)).collect();
    assert!(answers.contains(&FromReadout::Recorded(answer)), "{answers:?}");
    assert_eq!(server.poll_event(), None, "the event manager is not asked");
    server.handle_input(client, FromClient::Record(record(SOURCES[0], 2).into()));
    assert_eq!(server.poll_event(), Some(ServerEvent::Record(record(SOURCES[0], 2).into())));
    server.handle_input(client, FromClient::Record(record(SOURCES[0], 3).into()));
    let last = server.poll_transmit(client);
    assert!(matches!(last, Some(FromReadout::Refused { refusal: Refusal::InvalidMessage, .. })), "{last:?}");
}

#[test]
fn records_after_the_end_of_the_run_are_awaited_until_the_client_that_announced_them_leaves() {
    let (mut server, client) = (server(), ClientId(1));
    server.handle_connection(client);
    server.handle_input(client, FromClient::Hello(Hello { late_records: true, ..hello(&SOURCES[..1]) }));
    server.handle_phase(Phase::Ended);
    assert!(server.is_recording());
    while server.poll_event().is_some() {}
    server.handle_input(client, FromClient::Record(record(SOURCES[0], 1).into()));
    assert!(matches!(server.poll_event(), Some(ServerEvent::Record(_))));
    server.handle_recorded(Recorded {
        number: record(SOURCES[0], 1).number,
        source: SOURCES[0],
        answer: RecordAnswer::Kept,
    });
    assert!(server.is_recording(), "further ones may follow");
    server.handle_disconnection(client);
    assert!(!server.is_recording());
}

#[test]
fn a_record_of_another_source_is_refused() {
    let (mut server, client) = joined(&SOURCES[..1]);
    server.handle_input(client, FromClient::Record(record(SOURCES[1], 1).into()));
    let last = server.poll_transmit(client);
    assert!(matches!(last, Some(FromReadout::Refused { refusal: Refusal::UnknownSource, .. })), "{last:?}");
}

#[test]
fn a_client_in_the_place_of_another_waits_for_the_answer_to_the_record_of_the_first() {
    let (mut server, first) = joined(&SOURCES[..1]);
    server.handle_input(first, FromClient::Record(record(SOURCES[0], 1).into()));
    assert!(matches!(server.poll_event(), Some(ServerEvent::Record(_))));
    server.handle_disconnection(first);
    assert!(server.is_recording(), "the record is not answered");
    let second = ClientId(2);
    server.handle_connection(second);
    server.handle_input(second, FromClient::Hello(hello(&SOURCES[..1])));
    server.handle_input(second, FromClient::Record(record(SOURCES[0], 2).into()));
    let events: Vec<_> = std::iter::from_fn(|| server.poll_event()).collect();
    assert!(!events.iter().any(|event| matches!(event, ServerEvent::Record(_))), "{events:?}");
    let answer = |number| Recorded { number, source: SOURCES[0], answer: RecordAnswer::Kept };
    server.handle_recorded(answer(record(SOURCES[0], 1).number));
    assert_eq!(server.poll_event(), Some(ServerEvent::Record(record(SOURCES[0], 2).into())));
    let sent = |server: &mut Server| -> Vec<_> {
        let sent = std::iter::from_fn(|| server.poll_transmit(second));
        sent.filter(|message| matches!(message, FromReadout::Recorded(_))).collect()
    };
    assert_eq!(sent(&mut server), [], "the answer to the first is not for the second");
    server.handle_recorded(answer(record(SOURCES[0], 2).number));
    assert_eq!(sent(&mut server), [FromReadout::Recorded(answer(record(SOURCES[0], 2).number))]);
    server.handle_disconnection(second);
    assert!(!server.is_recording());
}

#[test]
fn an_end_behind_fragments_that_came_after_the_run_is_no_mistake() {
    for (phase, is_refused) in [(Phase::Running, true), (Phase::Ended, false)] {
        let (mut server, client) = joined(&SOURCES[..1]);
        server.handle_phase(phase);
        while server.poll_event().is_some() {}
        if phase == Phase::Ended {
            assert_eq!(server.admit(client, &head(SOURCES[0].0, 3, 0)), None, "they belong to no run");
        }
        server.handle_input(client, FromClient::End { source: SOURCES[0], fragments: 3 });
        let refused = std::iter::from_fn(|| server.poll_event())
            .any(|event| matches!(event, ServerEvent::Refused { .. }));
        assert_eq!(refused, is_refused, "{phase:?}");
    }
}

fn head(source: u32, count: u32, first: u64) -> FragmentsHead {
    FragmentsHead { source: SourceId(source), count, first }
}

#[test]
fn a_client_that_breaks_a_rule_is_refused_by_name_and_frees_its_sources() {
    for (message, refusal) in [
        (head(5, 1, 0), Refusal::UnknownSource),
        (head(9, 1, 0), Refusal::UnknownSource),
        (head(4, 1, 1), Refusal::SequenceGap),
        (head(4, WINDOW as u32 + 1, 0), Refusal::OverCredit),
    ] {
        let (mut server, client) = joined(&SOURCES[..1]);
        assert_eq!(server.admit(client, &message), None);
        assert_eq!(server.poll_event(), Some(ServerEvent::Gone(SOURCES[0])));
        assert!(
            matches!(server.poll_event(), Some(ServerEvent::Refused { refusal: it, .. }) if it == refusal)
        );
        let last = server.poll_transmit(client);
        assert!(matches!(last, Some(FromReadout::Refused { refusal: it, .. }) if it == refusal));
        assert_eq!(server.poll_transmit(client), None, "nothing follows");
        // Another client feeds the source.
        server.handle_connection(ClientId(2));
        server.handle_input(ClientId(2), FromClient::Hello(hello(&SOURCES)));
        assert!(server.has_joined(ClientId(2)));
    }
}

#[test]
fn a_source_has_one_client_and_the_second_is_refused() {
    let (mut server, client) = joined(&SOURCES[..1]);
    server.handle_connection(ClientId(2));
    server.handle_input(ClientId(2), FromClient::Hello(hello(&SOURCES)));
    let Some(FromReadout::Refused { refusal, source, .. }) = server.poll_transmit(ClientId(2)) else {
        panic!("refused")
    };
    assert_eq!((refusal, source), (Refusal::SourceTaken, Some(SOURCES[0])));
    assert!(server.has_joined(client), "the first stays");
    server.handle_disconnection(client);
    server.handle_connection(ClientId(3));
    server.handle_input(ClientId(3), FromClient::Hello(hello(&SOURCES)));
    assert!(server.has_joined(ClientId(3)));
    assert_eq!(server.absent(|_| false).next(), None);
}

#[test]
fn nothing_is_granted_before_the_run_or_after_its_end() {
    let mut server = server();
    server.handle_connection(ClientId(1));
    server.handle_input(ClientId(1), FromClient::Hello(hello(&SOURCES)));
    let Some(FromReadout::Welcome(welcome)) = server.poll_transmit(ClientId(1)) else { panic!("a welcome") };
    assert!(welcome.sources.iter().all(|progress| progress.fragments_limit == 0));
    assert_eq!(server.poll_transmit(ClientId(1)), None);
    server.handle_phase(Phase::Running);
    assert_eq!(server.poll_transmit(ClientId(1)), Some(FromReadout::Phase(Phase::Running)));
    let Some(FromReadout::Progress(all)) = server.poll_transmit(ClientId(1)) else { panic!("room") };
    assert!(all.iter().all(|progress| progress.fragments_limit == WINDOW) && all.len() == 2);
    server.handle_phase(Phase::Ended);
    assert_eq!(server.poll_transmit(ClientId(1)), Some(FromReadout::Phase(Phase::Ended)));
    server.handle_connection(ClientId(2));
    let last = server.poll_transmit(ClientId(2));
    assert!(matches!(last, Some(FromReadout::Refused { refusal: Refusal::RunEnded, .. })));
}

#[test]
fn a_crowd_is_refused_and_a_second_hello_too() {
    let (mut server, client) = joined(&SOURCES[..1]);
    for id in 2..=4 {
        server.handle_connection(ClientId(id));
    }
    let last = server.poll_transmit(ClientId(4));
    assert!(matches!(last, Some(FromReadout::Refused { refusal: Refusal::Full, .. })));
    server.handle_input(client, FromClient::Hello(hello(&SOURCES[1..])));
    let last = server.poll_transmit(client);
    assert!(matches!(last, Some(FromReadout::Refused { refusal: Refusal::InvalidMessage, .. })));
}
