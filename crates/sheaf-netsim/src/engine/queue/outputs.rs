//! Switches with a queue in front of each output, of its own or in a memory that all outputs share. Frames that do not
//! fit are lost, or wait at their input while its sender is paused.
//!
//! Pause is that of Ethernet: it stops a link, not a destination. A frame that finds its queue full stays at the input;
//! a pause frame stops the sender after the delay of the link, and another lets it continue when nothing waits at the
//! input any more. Frames sent before the sender knew stay at the input as well: the room for them ("headroom") is as large as
//! needed, and the report contains its size.

use super::causes::LossKind;
use super::frames::NONE;
use super::scheme::Scheme;
use super::simulation::{Event, Simulation};
use crate::network::SwitchId;
use crate::scenario::WhenFull;
use crate::units::Picos;

impl Simulation<'_> {
    /// Frames at the input behind `link` go into their queues, the first one first, until one does not fit.
    pub(super) fn admit(&mut self, link: u32) {
        while self.ports[link as usize].arrived > 0 {
            let port = &self.ports[link as usize];
            let id = port.incoming.head;
            let output = match port.wanted {
                NONE => self.find_way(SwitchId(port.switch), &self.frames.get(id).journey.clone()),
                wanted => Some(wanted),
            };
            let Some(output) = output else {
                self.leave_input(link);
                self.lose(id, self.ports[link as usize].stage, LossKind::NoWay);
                continue;
            };
            if self.fits(output, self.frames.get(id).wire) {
                self.leave_input(link);
                self.enqueue(output, id);
            } else if self.scheme.pauses() {
                return self.wait_at_input(link, output);
            } else {
                self.leave_input(link);
                self.lose(id, self.ports[output as usize].stage, LossKind::Full);
            }
        }
        if self.ports[link as usize].sender_paused {
            self.tell_to_go(link);
        }
    }

    /// Returns whether `bytes` have room in the queue of `output`. In a lossless network, one frame always has room in
    /// an empty queue, or it would wait forever.
    pub(super) fn fits(&self, output: u32, bytes: u32) -> bool {
        let Scheme::OutputQueues { queue_bytes, memory_bytes, full } = self.scheme else { return false };
        let port = &self.ports[output as usize];
        let bytes = u64::from(bytes);
        let in_queue = port.queued_bytes.saturating_add(bytes) <= queue_bytes;
        let in_memory = memory_bytes == u64::MAX
            || self.memory[port.source_switch as usize].saturating_add(bytes) <= memory_bytes;
        (in_queue && in_memory) || (full == WhenFull::Pause && port.queued_bytes == 0)
    }

    /// Returns whether a frame of `bytes` that arrives at `output` now would wait for nothing but other frames.
    pub(super) fn takes_at_once(&self, output: u32, bytes: u32) -> bool {
        if self.scheme.has_input_buffers() {
            self.ports[output as usize].may_send() && self.waiters.is_empty(output)
        } else {
            self.fits(output, bytes)
        }
    }

    /// The first frame leaves the input behind `link`.
    fn leave_input(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        let id = self.frames.pop(&mut port.incoming).expect("only an input that has one lets a frame go");
        port.arrived -= 1;
        port.wanted = NONE;
        if port.sender_paused {
            let bytes = u64::from(self.frames.get(id).wire);
            port.arrived_bytes -= bytes;
            self.meter.drained(self.causes.input(port.stage), bytes, self.now);
        }
    }

    /// The first frame at the input behind `link` waits for room in the queue of `output`.
    fn wait_at_input(&mut self, link: u32, output: u32) {
        let port = &mut self.ports[link as usize];
        if port.wanted != output {
            port.wanted = output;
            port.asked = self.now;
            self.waiters.join(output, link);
        }
        if port.sender_paused {
            return;
        }
        port.sender_paused = true;
        let (waiting, arrived) = (port.incoming, port.arrived as usize);
        let bytes =
            self.frames.walk(&waiting).take(arrived).map(|id| u64::from(self.frames.get(id).wire)).sum();
        let port = &mut self.ports[link as usize];
        port.arrived_bytes = bytes;
        self.meter.filled(self.causes.input(port.stage), bytes, bytes, self.now);
        if port.delay == Picos::ZERO {
            self.stop(link);
        } else {
            self.events.push(self.now + port.delay, Event::Stop(link));
        }
    }

    /// One more frame waits behind those at a stopped input.
    pub(super) fn pile_up(&mut self, link: u32, bytes: u32) {
        let port = &mut self.ports[link as usize];
        port.arrived_bytes += u64::from(bytes);
        self.meter.filled(self.causes.input(port.stage), bytes.into(), port.arrived_bytes, self.now);
    }

    fn tell_to_go(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.sender_paused = false;
        if port.delay == Picos::ZERO {
            self.go(link);
        } else {
            self.events.push(self.now + port.delay, Event::Go(link));
        }
    }

    /// The sender into `link` stops after the frame that it is sending.
    pub(super) fn stop(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.stopped = true;
        port.keep_clock(self.now);
    }

    /// Lets the sender into `link` continue.
    pub(super) fn go(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        port.stopped = false;
        port.keep_clock(self.now);
        if port.sender == NONE {
            self.serve(link);
        } else {
            self.feed(link);
        }
    }

    /// Frame `id` comes into the queue of `output`.
    fn enqueue(&mut self, output: u32, id: u32) {
        let port = &mut self.ports[output as usize];
        let frame = self.frames.get_mut(id);
        let bytes = u64::from(frame.wire);
        port.queued_bytes += bytes;
        self.memory[port.source_switch as usize] += bytes;
        self.meter.filled(self.causes.queue(port.stage), bytes, port.queued_bytes, self.now);
        frame.since = self.now;
        if port.busy || port.stopped || port.queue.len > 0 {
            frame.held_before = port.held_up(self.now);
            self.frames.push(&mut port.queue, id);
        } else {
            self.begin_sending(output, id);
        }
    }

    /// The next frame of the queue of `output` begins to leave, if there is one and it may.
    fn serve(&mut self, output: u32) {
        let port = &mut self.ports[output as usize];
        if !port.may_send() {
            return;
        }
        if let Some(id) = self.frames.pop(&mut port.queue) {
            let frame = self.frames.get(id);
            let held = port.held_up(self.now).since(frame.held_before);
            self.book_waiting(output, frame.since, held);
            self.begin_sending(output, id);
        }
    }

    /// The last byte of a frame has left the queue of `output`.
    pub(super) fn left_queue(&mut self, output: u32) {
        let port = &mut self.ports[output as usize];
        let bytes = u64::from(port.leaving);
        port.queued_bytes -= bytes;
        let switch = port.source_switch;
        self.memory[switch as usize] -= bytes;
        self.meter.drained(self.causes.queue(port.stage), bytes, self.now);
        self.serve(output);
        if self.scheme.pauses() {
            self.readmit(output);
            if matches!(self.scheme, Scheme::OutputQueues { memory_bytes, .. } if memory_bytes != u64::MAX) {
                let outputs = self.network.switches[switch as usize].outputs.clone();
                // Those above this one first, so that none is always the last.
                let above = output + 1..outputs.end;
                above.chain(outputs.start..output).for_each(|other| self.readmit(other));
            }
        }
    }

    /// Lets inputs that wait for the queue of `output` continue as far as there is room.
    fn readmit(&mut self, output: u32) {
        while let Some((place, input)) = self.waiters.choose(output) {
            let head = self.ports[input as usize].incoming.head;
            if !self.fits(output, self.frames.get(head).wire) {
                return;
            }
            self.waiters.take(output, place);
            let port = &self.ports[input as usize];
            let stage = self.ports[output as usize].stage;
            self.meter.waited(self.causes.full(stage), port.asked, self.now);
            self.admit(input);
        }
    }
}
