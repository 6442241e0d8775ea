//! The frames of one link over several connections (rails): numbered, kept until they are acknowledged, moved to
//! another rail when theirs is lost, and put in order again. Without a socket; `docs/decisions/0016-rails.md` has the
//! reasons.

use sheaf_transport::Frame;
use std::collections::{BTreeSet, VecDeque};

/// Violation of the protocol by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SequenceError {
    /// A frame from beyond the window.
    #[error("frame {number} is outside of the window, which begins with {next}")]
    OutsideWindow {
        /// Its number.
        number: u64,
        /// The number that is expected.
        next: u64,
    },
    /// An acknowledgement of frames that were not sent.
    #[error("frames below {up_to} are acknowledged, and {sent} were sent")]
    NotSent {
        /// Number that it acknowledges.
        up_to: u64,
        /// Number of frames given to a rail.
        sent: u64,
    },
    /// A frame too short for its number.
    #[error("a frame has no number")]
    NoNumber,
}

/// Maximum data in flight: kept by the sender, and held by the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) frames: usize,
    pub(super) bytes: usize,
}

/// The sending side of a link.
#[derive(Debug)]
pub(super) struct Outgoing {
    window: Window,
    /// All frames that are not acknowledged, the first with the number `first`.
    kept: VecDeque<Kept>,
    first: u64,
    bytes: usize,
    /// The first frame that was given to no rail yet.
    fresh: u64,
    /// Frames below `fresh` whose rail was lost.
    again: BTreeSet<u64>,
}

#[derive(Debug)]
struct Kept {
    frame: Frame,
    bytes: usize,
    /// The rail that it was given to last.
    rail: usize,
}

impl Outgoing {
    pub(super) fn new(window: Window) -> Self {
        Self { window, kept: VecDeque::new(), first: 0, bytes: 0, fresh: 0, again: BTreeSet::new() }
    }

    /// Returns whether everything was acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Frames that are not acknowledged.
    pub(super) fn frames(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Keeps a frame of `bytes` bytes; gives it back where the window is full. An empty window takes any frame.
    pub(super) fn push(&mut self, frame: Frame, bytes: usize) -> Result<(), Frame> {
        let full = self.kept.len() >= self.window.frames || self.bytes + bytes > self.window.bytes;
        if full && !self.kept.is_empty() {
            return Err(frame);
        }
        self.bytes += bytes;
        self.kept.push_back(Kept { frame, bytes, rail: 0 });
        Ok(())
    }

    /// Returns the next frame for `rail`, with its number and its size: first the frames lost with another rail.
    pub(super) fn next(&mut self, rail: usize) -> Option<(u64, Frame, usize)> {
        let number = self.again.pop_first().unwrap_or(self.fresh);
        let kept = self.kept.get_mut((number - self.first) as usize)?;
        kept.rail = rail;
        self.fresh = self.fresh.max(number + 1);
        Some((number, kept.frame.clone(), kept.bytes))
    }

    /// Lets go of all frames below `up_to`. `true` if there is more room now.
    pub(super) fn acknowledge(&mut self, up_to: u64) -> Result<bool, SequenceError> {
        if up_to > self.fresh {
            return Err(SequenceError::NotSent { up_to, sent: self.fresh });
        }
        let done =
            usize::try_from(up_to.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.kept.len());
        for kept in self.kept.drain(..done) {
            self.bytes -= kept.bytes;
        }
        self.first += done as u64;
        self.again = self.again.split_off(&self.first);
        Ok(done > 0)
    }

    /// Has the frames that were given to `rail` and are not acknowledged given to others. How many there are.
    pub(super) fn rail_lost(&mut self, rail: usize) -> u64 {
        let sent = (self.fresh - self.first) as usize;
        let lost = self.kept.iter().take(sent).enumerate().filter(|(_, kept)| kept.rail == rail);
        let before = self.again.len();
        self.again.extend(lost.map(|(place, _)| self.first + place as u64));
        (self.again.len() - before) as u64
    }
}

/// The receiving side of a link.
#[derive(Debug)]
pub(super) struct Incoming {
    window: Window,
    /// Frames from the number `next` on, with gaps where others are still on their way.
    held: VecDeque<Option<Frame>>,
    next: u64,
    held_frames: usize,
    held_bytes: usize,
    /// Last acknowledged number.
    acknowledged: u64,
}

impl Incoming {
    pub(super) fn new(window: Window) -> Self {
        Self { window, held: VecDeque::new(), next: 0, held_frames: 0, held_bytes: 0, acknowledged: 0 }
    }

    /// Returns whether frames wait for a missing one.
    pub(super) fn is_waiting(&self) -> bool {
        self.held_frames > 0
    }

    /// Takes a frame as it came. `false`: it had come before.
    pub(super) fn accept(&mut self, number: u64, frame: Frame) -> Result<bool, SequenceError> {
        let Some(place) = number.checked_sub(self.next) else {
            return Ok(false);
        };
        // A frame that came twice takes no room: whether it fits is asked of new ones only.
        if usize::try_from(place).is_ok_and(|place| matches!(self.held.get(place), Some(Some(_)))) {
            return Ok(false);
        }
        let bytes = frame.bytes();
        let fits = self.held_bytes + bytes <= self.window.bytes || self.held_frames == 0;
        if place >= self.window.frames as u64 || !fits {
            return Err(SequenceError::OutsideWindow { number, next: self.next });
        }
        let place = place as usize;
        if self.held.len() <= place {
            self.held.resize_with(place + 1, || None);
        }
        self.held[place] = Some(frame);
        self.held_frames += 1;
        self.held_bytes += bytes;
        Ok(true)
    }

    /// Returns the next frame in order, if it has arrived.
    pub(super) fn pop(&mut self) -> Option<Frame> {
        let frame = self.held.front_mut()?.take()?;
        self.held.pop_front();
        self.next += 1;
        self.held_frames -= 1;
        self.held_bytes -= frame.bytes();
        Some(frame)
    }

    /// Returns the acknowledgement that is due, if any: all frames below this number were handed out.
    pub(super) fn due(&self) -> Option<u64> {
        (self.next > self.acknowledged).then_some(self.next)
    }

    /// Takes note that `up_to` is on its way.
    pub(super) fn note_reported(&mut self, up_to: u64) {
        self.acknowledged = up_to;
    }

    /// The last acknowledgement may be lost: it is due again.
    pub(super) fn tell_again(&mut self) {
        self.acknowledged = 0;
    }
}
