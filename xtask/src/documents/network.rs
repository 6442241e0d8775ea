//! A network namespace for each page, so that pages that use the same ports run at the same time.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Enables loopback in a new namespace and becomes the program that follows.
const ENTER: &str = r#"ip link set lo up && exec "$@""#;

/// Returns whether this process may create network namespaces.
pub(super) fn has_namespaces() -> bool {
    let mut probe = own("true".as_ref());
    probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// Returns the call of a program in a network namespace of its own. Its process is the one that is started.
pub(super) fn own(program: &OsStr) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", ENTER, "sh"]).arg(program);
    command
}
