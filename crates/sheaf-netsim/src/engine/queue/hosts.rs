//! Hosts and their network interfaces: messages are taken from the traffic, cut into frames, sent, received and put
//! together again.

use super::causes::LossKind;
use super::frames::{Entry, Frame, NONE};
use super::simulation::{Event, Simulation};
use crate::network::SwitchId;
use crate::traffic::{Message, Next};
use crate::units::Picos;

impl Simulation<'_> {
    /// Fills the interface of `host` as far as the traffic has anything for it.
    pub(super) fn ask(&mut self, host: u32) {
        let endpoint = crate::network::EndpointId(host);
        let rails = self.hosts[host as usize].rails.clone();
        let capacity = self.setup.endpoint.queue_messages.max(super::frames::index(rails.len()));
        while self.hosts[host as usize].held < capacity && !rails.is_empty() {
            match self.traffic.next(endpoint, self.now) {
                Next::Send(message) => self.accept(host, message),
                Next::At(at) => {
                    let host_state = &mut self.hosts[host as usize];
                    if host_state.asked_at != at || at <= self.now {
                        host_state.asked_at = at;
                        self.events.push(at, Event::Ask(host));
                    }
                    break;
                }
                Next::Sleep => break,
            }
        }
        for link in rails {
            self.feed(link);
        }
    }

    /// The interface of `host` takes a message.
    fn accept(&mut self, host: u32, message: Message) {
        self.meter.offered(&message);
        let journey = self.router.begin(message.source, message.destination);
        let free = |link: crate::network::LinkId| self.ports[link.index()].may_send();
        let link = self.router.rail(self.network, &journey, free).expect("a host that is asked has a link");
        let frames = self.setup.frames_of(message.bytes);
        let ready = self.now + self.setup.endpoint.start;
        let id = self.messages.insert(Entry {
            message,
            journey,
            next: NONE,
            uncut: frames,
            open: frames,
            ready,
            sent: false,
            lost: false,
        });
        let rail = &mut self.rails[link.index()];
        if rail.first == NONE {
            rail.first = id;
        } else {
            self.messages.get_mut(rail.last).next = id;
        }
        rail.last = id;
        self.hosts[host as usize].held += 1;
    }

    /// The interface sends the next frame into `link`, if there is one and it may.
    pub(super) fn feed(&mut self, link: u32) {
        let rail = &mut self.rails[link as usize];
        if rail.head() == NONE || self.ports[link as usize].busy {
            return;
        }
        if rail.current == NONE {
            let ready = self.messages.get(rail.first).ready.max(rail.rests_until);
            if ready > self.now {
                if rail.goes_on_at != ready {
                    rail.goes_on_at = ready;
                    self.events.push(ready, Event::Feed(link));
                }
                return;
            }
        }
        let may_send = self.ports[link as usize].may_send();
        let rail = &mut self.rails[link as usize];
        if !may_send {
            rail.blocked = rail.blocked.min(self.now);
            return;
        }
        let blocked = std::mem::replace(&mut rail.blocked, Picos::MAX);
        if rail.current == NONE {
            self.choose_message(link);
        }
        if blocked < self.now {
            self.meter.waited(self.causes.held_up(0), blocked, self.now);
        }
        let id = self.rails[link as usize].current;
        let entry = self.messages.get_mut(id);
        entry.uncut -= 1;
        let wire = self.setup.wire_bytes(entry.message.bytes, entry.uncut);
        let frame = self.frames.insert(Frame::new(id, wire, entry.journey));
        self.begin_sending(link, frame);
    }

    /// Selects the message to be sent among those that wait for `link`: the first, or, with look-ahead, the first whose
    /// output at the first switch is free, if there is one.
    fn choose_message(&mut self, link: u32) {
        let mut before = NONE;
        let mut chosen = self.rails[link as usize].first;
        if self.setup.endpoint.look_ahead {
            let (mut behind, mut id) = (NONE, chosen);
            while id != NONE && self.messages.get(id).ready <= self.now {
                if self.is_open(link, id) {
                    (before, chosen) = (behind, id);
                    break;
                }
                (behind, id) = (id, self.messages.get(id).next);
            }
        }
        let next = std::mem::replace(&mut self.messages.get_mut(chosen).next, NONE);
        let rail = &mut self.rails[link as usize];
        rail.current = chosen;
        if rail.last == chosen {
            rail.last = before;
        }
        if before == NONE {
            rail.first = next;
        } else {
            self.messages.get_mut(before).next = next;
        }
    }

    /// Returns whether the switch behind `link` could forward the first frame of message `id` at once.
    fn is_open(&self, link: u32, id: u32) -> bool {
        let entry = self.messages.get(id);
        let switch = SwitchId(self.ports[link as usize].switch);
        let wire = self.setup.wire_bytes(entry.message.bytes, entry.uncut - 1);
        let ways = self.network.ways(switch, entry.journey.destination);
        ways.iter().any(|way| self.takes_at_once(way.0, wire))
    }

    /// The last byte of a frame has left the interface through `link`.
    pub(super) fn left_host(&mut self, link: u32) {
        let id = self.rails[link as usize].current;
        let entry = self.messages.get_mut(id);
        if entry.uncut > 0 {
            return self.feed(link);
        }
        entry.sent = true;
        let Entry { message, lost, open, .. } = *entry;
        let rail = &mut self.rails[link as usize];
        rail.current = NONE;
        rail.rests_until = self.now + self.setup.endpoint.overhead;
        self.hosts[message.source.index()].held -= 1;
        self.tell(|traffic, now, wake| traffic.sent(&message, now, wake));
        if lost {
            self.tell(|traffic, now, wake| traffic.lost(&message, now, wake));
        }
        if open == 0 {
            self.messages.remove(id);
        }
        self.ask_soon(message.source.0);
    }

    /// Handles the arrival of a frame's last byte at its destination.
    #[inline]
    pub(super) fn deliver(&mut self, frame: u32) {
        let id = self.frames.remove(frame).message;
        let entry = self.messages.get_mut(id);
        entry.open -= 1;
        let Entry { message, lost, open, sent, .. } = *entry;
        // Where switches cut through, the last frame may be lost before all of it has left its sender.
        debug_assert!(sent || open > 0 || lost, "nothing arrives before it was sent");
        if open > 0 || !sent {
            return;
        }
        self.messages.remove(id);
        if !lost {
            self.meter.delivered(&message, self.now);
            self.tell(|traffic, now, wake| traffic.delivered(&message, now, wake));
        }
    }

    /// Loses a frame, and with it its message. The other frames of the message travel on for nothing.
    pub(super) fn lose(&mut self, frame: u32, stage: u16, kind: LossKind) {
        let id = self.frames.remove(frame).message;
        let entry = self.messages.get_mut(id);
        entry.open -= 1;
        let first = !std::mem::replace(&mut entry.lost, true);
        let Entry { message, open, sent, .. } = *entry;
        if open == 0 && sent {
            self.messages.remove(id);
        }
        if first {
            self.meter.lost(&message, self.causes.loss(stage, kind));
            if sent {
                self.tell(|traffic, now, wake| traffic.lost(&message, now, wake));
            }
        }
    }
}
