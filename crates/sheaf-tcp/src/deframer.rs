//! From a stream of bytes to frames, without a socket.
#![allow(unsafe_code, reason = "reading into a block's spare room without first filling it with zeros")]

use super::blocks::Blocks;
use super::framing::{GOODBYE, PREFIX_BYTES, PrefixBytes};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use sheaf_transport::Frame;
use std::mem::MaybeUninit;
use zerocopy::FromBytes;

/// Maximum size of a frame, head and payload together, that is always copied: the copy costs no more than the reference
/// count, and a small frame that is kept for long does not hold a whole block.
const ALWAYS_COPY_BYTES: usize = 256;

/// Size of a read up to which its frames are copied: traffic is light then, the cost of the copy is negligible compared
/// with the system call, and no block is held at all.
const LIGHT_READ_BYTES: usize = 4 << 10;

/// Next item of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A frame.
    Frame(Frame),
    /// The other side has ended the stream in good order.
    Goodbye,
}

/// Reason why bytes are not a stream of frames. The connection cannot be used afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame longer than agreed.
    #[error(
        "frame has a head of {head_bytes} and a payload of {payload_bytes} bytes; together at most {limit} are allowed"
    )]
    TooLarge {
        /// The declared length of the head.
        head_bytes: u32,
        /// The declared length of the payload.
        payload_bytes: u32,
        /// The largest frame that is taken.
        limit: usize,
    },
    /// Bytes where the stream had ended.
    #[error("{0} bytes follow the goodbye")]
    AfterGoodbye(usize),
}

/// The receiving end of one stream.
///
/// Call [`Deframer::fill`] with the received bytes, then [`Deframer::next`] until it returns `None`, then
/// [`Deframer::rest`]. Frames are returned as slices of the block in which they arrived. Only two kinds are copied:
/// small frames (see the rule on [`Deframer::next`]), and an unfinished frame that does not fit into the rest of its
/// block, once, to a block where it does. A frame that is larger than a block gets memory of its own after its length
/// was checked.
#[derive(Debug)]
pub struct Deframer {
    max_frame_bytes: usize,
    /// Bytes that arrived and are not handed out yet, and the room behind them.
    block: Option<BytesMut>,
    /// Whether `block` is from the pool, not one frame's own memory.
    pooled: bool,
    /// Whether the last read returned few bytes.
    light: bool,
    ended: bool,
    /// Whether to continue with memory of its own if all blocks are in use.
    own_memory: bool,
}

impl Deframer {
    /// A stream whose frames have at most `max_frame_bytes`, head and payload together.
    #[must_use]
    pub fn new(max_frame_bytes: usize) -> Self {
        Self { max_frame_bytes, block: None, pooled: false, light: false, ended: false, own_memory: false }
    }

    /// Sets whether to read into additional memory while all blocks are in use, for a stream with data that others wait
    /// for: its bytes must arrive before blocks can become free. The sender's window bounds the amount.
    pub(super) fn use_own_memory(&mut self, yes: bool) {
        self.own_memory = yes;
    }

    /// Has `read` put bytes into free room and return the part that it filled, from the start. `None`: there is no
    /// room, because all blocks are in use (or because [`Deframer::next`] was not called until it gave `None`).
    pub fn fill<E>(
        &mut self,
        blocks: &mut Blocks,
        read: impl for<'a> FnOnce(&'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], E>,
    ) -> Option<Result<usize, E>> {
        if !self.make_room(blocks) {
            return None;
        }
        let block = self.block.as_mut()?;
        let spare = block.spare_capacity_mut();
        let (room, start) = (spare.len(), spare.as_ptr().cast::<u8>());
        let filled = match read(spare) {
            Ok(filled) => filled,
            Err(error) => return Some(Err(error)),
        };
        let bytes = filled.len();
        assert!(
            bytes == 0 || (filled.as_ptr() == start && bytes <= room),
            "the filled part is the start of the room"
        );
        // SAFETY: `filled` is a `&mut [u8]`, so its bytes are initialised, and (asserted) they are the first
        // `bytes` of the block's spare capacity.
        unsafe { block.advance_mut(bytes) };
        self.light = block.len() <= LIGHT_READ_BYTES;
        Some(Ok(bytes))
    }

    /// Takes the next whole frame, if there is one.
    ///
    /// A frame is copied to memory of its own if it has at most 256 bytes, or if the last read brought at most 4 KiB in
    /// all. Otherwise it shares its block, which can be filled again when the last such frame is dropped.
    ///
    /// # Errors
    /// A [`FrameError`], at every call from then on.
    pub fn next(&mut self, blocks: &mut Blocks) -> Result<Option<Item>, FrameError> {
        let Some(block) = self.block.as_mut().filter(|block| !block.is_empty()) else {
            return Ok(None);
        };
        if self.ended {
            return Err(FrameError::AfterGoodbye(block.len()));
        }
        let Some(prefix) = prefix(block) else {
            return Ok(None);
        };
        if prefix == GOODBYE {
            block.advance(PREFIX_BYTES);
            self.ended = true;
            return Ok(Some(Item::Goodbye));
        }
        let (head_bytes, frame_bytes) = check(prefix, self.max_frame_bytes)?;
        if block.len() < PREFIX_BYTES + frame_bytes {
            return Ok(None);
        }
        block.advance(PREFIX_BYTES);
        let mut bytes = if frame_bytes <= ALWAYS_COPY_BYTES || self.light {
            let copy = Bytes::copy_from_slice(&block[..frame_bytes]);
            block.advance(frame_bytes);
            blocks.note_copy(frame_bytes);
            copy
        } else {
            block.split_to(frame_bytes).freeze()
        };
        let head = bytes.split_to(head_bytes);
        let payload = Some(bytes).filter(|payload| !payload.is_empty());
        Ok(Some(Item::Frame(Frame::new(head, payload))))
    }

    /// Gives the block back if no unfinished frame is in it. To be called when [`Deframer::next`] has given `None`.
    pub fn rest(&mut self, blocks: &mut Blocks) {
        if let Some(block) = self.block.take_if(|block| block.is_empty()) {
            self.return_block(blocks, block);
        }
    }

    /// Gives up the stream and returns its memory.
    pub fn abandon(mut self, blocks: &mut Blocks) {
        if let Some(block) = self.block.take() {
            self.return_block(blocks, block);
        }
    }

    /// Bytes that have arrived of a frame that is not whole.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, BytesMut::len)
    }

    /// Makes sure that there is room worth a read, behind the unfinished frame and in one piece with it.
    fn make_room(&mut self, blocks: &mut Blocks) -> bool {
        let arrived = self.unfinished_bytes();
        let whole = match self.block.as_deref().and_then(prefix).map(|it| check(it, self.max_frame_bytes)) {
            None => arrived + blocks.min_room(),
            Some(Ok((_, frame_bytes))) => PREFIX_BYTES + frame_bytes,
            Some(Err(_)) => 0,
        };
        if whole <= arrived {
            // `next` must report an error first; further memory would be unbounded.
            return false;
        }
        if let Some(block) = &mut self.block {
            if block.capacity() >= whole {
                return true;
            }
            // If no frame of this block is held any more, the bytes that have arrived can move to its front.
            if self.pooled && whole <= blocks.block_bytes() && block.try_reclaim(whole - arrived) {
                blocks.note_copy(arrived);
                return true;
            }
        }
        let from_pool = if whole <= blocks.block_bytes() { blocks.take(whole) } else { None };
        let pooled = from_pool.is_some();
        let may_be_own = self.own_memory || whole > blocks.block_bytes();
        let Some(mut fresh) = from_pool.or_else(|| may_be_own.then(|| BytesMut::with_capacity(whole))) else {
            return false;
        };
        if let Some(old) = self.block.take() {
            fresh.extend_from_slice(&old);
            blocks.note_copy(old.len());
            self.return_block(blocks, old);
        }
        self.block = Some(fresh);
        self.pooled = pooled;
        true
    }

    fn return_block(&self, blocks: &mut Blocks, block: BytesMut) {
        // A frame's own memory goes with the frame.
        if self.pooled {
            blocks.put(block);
        }
    }
}

fn prefix(bytes: &[u8]) -> Option<PrefixBytes> {
    PrefixBytes::read_from_prefix(bytes).ok().map(|(prefix, _)| prefix)
}

/// The lengths of head and of the whole frame, checked before anything is allocated for it.
fn check(prefix: PrefixBytes, limit: usize) -> Result<(usize, usize), FrameError> {
    let (head_bytes, payload_bytes) = (prefix.head_bytes.get(), prefix.payload_bytes.get());
    let frame_bytes = u64::from(head_bytes) + u64::from(payload_bytes);
    if frame_bytes > limit as u64 {
        return Err(FrameError::TooLarge { head_bytes, payload_bytes, limit });
    }
    Ok((head_bytes as usize, frame_bytes as usize))
}
