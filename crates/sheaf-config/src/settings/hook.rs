//! Commands before and after the transitions of a run.

use super::HOUR;
use crate::choice::choice;
use crate::codec::{command_line, maybe, milliseconds, pick, switch};
use crate::knob::section;
use sheaf_wire::Nanos;

choice! {
    /// Transition of a run at which a hook is called.
    HookTransition {
        /// when everything else is ready and before the nodes begin; the run waits for it
        BeforeStart = "before_start",
        /// when the run takes triggers; nothing waits for it
        AfterStart = "after_start",
        /// when somebody stops the run, before its triggers end; not for a run that ends by itself
        BeforeStop = "before_stop",
        /// when the run has been closed, whatever ended it; the next run waits for it
        AfterStop = "after_stop",
    }
}

section! {
    /// A [command](../operating/control.md#hooks) that is called at a transition of the run. It gets a JSON object on standard input. The
    /// hooks of a transition are called one after the other, in the order of their names.
    Hook "hook.NAME" {
        /// Transition. Required.
        on: Option<HookTransition> = None, "on", maybe(pick());
        /// The program and its arguments: `["/usr/local/bin/hv", "on"]`. Required. A program without `/` is looked up in `PATH`.
        command: Vec<String> = Vec::new(), "command", command_line();
        /// Time after which the command and everything that it has started in its process group is ended: by SIGTERM, and 2 s later by SIGKILL.
        timeout: Nanos = Nanos::from_secs(30), "timeout_ms", milliseconds(Nanos::from_millis(1), HOUR);
        /// Whether the run is refused if the command fails. Only for `before_start`, where the default is true; the failure of any other
        /// hook is a warning.
        required: Option<bool> = None, "required", maybe(switch());
    }
}
