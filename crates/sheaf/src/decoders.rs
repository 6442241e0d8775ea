//! Decoders of hits, from the configuration.

use crate::{code, hits, python};
use anyhow::Context;
use sheaf_config as conf;
use sheaf_config::{Config, FrontEnd};
use sheaf_filter::Setup;
use sheaf_node::decoder_process::DecoderProcess;
use sheaf_node::hit_decoder::{FoundHits, HitDecoder};
use sheaf_source::timed::{DecodeFailure, Decoder, HitRecords, Vmm3a};
use sheaf_wire::RunNumber;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Makes decoders of the packets or fragments of all cards.
pub(crate) enum Decoders {
    Vmm3a,
    Records(HitRecords),
    /// A process has found the hits.
    Found(FoundHits),
    /// A process is asked for the hits of each fragment, when the fragments are read before the run.
    Asked(DecoderProcess, u32),
    Library {
        path: PathBuf,
        symbol: String,
        setup: Setup,
        max_hits: usize,
        bits: u32,
        heads: Option<HitRecords>,
    },
}

impl Decoders {
    pub(crate) fn new(source: &conf::Source, run: RunNumber) -> anyhow::Result<Self> {
        Ok(match source.timed.front_end {
            FrontEnd::Vmm3a => Self::Vmm3a,
            FrontEnd::Described => Self::Records(hits::decoder(source)?),
            FrontEnd::Hits => Self::Records(HitRecords::of_sheaf()),
            FrontEnd::Python => Self::Found(FoundHits { counter_bits: source.decoder.counter_bits }),
            FrontEnd::Library => {
                let conf::HitDecoder { path, symbol, parameters, max_hits, counter_bits: bits, .. } =
                    source.decoder.clone();
                Self::Library {
                    path: path.context("`source.decoder.path` is not set")?,
                    symbol,
                    setup: Setup { run, parameters, tags: Vec::new() },
                    max_hits: max_hits as usize,
                    bits,
                    heads: source.kind.is_timed().then(|| hits::heads(source)).transpose()?,
                }
            }
        })
    }

    /// Returns a decoder that has seen no packet.
    pub(crate) fn make(&self) -> Result<Box<dyn Decoder>, DecodeFailure> {
        Ok(match self {
            Self::Vmm3a => Box::new(Vmm3a::new()),
            Self::Records(decoder) => Box::new(decoder.clone()),
            Self::Found(decoder) => Box::new(*decoder),
            Self::Asked(process, bits) => process.waiting_decoder(*bits),
            Self::Library { path, symbol, setup, max_hits, bits, heads } => {
                let opened = HitDecoder::open((path, symbol), setup, *max_hits, *bits, heads.clone());
                Box::new(opened.map_err(|error| DecodeFailure(format!("{:#}", anyhow::Error::new(error))))?)
            }
        })
    }
}

/// Starts the process of a decoder in Python, if the configuration has one.
pub(crate) fn python(source: &conf::Source) -> anyhow::Result<Option<DecoderProcess>> {
    if source.timed.front_end != FrontEnd::Python {
        return Ok(None);
    }
    let conf::HitDecoder { path, function, python, parameters, time_limit, .. } = source.decoder.clone();
    let path = path.context("`source.decoder.path` is not set")?;
    let shown = format!("{} -m sheaf.decoding {}", python.display(), path.display());
    let name = python::function_name(&path, function.as_deref());
    let command = move || {
        let mut command = Command::new(&python);
        command.args(["-m", "sheaf.decoding", &name]).arg(format!("--parameters={parameters}"));
        python::leaving_no_trace(&mut command);
        command
    };
    let started = DecoderProcess::start(Box::new(command), Duration::from_nanos(time_limit.0));
    let process = started.with_context(|| {
        format!("cannot decode hits with `{shown}`; `source.decoder.python` must be a Python interpreter with the package `sheaf`")
    })?;
    Ok(Some(process))
}

/// Checks that the decoder of a configuration can be loaded, if it is in a library.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check(config: &Config, run: RunNumber) -> anyhow::Result<()> {
    if code::loads_decoder(config) {
        drop(Decoders::new(&config.source, run)?.make()?);
    }
    Ok(())
}
