//! Messages of nodes, in the order in which their channels deliver them.

use super::{EventManager, ManagerEvent, Phase, Triggers};
use crate::ledger::{Counter, NodeBooks};
use sheaf_wire::message::{Announcement, Body, Request, Work};
use sheaf_wire::{NodeId, Role, Timestamp};

impl<P: Clone> EventManager<P> {
    pub(super) fn handle_body(&mut self, now: Timestamp, from: NodeId, body: Body<P>) {
        // A node that sends anything new is alive, and its report may follow.
        self.phase.prolong_closing(now);
        match (from.role, body) {
            // Also of a unit that is excluded: it holds the fragments of these events until they end.
            (Role::Readout, Body::Announce(announcements)) => self.handle_announcements(now, &announcements),
            (Role::Readout, Body::ReadoutStatus(status)) => {
                if self.readouts.note_status(now, from.index, status) {
                    self.phase.prolong_draining(now);
                }
                if status.declines && self.phase.is_running() {
                    // A program declined the start before the start command reached its readout unit.
                    self.events.push_back(ManagerEvent::StartDeclined { node: from });
                    self.dead_time.end(now);
                    self.phase.give_up(now);
                }
            }
            (Role::Builder, Body::Request(request)) => self.handle_request(now, from.index, &request),
            (Role::Builder, Body::Disagreements(reports)) => self.handle_disagreements(&reports),
            (Role::Readout, Body::Renumbered(answer)) => self.handle_renumbered(now, answer),
            (Role::Readout, Body::Excluded(answer)) => self.handle_excluded(now, answer),
            (Role::Readout, Body::Record(record)) => self.handle_record(from, record),
            (_, Body::Report(counts)) => {
                match from.role {
                    Role::Readout => self.readouts.note_report(from.index),
                    Role::Builder => self.flow.note_report(from.index),
                    Role::Output => self.outputs.note_report(from),
                    Role::Manager | Role::Mirror => {}
                }
                let books = Box::new(NodeBooks::from_counts(&counts));
                self.events.push_back(ManagerEvent::Reported { node: from, books });
            }
            _ => self.counters.count(Counter::UnexpectedMessages, 1),
        }
    }

    fn handle_announcements(&mut self, now: Timestamp, announcements: &[Announcement]) {
        if self.config.triggers != Triggers::Announced {
            return;
        }
        match self.phase.get() {
            Phase::Running => {
                self.flow.accept_announced(now, announcements);
                if self.flow.is_full() {
                    self.accept_before_next(now, announcements);
                }
            }
            Phase::Draining { .. } if self.hands_over() => self.accept_before_next(now, announcements),
            Phase::Draining { .. } if self.flow.in_flight() > 0 => {
                // Sources deliver these events before one in flight. Without an end they would fill the readout units, and the fragments
                // of the event in flight would find no room.
                let ceiling = self.flow.ceiling();
                let mut before = announcements.to_vec();
                before.retain(|announcement| announcement.event < ceiling);
                self.flow.accept_announced(now, &before);
            }
            _ => {}
        }
    }

    fn handle_request(&mut self, now: Timestamp, builder: u16, request: &Request) {
        let state = self.flow.builders().get(builder);
        let works = [state.work(), request.work].into_iter().any(|work| work != Work::None);
        // A builder whose workers load their filters takes events as soon as they have.
        let has_worked = (works && state.outstanding() > 0) || state.is_loading();
        let returned = self.flow.handle_request(now, builder, request, &mut self.events);
        if has_worked || returned.some_ended {
            // While a builder works, did so until now, or events end, the other events may end as well.
            self.phase.prolong_draining(now);
        }
        if returned.stale > 0 {
            self.counters.count(Counter::StaleMessages, returned.stale);
        }
        self.outputs.keep(&request.kept);
        self.announce_shifts(now);
    }
}
