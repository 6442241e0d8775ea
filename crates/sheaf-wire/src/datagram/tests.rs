//! Encoded datagrams are decoded, and nothing else is.

use super::layout::Kind;
use super::{
    DatagramError, GREETING_BYTES, Gap, Greeting, GreetingRefusal, HEAD_BYTES, Head, Key, Life,
    MAX_MESSAGE_BYTES, Part, RailReport, Report, View, append_part, begin, fuzz, seal,
};
use crate::{Nanos, NodeId, RunNumber, SessionId};
use proptest::prelude::*;

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = (any::<u16>(), 0..=MAX_MESSAGE_BYTES, any::<u32>(), 0..300_u16, any::<bool>()).prop_map(
        |(message, total, offset, bytes, is_first)| {
            let offset = if is_first { 0 } else { offset % (total + 1) };
            let bytes = u16::try_from(u32::from(bytes).min(total - offset)).unwrap();
            Part { message, total, offset, bytes, head_bytes: is_first.then_some(total / 2) }
        },
    );
    prop::collection::vec(part, 0..20)
}

fn reports() -> impl Strategy<Value = Report> {
    let gap = (any::<u32>(), any::<u32>()).prop_map(|(first, count)| Gap { first, count });
    let rail = (any::<u8>(), any::<u32>(), prop::collection::vec(gap, 0..20))
        .prop_map(|(rail, end, gaps)| RailReport { rail, end, gaps });
    (any::<u64>(), any::<u32>(), prop::collection::vec(rail, 0..5)).prop_map(|(granted, waited, rails)| {
        Report { granted, waited: Nanos::from_micros(waited.into()), rails }
    })
}

fn greetings() -> impl Strategy<Value = Greeting> {
    let life = || (1..u64::MAX, any::<u32>()).prop_map(|(it, count)| Life { session: SessionId(it), count });
    let sizes = (256..=65_535_u32, 1..=MAX_MESSAGE_BYTES, 1..=u32::MAX, any::<u64>(), any::<u32>());
    (any::<u16>(), any::<u32>(), life(), prop::option::of(life()), sizes, 1..=64_u16, any::<u16>()).prop_map(
        |(index, run, life, to, sizes, rails, refusal)| Greeting {
            node: NodeId::builder(index),
            run: RunNumber(run),
            life,
            to,
            datagram_bytes: sizes.0,
            message_bytes: sizes.1,
            flight_bytes: sizes.2,
            granted: sizes.3,
            question_bytes: sizes.4,
            rails,
            refusal: GreetingRefusal::from_code(refusal),
        },
    )
}

fn sealed(key: Key, head: Head, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin(&mut bytes, key, head);
    fill(&mut bytes);
    seal(&mut bytes, key);
    bytes
}

proptest! {
    #[test]
    fn data_is_understood_as_it_was_sent(
        parts in parts(), number in any::<u32>(), behind in any::<u16>(), key in any::<u64>(),
    ) {
        let head = Head { kind: Kind::Data, number, behind };
        let mut bytes = sealed(Key(key), head, |bytes| parts.iter().for_each(|part| append_part(bytes, part)));
        let body: usize = parts.iter().map(|part| usize::from(part.bytes)).sum();
        bytes.resize(bytes.len() + body, 9);
        let view = View::new(&bytes).unwrap();
        prop_assert!(view.is_sealed_with(Key(key)));
        prop_assert!(!view.is_sealed_with(Key(key ^ 1 << 40)), "another life of the link");
        prop_assert_eq!(view.head(), head);
        prop_assert_eq!(view.parts().unwrap().collect::<Vec<_>>(), parts);
        bytes.push(9);
        let longer = View::new(&bytes).unwrap();
        let wrong = DatagramError::WrongBodyLength { declared: body, have: body + 1 };
        prop_assert_eq!(longer.parts().err(), Some(wrong));
    }

    #[test]
    fn a_report_is_understood_as_it_was_sent(report in reports(), key in any::<u64>()) {
        let head = Head { kind: Kind::Report, number: 0, behind: 0 };
        let bytes = sealed(Key(key), head, |bytes| report.append(bytes));
        prop_assert_eq!(View::new(&bytes).unwrap().report(), Ok(report));
    }

    #[test]
    fn a_greeting_is_understood_as_it_was_sent(greeting in greetings(), padding in 0..100_usize) {
        let mut bytes = Vec::new();
        greeting.encode(&mut bytes, 77);
        prop_assert_eq!(bytes.len(), GREETING_BYTES);
        bytes.resize(bytes.len() + padding, 0);
        let view = View::new(&bytes).unwrap();
        prop_assert!(view.is_sealed_with(Key::OPEN));
        prop_assert_eq!(view.head().number, 77);
        prop_assert_eq!(Greeting::parse(&view), Ok(greeting));
    }

    #[test]
    fn one_wrong_bit_in_the_heads_is_noticed(report in reports(), key in any::<u64>(), bit in any::<usize>()) {
        let head = Head { kind: Kind::Report, number: 5, behind: 0 };
        let mut bytes = sealed(Key(key), head, |bytes| report.append(bytes));
        let bit = bit % (8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(View::new(&bytes).is_err() || !View::new(&bytes).unwrap().is_sealed_with(Key(key)));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz::fuzz_datagram(&bytes);
    }
}

#[test]
fn what_is_no_datagram_is_told_why() {
    let head = Head { kind: Kind::Farewell, number: 0, behind: 0 };
    let good = sealed(Key(1), head, |_| {});
    assert!(View::new(&good).is_ok());
    let truncated = DatagramError::Truncated { need: HEAD_BYTES, have: 13 };
    assert_eq!(View::new(&good[..13]).err(), Some(truncated));
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        View::new(&bytes).err()
    };
    assert_eq!(with(0, 0x15), Some(DatagramError::WrongVersion(1)));
    assert_eq!(with(0, 0x2f), Some(DatagramError::BadValue { field: "kind", value: 15 }));
    assert_eq!(with(1, 1), Some(DatagramError::Truncated { need: 18, have: 14 }));
}
