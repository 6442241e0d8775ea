//! Nodes that an operator wants to be started again.

use super::Family;
use crate::steered::NodeRequest;
use sheaf_telemetry::log_as;
use sheaf_wire::{NodeId, Role};

impl Family {
    /// Has the event manager step down: it ends when its standby has taken over, and is started again as the standby.
    fn step_down(&mut self) {
        let acting = self.next.lines.manager();
        let index = self.processes.iter().position(|process| process.node.id == acting && !process.is_over());
        match index.filter(|index| self.has_other_replica(*index)) {
            Some(index) => {
                self.processes[index].is_recovered = true;
                self.next.lines.tell(acting, &NodeRequest::StepDown);
            }
            None => self.take_refusal()("it has no standby".to_owned()),
        }
    }

    /// Returns what takes the reason why the event manager does not step down.
    pub(super) fn take_refusal(&self) -> Box<dyn Fn(String) + Send> {
        let controls = self.controls.clone();
        Box::new(move |why| {
            if let Some(controls) = &controls {
                controls.recovery.refuse(NodeId::MANAGER, why);
            }
        })
    }

    /// Kills the processes of nodes that an operator wants to be started again, and starts those that have ended.
    pub(super) fn kill_to_recover(&mut self) -> anyhow::Result<()> {
        let asked = self.controls.as_ref().map(|controls| controls.recovery.take()).unwrap_or_default();
        for node in asked {
            if node.role == Role::Manager {
                self.step_down();
                continue;
            }
            let index = self.processes.iter().position(|process| process.node.id == node);
            let Some(index) = index else { continue };
            let process = &mut self.processes[index];
            process.is_recovered = true;
            if process.ended.is_none() {
                process.child.kill();
                continue;
            }
            let name = &process.node.name;
            log_as!(PROCESS_RESTARTED, peer = name; "{name} is started again, as asked for");
            self.start_again(index)?;
        }
        Ok(())
    }
}
