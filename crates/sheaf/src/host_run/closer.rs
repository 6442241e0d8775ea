//! A thread that closes the parts of runs on this host, one after the other, while the nodes go on with the next run.

use super::{Reports, SIGN_OF_LIFE, preparing};
use crate::host_message::{HostReport, HostRun};
use crate::periodic::{Periodic, Turns};
use crate::run_directory::{HostPart, Scratch};
use anyhow::Context as _;
use sheaf_store::run::Manifest;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The part of a run, on its way to be closed.
pub(super) struct Closing {
    pub(super) run: u32,
    pub(super) part: PartToClose,
    /// That of the run, as JSON.
    pub(super) manifest: String,
}

/// See [`Closing`].
pub(super) enum PartToClose {
    Begun(Box<HostPart>, Scratch),
    /// A directory that another process has left, which looked after the nodes before. This is a run of the same series.
    Remains(Box<HostRun>),
}

/// See the [module](self).
pub(super) struct Closer {
    all: Option<Sender<Closing>>,
    thread: Option<JoinHandle<()>>,
    reports: Reports,
}

impl Closer {
    pub(super) fn begin(reports: Reports) -> anyhow::Result<Self> {
        let (sender, all) = channel();
        let own = reports.clone();
        let body = move || close_each(&all, &own);
        let thread = std::thread::Builder::new().name("closing".into()).spawn(body);
        Ok(Self { all: Some(sender), thread: Some(thread.context("cannot start a thread")?), reports })
    }

    /// Closes a part, and reports that.
    pub(super) fn close(&self, closing: Closing) {
        // The thread takes them as long as this lives.
        let _ = self.all.as_ref().map(|all| all.send(closing));
    }

    /// Waits until everything is closed, and reports signs of life meanwhile.
    pub(super) fn end(&mut self) {
        self.all = None;
        let Some(thread) = self.thread.take() else { return };
        let own = self.reports.clone();
        let alive = Periodic::begin("alive", move |turns: Turns| {
            while turns.next_after(SIGN_OF_LIFE) {
                own.write(&HostReport::Lives(Vec::new()));
            }
        });
        let _ = thread.join();
        drop(alive);
    }
}

fn close_each(all: &Receiver<Closing>, reports: &Reports) {
    for Closing { run, part, manifest } in all {
        let closed = part.close(&manifest);
        reports.write(&match closed {
            Ok(part) => HostReport::Closed { run, part },
            Err(error) => HostReport::NotClosed { run, why: crate::describe(&error) },
        });
    }
}

impl PartToClose {
    fn close(self, manifest: &str) -> anyhow::Result<Option<String>> {
        match self {
            Self::Begun(part, _scratch) => part.close(manifest),
            Self::Remains(run) => {
                let of_run: Manifest =
                    serde_json::from_str(manifest).context("the manifest of the run cannot be read")?;
                let created_ns = of_run.created.0;
                let configuration = of_run.configuration;
                let run = HostRun { number: of_run.run.0, created_ns, configuration, ..*run };
                let plan = preparing::plan_of(&run)?;
                HostPart::create(&plan.config, &plan.here, &preparing::mark(&run, true))?.close(manifest)
            }
        }
    }
}
