//! Messages cut into the frames of a link: any workload inside.
//!
//! A frame carries at most `payload` bytes of one message and `overhead` bytes of its own. The inner workload is
//! informed of a message when its last frame has ended; if one frame is lost, the message is.

use super::{Message, Next, Summary, Traffic, Wake};
use crate::network::EndpointId;
use crate::units::Picos;

/// A message of which frames are under way.
#[derive(Clone, Copy, Debug)]
struct Whole {
    message: Message,
    /// Bytes not handed to the network yet.
    left: u32,
    /// Frames handed to the network that have not left the sender.
    leaving: u32,
    /// Frames handed to the network that have not ended.
    under_way: u32,
    damaged: bool,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Frames<T> {
    inner: T,
    payload: u32,
    overhead: u32,
    /// Messages, found by the token of their frames.
    wholes: Vec<Whole>,
    free: Vec<u32>,
    /// By endpoint: the message that it is sending.
    sending: Vec<Option<u32>>,
}

impl<T: Traffic> Frames<T> {
    /// Cuts the messages of `inner`, on a network with `endpoints` endpoints. `payload`: bytes of a message in one
    /// frame, no limit if `None`; `overhead`: additional bytes of each frame.
    #[must_use]
    pub fn new(inner: T, endpoints: u32, payload: Option<u32>, overhead: u32) -> Self {
        Self {
            inner,
            payload: payload.unwrap_or(u32::MAX).max(1),
            overhead,
            wholes: Vec::new(),
            free: Vec::new(),
            sending: vec![None; endpoints as usize],
        }
    }

    /// The workload inside.
    #[must_use]
    pub fn inner(&self) -> &T {
        &self.inner
    }

    fn take(&mut self, message: Message) -> u32 {
        let whole = Whole { message, left: message.bytes, leaving: 0, under_way: 0, damaged: false };
        if let Some(index) = self.free.pop() {
            self.wholes[index as usize] = whole;
            return index;
        }
        self.wholes.push(whole);
        u32::try_from(self.wholes.len() - 1).expect("messages under way are far fewer than 2^32")
    }

    fn next_frame(&mut self, index: u32) -> Message {
        let whole = &mut self.wholes[index as usize];
        let bytes = whole.left.min(self.payload);
        whole.left -= bytes;
        whole.leaving += 1;
        whole.under_way += 1;
        self.sending[whole.message.source.index()] = (whole.left > 0).then_some(index);
        Message { bytes: bytes.saturating_add(self.overhead), token: u64::from(index), ..whole.message }
    }

    fn whole(&mut self, frame: &Message) -> (u32, &mut Whole) {
        let index = u32::try_from(frame.token).expect("frames carry the tokens that they were given");
        (index, &mut self.wholes[index as usize])
    }

    fn end(&mut self, frame: &Message, now: Picos, lost: bool, wake: &mut Wake) {
        let (index, whole) = self.whole(frame);
        whole.damaged |= lost;
        whole.under_way -= 1;
        if whole.left > 0 || whole.under_way > 0 {
            return;
        }
        let Whole { message, damaged, .. } = *whole;
        self.free.push(index);
        if damaged {
            self.inner.lost(&message, now, wake);
        } else {
            self.inner.delivered(&message, now, wake);
        }
    }
}

impl<T: Traffic> Traffic for Frames<T> {
    fn begin(&mut self, wake: &mut Wake) {
        self.inner.begin(wake);
    }

    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        if let Some(index) = self.sending[sender.index()] {
            return Next::Send(self.next_frame(index));
        }
        match self.inner.next(sender, now) {
            Next::Send(message) => {
                let index = self.take(message);
                Next::Send(self.next_frame(index))
            }
            other => other,
        }
    }

    fn delivered(&mut self, frame: &Message, now: Picos, wake: &mut Wake) {
        self.end(frame, now, false, wake);
    }

    fn lost(&mut self, frame: &Message, now: Picos, wake: &mut Wake) {
        self.end(frame, now, true, wake);
    }

    fn sent(&mut self, frame: &Message, now: Picos, wake: &mut Wake) {
        let (_, whole) = self.whole(frame);
        whole.leaving -= 1;
        if whole.left == 0 && whole.leaving == 0 {
            let message = whole.message;
            self.inner.sent(&message, now, wake);
        }
    }

    fn timer(&mut self, now: Picos, wake: &mut Wake) {
        self.inner.timer(now, wake);
    }

    fn complete_events(&self) -> u64 {
        self.inner.complete_events()
    }

    fn ended_events(&self) -> u64 {
        self.inner.ended_events()
    }

    fn summary(&self) -> Summary {
        self.inner.summary()
    }
}

#[cfg(test)]
mod tests;
