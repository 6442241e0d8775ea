//! Messages under way: a slab of arrays, without allocation once the network is full.

use crate::network::LinkId;
use crate::routing::Journey;
use crate::traffic::Message;
use crate::units::Picos;

/// Not waiting for any link.
const NOTHING: LinkId = LinkId(u32::MAX);

/// Messages by number; a number is used again when its message has ended.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    messages: Vec<Message>,
    turn: Vec<u32>,
    /// How many links it holds or held.
    hops: Vec<u16>,
    doomed: Vec<bool>,
    /// The link that it waits for, and since when.
    wanted: Vec<LinkId>,
    since: Vec<Picos>,
    /// The links of each, `stride` entries.
    chains: Vec<LinkId>,
    stride: usize,
    unused: Vec<u32>,
}

impl Messages {
    pub(super) fn new(longest: u16) -> Self {
        Self {
            messages: Vec::new(),
            turn: Vec::new(),
            hops: Vec::new(),
            doomed: Vec::new(),
            wanted: Vec::new(),
            since: Vec::new(),
            chains: Vec::new(),
            stride: usize::from(longest),
            unused: Vec::new(),
        }
    }

    /// How many numbers there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.messages.len()
    }

    /// How many messages are under way.
    pub(super) fn under_way(&self) -> u64 {
        (self.messages.len() - self.unused.len()) as u64
    }

    #[inline]
    pub(super) fn add(&mut self, message: Message, turn: u32) -> u32 {
        if let Some(number) = self.unused.pop() {
            let index = number as usize;
            self.messages[index] = message;
            self.turn[index] = turn;
            self.hops[index] = 0;
            self.doomed[index] = false;
            return number;
        }
        self.messages.push(message);
        self.turn.push(turn);
        self.hops.push(0);
        self.doomed.push(false);
        self.wanted.push(NOTHING);
        self.since.push(Picos::ZERO);
        self.chains.resize(self.chains.len() + self.stride, NOTHING);
        u32::try_from(self.messages.len() - 1).expect("each message holds a link or waits in a host")
    }

    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        self.unused.push(number);
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &Message {
        &self.messages[number as usize]
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

    #[inline]
    pub(super) fn hold(&mut self, number: u32, link: LinkId) {
        let hops = &mut self.hops[number as usize];
        self.chains[number as usize * self.stride + usize::from(*hops)] = link;
        *hops += 1;
    }

    #[inline]
    pub(super) fn wait(&mut self, number: u32, link: LinkId, now: Picos) {
        self.wanted[number as usize] = link;
        self.since[number as usize] = now;
    }

    /// It waits no longer. Says since when it did.
    #[inline]
    pub(super) fn end_wait(&mut self, number: u32) -> Picos {
        self.wanted[number as usize] = NOTHING;
        self.since[number as usize]
    }

    /// Those that wait for a link.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        let all = (0_u32..).zip(&self.wanted);
        all.filter(|&(_, &wanted)| wanted != NOTHING).map(|(number, _)| number)
    }

    /// What one that waits waits for, and since when.
    pub(super) fn wanted(&self, number: u32) -> (LinkId, Picos) {
        (self.wanted[number as usize], self.since[number as usize])
    }

    /// What it waits for, if it does.
    pub(super) fn waits_for(&self, number: u32) -> Option<LinkId> {
        Some(self.wanted[number as usize]).filter(|&wanted| wanted != NOTHING)
    }

    /// It will be lost.
    pub(super) fn doom(&mut self, number: u32) {
        self.doomed[number as usize] = true;
    }

    #[inline]
    pub(super) fn is_doomed(&self, number: u32) -> bool {
        self.doomed[number as usize]
    }
}
