//! Sources of a shared library, from the configuration.

use crate::Verdict;
use crate::arguments::PollArguments;
use crate::blocks::blocks;
use crate::plan::Plan;
use anyhow::Context;
use sheaf_config::{Config, NodeConfig, SourceKind, SourceLibrary};
use sheaf_feed::{SourceClient, environment};
use sheaf_filter::{LibrarySource, PollSetup};
use sheaf_node::polled::feeder;
use sheaf_node::sources::{FragmentMemory, PoolSize};
use sheaf_protocol::Identity;
use sheaf_source::Source;
use sheaf_wire::{ByteCount, RunNumber};
use std::ffi::OsString;

/// Checks that the library of a configuration can be loaded, if it names one.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    let SourceLibrary { path, symbol, .. } = &config.source.library;
    match path.as_deref().filter(|_| config.source.kind == SourceKind::Library) {
        Some(path) => Ok(LibrarySource::check(path, symbol)?),
        None => Ok(()),
    }
}

impl Plan {
    /// Opens the library of a readout unit, and returns its sources. `None` where the sources are others, or a process of its own
    /// polls the library.
    pub(crate) fn library_sources(
        &self,
        me: &Identity,
        node: &NodeConfig,
        memory: &FragmentMemory,
    ) -> anyhow::Result<Option<Vec<Box<dyn Source>>>> {
        let source = self.loading().source;
        let SourceLibrary { path, symbol, parameters, isolated, batch_fragments } = source.library.clone();
        let Some(path) = path.filter(|_| source.kind == SourceKind::Library && !isolated) else {
            return Ok(None);
        };
        let max_fragment = self.max_fed_fragment();
        let setup = PollSetup {
            run: me.run,
            parameters,
            sources: node.sources.clone(),
            max_fragment,
            batch_fragments: batch_fragments as usize,
        };
        let library = LibrarySource::open(&path, &symbol, &setup)?;
        let block_bytes = usize::try_from(source.block.max(max_fragment).0).unwrap_or(usize::MAX);
        let size = PoolSize { block_bytes, blocks: blocks(&source, max_fragment) };
        let largest = usize::try_from(max_fragment.0).unwrap_or(usize::MAX);
        Ok(Some(memory.polled(library, &node.sources, largest, size)))
    }

    /// Returns the arguments of the process that polls the library of a readout unit, if it has one.
    pub(crate) fn poll_command(&self) -> Option<Vec<OsString>> {
        let source = self.loading().source;
        let SourceLibrary { path, symbol, parameters, batch_fragments, .. } = source.library.clone();
        let path = path.filter(|_| source.kind == SourceKind::Library && source.is_fed())?;
        // The guard may be in another directory.
        let path = std::path::absolute(&path).unwrap_or(path);
        let mut arguments: Vec<OsString> =
            vec!["poll".into(), "--quiet".into(), "--library".into(), path.into()];
        arguments.extend(["--symbol".into(), symbol.into()]);
        arguments.push(format!("--parameters={parameters}").into());
        arguments.push(format!("--max-fragment={}", self.max_fed_fragment().0).into());
        arguments.push(format!("--batch={batch_fragments}").into());
        Some(arguments)
    }
}

/// `sheaf poll`: polls a library of sources and feeds the readout unit that has started this process.
pub(crate) fn command(arguments: &PollArguments) -> anyhow::Result<Verdict> {
    let run = std::env::var(environment::RUN).ok().and_then(|run| run.parse().ok()).unwrap_or_default();
    let setup = PollSetup {
        run: RunNumber(run),
        parameters: arguments.library.parameters.clone(),
        sources: environment::sources()?,
        max_fragment: ByteCount(arguments.max_fragment),
        batch_fragments: arguments.batch,
    };
    let library = match LibrarySource::open(&arguments.library.path, &arguments.library.symbol, &setup) {
        Ok(library) => library,
        Err(error) => {
            log::error!("{error}");
            return Ok(Verdict::Refused);
        }
    };
    let client = SourceClient::from_environment()?;
    feeder::feed(library, client, arguments.max_fragment, &mut std::io::stdout())
        .context("the library cannot feed its readout unit")?;
    Ok(Verdict::Good)
}
