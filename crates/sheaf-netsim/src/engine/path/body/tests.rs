use super::Bodies;
use crate::network::{EndpointId, Link, LinkEnd, LinkId, SwitchId};
use crate::units::{Picos, Rate};

/// A chain of links without delay on which a body takes 100, with buffers that take 10.
struct Chain {
    bodies: Bodies,
    links: Vec<LinkId>,
    ends: Vec<(u16, u64)>,
}

impl Chain {
    fn new() -> Self {
        let mut bodies = Bodies::new(4, Picos(10), 4);
        bodies.grow(2);
        Self { bodies, links: Vec::new(), ends: Vec::new() }
    }

    fn hold(&mut self, message: u32, link: u32, buffered: bool, now: u64) {
        self.links.push(LinkId(link));
        let own = Link {
            from: LinkEnd::Endpoint(EndpointId(0)),
            to: if buffered { LinkEnd::Switch(SwitchId(0)) } else { LinkEnd::Endpoint(EndpointId(1)) },
            rate: Rate::from_gigabits(1),
            delay: Picos::ZERO,
            stage: 0,
        };
        self.bodies.hold(message, &self.links, &own, Picos(100), Picos(now));
        self.plan(message);
    }

    fn follow(&mut self, message: u32, now: u64) -> u64 {
        let arrival = self.bodies.follow(message, self.links.len(), Picos(100), Picos(now));
        self.plan(message);
        arrival.0
    }

    fn plan(&mut self, message: u32) {
        let ends = &mut self.ends;
        self.bodies.certain(message, self.links.len(), |hop, at| ends.push((hop, at.0)));
    }
}

#[test]
fn a_message_that_is_not_held_up_leaves_every_link_after_its_own_time() {
    let mut chain = Chain::new();
    chain.hold(0, 0, true, 0);
    chain.hold(0, 1, true, 0);
    chain.hold(0, 2, false, 0);
    assert_eq!(chain.ends, [], "nothing is certain before the head is through");
    assert_eq!(chain.follow(0, 0), 100);
    assert_eq!(chain.ends, [(0, 100), (1, 100), (2, 100)]);
}

#[test]
fn a_stall_is_taken_up_by_the_buffers_behind_the_head() {
    let mut chain = Chain::new();
    chain.hold(0, 0, true, 0);
    chain.hold(0, 1, true, 0);
    // Held up for 15 at the end of link 1: its buffer takes 10, that of link 0 takes 5.
    chain.hold(0, 2, false, 15);
    assert_eq!(chain.follow(0, 15), 115);
    assert_eq!(chain.ends, [(0, 100), (1, 105), (2, 115)]);
}

#[test]
fn a_long_stall_stops_the_links_that_the_buffers_cannot_feed() {
    let mut chain = Chain::new();
    chain.hold(0, 0, true, 0);
    chain.hold(0, 1, true, 0);
    chain.hold(0, 2, false, 500);
    assert_eq!(chain.follow(0, 500), 600);
    assert_eq!(chain.ends, [(0, 580), (1, 590), (2, 600)]);
}

#[test]
fn what_buffers_have_taken_they_cannot_take_again() {
    let mut chain = Chain::new();
    chain.hold(0, 0, true, 0);
    chain.hold(0, 1, true, 10);
    chain.hold(0, 2, false, 10 + 15);
    // The buffer of link 0 was filled by the first stall, that of link 1 takes 10 of the second.
    assert_eq!(chain.follow(0, 25), 125);
    assert_eq!(chain.ends, [(0, 105), (1, 115), (2, 125)]);
}

#[test]
fn a_message_that_fits_into_the_buffers_frees_its_first_link_while_its_head_waits() {
    let mut chain = Chain::new();
    chain.bodies = Bodies::new(4, Picos(60), 4);
    chain.bodies.grow(1);
    chain.hold(0, 0, true, 0);
    assert_eq!(chain.ends, []);
    chain.hold(0, 1, true, 0);
    assert_eq!(chain.ends, [(0, 100)], "120 fit before the end of the second link");
}

#[test]
fn a_head_waits_behind_the_tail_in_its_buffer() {
    let mut chain = Chain::new();
    chain.hold(0, 0, true, 0);
    let first = std::mem::take(&mut chain.links);
    chain.hold(1, 0, true, 50);
    assert!(chain.bodies.arrive(0, first[0]));
    assert!(!chain.bodies.arrive(1, LinkId(0)));
    assert!(chain.bodies.is_behind(1));
    assert_eq!(chain.bodies.first(LinkId(0)), 0);
    assert_eq!(chain.bodies.drained(0, LinkId(0), 0), Some((1, true)));
    assert!(!chain.bodies.is_behind(1));
    assert_eq!(chain.bodies.drained(1, LinkId(0), 0), None);
}
