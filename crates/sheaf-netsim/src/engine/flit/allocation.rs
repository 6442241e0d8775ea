//! Which message gets a free output.

use super::fabric::Fabric;
use super::options::{Kind, Options};
use crate::dice::{Dice, Purpose};
use crate::engine::arbitration::{Contender, Turn};
use crate::network::LinkId;
use crate::scenario::Arbiter;
use crate::units::Picos;

/// The first message of a buffer, which waits for an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    /// The channel in whose buffer it is.
    pub(super) channel: u32,
    /// The number of its input at the switch, and since which cycle it waits.
    pub(super) contender: Contender,
    /// Since when.
    pub(super) from: Picos,
    /// Its flits.
    pub(super) flits: u32,
}

/// The messages that wait for each link, and the arbiters of all links.
pub(super) struct Allocation {
    waiting: Vec<Vec<Waiter>>,
    turns: Vec<Turn>,
    dice: Vec<Dice>,
    arbiter: Arbiter,
    /// Whether a message needs room for all of it.
    whole: bool,
    /// Links at which something has changed: a message arrived, or there is new room.
    open: Vec<u32>,
    is_open: Vec<bool>,
    /// Messages that may have the current link, and their positions among its waiters.
    contenders: Vec<Contender>,
    places: Vec<usize>,
}

impl Allocation {
    pub(super) fn new(links: usize, options: &Options) -> Self {
        let count = u32::try_from(links).expect("links are numbered by 32 bits");
        Self {
            waiting: vec![Vec::new(); links],
            turns: vec![Turn::default(); links],
            dice: (0..count).map(|link| Dice::new(options.seed, Purpose::Arbiter, link)).collect(),
            arbiter: options.arbiter,
            whole: options.kind != Kind::Wormhole,
            open: Vec::new(),
            is_open: vec![false; links],
            contenders: Vec::new(),
            places: Vec::new(),
        }
    }

    /// `waiter` wants `link`.
    pub(super) fn request(&mut self, link: LinkId, waiter: Waiter) {
        self.waiting[link.index()].push(waiter);
        self.look_at(link.0);
    }

    /// Marks a lane of `link` as free.
    #[inline]
    pub(super) fn freed(&mut self, link: u32) {
        if !self.waiting[link as usize].is_empty() {
            self.look_at(link);
        }
    }

    /// There is more room behind `link`.
    #[inline]
    pub(super) fn room(&mut self, link: u32) {
        if self.whole {
            self.freed(link);
        }
    }

    /// Returns whether no message waits for `link`.
    pub(super) fn is_unwanted(&self, link: LinkId) -> bool {
        self.waiting[link.index()].is_empty()
    }

    /// The link that the first message of the buffer of `channel` waits for.
    pub(super) fn wanted_by(&self, channel: u32) -> Option<u32> {
        let waits = |waiting: &Vec<Waiter>| waiting.iter().any(|waiter| waiter.channel == channel);
        (0_u32..).zip(&self.waiting).find(|(_, waiting)| waits(waiting)).map(|(link, _)| link)
    }

    /// Returns a link that a message waits for.
    pub(super) fn any_wanted(&self) -> Option<u32> {
        (0_u32..).zip(&self.waiting).find(|(_, waiting)| !waiting.is_empty()).map(|(link, _)| link)
    }

    fn look_at(&mut self, link: u32) {
        if !std::mem::replace(&mut self.is_open[link as usize], true) {
            self.open.push(link);
        }
    }

    /// Assigns free outputs to messages, and calls `got` with each link and the message that got it.
    pub(super) fn allocate(&mut self, fabric: &mut Fabric, mut got: impl FnMut(u32, &Waiter)) {
        while let Some(link) = self.open.pop() {
            self.is_open[link as usize] = false;
            while let Some((index, lane)) = self.choose(fabric, link) {
                let waiter = self.waiting[link as usize].remove(index);
                fabric.join(waiter.channel, lane);
                got(link, &waiter);
            }
        }
    }

    /// The place of the waiter that gets a lane of `link`, and the lane.
    fn choose(&mut self, fabric: &Fabric, link: u32) -> Option<(usize, u32)> {
        let waiting = &self.waiting[link as usize];
        let needs = |waiter: &Waiter| if self.whole { waiter.flits } else { 0 };
        self.contenders.clear();
        self.places.clear();
        for (place, waiter) in waiting.iter().enumerate() {
            if fabric.free_lane(link, needs(waiter)).is_some() {
                self.contenders.push(waiter.contender);
                self.places.push(place);
            } else if !self.whole {
                // No message needs more room than any other.
                return None;
            }
        }
        if self.contenders.is_empty() {
            return None;
        }
        let turn = &mut self.turns[link as usize];
        let place = self.places[turn.choose(self.arbiter, &self.contenders, &mut self.dice[link as usize])];
        Some((place, fabric.free_lane(link, needs(&waiting[place]))?))
    }
}
