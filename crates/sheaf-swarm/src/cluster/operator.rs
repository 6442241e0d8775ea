//! The operator holds the start of the run, pauses it, and excludes sources and nodes.

use super::Cluster;
use crate::log::Line;
use sheaf_wire::{NodeId, SourceId};

impl Cluster {
    /// The operator releases the start. A run that waits for nothing else begins.
    pub(super) fn happen_release(&mut self) {
        self.post.note(Line::Release);
        let (now, manager) = (self.post.now, &mut self.manager);
        let is_ready = manager.machine.is_ready(now);
        self.watch.operator.ready += u64::from(is_ready);
        manager.machine.handle_hold(now, false);
        manager.is_held = false;
        self.settle_manager();
        if is_ready && !self.manager.has_started() {
            self.watch.fail("the run was ready, and did not begin when its start was released".to_owned());
        }
    }

    /// The operator begins a pause, or ends one.
    pub(super) fn happen_pause(&mut self, begins: bool) {
        self.post.note(Line::Pause(begins));
        self.book_busy();
        let (now, manager, watch) = (self.post.now, &mut self.manager, &mut self.watch);
        manager.pauses = if begins { manager.pauses + 1 } else { manager.pauses - 1 };
        let wanted = manager.pauses > 0;
        let was_paused = manager.machine.is_paused_by_operator();
        manager.machine.handle_pause(now, wanted);
        let is_paused = manager.machine.is_paused_by_operator();
        if is_paused != (wanted && manager.machine.is_running() && manager.machine.can_pause()) {
            watch.fail(format!("the run should be paused: {wanted}, and is: {is_paused}"));
        }
        // The last triggers may come in this moment, before the change is announced.
        watch.operator.ended_paused = None;
        let tallies = manager.machine.tallies();
        if is_paused && !was_paused {
            watch.operator.pauses += 1;
            watch.operator.pauses_in_flight += u64::from(tallies.in_flight > 0);
        }
        watch.operator.resumed += u64::from(was_paused && !is_paused);
        self.settle_manager();
    }

    /// The operator excludes a source, or ends an exclusion of it.
    pub(super) fn happen_exclude(&mut self, source: SourceId, begins: bool) {
        self.post.note(Line::Exclude(source, begins));
        self.book_busy();
        let excluded = &mut self.manager.excluded;
        let lasting = excluded.entry(source).or_insert(0_usize);
        *lasting = if begins { *lasting + 1 } else { *lasting - 1 };
        let wanted = excluded.iter().filter(|(_, lasting)| **lasting > 0).map(|(source, _)| *source);
        self.manager.machine.handle_exclusions(wanted);
        self.settle_manager();
    }

    /// The operator excludes a node, or ends an exclusion of it.
    pub(super) fn happen_exclude_node(&mut self, node: NodeId, begins: bool) {
        self.post.note(Line::ExcludeNode(node, begins));
        self.book_busy();
        let excluded = &mut self.manager.excluded_nodes;
        let lasting = excluded.entry(node).or_insert(0_usize);
        *lasting = if begins { *lasting + 1 } else { *lasting - 1 };
        let wanted = excluded.iter().filter(|(_, lasting)| **lasting > 0).map(|(node, _)| *node);
        self.manager.machine.handle_excluded_nodes(wanted);
        self.settle_manager();
    }

    /// Checks after each change of the event manager that a run which is held has not begun, that a run is paused while an operator or a
    /// requirement has it so, and only then, and that one which is paused has no new events. Triggers of a supervisor that were under way are taken.
    pub(super) fn look_at_operator(&mut self, had_started: bool) {
        let Self { manager, watch, supervision, options, .. } = self;
        if manager.is_held && manager.has_started() && !had_started {
            watch.fail("the run has begun while its start was held".to_owned());
        }
        let is_paused = manager.machine.is_paused();
        if manager.machine.is_running() {
            watch.operator.ended_paused = Some(is_paused);
            let waits = manager.machine.can_pause() && watch.waits_for_nodes(options);
            if is_paused != (waits || manager.machine.is_paused_by_operator()) {
                watch.fail(format!("the run waits for nodes: {waits}, and is paused: {is_paused}"));
            }
        }
        let events = manager.machine.tallies().accepted();
        manager.paused_after = is_paused.then(|| manager.paused_after.unwrap_or(events));
        if let (Some(before), None) = (manager.paused_after, supervision)
            && events != before
        {
            watch.fail(format!("the run is paused after {before} events, and has {events}"));
        }
    }
}
