//! `sheaf next`: ends a run in good order, so that the next begins with the currently installed code.

use crate::Verdict;
use crate::arguments::NextArguments;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use sheaf_store::run::{Holder, MANIFEST_NAME, RunLock};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn command(arguments: &NextArguments) -> anyhow::Result<Verdict> {
    let (run, holder) = running(&arguments.run)?;
    let (path, process) = (run.display(), holder.process);
    if holder.host != host() {
        bail!("{path} is written by process {process} of host {}: run `sheaf next` there", holder.host);
    }
    if !holder.makes_more {
        bail!(
            "no run follows {path}: its process makes one run (`run.runs`). To end it cleanly, run `kill -INT {process}`"
        );
    }
    let pid = Pid::from_raw(process.cast_signed())
        .with_context(|| format!("{path}: no process has the number {process}"))?;
    kill_process(pid, Signal::USR1).with_context(|| {
        format!("cannot signal process {process}, which writes {path}; is it of another user?")
    })?;
    crate::print::print(&format!(
        "{path} ends when its events in flight are done; then the next run begins\n"
    ))?;
    Ok(Verdict::Good)
}

/// Finds the run in progress at a path: a run's directory, or a directory of runs with one in progress.
fn running(path: &Path) -> anyhow::Result<(PathBuf, Holder)> {
    let holder = |run: &Path| {
        RunLock::holder(run).with_context(|| format!("cannot tell which process writes {}", run.display()))
    };
    if path.join(MANIFEST_NAME).exists() {
        return match holder(path)? {
            Some(holder) => Ok((path.to_owned(), holder)),
            None => bail!("{} has ended: no process writes it", path.display()),
        };
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read directory {}", path.display()))?;
    let mut running = Vec::new();
    for entry in entries {
        let run = entry.with_context(|| format!("cannot read directory {}", path.display()))?.path();
        if run.is_dir()
            && let Some(holder) = holder(&run)?
        {
            running.push((run, holder));
        }
    }
    running.sort_by(|(a, _), (b, _)| a.cmp(b));
    let process = |(_, holder): &(PathBuf, Holder)| (holder.host.clone(), holder.process);
    let is_of_one_process = running.windows(2).all(|pair| process(&pair[0]) == process(&pair[1]));
    let names = running.iter().map(|(run, _)| run.display().to_string()).collect::<Vec<_>>().join(", ");
    match running.pop() {
        None => bail!("no run in {} is in progress; name the directory of one that is", path.display()),
        // A process closes the run before while the next one goes on.
        Some(newest) if is_of_one_process => Ok(newest),
        Some(_) => bail!("several runs are in progress: name one of {names}"),
    }
}

/// The name of this host.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_its_process_still_closes_does_not_hide_the_one_in_progress() {
        let place = tempfile::tempdir().unwrap();
        let begin = |name: &str, process: u32| {
            let run = place.path().join(name);
            fs::create_dir(&run).unwrap();
            RunLock::take(&run, &Holder { process, host: host(), makes_more: true }).unwrap()
        };
        let of_directory = || running(place.path()).map(|(run, _)| run);
        assert!(of_directory().unwrap_err().to_string().contains("no run in"));
        let before = begin("run000001", 7);
        assert_eq!(of_directory().unwrap(), place.path().join("run000001"));
        let _present = begin("run000002", 7);
        assert_eq!(of_directory().unwrap(), place.path().join("run000002"), "both are of one process");
        let _other = begin("run000003", 8);
        assert!(of_directory().unwrap_err().to_string().contains("several runs are in progress"));
        drop(before);
        assert!(of_directory().is_err(), "runs of two processes");
    }
}
