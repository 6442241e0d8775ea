//! Datagrams of links that recover from loss.

use super::Dice;
use sheaf_wire::datagram::{
    GREETING_BYTES, Gap, Greeting, GreetingRefusal, Head, Key, Kind, Life, Part, RailReport, Report,
    Unproven, View, append_part, begin, seal,
};
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId};

/// The datagrams of the fuzzed link have at most so many bytes.
const MOST_BYTES: usize = 256;

/// A part of a message: the message's number, its bytes, where the part begins in it, and the part's bytes.
type Numbers = (u16, u32, u32, u16);

/// Datagrams of data, by name: the parts of messages that each carries.
const PARTS: [(&str, &[Numbers]); 6] = [
    ("ping", &[]),
    ("whole", &[(0, 40, 0, 40)]),
    ("several", &[(0, 20, 0, 20), (1, 0, 0, 0), (2, 60, 0, 60)]),
    ("first", &[(0, 500, 0, 200)]),
    ("middle", &[(0, 500, 200, 200)]),
    ("last-and-next", &[(0, 500, 400, 100), (1, 300, 0, 80)]),
];

fn sealed(kind: Kind, number: u32, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin(&mut bytes, Key::OPEN, Head { kind, number, behind: 0 });
    fill(&mut bytes);
    seal(&mut bytes, Key::OPEN);
    bytes
}

fn data(dice: &mut Dice, number: u32, parts: &[Numbers]) -> Vec<u8> {
    let mut bytes = sealed(Kind::Data, number, |bytes| {
        for (message, total, offset, length) in parts.iter().copied() {
            let head_bytes = (offset == 0).then_some(total.min(8));
            append_part(bytes, &Part { message, total, offset, bytes: length, head_bytes });
        }
    });
    let body = parts.iter().map(|part| usize::from(part.3)).sum();
    bytes.extend(dice.bytes(body));
    bytes
}

fn report(end: u32, gaps: Vec<Gap>) -> Vec<u8> {
    let rails = vec![RailReport { rail: 0, end, gaps }];
    let report = Report { granted: 100_000, waited: Nanos::from_micros(40), rails };
    sealed(Kind::Report, 0, |bytes| report.append(bytes))
}

fn greeting(to: Option<Life>, refusal: Option<GreetingRefusal>, padding: usize) -> Vec<u8> {
    let greeting = Greeting {
        node: NodeId::readout(0),
        run: RunNumber(1),
        life: Life { session: SessionId(5), count: 1 },
        to,
        datagram_bytes: MOST_BYTES as u32,
        message_bytes: 2_000,
        flight_bytes: 2_000,
        granted: 6_000,
        question_bytes: if to.is_some() { MOST_BYTES as u32 } else { 0 },
        rails: 2,
        refusal,
    };
    let mut bytes = Vec::new();
    greeting.encode(&mut bytes, 1);
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

/// A greeting of a node with a key that anybody can have.
fn proven(to: Option<Life>, refusal: Option<GreetingRefusal>, echo: Option<u8>) -> Vec<u8> {
    let unproven = greeting(to, refusal, 0);
    let mut bytes = Vec::new();
    if let Ok(greeting) = View::new(&unproven).and_then(|view| Greeting::parse(&view)) {
        let nonces = Unproven { nonce: [7; 32], echo: echo.map(|byte| [byte; 32]) };
        greeting.encode_proven(&mut bytes, 2, &nonces, |_| [9; 32]);
    }
    bytes
}

/// One datagram of each kind.
pub(crate) fn single(dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    let named = |name: &str, bytes| (name.to_owned(), bytes);
    let mut seeds: Vec<_> = (0..)
        .zip(PARTS)
        .map(|(number, (name, parts))| (format!("data-{name}"), data(dice, number, parts)))
        .collect();
    let gaps = vec![Gap { first: 0, count: 1 }, Gap { first: 3, count: 2 }];
    let to = Some(Life { session: SessionId(5), count: 1 });
    seeds.extend([
        named("report", report(1, Vec::new())),
        named("report-gaps", report(9, gaps)),
        named("question", greeting(None, None, MOST_BYTES - GREETING_BYTES)),
        named("question-short", greeting(None, None, 0)),
        named("answer", greeting(to, None, 0)),
        named("refusal", greeting(to, Some(GreetingRefusal::WrongRun), 0)),
        named("proven-question", proven(None, None, None)),
        named("proven-question-echo", proven(None, None, Some(8))),
        named("proven-answer", proven(to, None, Some(8))),
        named("proven-challenge", proven(to, Some(GreetingRefusal::Unproven), Some(8))),
        named("farewell", sealed(Kind::Farewell, 0, |_| {})),
        named("farewell-received", sealed(Kind::FarewellReceived, 1, |_| {})),
    ]);
    seeds
}

/// Several datagrams, each behind a byte of how (1: with the right key) and its length.
pub(crate) fn to_a_link(dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    let all = single(dice);
    let record = |how: u8, bytes: &[u8]| [&[how, bytes.len() as u8], bytes].concat();
    let mut seeds: Vec<(String, Vec<u8>)> =
        all.iter().map(|(name, bytes)| (name.clone(), record(1, bytes))).collect();
    let everything = all.iter().flat_map(|(_, bytes)| record(0x31, bytes)).collect();
    let backwards = all.iter().rev().flat_map(|(_, bytes)| record(0x15, bytes)).collect();
    let twice = all.iter().flat_map(|(_, bytes)| [record(1, bytes), record(0, bytes)].concat()).collect();
    seeds.extend([
        ("everything".to_owned(), everything),
        ("backwards".to_owned(), backwards),
        ("twice".to_owned(), twice),
    ]);
    seeds
}
