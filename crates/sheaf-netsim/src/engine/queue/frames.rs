//! Messages and their frames: two slabs that grow until a run is in full swing and are used again from then on.
//!
//! A frame is at one place at a time, so that one link to the next frame is enough for all queues of the network, and a
//! queue needs no memory of its own.

use crate::routing::Journey;
use crate::traffic::Message;
use crate::units::Picos;

/// No frame, message, link or host.
pub(super) const NONE: u32 = u32::MAX;

/// Message, or a part of one, that moves as a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The next one in the same queue.
    next: u32,
    pub(super) message: u32,
    /// Bytes on the wire.
    pub(super) wire: u32,
    pub(super) journey: Journey,
    /// When it came into the queue in which it is.
    pub(super) since: Picos,
    /// In front of a link: for how long that link had been held up before it came (see `Port::held_up`).
    pub(super) held_before: Picos,
    /// When its last byte is at the far end of the link that it is on; [`Picos::MAX`]: never, it is lost on the way.
    pub(super) tail: Picos,
}

impl Frame {
    pub(super) fn new(message: u32, wire: u32, journey: Journey) -> Self {
        let zero = Picos::ZERO;
        Self { next: NONE, message, wire, journey, since: zero, held_before: zero, tail: zero }
    }
}

/// A queue of frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    pub(super) head: u32,
    tail: u32,
    pub(super) len: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

/// All frames that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    slab: Vec<Frame>,
    free: Vec<u32>,
}

impl Frames {
    pub(super) fn insert(&mut self, frame: Frame) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slab[id as usize] = frame;
            return id;
        }
        self.slab.push(frame);
        index(self.slab.len() - 1)
    }

    pub(super) fn remove(&mut self, id: u32) -> Frame {
        self.free.push(id);
        self.slab[id as usize]
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &Frame {
        &self.slab[id as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Frame {
        &mut self.slab[id as usize]
    }

    /// Number of frames.
    pub(super) fn live(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    #[inline]
    pub(super) fn push(&mut self, fifo: &mut Fifo, id: u32) {
        self.slab[id as usize].next = NONE;
        if fifo.len == 0 {
            fifo.head = id;
        } else {
            self.slab[fifo.tail as usize].next = id;
        }
        fifo.tail = id;
        fifo.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self, fifo: &mut Fifo) -> Option<u32> {
        if fifo.len == 0 {
            return None;
        }
        let id = fifo.head;
        fifo.head = self.slab[id as usize].next;
        fifo.len -= 1;
        Some(id)
    }

    /// The frame behind `id` in its queue, or [`NONE`].
    #[inline]
    pub(super) fn after(&self, id: u32) -> u32 {
        self.slab[id as usize].next
    }

    /// Takes the frame at `position` out of the queue. Walks the list: for rare cases.
    pub(super) fn take(&mut self, fifo: &mut Fifo, position: u32) -> Option<u32> {
        if position == 0 {
            return self.pop(fifo);
        }
        let before = self.walk(fifo).nth(position as usize - 1)?;
        if position >= fifo.len {
            return None;
        }
        let id = self.slab[before as usize].next;
        self.slab[before as usize].next = self.slab[id as usize].next;
        if fifo.tail == id {
            fifo.tail = before;
        }
        fifo.len -= 1;
        Some(id)
    }

    /// All frames of a queue.
    pub(super) fn walk<'a>(&'a self, fifo: &Fifo) -> impl Iterator<Item = u32> + use<'a> {
        let mut next = fifo.head;
        (0..fifo.len).map(move |_| {
            let id = next;
            next = self.slab[id as usize].next;
            id
        })
    }
}

/// A message that is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) message: Message,
    pub(super) journey: Journey,
    /// The next one that its interface holds.
    pub(super) next: u32,
    /// Frames that have not left the interface yet.
    pub(super) uncut: u32,
    /// Number of its frames that have not ended yet.
    pub(super) open: u32,
    /// The earliest instant at which its first byte may be on a link.
    pub(super) ready: Picos,
    /// Whether all of it has left the interface.
    pub(super) sent: bool,
    /// Whether one of its frames was lost.
    pub(super) lost: bool,
}

/// All messages that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    slab: Vec<Option<Entry>>,
    free: Vec<u32>,
}

impl Messages {
    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slab[id as usize] = Some(entry);
            return id;
        }
        self.slab.push(Some(entry));
        index(self.slab.len() - 1)
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.slab[id as usize] = None;
        self.free.push(id);
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &Entry {
        self.slab[id as usize].as_ref().expect("a message is kept until its last frame has come to its end")
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Entry {
        self.slab[id as usize].as_mut().expect("a message is kept until its last frame has come to its end")
    }

    /// All of them, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (0u32..).zip(&self.slab).filter_map(|(id, entry)| entry.as_ref().map(|entry| (id, entry)))
    }
}

/// Converts `position` to an index in a slab.
///
/// # Panics
/// If there are 2^32 entries: a run with that many in flight at once would need hundreds of gigabytes.
pub(super) fn index(position: usize) -> u32 {
    u32::try_from(position).expect("things under way are numbered by 32 bits")
}

#[cfg(test)]
mod tests;
