//! The life of every node: its begin, arriving messages, deadlines, and draining of machines.

use super::Cluster;
use super::post::{Host, Post};
use crate::log::{Line, Note, Reason, Turn};
use crate::payload::SimPayload;
use sheaf_protocol::builder::BuilderUnit;
use sheaf_protocol::liveness::LinkStatus;
use sheaf_protocol::manager::EventManager;
use sheaf_protocol::output::{OutputUnit, Sender};
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_protocol::{Deadline, Transmit};
use sheaf_wire::message::Message;
use sheaf_wire::{NodeId, Role, Timestamp};

/// The verbs of a role that every driver of the cluster needs.
pub(super) trait Machine {
    fn handle_input(&mut self, now: Timestamp, message: Message<SimPayload>);
    fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus);
    fn handle_timeout(&mut self, now: Timestamp);
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<SimPayload>>;
    fn poll_timeout(&mut self) -> Option<Deadline>;
}

macro_rules! machines {
    ($($machine:ident),*) => {$(
        impl Machine for $machine<SimPayload> {
            fn handle_input(&mut self, now: Timestamp, message: Message<SimPayload>) {
                $machine::handle_input(self, now, message);
            }

            fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
                $machine::handle_link(self, now, peer, link);
            }

            fn handle_timeout(&mut self, now: Timestamp) {
                $machine::handle_timeout(self, now);
            }

            fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<SimPayload>> {
                $machine::poll_transmit(self, now)
            }

            fn poll_timeout(&mut self) -> Option<Deadline> {
                $machine::poll_timeout(self)
            }
        }
    )*};
}

machines!(EventManager, ReadoutUnit, BuilderUnit, OutputUnit, Sender);

impl Post {
    /// Lets a machine handle its deadlines. Returns whether any was due.
    fn let_do(&mut self, node: NodeId, machine: &mut dyn Machine) -> bool {
        let due = machine.poll_timeout().filter(|deadline| deadline.at <= self.now);
        if let Some(deadline) = due {
            self.note(Line::Woken { node, why: Reason(deadline.why) });
            machine.handle_timeout(self.now);
        }
        due.is_some()
    }

    /// Transports all messages of a machine.
    pub(super) fn carry_all(&mut self, machine: &mut dyn Machine) {
        while let Some(transmit) = machine.poll_transmit(self.now) {
            self.carry(transmit);
        }
    }

    /// Logs a change of a node's state.
    pub(super) fn turn(&mut self, host: &Host, what: Turn) {
        self.note(Line::Node { node: host.node, session: host.session, what });
    }
}

impl Cluster {
    /// Returns the machine of a node, unless that is down.
    pub(super) fn machine(&mut self, node: NodeId) -> Option<&mut dyn Machine> {
        self.post_and_machine(node).1
    }

    /// Returns the same, together with clock and network.
    fn post_and_machine(&mut self, node: NodeId) -> (&mut Post, Option<&mut dyn Machine>) {
        let Self { post, manager, readouts, builders, outputs, .. } = self;
        let index = usize::from(node.index);
        let machine: Option<&mut dyn Machine> = match node.role {
            Role::Manager => Some(&mut manager.machine),
            Role::Readout => readouts[index].unit.as_mut().map(|unit| unit as _),
            Role::Builder => builders[index].unit.as_mut().map(|unit| unit as _),
            Role::Output => outputs[index].unit.as_mut().map(|unit| unit as _),
            Role::Mirror => None,
        };
        (post, machine)
    }

    /// Begins the first or a later life of a node.
    pub(super) fn begin_node(&mut self, node: NodeId) {
        let index = usize::from(node.index);
        self.watch.lives.begin(self.post.now, node);
        let me = self.host_mut(node).begin();
        match node.role {
            Role::Manager | Role::Mirror => {}
            Role::Readout => self.make_readout(index, me),
            Role::Builder => {
                self.make_builder(index, me);
                self.begin_farm(index);
                self.note_work(index);
            }
            Role::Output => self.make_output(index, me),
        }
        if node.role != Role::Manager {
            self.post.note(Line::Node { node, session: me.session, what: Turn::Began });
        }
        let host = self.host(node).clone();
        self.post.open_links(&host);
        self.change_links(node, LinkStatus::Up);
        if node.role == Role::Builder {
            self.settle_builder(index);
            self.settle_sender(index);
        } else {
            self.settle(node);
        }
    }

    pub(super) fn arrive(&mut self, to: NodeId, message: Message<SimPayload>) {
        let from = message.header.sender;
        let note = Note::of(&message);
        let lost = self.machine(to).is_none();
        self.post.note(Line::Arrived { from, to, note, lost });
        let now = self.post.now;
        if let Some(sender) = self.sender_for(from, to) {
            sender.handle_input(now, message);
            self.settle_sender(usize::from(to.index));
            return;
        }
        if !lost {
            self.watch.lives.see_word(now, &self.options, (to, from), message.header.session);
        }
        if to.role == Role::Readout {
            self.watch.readout_life(to).see_message(now, &message);
            self.see_windows_requested(to, &message.body);
            self.readouts[usize::from(to.index)].see_acknowledged(&message.header);
        }
        if to == NodeId::MANAGER {
            self.book_busy();
        }
        if let Some(machine) = self.machine(to) {
            machine.handle_input(now, message);
            self.offer_again(to);
            self.settle(to);
        }
    }

    /// Delivers a message of an output node to the builder's sender.
    fn sender_for(&mut self, from: NodeId, to: NodeId) -> Option<&mut Sender<SimPayload>> {
        let is_for_it = (from.role, to.role) == (Role::Output, Role::Builder);
        let node = is_for_it.then(|| &mut self.builders[usize::from(to.index)])?;
        node.sender.as_mut().filter(|_| node.unit.is_some())
    }

    /// Offers refused fragments again, because a readout unit may have room now.
    fn offer_again(&mut self, node: NodeId) {
        if node.role == Role::Readout {
            self.offer_held_back(usize::from(node.index));
        }
    }

    /// Wakes a node at its deadline.
    pub(super) fn wake(&mut self, node: NodeId, planned: Timestamp) {
        if !Post::is_awaited(self.host_mut(node), planned) {
            return;
        }
        let looks = node == NodeId::MANAGER
            && self.manager.machine.poll_timeout().is_some_and(|deadline| deadline.at <= self.post.now)
            && self.watch.lives.see_look(self.post.now, &self.options);
        if node == NodeId::MANAGER {
            self.book_busy();
        }
        let (post, machine) = self.post_and_machine(node);
        let due = machine.is_some_and(|machine| post.let_do(node, machine));
        if due {
            self.offer_again(node);
        }
        self.settle(node);
        if looks {
            self.watch.see_nobody_overdue(self.post.now, &self.options);
        }
        if node.role == Role::Builder {
            self.wake_sender(usize::from(node.index));
        }
        let now = self.post.now;
        if due && let Some(machine) = self.machine(node) {
            let deadline = machine.poll_timeout();
            self.watch.see_no_spin(node, now, deadline);
        }
    }

    fn wake_sender(&mut self, index: usize) {
        let Self { post, builders, .. } = self;
        let node = &mut builders[index];
        let (Some(sender), Some(_)) = (&mut node.sender, &node.unit) else { return };
        let (id, now) = (node.host.node, post.now);
        post.let_do(id, sender);
        self.settle_sender(index);
        if let Some(sender) = &mut self.builders[index].sender {
            self.watch.see_no_spin(id, now, sender.poll_timeout());
        }
    }

    /// Drains a node, as the contract of its machine requires.
    pub(super) fn settle(&mut self, node: NodeId) {
        let index = usize::from(node.index);
        match node.role {
            Role::Manager => self.settle_manager(),
            Role::Readout => self.settle_readout(index),
            Role::Builder => self.settle_builder(index),
            Role::Output => self.settle_output(index),
            Role::Mirror => {}
        }
    }

    pub(super) fn is_up(&mut self, node: NodeId) -> bool {
        self.machine(node).is_some()
    }
}
