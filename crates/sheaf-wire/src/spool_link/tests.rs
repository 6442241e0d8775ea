//! Round trips of frames, and refusal of everything else.

use super::*;
use proptest::prelude::*;

fn window() -> impl Strategy<Value = HitInterval> {
    (any::<u64>(), any::<u64>())
        .prop_map(|(one, other)| HitInterval { from_ps: one.min(other), until_ps: one.max(other) })
}

fn part() -> impl Strategy<Value = WindowPart> {
    (any::<u32>(), any::<u32>(), window()).prop_map(|(number, source, interval)| WindowPart {
        number,
        source: SourceId(source),
        interval,
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    let range = (any::<u32>(), any::<u32>()).prop_map(|(one, other)| one.min(other)..=one.max(other));
    let ranges = prop::collection::vec(range, 0..4);
    prop_oneof![
        ".{0,20}".prop_map(Frame::Welcome),
        (any::<u32>(), window(), any::<u64>(), ranges).prop_map(|(number, window, session, sources)| {
            let session = (session != 0).then_some(SessionId(session));
            Frame::Request(WindowRequest { number, window, session, sources })
        }),
        (part(), 0..4_usize).prop_map(|(part, hits)| Frame::Hits(part, vec![7; hits * HIT_BYTES])),
        (part(), prop::sample::select(&GapReason::ALL[..]))
            .prop_map(|(part, reason)| Frame::Gap(part, reason)),
        (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(number, gaps, hits, session)| {
            Frame::Done(WindowDone { number, gaps, hits, session: SessionId(session) })
        }),
        prop::sample::select(&EndReason::ALL[..]).prop_map(Frame::End),
        any::<[u8; 32]>().prop_map(Frame::Challenge),
        any::<([u8; 32], [u8; 32])>().prop_map(|(nonce, proof)| Frame::Answer(nonce, proof)),
        any::<[u8; 32]>().prop_map(Frame::Proof),
    ]
}

fn parse(bytes: &[u8]) -> Result<Frame, SpoolLinkError> {
    let (head, body) = bytes.split_first_chunk::<FRAME_BYTES>().expect("a head");
    FrameHead::parse(head)?.parse_body(body)
}

proptest! {
    #[test]
    fn frames_round_trip_and_every_flipped_bit_and_cut_is_noticed(frame in frame(), bit in any::<prop::sample::Index>()) {
        let mut bytes = frame.emit();
        prop_assert_eq!(parse(&bytes), Ok(frame));
        if bytes.len() > FRAME_BYTES {
            prop_assert!(parse(&bytes[..bytes.len() - 1]).is_err());
        }
        let bit = bit.index(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&bytes).is_err());
    }
}

#[test]
fn a_length_that_no_body_of_the_kind_has_is_refused_with_the_head() {
    let mut bytes = Frame::End(EndReason::Full).emit();
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = parse(&bytes).unwrap_err();
    assert!(
        matches!(error, SpoolLinkError::Frame(LinkFrameError::WrongLength { kind: "end", .. })),
        "{error}"
    );
}

#[test]
fn no_ranges_are_all_sources() {
    assert!(has_source(&[], SourceId(3)));
    assert!(has_source(&[1..=2, 3..=3], SourceId(3)));
    assert!(!has_source(&[1..=2, 4..=9], SourceId(3)));
}

#[test]
fn seeds_are_read() {
    for (_, bytes) in fuzz::seeds() {
        fuzz::fuzz_spool_link(&bytes);
    }
}
