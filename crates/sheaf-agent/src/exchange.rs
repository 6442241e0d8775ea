//! Numbers, acknowledgements and bounds of one end of a conversation, without IO.
//!
//! Messages are numbered from 1 and kept until the other end has acknowledged them. A new connection begins with the number of messages that
//! each end has received; the other end sends from there.

use crate::frame::{Frame, LONGEST_MESSAGE};
use std::collections::VecDeque;

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Too many bytes wait to be acknowledged.
    #[error("the other end does not take messages as fast as they are sent")]
    Full,
    /// The message is longer than [`LONGEST_MESSAGE`].
    #[error("a message is longer than 16 MiB")]
    TooLong,
    /// The conversation is over.
    #[error("the conversation is over")]
    Ended,
}

/// The other end has broken the rules of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("the other end has acknowledged messages that were not sent")]
    Acknowledged,
    #[error("a message is missing")]
    Gap,
    #[error("a frame came that has no place here")]
    Misplaced,
}

/// A message that waits to be acknowledged; `None` for the last one, which has no content.
type Kept = Option<Vec<u8>>;

/// One end of a conversation.
#[derive(Debug)]
pub(crate) struct Exchange {
    room: usize,
    /// Messages that are not acknowledged.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    /// Number of the first of them.
    first_kept: u64,
    /// Number of the next message to write on the present connection.
    next: u64,
    /// Messages that wait for their reader.
    inbox: VecDeque<Vec<u8>>,
    inbox_bytes: usize,
    /// Number of messages that were received.
    received: u64,
    /// Number of messages of which the other end knows that they were received.
    acknowledged: u64,
    /// Whether this end has said its last word.
    has_closed: bool,
    /// Whether the other end has.
    is_closed: bool,
}

impl Exchange {
    /// Returns an end of a new conversation, with room for this number of bytes in each direction.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            room,
            kept: VecDeque::new(),
            kept_bytes: 0,
            first_kept: 1,
            next: 1,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            received: 0,
            acknowledged: 0,
            has_closed: false,
            is_closed: false,
        }
    }

    /// Takes a message for the other end. A message that is longer than the whole room is taken where no other waits.
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if self.has_closed || self.is_closed {
            return Err(SendError::Ended);
        }
        if message.len() > LONGEST_MESSAGE {
            return Err(SendError::TooLong);
        }
        if !self.kept.is_empty() && self.kept_bytes + message.len() > self.room {
            return Err(SendError::Full);
        }
        self.kept_bytes += message.len();
        self.kept.push_back(Some(message.to_vec()));
        Ok(())
    }

    /// Returns whether a message of this length may be sent that may as well be lost.
    pub(crate) fn has_spare_room(&self, bytes: usize) -> bool {
        self.kept_bytes + bytes <= self.room / 2
    }

    /// Says the last word of this end.
    pub(crate) fn close(&mut self) {
        if !self.has_closed {
            self.has_closed = true;
            self.kept.push_back(None);
        }
    }

    /// Returns whether everything that was sent is acknowledged.
    pub(crate) fn is_settled(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns whether the other end has said its last word, and everything before it was read.
    pub(crate) fn is_over(&self) -> bool {
        self.is_closed && self.inbox.is_empty()
    }

    /// Returns the number of messages that were received, for the other end of a new connection.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Begins a new connection, whose other end has received this number of messages.
    pub(crate) fn connect(&mut self, received: u64) -> Result<(), Violation> {
        self.forget_up_to(received)?;
        self.next = self.first_kept;
        self.acknowledged = self.received;
        Ok(())
    }

    fn forget_up_to(&mut self, number: u64) -> Result<(), Violation> {
        let last = self.first_kept + self.kept.len() as u64 - 1;
        if number > last {
            return Err(Violation::Acknowledged);
        }
        while self.first_kept <= number {
            let message = self.kept.pop_front().flatten();
            self.kept_bytes -= message.map_or(0, |message| message.len());
            self.first_kept += 1;
        }
        self.next = self.next.max(self.first_kept);
        Ok(())
    }

    /// Takes a frame of the present connection.
    pub(crate) fn take(&mut self, frame: Frame) -> Result<(), Violation> {
        match frame {
            Frame::Message { number, content } => {
                if self.is_news(number)? {
                    self.inbox_bytes += content.len();
                    self.inbox.push_back(content);
                }
                Ok(())
            }
            Frame::Close { number } => {
                self.is_closed |= self.is_news(number)?;
                Ok(())
            }
            // Only what was written on some connection can have been received.
            Frame::Received(number) if number < self.next => self.forget_up_to(number),
            Frame::Received(_) => Err(Violation::Acknowledged),
            Frame::Ping => Ok(()),
            Frame::Call { .. } | Frame::Answer { .. } | Frame::Refusal => Err(Violation::Misplaced),
        }
    }

    /// Counts a message. Returns whether it is a new one.
    fn is_news(&mut self, number: u64) -> Result<bool, Violation> {
        if number <= self.received {
            return Ok(false);
        }
        if number != self.received + 1 || self.is_closed {
            return Err(Violation::Gap);
        }
        self.received = number;
        Ok(true)
    }

    /// Returns whether there is room for what the other end sends.
    pub(crate) fn has_inbox_room(&self) -> bool {
        self.inbox_bytes < self.room
    }

    /// Returns the oldest message that was not read.
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        let message = self.inbox.pop_front()?;
        self.inbox_bytes -= message.len();
        Some(message)
    }

    /// Returns the next frame to write on the present connection.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        if self.acknowledged < self.received {
            self.acknowledged = self.received;
            return Some(Frame::Received(self.received));
        }
        let index = usize::try_from(self.next - self.first_kept).ok()?;
        let kept = self.kept.get(index)?;
        let number = self.next;
        self.next += 1;
        Some(match kept {
            Some(content) => Frame::Message { number, content: content.clone() },
            None => Frame::Close { number },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Send(bool),
        /// Frames of one end that arrive at the other.
        Deliver(bool, usize),
        /// The connection is lost, with everything that is on its way.
        Reconnect,
        Read(bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            any::<bool>().prop_map(Step::Send),
            (any::<bool>(), 0..5_usize).prop_map(|(end, frames)| Step::Deliver(end, frames)),
            Just(Step::Reconnect),
            any::<bool>().prop_map(Step::Read),
        ];
        prop::collection::vec(step, 0..200)
    }

    fn reconnect(ends: &mut [Exchange; 2]) {
        let received = [ends[0].received(), ends[1].received()];
        ends[0].connect(received[1]).expect("it was sent");
        ends[1].connect(received[0]).expect("it was sent");
    }

    fn deliver(ends: &mut [Exchange; 2], from: usize, most: usize) {
        for _ in 0..most {
            let Some(frame) = ends[from].next_frame() else { return };
            ends[1 - from].take(frame).expect("the rules are kept");
        }
    }

    proptest! {
        /// Whatever becomes of connections, each message arrives once and in order.
        #[test]
        fn messages_arrive_once_and_in_order(steps in steps()) {
            let mut ends = [Exchange::new(1 << 10), Exchange::new(1 << 10)];
            let mut sent: [Vec<Vec<u8>>; 2] = Default::default();
            let mut read: [Vec<Vec<u8>>; 2] = Default::default();
            for step in steps {
                match step {
                    Step::Send(end) => {
                        let end = usize::from(end);
                        let message = vec![sent[end].len() as u8; 1 + sent[end].len() % 300];
                        match ends[end].send(&message) {
                            Ok(()) => sent[end].push(message),
                            Err(error) => prop_assert_eq!(error, SendError::Full),
                        }
                        prop_assert!(ends[end].kept_bytes <= 1 << 10);
                    }
                    Step::Deliver(from, most) => deliver(&mut ends, usize::from(from), most),
                    Step::Reconnect => reconnect(&mut ends),
                    Step::Read(end) => read[usize::from(end)].extend(ends[usize::from(end)].read()),
                }
            }
            ends.iter_mut().for_each(Exchange::close);
            for _ in 0..2 {
                reconnect(&mut ends);
                deliver(&mut ends, 0, usize::MAX);
                deliver(&mut ends, 1, usize::MAX);
                deliver(&mut ends, 0, usize::MAX);
            }
            for end in 0..2 {
                while let Some(message) = ends[end].read() {
                    read[end].push(message);
                }
                prop_assert_eq!(&read[end], &sent[1 - end]);
                prop_assert!(ends[end].is_over() && ends[end].is_settled());
            }
        }
    }

    #[test]
    fn an_end_that_breaks_the_rules_is_found_out() {
        let mut end = Exchange::new(100);
        assert_eq!(end.take(Frame::Received(1)), Err(Violation::Acknowledged));
        assert_eq!(end.take(Frame::Message { number: 2, content: vec![] }), Err(Violation::Gap));
        assert_eq!(end.connect(1), Err(Violation::Acknowledged));
        assert_eq!(end.take(Frame::Refusal), Err(Violation::Misplaced));
        end.send(b"one").expect("there is room");
        assert_eq!(end.take(Frame::Received(1)), Err(Violation::Acknowledged), "it was not written");
        assert_eq!(end.take(Frame::Close { number: 1 }), Ok(()));
        assert_eq!(end.take(Frame::Message { number: 2, content: vec![] }), Err(Violation::Gap));
    }

    #[test]
    fn room_is_bounded_but_for_one_message() {
        let mut end = Exchange::new(10);
        assert_eq!(end.send(&[0; 20]), Ok(()));
        assert_eq!(end.send(&[0]), Err(SendError::Full));
        assert!(!end.has_spare_room(1));
        assert_eq!(end.send(&vec![0; LONGEST_MESSAGE + 1]), Err(SendError::TooLong));
        end.close();
        assert_eq!(end.send(&[]), Err(SendError::Ended));
    }
}
