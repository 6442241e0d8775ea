//! The side of the spool in the request protocol, without I/O.

use sheaf_key::DoorProof;
use sheaf_wire::spool_link::{EndReason, FRAME_BYTES, Frame, FrameHead, Kind, SpoolLinkError, WindowRequest};

/// Next step of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationStep {
    /// Read more bytes.
    Read,
    /// Answer this request.
    Serve(WindowRequest),
    /// Close the connection. What is to be sent says why.
    Close,
}

/// A requester that broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// Invalid bytes.
    #[error(transparent)]
    Frame(#[from] SpoolLinkError),
    /// A frame that requesters do not send.
    #[error("a requester sends requests, and this one sent a frame of the kind {0:?}")]
    Kind(Kind),
}

/// A conversation with one requester.
///
/// Requests are answered one after the other: as long as one is being answered, no bytes are read. So the memory of a
/// conversation is bounded by one request, however many its requester sends.
#[derive(Debug)]
pub struct Conversation {
    /// Bytes that are not understood yet.
    received: Vec<u8>,
    /// Bytes to send.
    unsent: Vec<u8>,
    /// The proof that the requester must send, and the welcome that follows.
    owes: Option<(DoorProof, String)>,
    is_wrong_key: bool,
}

impl Conversation {
    /// Begins with a description of the spool, a JSON object; before it, the requester must prove that it has the key, if there
    /// is one.
    #[must_use]
    pub fn new(welcome: String, proof: Option<DoorProof>) -> Self {
        let (unsent, owes) = match proof {
            None => (Frame::Welcome(welcome).emit(), None),
            Some(proof) => (Frame::Challenge(proof.challenge()).emit(), Some((proof, welcome))),
        };
        Self { received: Vec::new(), unsent, owes, is_wrong_key: false }
    }

    /// Takes bytes of the requester.
    pub fn handle_input(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Returns the bytes to send, once.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unsent)
    }

    /// Returns whether the requester did not prove that it has the key.
    #[must_use]
    pub const fn is_wrong_key(&self) -> bool {
        self.is_wrong_key
    }

    /// Returns whether the requester has yet to prove that it has the key.
    #[must_use]
    pub const fn is_unproven(&self) -> bool {
        self.owes.is_some()
    }

    /// Returns the next step. [`Self::poll_transmit`] comes first.
    ///
    /// # Errors
    /// If the requester broke the protocol. The connection is to be closed.
    pub fn poll_event(&mut self) -> Result<ConversationStep, ConversationError> {
        loop {
            let frame = match self.frame() {
                Ok(None) => return Ok(ConversationStep::Read),
                Ok(Some(frame)) => Ok(frame),
                Err(error) => Err(error),
            };
            match (frame, self.owes.take()) {
                (Ok(Frame::Answer(nonce, proof)), Some((door, welcome))) => {
                    let Some(own) = door.verify(&nonce, &proof) else { return Ok(self.turn_away()) };
                    self.unsent.extend(Frame::Proof(own).emit());
                    self.unsent.extend(Frame::Welcome(welcome).emit());
                }
                // A requester without the key that sends anything else receives the reason.
                (_, Some(_)) => return Ok(self.turn_away()),
                (Ok(Frame::Request(request)), None) => return Ok(ConversationStep::Serve(request)),
                (Ok(frame), None) => return Err(ConversationError::Kind(kind(&frame))),
                (Err(error), None) => return Err(error),
            }
        }
    }

    fn turn_away(&mut self) -> ConversationStep {
        self.is_wrong_key = true;
        self.unsent.extend(Frame::End(EndReason::WrongKey).emit());
        ConversationStep::Close
    }

    /// Returns the next frame, if it is whole. Its head is checked as soon as it is there, so that too long a frame is refused at
    /// once.
    fn frame(&mut self) -> Result<Option<Frame>, ConversationError> {
        let Some((head, body)) = self.received.split_first_chunk::<FRAME_BYTES>() else { return Ok(None) };
        let head = FrameHead::parse(head)?;
        if !matches!(head.kind, Kind::Request | Kind::Answer) {
            return Err(ConversationError::Kind(head.kind));
        }
        let Some(body) = body.get(..head.body_bytes as usize) else { return Ok(None) };
        let frame = head.parse_body(body)?;
        let bytes = FRAME_BYTES + body.len();
        self.received.drain(..bytes);
        Ok(Some(frame))
    }
}

const fn kind(frame: &Frame) -> Kind {
    match frame {
        Frame::Welcome(_) => Kind::Welcome,
        Frame::Request(_) => Kind::Request,
        Frame::Hits(..) => Kind::Hits,
        Frame::Gap(..) => Kind::Gap,
        Frame::Done(_) => Kind::Done,
        Frame::End(_) => Kind::End,
        Frame::Challenge(_) => Kind::Challenge,
        Frame::Answer(..) => Kind::Answer,
        Frame::Proof(_) => Kind::Proof,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sheaf_key::{CallerProof, DoorPurposes, RunKey};
    use sheaf_wire::HitInterval;

    fn request(number: u32) -> WindowRequest {
        let window = HitInterval { from_ps: 1, until_ps: 5 };
        WindowRequest { number, window, session: None, sources: vec![1..=3] }
    }

    proptest! {
        #[test]
        fn requests_are_served_in_order_however_their_bytes_arrive(
            count in 0..5_u32, cuts in prop::collection::vec(1..40_usize, 1..20),
        ) {
            let mut conversation = Conversation::new("{}".to_owned(), None);
            let bytes: Vec<u8> = (0..count).flat_map(|number| Frame::Request(request(number)).emit()).collect();
            let (mut rest, mut served) = (&bytes[..], Vec::new());
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                conversation.handle_input(now);
                rest = later;
                while let ConversationStep::Serve(request) = conversation.poll_event().unwrap() {
                    served.push(request.number);
                }
            }
            prop_assert_eq!(served, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_end_a_conversation_or_are_waited_for(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut conversation = Conversation::new(String::new(), None);
            conversation.handle_input(&bytes);
            if conversation.poll_event() == Ok(ConversationStep::Read) {
                prop_assert!(bytes.len() < FRAME_BYTES || bytes.starts_with(b"SSPL"));
            }
        }
    }

    #[test]
    fn a_requester_with_the_key_is_welcome_and_one_without_it_is_turned_away() {
        let (key, other) = (RunKey::new(&[1; 32]), RunKey::new(&[2; 32]));
        for (tried, is_right) in [(&key, true), (&other, false)] {
            let door = DoorProof::new(key.clone(), DoorPurposes::SPOOLS).unwrap();
            let nonce = door.challenge();
            let mut conversation = Conversation::new("{}".to_owned(), Some(door));
            assert_eq!(conversation.poll_transmit(), Frame::Challenge(nonce).emit());
            let caller = CallerProof::new(tried.clone(), DoorPurposes::SPOOLS, nonce).unwrap();
            let (own, proof) = caller.answer();
            conversation.handle_input(&Frame::Answer(own, proof).emit());
            let step = conversation.poll_event().unwrap();
            let said = conversation.poll_transmit();
            if is_right {
                assert_eq!(step, ConversationStep::Read);
                assert!(said.ends_with(&Frame::Welcome("{}".to_owned()).emit()));
            } else {
                assert_eq!((step, said), (ConversationStep::Close, Frame::End(EndReason::WrongKey).emit()));
                assert!(conversation.is_wrong_key());
            }
        }
    }

    #[test]
    fn a_request_before_the_proof_is_not_served() {
        let door = DoorProof::new(RunKey::new(&[1; 32]), DoorPurposes::SPOOLS).unwrap();
        let mut conversation = Conversation::new("{}".to_owned(), Some(door));
        conversation.handle_input(&Frame::Request(request(1)).emit());
        assert_eq!(conversation.poll_event(), Ok(ConversationStep::Close));
    }

    #[test]
    fn frames_that_only_a_spool_sends_are_refused_by_their_head() {
        let mut conversation = Conversation::new("{}".to_owned(), None);
        let welcome = Frame::Welcome("x".repeat(1_000)).emit();
        conversation.handle_input(&welcome[..FRAME_BYTES]);
        assert_eq!(conversation.poll_event(), Err(ConversationError::Kind(Kind::Welcome)));
    }
}
