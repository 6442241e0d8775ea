//! The body of the fuzz target for frames between doors and consumers.

use super::{
    Counts, EndReason, FRAME_BYTES, Frame, FrameHead, Kind, Selection, TapError, emit_answer, emit_challenge,
    emit_end, emit_event_frame, emit_proof, emit_status, emit_subscribe, emit_welcome,
};
use crate::event_file::FileHeader;
use crate::link_frame::seal;
use crate::{
    Event, EventId, Fragment, Nanos, NodeId, NumberMark, RunNumber, SessionId, SourceId, Tags, Timestamp,
    TriggerType, Verdict,
};
use bytes::Bytes;

/// Parses `bytes` as a frame, whose checksum is corrected first if the last byte is odd. A parsed frame must be the
/// same after encoding; a welcome may be in an earlier version of event files, and is written in the current one.
///
/// # Panics
/// If the parser violates its contract.
pub fn fuzz_tap(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if bytes.last().is_some_and(|last| last % 2 == 1) {
        seal::<Kind>(&mut bytes);
    }
    match parse(&bytes) {
        None => {}
        Some(Err(error)) => assert!(!error.to_string().is_empty(), "an error says what is wrong"),
        Some(Ok((frame @ Frame::Welcome(..), length))) => {
            let emitted = emit(&frame);
            assert_eq!(emitted.len(), FRAME_BYTES + length);
            assert_eq!(parse(&emitted), Some(Ok((frame, length))), "a welcome is read as it was written");
        }
        Some(Ok((frame, length))) => {
            assert_eq!(emit(&frame), bytes[..FRAME_BYTES + length], "a frame is written as it was read");
        }
    }
}

/// Returns the frame at the start of `bytes` and the length of its body; `None` if there are fewer bytes than a head.
fn parse(bytes: &[u8]) -> Option<Result<(Frame, usize), TapError>> {
    let (head, body) = bytes.split_first_chunk::<FRAME_BYTES>()?;
    Some(FrameHead::parse(head).and_then(|head| {
        let body = &body[..body.len().min(head.body_bytes as usize)];
        head.parse_body(&Bytes::copy_from_slice(body)).map(|frame| (frame, body.len()))
    }))
}

fn emit(frame: &Frame) -> Vec<u8> {
    match frame {
        Frame::Welcome(header, metadata) => emit_welcome(header, metadata).unwrap_or_default(),
        Frame::Subscribe(selection, name) => emit_subscribe(selection, name),
        Frame::Event(stored) => {
            emit_event_frame(&stored.event, &stored.verdict, stored.sequence).unwrap_or_default()
        }
        Frame::Status(counts) => emit_status(counts),
        Frame::End(reason, counts) => emit_end(*reason, counts),
        Frame::Challenge(nonce) => emit_challenge(*nonce),
        Frame::Answer(nonce, proof) => emit_answer(*nonce, *proof),
        Frame::Proof(proof) => emit_proof(*proof),
    }
}

/// Some frames, for the fuzzer to begin with: name and bytes.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let counts = Counts { seen: 10, taken: 4, queue_full: 6, ..Counts::default() };
    let selection = Selection { tags: Tags(0b101), prescale: 10, interval: Nanos::from_millis(100) };
    let header = FileHeader {
        run: RunNumber(7),
        node: NodeId::builder(0),
        session: SessionId(9),
        part: 0,
        created: Timestamp(1),
        time_base: None,
    };
    let fragment = |source: u32, payload: &'static [u8]| Fragment {
        event: EventId(1),
        source: SourceId(source),
        time: Timestamp(3),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Bytes::from_static(payload),
    };
    let event = Event {
        id: EventId(1),
        time: Timestamp(2),
        trigger_type: TriggerType(4),
        attempt: 1,
        incomplete: false,
        fragments: vec![fragment(0, b"pay"), fragment(1, b""), fragment(2, b"load")],
        missing: Vec::new(),
    };
    let verdict = Verdict::accept().with_tags(Tags(1)).with_payload(&b"said"[..]);
    let mut frames = vec![
        ("welcome".to_owned(), Frame::Welcome(header, r#"{"tags":["muon"],"sources":[0,1,2]}"#.to_owned())),
        ("subscribe".to_owned(), Frame::Subscribe(selection, "someone".to_owned())),
        ("subscribe-to-all".to_owned(), Frame::Subscribe(Selection::default(), String::new())),
        ("event".to_owned(), Frame::Event(crate::event_file::StoredEvent { event, verdict, sequence: 17 })),
        ("status".to_owned(), Frame::Status(counts)),
        ("full".to_owned(), Frame::End(EndReason::Full, Counts::default())),
        ("end".to_owned(), Frame::End(EndReason::BuilderEnded, counts)),
        ("wrong-key".to_owned(), Frame::End(EndReason::WrongKey, Counts::default())),
        ("challenge".to_owned(), Frame::Challenge([1; 32])),
        ("answer".to_owned(), Frame::Answer([2; 32], [3; 32])),
        ("proof".to_owned(), Frame::Proof([4; 32])),
    ];
    let mut seeds: Vec<_> = frames.drain(..).map(|(name, frame)| (name, emit(&frame))).collect();
    seeds.push(("cut".to_owned(), emit_status(&counts)[..40].to_vec()));
    seeds
}
