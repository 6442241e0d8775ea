//! The programs that feed a measurement.

use super::arguments::FeedArguments;
use super::processes::Companions;
use anyhow::Context;
use rustix::process::Signal;
use sheaf_bench::feed::FeedClient;
use sheaf_feed::environment;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a program that feeds `source` of the readout unit at `address`. It belongs to `companions` from then on.
pub(super) fn start(
    arguments: &FeedArguments,
    (size, batch): (u64, u32),
    address: &Path,
    source: u32,
    companions: &mut Companions,
) -> anyhow::Result<()> {
    let mut command = match &arguments.client {
        Some(client) => its_own(client, (size, batch), address, source),
        None => built_in(arguments, (size, batch), address, source)?,
    };
    // Standard output has the results. Ctrl-C reaches the measurement alone, which ends the run, and thereby the program.
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    companions.0.push(command.spawn().context("cannot start the program that feeds the measurement")?);
    Ok(())
}

fn built_in(
    arguments: &FeedArguments,
    (size, batch): (u64, u32),
    address: &Path,
    source: u32,
) -> anyhow::Result<Command> {
    let assignment = FeedClient {
        address: address.to_owned(),
        sources: vec![source],
        bytes: usize::try_from(size).context("a fragment of this size has no place in memory")?,
        batch: batch as usize,
        checksum: arguments.checksum,
        keep: !arguments.no_keep,
        in_place: arguments.in_place,
        events: None,
    };
    let text = serde_json::to_string(&assignment).context("an assignment is JSON")?;
    let mut command =
        Command::new(std::env::current_exe().context("cannot determine the path of this program")?);
    command.args(["bench", "feeder", &text]);
    Ok(command)
}

/// Returns the command of the user, which finds what it needs in its environment.
fn its_own(client: &str, (size, batch): (u64, u32), address: &Path, source: u32) -> Command {
    let mut command = Command::new("sh");
    // The shell divides the command line and becomes the program, so that its process id is that of the program.
    command.args(["-c", &format!("exec {client} \"$@\""), "sh", &size.to_string(), &batch.to_string()]);
    command.env(environment::ADDRESS, address).env(environment::SOURCES, source.to_string());
    command.env(environment::NAME, "bench");
    command
}

/// Runs the child: feeds its sources until the run ends.
pub(super) fn be_feeder(assignment: &str) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot watch the parent")?;
    let feeder: FeedClient =
        serde_json::from_str(assignment).context("this command is internal to `sheaf bench feed`")?;
    Ok(feeder.run()?)
}
