//! The body of the fuzz target for frames between a hit spool and its requesters.

use super::{
    EndReason, FRAME_BYTES, Frame, FrameHead, GapReason, Kind, SpoolLinkError, WindowDone, WindowPart,
    WindowRequest,
};
use crate::HitInterval;
use crate::link_frame::seal;
use crate::{SessionId, SourceId};

/// Parses `bytes` as a frame, whose checksum is corrected first if the last byte is odd. A parsed frame must be the same after
/// encoding.
///
/// # Panics
/// If the parser violates its contract.
pub fn fuzz_spool_link(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if bytes.last().is_some_and(|last| last % 2 == 1) {
        seal::<Kind>(&mut bytes);
    }
    match parse(&bytes) {
        None => {}
        Some(Err(error)) => assert!(!error.to_string().is_empty(), "an error says what is wrong"),
        Some(Ok((frame, length))) => {
            assert_eq!(frame.emit(), bytes[..FRAME_BYTES + length], "a frame is written as it was read");
        }
    }
}

/// Returns the frame at the start of `bytes` and the length of its body; `None` if there are fewer bytes than a head.
fn parse(bytes: &[u8]) -> Option<Result<(Frame, usize), SpoolLinkError>> {
    let (head, body) = bytes.split_first_chunk::<FRAME_BYTES>()?;
    Some(FrameHead::parse(head).and_then(|head| {
        let body = &body[..body.len().min(head.body_bytes as usize)];
        head.parse_body(body).map(|frame| (frame, body.len()))
    }))
}

/// Some frames, for the fuzzer to begin with: name and bytes.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let window = HitInterval { from_ps: 1_000, until_ps: 5_000 };
    let part = WindowPart { number: 7, source: SourceId(3), interval: window };
    let request = |sources, session| Frame::Request(WindowRequest { number: 7, window, session, sources });
    let done = WindowDone { number: 7, gaps: 1, hits: 2, session: SessionId(9) };
    let frames = [
        ("welcome", Frame::Welcome(r#"{"run":3}"#.to_owned())),
        ("request", request(vec![1..=4, 7..=7], Some(SessionId(9)))),
        ("request-for-all", request(Vec::new(), None)),
        ("hits", Frame::Hits(part, vec![5; 32])),
        ("no-hits", Frame::Hits(part, Vec::new())),
        ("gap", Frame::Gap(part, GapReason::Deleted)),
        ("done", Frame::Done(done)),
        ("full", Frame::End(EndReason::Full)),
        ("challenge", Frame::Challenge([1; 32])),
        ("answer", Frame::Answer([2; 32], [3; 32])),
        ("proof", Frame::Proof([4; 32])),
    ];
    let mut seeds: Vec<_> = frames.iter().map(|(name, frame)| ((*name).to_owned(), frame.emit())).collect();
    seeds.push(("cut".to_owned(), Frame::Done(done).emit()[..30].to_vec()));
    seeds
}
