//! Advice about causes of dead time.

use sheaf_protocol::manager::DeadTimeCause;

/// Returns what an operator does about a cause of dead time, or looks at first.
pub(crate) const fn remedy(cause: DeadTimeCause) -> &'static str {
    match cause {
        DeadTimeCause::NoBuilder => {
            "start the builder units, or find out in their logs why they do not reach the event manager"
        }
        DeadTimeCause::NoReadout => {
            "start the missing readout unit, or find out in its log why it does not reach the event manager"
        }
        DeadTimeCause::BuilderCredit => {
            "building or filtering is slower than the trigger: add builder units or filter workers, make the filter faster, \
             or raise `builder.slots` if only bursts are cut"
        }
        DeadTimeCause::Output => {
            "the disk is slower than the data: look at its free space and at other writers, reject more, or store on more disks or output nodes"
        }
        DeadTimeCause::EventManager => {
            "the event manager's processor is taken by other programs: give its thread a processor (`nodes.cpus`), or move it to another host"
        }
        DeadTimeCause::NoSupervisor => {
            "start the trigger supervisor, or find out in its log why it does not reach the event manager"
        }
        DeadTimeCause::ReadoutMemory => {
            "events wait for fragments, or are built more slowly than they come: look at the sources in trouble and at the builder units, \
             or raise `readout.buffer_bytes`"
        }
        DeadTimeCause::Paused => "resume the run",
        DeadTimeCause::TooFewNodes => {
            "start the missing nodes again; the log says why they ended, and `require` in the configuration how many the run needs"
        }
        DeadTimeCause::TakeOver => {
            "look at the log: it says why a replica of the event manager ended or was silent, and when its standby took over"
        }
    }
}
