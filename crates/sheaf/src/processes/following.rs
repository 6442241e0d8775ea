//! The run that follows in the same processes, without a gap.

use super::succession::CONFIGURATION;
use super::{Family, GRACE, PATIENCE, PERIOD, Places, RESTARTS};
use crate::node_process::NodeKey;
use crate::page::View;
use crate::plan::Plan;
use crate::steered::{NextRun, NodeRequest};
use rustix::process::Signal;
use sheaf_config::NodeConfig;
use sheaf_node::restarts::Restarts;
use sheaf_telemetry::log_as;
use sheaf_wire::Role;
use std::time::Instant;

impl Family {
    /// Has the nodes begin the next run, which they have prepared. A process that has ended is started again.
    pub(super) fn follow(
        mut self,
        plan: &Plan,
        Places { scratch, hosts, .. }: &Places<'_>,
        View { traces, .. }: View<'_>,
    ) -> anyhow::Result<Self> {
        let run = plan.config.run.number;
        self.launch.config = scratch.path.join(CONFIGURATION);
        self.launch.key =
            self.key.as_deref().map(|digits| NodeKey::keep(&scratch.path, digits)).transpose()?;
        self.launch.following = self.next_event.map(|first| (self.met_in, first));
        self.hosts = hosts.cloned();
        if let Some((hosts, (met_in, first))) = self.hosts.as_ref().zip(self.launch.following) {
            hosts.begin((met_in.0, first.0));
        }
        (self.lost, self.stops, self.no_space) = (self.lost.follow(), 0, None);
        let nodes: Vec<NodeConfig> = self.processes.iter().map(|process| process.node.clone()).collect();
        self.next.begin_run(run.0, &nodes, self.controls.as_ref());
        self.begin_traces(plan, traces)?;
        let controls = self.controls.as_ref();
        let hands_over = controls.is_some_and(|controls| controls.succession.follows());
        let next = NextRun { order: 0, run: run.0, configuration: self.launch.config.clone(), hands_over };
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            process.handed_over = None;
            process.is_reported = false;
            process.is_killed = false;
            if process.ended.is_none()
                && self.next.lines.tell(process.node.id, &NodeRequest::Begin(next.clone()))
            {
                continue;
            }
            // One that takes no requests has been stopped.
            process.child.kill();
            self.begin_anew(index)?;
        }
        self.begin_steering();
        Ok(self)
    }

    /// Starts a process for a node whose process has ended, or hangs.
    fn begin_anew(&mut self, index: usize) -> anyhow::Result<()> {
        let process = &self.processes[index];
        let name = &process.node.name;
        log_as!(PROCESS_RESTARTED, peer = name; "{name} has not handed over to this run; it is started again");
        if process.node.id.role == Role::Readout {
            self.lost.readouts_before += 1;
        }
        let child = self.spawn(&process.node, process.listener.as_ref())?;
        let process = &mut self.processes[index];
        (process.child, process.started, process.ended) = (child, Instant::now(), None);
        process.restarts = Restarts::new(RESTARTS);
        if std::mem::take(&mut process.is_recovered)
            && let Some(controls) = &self.controls
        {
            controls.recovery.note_done(process.node.id);
        }
        Ok(())
    }

    /// Ends the processes, because no run follows after all.
    pub(crate) fn abandon(mut self) {
        self.next.lines.tell_all(&NodeRequest::End);
        let (begun, mut is_asked) = (Instant::now(), false);
        while !self.have_ended() {
            if !is_asked && begun.elapsed() > GRACE {
                is_asked = true;
                self.processes.iter().for_each(|process| process.signal(Signal::TERM));
            }
            if begun.elapsed() > PATIENCE + self.programs {
                // Whoever is left is killed with this.
                return;
            }
            std::thread::sleep(PERIOD);
        }
    }

    fn have_ended(&mut self) -> bool {
        let mut all = true;
        for process in &mut self.processes {
            if process.ended.is_none() {
                process.ended = process.child.try_wait().ok().flatten();
            }
            all &= process.ended.is_some();
        }
        all
    }
}
