//! Frames: the units of a connection once TLS is there. Each is a kind, a length and a body; numbers are little-endian.

/// Longest message, in bytes.
pub const LONGEST_MESSAGE: usize = 16 << 20;

/// Number of bytes in front of a body.
const HEAD: usize = 5;

/// Longest body before both ends have proven who they are.
const LONGEST_UNPROVEN: usize = 128;

/// Bytes of the number in front of a message.
const NUMBER: usize = 8;

/// Number of bytes of the name of a conversation.
pub(crate) const NAME: usize = 16;

/// A random name of a conversation.
pub(crate) type Name = [u8; NAME];

/// Number of bytes of a proof.
const PROOF: usize = sheaf_key::PROOF_BYTES;

/// A unit of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// First frame of the caller: its proof, the name of the conversation, whether the door has never answered for it, and the number of
    /// messages that the caller has received.
    Call { proof: [u8; PROOF], name: Name, is_first: bool, received: u64 },
    /// First frame of the door: its proof, whether it knows the conversation, and the number of messages that it has received.
    Answer { proof: [u8; PROOF], is_known: bool, received: u64 },
    /// First frame of the door to a caller without the key.
    Refusal,
    /// A message with its number, from 1.
    Message { number: u64, content: Vec<u8> },
    /// The last message, with its number: the sender has nothing more to say.
    Close { number: u64 },
    /// All messages up to this number were received.
    Received(u64),
    /// The sender is there.
    Ping,
}

/// Error of bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other end does not speak the language of this release")]
pub(crate) struct NoFrame;

impl Frame {
    /// Appends the frame to `bytes`.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let at = bytes.len();
        bytes.extend_from_slice(&[0; HEAD]);
        let kind: u8 = match self {
            Self::Call { proof, name, is_first, received } => {
                bytes.extend_from_slice(proof);
                bytes.extend_from_slice(name);
                bytes.push(u8::from(*is_first));
                bytes.extend_from_slice(&received.to_le_bytes());
                1
            }
            Self::Answer { proof, is_known, received } => {
                bytes.extend_from_slice(proof);
                bytes.push(u8::from(*is_known));
                bytes.extend_from_slice(&received.to_le_bytes());
                2
            }
            Self::Refusal => 3,
            Self::Message { number, content } => {
                bytes.extend_from_slice(&number.to_le_bytes());
                bytes.extend_from_slice(content);
                4
            }
            Self::Close { number } => {
                bytes.extend_from_slice(&number.to_le_bytes());
                5
            }
            Self::Received(number) => {
                bytes.extend_from_slice(&number.to_le_bytes());
                6
            }
            Self::Ping => 7,
        };
        // A message is checked when it is sent, and is far below 4 GiB.
        let length = u32::try_from(bytes.len() - at - HEAD).unwrap_or(u32::MAX);
        bytes[at] = kind;
        bytes[at + 1..at + HEAD].copy_from_slice(&length.to_le_bytes());
    }

    fn read(kind: u8, body: &[u8]) -> Option<Self> {
        let mut body = Body(body);
        let frame = match kind {
            1 => Self::Call {
                proof: body.take()?,
                name: body.take()?,
                is_first: body.flag()?,
                received: body.number()?,
            },
            2 => Self::Answer { proof: body.take()?, is_known: body.flag()?, received: body.number()? },
            3 => Self::Refusal,
            4 => Self::Message { number: body.number()?, content: std::mem::take(&mut body.0).to_vec() },
            5 => Self::Close { number: body.number()? },
            6 => Self::Received(body.number()?),
            7 => Self::Ping,
            _ => return None,
        };
        body.0.is_empty().then_some(frame)
    }
}

/// A body that is being read.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take::<1>()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// Makes frames of bytes.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// Number of bytes at the front that were read.
    read: usize,
    /// Whether both ends have proven who they are.
    is_proven: bool,
}

impl Frames {
    /// Permits long frames from now on.
    pub(crate) fn note_proven(&mut self) {
        self.is_proven = true;
    }

    /// Adds bytes of the connection.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next frame that is complete.
    ///
    /// # Errors
    /// The bytes are no frame, or a longer one than the other end may send.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, NoFrame> {
        let rest = &self.bytes[self.read..];
        let Some(([kind, length @ ..], rest)) = rest.split_first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        let longest = if self.is_proven { LONGEST_MESSAGE + NUMBER } else { LONGEST_UNPROVEN };
        if length > longest {
            return Err(NoFrame);
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let frame = Frame::read(*kind, body).ok_or(NoFrame)?;
        self.read += HEAD + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame> {
        vec![
            Frame::Call { proof: [1; PROOF], name: [2; NAME], is_first: true, received: 3 },
            Frame::Answer { proof: [4; PROOF], is_known: false, received: 5 },
            Frame::Refusal,
            Frame::Message { number: 6, content: vec![7; 1_000] },
            Frame::Message { number: 7, content: Vec::new() },
            Frame::Close { number: 8 },
            Frame::Received(9),
            Frame::Ping,
        ]
    }

    #[test]
    fn frames_are_read_as_they_were_written_byte_by_byte() {
        let mut bytes = Vec::new();
        all().iter().for_each(|frame| frame.write(&mut bytes));
        let mut frames = Frames::default();
        frames.note_proven();
        let mut read = Vec::new();
        for byte in bytes {
            frames.extend(&[byte]);
            read.extend(frames.next().expect("it is a frame"));
        }
        assert_eq!(read, all());
    }

    #[test]
    fn long_frames_need_a_proof_and_have_a_limit() {
        let mut bytes = Vec::new();
        Frame::Message { number: 1, content: vec![0; LONGEST_UNPROVEN] }.write(&mut bytes);
        let mut frames = Frames::default();
        frames.extend(&bytes);
        assert_eq!(frames.next(), Err(NoFrame));
        let mut frames = Frames::default();
        frames.note_proven();
        frames.extend(&bytes);
        assert!(matches!(frames.next(), Ok(Some(Frame::Message { number: 1, .. }))));
        frames.extend(&[4, 255, 255, 255, 255]);
        assert_eq!(frames.next(), Err(NoFrame), "memory is bounded");
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for wrong in [&[0_u8, 0, 0, 0, 0][..], &[8, 0, 0, 0, 0], &[3, 1, 0, 0, 0, 0], &[6, 1, 0, 0, 0, 0]] {
            let mut frames = Frames::default();
            frames.extend(wrong);
            assert_eq!(frames.next(), Err(NoFrame), "{wrong:?}");
        }
    }
}
