//! Active readout units, from the configuration.

use crate::assemble::{PAGE_BYTES, Plan};
use crate::describe;
use sheaf_buffer::{Heap, Memory, Pool};
use sheaf_config::NodeConfig;
use sheaf_filter::{LibraryPreprocessor, Preprocessor, Setup};
use sheaf_node::preprocessing::{
    MOST_LEFT_BEHIND, MemoryMaker, OutputMemory, Outputs, PreprocessingSetup, PreprocessorMaker,
};
use sheaf_protocol::Identity;
use sheaf_transport::shm::Arena;
use sheaf_wire::{ByteCount, Role};

/// The memory for a worker's results is in so many blocks: what is in one is free again when all of it is.
const BLOCKS: u64 = 8;

impl Plan {
    /// How a readout unit processes fragments, where it does. With an arena, results are written there.
    pub(crate) fn preprocessing(
        &self,
        node: &NodeConfig,
        me: &Identity,
        arena: Option<&Arena>,
    ) -> Option<PreprocessingSetup> {
        let preprocessing = &self.config.preprocessing;
        let path = preprocessing.path.clone().filter(|_| self.is_active(node))?;
        let (symbol, run) = (preprocessing.symbol.clone(), me.run);
        let setup = Setup { run, tags: Vec::new(), parameters: preprocessing.parameters.clone() };
        let make: PreprocessorMaker = Box::new(move || {
            let opened = LibraryPreprocessor::open(&path, &symbol, &setup);
            let preprocessor: Box<dyn Preprocessor> =
                Box::new(opened.map_err(|error| describe(&anyhow::Error::new(error)))?);
            Ok(preprocessor)
        });
        let sources = &preprocessing.sources;
        Some(PreprocessingSetup {
            sources: (!sources.is_empty()).then(|| sources.iter().copied().collect()),
            workers: preprocessing.workers,
            outstanding_events: preprocessing.outstanding_events as usize,
            time_limit: preprocessing.time_limit,
            make,
            memory: match arena.cloned() {
                Some(arena) => self.results(move || arena.lender()),
                None => self.results(|| Heap),
            },
        })
    }

    fn results<M: Memory + 'static>(&self, memory: impl Fn() -> M + Send + 'static) -> MemoryMaker {
        let block = self.result_block().as_usize();
        Box::new(move || -> Box<dyn OutputMemory> {
            Box::new(Outputs::new(Pool::with_memory(memory(), block, BLOCKS as usize)))
        })
    }

    fn result_block(&self) -> ByteCount {
        ByteCount(self.config.preprocessing.memory.0 / BLOCKS)
    }

    /// What the results of a node take of its arena. Workers that hang keep theirs.
    pub(crate) fn result_bytes(&self, node: &NodeConfig) -> ByteCount {
        let preprocessing = &self.config.preprocessing;
        if preprocessing.path.is_none() || !self.is_active(node) {
            return ByteCount::ZERO;
        }
        let worker = BLOCKS * (self.result_block().0 + PAGE_BYTES);
        ByteCount(worker.saturating_mul(u64::from(preprocessing.workers) + MOST_LEFT_BEHIND as u64))
    }

    /// Whether a node reads sources whose fragments are processed.
    fn is_active(&self, node: &NodeConfig) -> bool {
        let chosen = &self.config.preprocessing.sources;
        let is_chosen = chosen.is_empty() || node.sources.iter().any(|source| chosen.contains(source));
        node.id.role == Role::Readout && is_chosen
    }
}
