//! The run that a controller directs.

use super::Effect;
use crate::limits::Limits;
use crate::link::{Exclusions, Launch, NextRun, Order, Report, RunResult, RunState, Wish};
use crate::means::Ending;
use crate::record::CommandLog;
use crate::request::{Command, RunSettings};
use crate::saved::SavedRun;
use crate::view::State;
use sheaf_wire::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Current {
    launch: Launch,
    settings: RunSettings,
    by: String,
    order: Order,
    /// The latest one.
    report: Report,
    is_linked: bool,
    ending: Option<Ending>,
    /// Highest number of a run of this process whose end is recorded.
    ended: Option<u32>,
    commands: CommandLog,
}

impl Current {
    pub(super) fn new(
        launch: Launch,
        (settings, by): (RunSettings, String),
        wish: Wish,
        (exclusions, commands): (Exclusions, CommandLog),
    ) -> Self {
        let order = Order { number: 1, wish, exclusions, recover: BTreeMap::new(), next: None };
        let report = Report::default();
        Self { launch, settings, by, order, report, is_linked: false, ending: None, ended: None, commands }
    }

    pub(super) fn restore(saved: SavedRun, limits: &Limits, now: Timestamp) -> Self {
        let SavedRun { launch, settings, by, order, run, report, ending, ended, commands } = saved;
        let report = Report { run, ..report };
        let ending = ending.map(|step| Ending::at(step, limits, now));
        Self { launch, settings, by, order, report, is_linked: false, ending, ended, commands }
    }

    pub(super) fn save(&self) -> SavedRun {
        SavedRun {
            launch: self.launch,
            settings: self.settings.clone(),
            by: self.by.clone(),
            order: self.order.clone(),
            run: self.report.run,
            report: Report { waits_for: None, ..self.report.clone() },
            ending: self.ending.map(Ending::step),
            ended: self.ended,
            commands: self.commands.clone(),
        }
    }

    /// Returns what starts its process.
    pub(super) fn to_launch(&self) -> Effect {
        let Order { wish, exclusions, .. } = self.order.clone();
        let (settings, by) = (self.settings.clone(), self.by.clone());
        Effect::Launch { launch: self.launch, held: wish == Wish::Hold, exclusions, settings, by }
    }

    pub(super) fn launch(&self) -> Launch {
        self.launch
    }

    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    pub(super) fn report(&self) -> &Report {
        &self.report
    }

    pub(super) fn settings(&self) -> &RunSettings {
        &self.settings
    }

    pub(super) fn by(&self) -> &str {
        &self.by
    }

    pub(super) fn commands(&self) -> &CommandLog {
        &self.commands
    }

    pub(super) fn commands_mut(&mut self) -> &mut CommandLog {
        &mut self.commands
    }

    pub(super) fn number(&self) -> Option<u32> {
        self.report.run
    }

    pub(super) fn is_linked(&self) -> bool {
        self.is_linked
    }

    pub(super) fn set_linked(&mut self, is_linked: bool) {
        self.is_linked = is_linked;
    }

    /// Takes a report. Returns the results of runs before in this process, each the first time that it is reported.
    pub(super) fn take(&mut self, report: Report) -> Vec<RunResult> {
        // A run keeps its number.
        let run = report.run.or(self.report.run);
        self.report = Report { run, ..report };
        if let Some(next) = self.order.next.as_ref().filter(|next| self.report.switched >= next.asked) {
            self.settings.clone_from(&next.settings);
            self.by.clone_from(&next.by);
            self.commands.begin_at(next.at_ms);
        }
        let news = self.report.ended.iter().filter(|ended| ended.run > self.ended).cloned().collect();
        self.ended = self.ended.max(self.report.ended.iter().filter_map(|ended| ended.run).max());
        news
    }

    /// Changes what the run shall do. Returns the order to send, if there is a link.
    pub(super) fn wish(&mut self, wish: Wish) -> Option<Order> {
        self.order.wish = wish;
        self.next_order()
    }

    /// Changes what the run shall exclude. Returns the order to send, if there is a link.
    pub(super) fn exclude(&mut self, exclusions: &Exclusions) -> Option<Order> {
        self.order.exclusions.clone_from(exclusions);
        self.next_order()
    }

    /// Has a node started again. Returns the order to send, if there is a link.
    pub(super) fn recover(&mut self, node: String) -> Option<Order> {
        self.order.recover.insert(node, self.order.number + 1);
        self.next_order()
    }

    /// Has another run follow without a gap. Returns the order to send, if there is a link.
    pub(super) fn switch(&mut self, now: Timestamp, settings: RunSettings, by: String) -> Option<Order> {
        self.order.next =
            Some(NextRun { asked: self.order.number + 1, at_ms: now.as_millis(), settings, by });
        self.next_order()
    }

    /// Returns why the run that was asked for last does not follow, if that is known.
    pub(super) fn not_switched(&self) -> Option<&str> {
        let asked = self.order.next.as_ref()?.asked;
        let refused = self.report.not_switched.as_ref().filter(|refused| refused.asked == asked)?;
        Some(&refused.why)
    }

    /// Returns whether the run that was asked for last is there.
    fn has_switched(&self) -> bool {
        self.order.next.as_ref().is_none_or(|next| self.report.switched >= next.asked)
    }

    /// Returns the nodes that are to be started again and have not been.
    pub(super) fn recovering(&self) -> BTreeSet<&str> {
        let is_due = |(node, asked): &(&String, &u64)| {
            self.report.recovered.get(*node) < Some(*asked) && self.not_recovered(node).is_none()
        };
        self.order.recover.iter().filter(is_due).map(|(node, _)| &**node).collect()
    }

    /// Returns why a node was not started again, if the latest order to do so was refused.
    fn not_recovered(&self, node: &str) -> Option<&str> {
        let asked = self.order.recover.get(node)?;
        let refused = self.report.not_recovered.get(node).filter(|refused| refused.asked >= *asked)?;
        Some(&refused.why)
    }

    /// Returns the nodes that were not started again, with the reasons.
    pub(super) fn all_not_recovered(&self) -> BTreeMap<&str, &str> {
        let refused = self.order.recover.keys();
        refused.filter_map(|node| Some((&**node, self.not_recovered(node)?))).collect()
    }

    fn next_order(&mut self) -> Option<Order> {
        self.order.number += 1;
        self.is_linked.then(|| self.order.clone())
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    pub(super) fn set_ending(&mut self, ending: Ending) {
        self.ending = Some(ending);
    }

    /// Returns whether it was told to end, or ends by itself.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some() || self.report.state == RunState::Stopping
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        self.ending.map(Ending::until)
    }

    pub(super) fn state(&self) -> State {
        if self.is_ending() {
            return State::Stopping;
        }
        match self.report.state {
            RunState::Preparing => State::Configuring,
            RunState::Ready => State::Configured,
            RunState::Running => State::Running,
            RunState::Paused => State::Paused,
            RunState::Stopping => State::Stopping,
        }
    }

    /// Returns whether the run does what a command asks for. Commands that end it are done when it is gone.
    pub(super) fn has_reached(&self, command: Command) -> bool {
        let follows = self.report.order >= self.order.number;
        let state = match command {
            Command::Configure => RunState::Ready,
            Command::Switch if !self.has_switched() => return false,
            Command::Start | Command::Resume | Command::Switch => RunState::Running,
            Command::Pause => RunState::Paused,
            Command::Stop | Command::Reset => return false,
        };
        follows && self.report.state == state
    }

    /// Returns what the run is called in texts.
    pub(super) fn name(&self) -> String {
        name_of(self.number())
    }
}

/// Returns what a run with this number, or with none, is called in texts.
pub(super) fn name_of(number: Option<u32>) -> String {
    number.map_or_else(|| "the run".to_owned(), |number| format!("run {number}"))
}
