//! Messages under way: a slab, without allocation once the network is full.

use crate::meter::Cause;
use crate::network::LinkId;
use crate::routing::Journey;
use crate::traffic::Message;
use crate::units::Picos;

/// No message.
pub(super) const NONE: u32 = u32::MAX;

/// Messages by number; the number of an ended message is reused.
///
/// An array for each field: most events in a large network are messages that wait or advance, and the few fields needed
/// for that then stay in the cache.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    messages: Vec<Message>,
    /// The destination's place in the wiring.
    place: Vec<u32>,
    /// Number of links that it holds or held, and the number of these that its tail has left.
    hops: Vec<u16>,
    left: Vec<u16>,
    /// The links of each, `stride` entries.
    chains: Vec<LinkId>,
    stride: usize,
    /// Time since which it has waited, and the next message in the ring of those that wait for the same link.
    since: Vec<Picos>,
    behind: Vec<u32>,
    turn: Vec<u32>,
    /// Reason why it will be lost.
    doomed: Vec<Option<Cause>>,
    unused: Vec<u32>,
}

impl Messages {
    pub(super) fn new(longest: u16) -> Self {
        Self {
            messages: Vec::new(),
            place: Vec::new(),
            hops: Vec::new(),
            left: Vec::new(),
            chains: Vec::new(),
            stride: usize::from(longest),
            since: Vec::new(),
            behind: Vec::new(),
            turn: Vec::new(),
            doomed: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// Number of numbers.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of messages under way.
    pub(super) fn under_way(&self) -> u64 {
        (self.messages.len() - self.unused.len()) as u64
    }

    /// A new message to the endpoint at `place`.
    #[inline]
    pub(super) fn add(&mut self, message: Message, turn: u32, place: u32) -> u32 {
        if let Some(number) = self.unused.pop() {
            let index = number as usize;
            self.messages[index] = message;
            self.place[index] = place;
            self.turn[index] = turn;
            self.left[index] = 0;
            self.doomed[index] = None;
            return number;
        }
        self.messages.push(message);
        self.place.push(place);
        self.hops.push(0);
        self.left.push(0);
        self.chains.resize(self.chains.len() + self.stride, LinkId(0));
        self.since.push(Picos::ZERO);
        self.behind.push(NONE);
        self.turn.push(turn);
        self.doomed.push(None);
        u32::try_from(self.messages.len() - 1).expect("each message holds a link or waits in a host")
    }

    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        self.hops[number as usize] = 0;
        self.unused.push(number);
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &Message {
        &self.messages[number as usize]
    }

    #[inline]
    pub(super) fn place(&self, number: u32) -> u32 {
        self.place[number as usize]
    }

    #[inline]
    pub(super) fn journey(&self, number: u32) -> Journey {
        let Message { source, destination, .. } = self.messages[number as usize];
        Journey { source, destination, turn: self.turn[number as usize] }
    }

    /// The links that it has taken, from the sender on.
    #[inline]
    pub(super) fn chain(&self, number: u32) -> &[LinkId] {
        let first = number as usize * self.stride;
        &self.chains[first..first + usize::from(self.hops[number as usize])]
    }

    #[inline]
    pub(super) fn last_link(&self, number: u32) -> LinkId {
        self.chains[number as usize * self.stride + usize::from(self.hops[number as usize]) - 1]
    }

    /// Its tail has left the first of the links that it held.
    pub(super) fn leave(&mut self, number: u32) {
        self.left[number as usize] += 1;
    }

    /// Returns the holder of each of `links` links; [`NONE`] for a free one.
    pub(super) fn holders(&self, links: usize) -> Vec<u32> {
        let mut holders = vec![NONE; links];
        for (number, &left) in (0_u32..).zip(&self.left) {
            for &link in self.chain(number).iter().skip(usize::from(left)) {
                holders[link.index()] = number;
            }
        }
        holders
    }

    /// The link on which its head has come, for an arbiter that goes by inputs; any one for a message in its host.
    #[inline]
    pub(super) fn input(&self, number: u32) -> LinkId {
        let last = usize::from(self.hops[number as usize]).saturating_sub(1);
        self.chains[number as usize * self.stride + last]
    }

    #[inline]
    pub(super) fn hold(&mut self, number: u32, link: LinkId) {
        let hops = &mut self.hops[number as usize];
        self.chains[number as usize * self.stride + usize::from(*hops)] = link;
        *hops += 1;
    }

    /// It waits from now on.
    #[inline]
    pub(super) fn wait(&mut self, number: u32, now: Picos) {
        self.since[number as usize] = now;
    }

    /// Since when one that waits has done so.
    #[inline]
    pub(super) fn since(&self, number: u32) -> Picos {
        self.since[number as usize]
    }

    #[inline]
    pub(super) fn behind(&self, number: u32) -> u32 {
        self.behind[number as usize]
    }

    #[inline]
    pub(super) fn set_behind(&mut self, number: u32, behind: u32) {
        self.behind[number as usize] = behind;
    }

    /// It will be lost, because of `cause`.
    pub(super) fn doom(&mut self, number: u32, cause: Cause) {
        self.doomed[number as usize] = Some(cause);
    }

    /// Returns the reason why it will be lost, if it will.
    #[inline]
    pub(super) fn doomed(&self, number: u32) -> Option<Cause> {
        self.doomed[number as usize]
    }
}
