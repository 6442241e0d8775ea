//! Sources of a readout unit in the memory that its transport sends from.
//!
//! Generic code is compiled, and optimised, in the crate that knows its types. The sources are compiled here, so that
//! the command needs no optimisation.

use crate::polled;
use crate::preprocessing::{OutputMemory, Outputs};
use sheaf_buffer::{Heap, Memory, Pool};
use sheaf_feed::{FeedSetup, OpenError};
use sheaf_filter::LibrarySource;
use sheaf_shm::Arena;
use sheaf_source::described::{Description, Limits, ListenError, PacketPath, StreamSource};
use sheaf_source::emulator::EmulatorError;
use sheaf_source::timed::{
    CaptureSource, Decoder, DecoderMaker, FeedConfig, SliceSource, TimedSourceError, UdpSource,
};
use sheaf_source::windows::{HitArchive, WindowSource};
use sheaf_source::{EmulatedSource, EmulatorConfig, Source};
use sheaf_wire::{ByteCount, Nanos, SourceId};
use std::net::SocketAddr;
use std::path::Path;

/// Memory for fragments.
#[derive(Clone, Debug)]
pub enum FragmentMemory {
    /// The heap.
    Heap,
    /// Memory that other processes of this host can read.
    Arena(Arena),
}

/// Size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Largest number of blocks.
    pub blocks: usize,
}

impl PoolSize {
    fn pool<M: Memory>(self, memory: M) -> Pool<M> {
        Pool::with_memory(memory, self.block_bytes, self.blocks)
    }
}

impl FragmentMemory {
    /// Returns the memory of a node: its arena, or the heap where it has none.
    #[must_use]
    pub fn of(arena: Option<&Arena>) -> Self {
        arena.cloned().map_or(Self::Heap, Self::Arena)
    }

    /// Returns an emulated source.
    ///
    /// # Errors
    /// If the configuration contradicts itself.
    pub fn emulated(&self, id: SourceId, config: &EmulatorConfig) -> Result<Box<dyn Source>, EmulatorError> {
        Ok(match self {
            Self::Heap => Box::new(EmulatedSource::with_memory(id, config, Heap)?),
            Self::Arena(arena) => Box::new(EmulatedSource::with_memory(id, config, arena.lender())?),
        })
    }

    /// Returns the source of a card in a capture file, from the first to the last of `slices`.
    ///
    /// # Errors
    /// A [`TimedSourceError`].
    pub fn captured(
        &self,
        (path, slices): (&Path, (u64, u64)),
        decoder: Box<dyn Decoder>,
        config: &FeedConfig,
        size: PoolSize,
    ) -> Result<Box<dyn Source>, TimedSourceError> {
        Ok(match self {
            Self::Heap => Box::new(CaptureSource::open(path, decoder, config, slices, size.pool(Heap))?),
            Self::Arena(arena) => {
                Box::new(CaptureSource::open(path, decoder, config, slices, size.pool(arena.lender()))?)
            }
        })
    }

    /// Returns the time slices of the fragments of `source`, from the first to the last of `slices` if these are known.
    ///
    /// # Errors
    /// A [`TimedSourceError`].
    pub fn sliced(
        &self,
        (source, slices): (Box<dyn Source>, Option<(u64, u64)>),
        decoder: Box<dyn Decoder>,
        config: &FeedConfig,
        size: PoolSize,
    ) -> Result<Box<dyn Source>, TimedSourceError> {
        Ok(match self {
            Self::Heap => Box::new(SliceSource::new(source, decoder, config, slices, size.pool(Heap))?),
            Self::Arena(arena) => {
                Box::new(SliceSource::new(source, decoder, config, slices, size.pool(arena.lender()))?)
            }
        })
    }

    /// Returns windows of the hits of `source`, whose fragments are time slices of this length without overlap. Hits are kept in this
    /// amount of memory and then in `archive`.
    #[must_use]
    pub fn windowed(
        &self,
        (source, slice): (Box<dyn Source>, Nanos),
        (memory, archive): (ByteCount, Option<Box<dyn HitArchive>>),
        size: PoolSize,
    ) -> Box<dyn Source> {
        match self {
            Self::Heap => Box::new(WindowSource::new(source, slice, memory, archive, size.pool(Heap))),
            Self::Arena(arena) => {
                Box::new(WindowSource::new(source, slice, memory, archive, size.pool(arena.lender())))
            }
        }
    }

    /// Returns the sources of cards whose packets arrive at an address, each with a pool of `size`.
    ///
    /// # Errors
    /// A [`TimedSourceError`].
    pub fn received(
        &self,
        address: SocketAddr,
        decoder: DecoderMaker<'_>,
        cards: &[FeedConfig],
        size: PoolSize,
    ) -> Result<Vec<Box<dyn Source>>, TimedSourceError> {
        match self {
            Self::Heap => received(address, decoder, cards, || size.pool(Heap)),
            Self::Arena(arena) => received(address, decoder, cards, || size.pool(arena.lender())),
        }
    }

    /// Returns the sources whose described packets arrive in this way, each with a pool of `size`.
    ///
    /// # Errors
    /// A [`ListenError`].
    pub fn described(
        &self,
        path: PacketPath,
        (description, limits): (Description, Limits),
        sources: &[SourceId],
        size: PoolSize,
    ) -> Result<Vec<Box<dyn Source>>, ListenError> {
        match self {
            Self::Heap => described(path, (description, limits), sources, || size.pool(Heap)),
            Self::Arena(arena) => {
                described(path, (description, limits), sources, || size.pool(arena.lender()))
            }
        }
    }

    /// Opens the socket at which programs feed sources, and returns these, each with a pool of `size`.
    ///
    /// # Errors
    /// An [`OpenError`].
    pub fn fed(&self, setup: FeedSetup, size: PoolSize) -> Result<Vec<Box<dyn Source>>, OpenError> {
        match self {
            Self::Heap => setup.open(|| size.pool(Heap)),
            Self::Arena(arena) => setup.open(|| size.pool(arena.lender())),
        }
    }

    /// Returns the sources of a library, each with a pool of `size`. Larger fragments than `max_fragment`, which fits into a block,
    /// are not taken.
    #[must_use]
    pub fn polled(
        &self,
        library: LibrarySource,
        sources: &[SourceId],
        max_fragment: usize,
        size: PoolSize,
    ) -> Vec<Box<dyn Source>> {
        match self {
            Self::Heap => polled::sources(library, sources, max_fragment, || size.pool(Heap)),
            Self::Arena(arena) => {
                polled::sources(library, sources, max_fragment, || size.pool(arena.lender()))
            }
        }
    }

    /// Returns the memory for the results of a worker that processes fragments.
    #[must_use]
    pub fn outputs(&self, size: PoolSize) -> Box<dyn OutputMemory> {
        match self {
            Self::Heap => Box::new(Outputs::new(size.pool(Heap))),
            Self::Arena(arena) => Box::new(Outputs::new(size.pool(arena.lender()))),
        }
    }
}

fn received<M: Memory + 'static>(
    address: SocketAddr,
    decoder: DecoderMaker<'_>,
    cards: &[FeedConfig],
    pool: impl Fn() -> Pool<M>,
) -> Result<Vec<Box<dyn Source>>, TimedSourceError> {
    let cards = cards.iter().map(|card| (*card, pool())).collect();
    let (sources, _) = UdpSource::listen(address, decoder, cards)?;
    Ok(sources.into_iter().map(|source| Box::new(source) as Box<dyn Source>).collect())
}

fn described<M: Memory + 'static>(
    path: PacketPath,
    (description, limits): (Description, Limits),
    sources: &[SourceId],
    pool: impl Fn() -> Pool<M>,
) -> Result<Vec<Box<dyn Source>>, ListenError> {
    let sources = sources.iter().map(|source| (*source, pool())).collect();
    let (sources, _) = StreamSource::open(path, description, limits, sources)?;
    Ok(sources.into_iter().map(|source| Box::new(source) as Box<dyn Source>).collect())
}
