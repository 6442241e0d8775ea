//! Switches with buffers at their inputs: the first frame of each input waits for one output; a free output takes one
//! of the waiting frames when there is room behind it.

use super::causes::LossKind;
use super::frames::NONE;
use super::scheme::Scheme;
use super::simulation::{Event, Simulation};
use crate::network::{LinkId, SwitchId};
use crate::units::Picos;

impl Simulation<'_> {
    /// Routes the first frame of the input behind `link`.
    pub(super) fn look_for_output(&mut self, link: u32) {
        loop {
            let port = &self.ports[link as usize];
            if port.arrived == 0 || port.reading || port.wanted != NONE {
                return;
            }
            let journey = self.frames.get(port.incoming.head).journey;
            let output = self.find_way(SwitchId(port.switch), &journey);
            let Some(output) = output else {
                self.drop_head(link);
                continue;
            };
            let held_before = self.ports[output as usize].held_up(self.now);
            let port = &mut self.ports[link as usize];
            port.wanted = output;
            port.asked = self.now;
            port.held_before = held_before;
            self.waiters.join(output, link);
            return self.touch(output);
        }
    }

    /// The link on which a frame leaves `switch`; adaptive routes take one that would carry it at once.
    #[inline]
    pub(super) fn find_way(&mut self, switch: SwitchId, journey: &crate::routing::Journey) -> Option<u32> {
        let (ports, waiters, faults) = (&self.ports, &self.waiters, &self.faults);
        let free = |link: LinkId| {
            let port = &ports[link.index()];
            port.may_send() && port.queue.len == 0 && waiters.is_empty(link.0) && !faults.is_dead(link)
        };
        self.router.choose(self.network, switch, journey, free).map(|link| link.0)
    }

    /// The first frame of the input behind `link` has nowhere to go.
    fn drop_head(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        let id = self.frames.pop(&mut port.incoming).expect("it has a head");
        let bytes = self.frames.get(id).wire;
        port.arrived -= 1;
        port.arrived_bytes -= u64::from(bytes);
        let stage = port.stage;
        self.meter.drained(self.causes.input(stage), bytes.into(), self.now);
        self.free_room(link);
        self.lose(id, stage, LossKind::NoWay);
    }

    /// Lets `output` take one of the waiting frames, if it can.
    pub(super) fn arbitrate(&mut self, output: u32) {
        if !self.ports[output as usize].may_send() {
            return;
        }
        let Some((place, input)) = self.waiters.choose(output) else { return };
        self.waiters.take(output, place);
        let held_up = self.ports[output as usize].held_up(self.now);
        let port = &mut self.ports[input as usize];
        let id = self.frames.pop(&mut port.incoming).expect("who waits has a frame");
        port.arrived -= 1;
        port.reading = true;
        port.wanted = NONE;
        let (asked, held) = (port.asked, held_up.since(port.held_before));
        self.ports[output as usize].feeder = input;
        self.book_waiting(output, asked, held);
        self.begin_sending(output, id);
    }

    /// Accounts for the wait for `output` since `asked`, of which the part `held` is due to the far end.
    #[inline]
    pub(super) fn book_waiting(&mut self, output: u32, asked: Picos, held: Picos) {
        if asked == self.now {
            return;
        }
        let stage = self.ports[output as usize].stage;
        if held > Picos::ZERO {
            self.meter.waited(self.causes.held_up(stage), self.now - held, self.now);
        }
        let taken = self.now.since(asked) - held;
        if taken > Picos::ZERO {
            self.meter.waited(self.causes.taken(stage), self.now - taken, self.now);
        }
    }

    /// The last byte of a frame has left the input behind `link`.
    pub(super) fn left_input(&mut self, link: u32, bytes: u32) {
        let port = &mut self.ports[link as usize];
        port.reading = false;
        port.arrived_bytes -= u64::from(bytes);
        let (stage, waits) = (port.stage, port.arrived > 0);
        self.meter.drained(self.causes.input(stage), bytes.into(), self.now);
        if waits {
            self.agenda.heads.push(link);
        }
        self.free_room(link);
    }

    /// There is room for one more frame behind `link`: its sender will know.
    pub(super) fn free_room(&mut self, link: u32) {
        if let Scheme::InputBuffers { credit_delay, .. } = self.scheme {
            if credit_delay == Picos::ZERO {
                self.gain_room(link);
            } else {
                self.events.push(self.now + credit_delay, Event::Room(link));
            }
        }
    }

    /// The sender into `link` knows of room for one more frame.
    pub(super) fn gain_room(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.room += 1;
        port.keep_clock(self.now);
        if port.sender == NONE {
            self.touch(link);
        } else {
            self.feed(link);
        }
    }
}
