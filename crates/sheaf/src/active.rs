//! Active readout units, from the configuration.

use crate::arguments::{LibraryArguments, PreprocessorArguments};
use crate::blocks::PAGE_BYTES;
use crate::own_program::own_program;
use crate::plan::Plan;
use crate::{Verdict, describe};
use anyhow::{Context, anyhow};
use rustix::process::Signal;
use sheaf_config::{Config, NodeConfig};
use sheaf_filter::{FilterFailure, LibraryPreprocessor, Preprocessor, Setup};
use sheaf_node::preprocessing::isolated::{self, Isolated, LaunchWorker, WorkerProcess};
use sheaf_node::preprocessing::{
    Growth, MOST_LEFT_BEHIND, MemoryMaker, NextPreprocessors, PreprocessingSetup, PreprocessorMaker,
};
use sheaf_node::sources::{FragmentMemory, PoolSize};
use sheaf_protocol::Identity;
use sheaf_shm::Arena;
use sheaf_wire::{ByteCount, Role, RunNumber};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Number of blocks in the memory for a worker's results. A block is reused once all results in it have been released.
const BLOCKS: u64 = 8;

/// Parts of a preprocessor: its library, version and options.
#[derive(Clone)]
struct Library {
    path: PathBuf,
    symbol: String,
    setup: Setup,
}

impl Library {
    fn open(&self) -> Result<Box<dyn Preprocessor>, FilterFailure> {
        let opened = LibraryPreprocessor::open(&self.path, &self.symbol, &self.setup);
        Ok(Box::new(opened.map_err(|error| FilterFailure(describe(&anyhow::Error::new(error))))?))
    }

    /// Returns the peer that starts processes of this program with the library.
    fn launcher(self) -> LaunchWorker {
        Box::new(move || {
            let (stream, its_end) = UnixStream::pair()?;
            let mut command = Command::new(own_program()?);
            command.arg("preprocessor").arg("--library").arg(&self.path);
            command.args(["--symbol", &self.symbol, "--run", &self.setup.run.to_string()]);
            command.arg(format!("--parameters={}", self.setup.parameters));
            // In a group of its own: Ctrl-C ends the run, and that ends its processes.
            command.stdin(OwnedFd::from(its_end)).stdout(Stdio::null()).process_group(0);
            let child = command.spawn()?;
            Ok(WorkerProcess { stream, end: Box::new(move || end(child)) })
        })
    }
}

/// Ends a process, if it has not ended, and takes note of it.
fn end(mut child: Child) {
    // Both fail only where it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the preprocessor that a configuration names, if any.
fn library(config: &Config, run: RunNumber) -> Option<Library> {
    let preprocessing = &config.preprocessing;
    let (symbol, parameters) = (preprocessing.symbol.clone(), preprocessing.parameters.clone());
    let setup = Setup { run, tags: Vec::new(), parameters };
    Some(Library { path: preprocessing.path.clone()?, symbol, setup })
}

/// The preprocessor of a configuration, where it has one.
pub(crate) fn preprocessor(config: &Config, run: RunNumber) -> anyhow::Result<Option<Box<dyn Preprocessor>>> {
    library(config, run).map(|library| library.open().map_err(anyhow::Error::from)).transpose()
}

/// `sheaf preprocessor`: processes fragments for a worker of a readout unit, which is at the other end of standard input.
pub(crate) fn command(arguments: &PreprocessorArguments) -> anyhow::Result<Verdict> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot watch the parent")?;
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("cannot use standard input")?;
    let LibraryArguments { path, symbol, parameters } = &arguments.library;
    let setup = Setup { run: RunNumber(arguments.run), tags: Vec::new(), parameters: parameters.clone() };
    let library = Library { path: path.clone(), symbol: symbol.clone(), setup };
    let stream = UnixStream::from(input);
    isolated::serve(stream, isolated::FRAGMENT_BYTES, || library.open())
        .context("the readout unit went away")?;
    Ok(Verdict::Good)
}

impl Plan {
    /// Returns how a readout unit processes fragments, or `None` where it does not. Results are written to the arena if
    /// there is one.
    pub(crate) fn preprocessing(
        &self,
        node: &NodeConfig,
        me: &Identity,
        arena: Option<&Arena>,
    ) -> Option<PreprocessingSetup> {
        let make = self.preprocessors(node, me)?;
        let preprocessing = &self.config.preprocessing;
        let limit = preprocessing.time_limit;
        let sources = &preprocessing.sources;
        Some(PreprocessingSetup {
            sources: (!sources.is_empty()).then(|| sources.iter().copied().collect()),
            workers: preprocessing.workers,
            outstanding_events: preprocessing.outstanding_events as usize,
            // A worker with a process of its own enforces the limit itself.
            time_limit: limit.filter(|_| !preprocessing.processes),
            make,
            growth: Growth {
                extra: preprocessing.extra,
                fragment: self.config.max_fragment(),
                event: self.config.frame_payload(),
                message: self.config.protocol.message,
            },
            memory: self.results(FragmentMemory::of(arena)),
        })
    }

    /// Returns the maker of the preprocessors of a readout unit, or `None` if it has none.
    fn preprocessors(&self, node: &NodeConfig, me: &Identity) -> Option<PreprocessorMaker> {
        let library = library(&self.loading(), me.run).filter(|_| self.is_active(node))?;
        let preprocessing = &self.config.preprocessing;
        let limit = preprocessing.time_limit;
        Some(if preprocessing.processes {
            Box::new(move || {
                Ok(Box::new(Isolated::start(library.clone().launcher(), limit).map_err(FilterFailure::new)?))
            })
        } else {
            Box::new(move || library.open())
        })
    }

    /// Makes the preprocessors of a readout unit for a run that follows another one, if it has some.
    ///
    /// # Errors
    /// If one cannot be made, or the present run `is_over` before.
    pub(crate) fn next_preprocessors(
        &self,
        node: &NodeConfig,
        me: &Identity,
        is_over: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<NextPreprocessors>> {
        let Some(make) = self.preprocessors(node, me) else { return Ok(None) };
        let made = NextPreprocessors::make(me.node, self.config.preprocessing.workers, make, is_over)?;
        let over = || anyhow!("the run has ended while the preprocessors of {} were being made", me.node);
        made.map(Some).ok_or_else(over)
    }

    fn results(&self, memory: FragmentMemory) -> MemoryMaker {
        let size = PoolSize { block_bytes: self.result_block().as_usize(), blocks: BLOCKS as usize };
        Box::new(move || memory.outputs(size))
    }

    fn result_block(&self) -> ByteCount {
        ByteCount(self.config.preprocessing.memory.0 / BLOCKS)
    }

    /// Bytes of a node's arena that processed results take. Workers that hang keep their share.
    pub(crate) fn result_bytes(&self, node: &NodeConfig) -> ByteCount {
        let preprocessing = &self.config.preprocessing;
        if preprocessing.path.is_none() || !self.is_active(node) {
            return ByteCount::ZERO;
        }
        let worker = BLOCKS * (self.result_block().0 + PAGE_BYTES);
        ByteCount(worker.saturating_mul(u64::from(preprocessing.workers) + MOST_LEFT_BEHIND as u64))
    }

    /// Returns whether a node reads sources whose fragments are preprocessed.
    fn is_active(&self, node: &NodeConfig) -> bool {
        let chosen = &self.config.preprocessing.sources;
        let is_chosen = chosen.is_empty() || node.sources.iter().any(|source| chosen.contains(source));
        node.id.role == Role::Readout && is_chosen
    }
}
