//! Messages under way: a slab, without allocation once the network is full.

use crate::network::LinkId;
use crate::routing::Journey;
use crate::traffic::Message;
use crate::units::Picos;

/// One message: a cache line, because all of it is used at once.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot {
    message: Message,
    since: Picos,
    turn: u32,
    /// The destination's place in the wiring.
    place: u32,
    /// The message behind it in the ring of those that wait for the same link.
    behind: u32,
    /// How many links it holds or held.
    hops: u16,
    doomed: bool,
}

/// Messages by number; a number is used again when its message has ended.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    slots: Vec<Slot>,
    /// The links of each, `stride` entries.
    chains: Vec<LinkId>,
    stride: usize,
    unused: Vec<u32>,
}

impl Messages {
    pub(super) fn new(longest: u16) -> Self {
        Self { slots: Vec::new(), chains: Vec::new(), stride: usize::from(longest), unused: Vec::new() }
    }

    /// How many numbers there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    /// How many messages are under way.
    pub(super) fn under_way(&self) -> u64 {
        (self.slots.len() - self.unused.len()) as u64
    }

    /// A new message to the endpoint at `place`.
    #[inline]
    pub(super) fn add(&mut self, message: Message, turn: u32, place: u32) -> u32 {
        let since = Picos::ZERO;
        let slot = Slot { message, since, turn, place, behind: 0, hops: 0, doomed: false };
        if let Some(number) = self.unused.pop() {
            self.slots[number as usize] = slot;
            return number;
        }
        self.slots.push(slot);
        self.chains.resize(self.chains.len() + self.stride, LinkId(0));
        u32::try_from(self.slots.len() - 1).expect("each message holds a link or waits in a host")
    }

    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        self.unused.push(number);
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &Message {
        &self.slots[number as usize].message
    }

    #[inline]
    pub(super) fn place(&self, number: u32) -> u32 {
        self.slots[number as usize].place
    }

    #[inline]
    pub(super) fn journey(&self, number: u32) -> Journey {
        let Slot { message, turn, .. } = self.slots[number as usize];
        Journey { source: message.source, destination: message.destination, turn }
    }

    /// The links that it has taken, from the sender on.
    #[inline]
    pub(super) fn chain(&self, number: u32) -> &[LinkId] {
        let first = number as usize * self.stride;
        &self.chains[first..first + usize::from(self.slots[number as usize].hops)]
    }

    #[inline]
    pub(super) fn last_link(&self, number: u32) -> LinkId {
        self.chains[number as usize * self.stride + usize::from(self.slots[number as usize].hops) - 1]
    }

    /// The link on which its head has come, for an arbiter that goes by inputs; any one for a message in its host.
    #[inline]
    pub(super) fn input(&self, number: u32) -> LinkId {
        let last = usize::from(self.slots[number as usize].hops).saturating_sub(1);
        self.chains[number as usize * self.stride + last]
    }

    #[inline]
    pub(super) fn hold(&mut self, number: u32, link: LinkId) {
        let hops = &mut self.slots[number as usize].hops;
        self.chains[number as usize * self.stride + usize::from(*hops)] = link;
        *hops += 1;
    }

    /// It waits from now on.
    #[inline]
    pub(super) fn wait(&mut self, number: u32, now: Picos) {
        self.slots[number as usize].since = now;
    }

    /// Since when one that waits has done so.
    #[inline]
    pub(super) fn since(&self, number: u32) -> Picos {
        self.slots[number as usize].since
    }

    #[inline]
    pub(super) fn behind(&self, number: u32) -> u32 {
        self.slots[number as usize].behind
    }

    #[inline]
    pub(super) fn set_behind(&mut self, number: u32, behind: u32) {
        self.slots[number as usize].behind = behind;
    }

    /// It will be lost.
    pub(super) fn doom(&mut self, number: u32) {
        self.slots[number as usize].doomed = true;
    }

    #[inline]
    pub(super) fn is_doomed(&self, number: u32) -> bool {
        self.slots[number as usize].doomed
    }
}
