//! Sinks of accepted events, made from the configuration.

use crate::plan::Plan;
use crate::{begin_records, hdf5, objects};
use anyhow::Context;
use sheaf_config::{Config, Stream, Sync, TransportKind};
use sheaf_node::beside::FilesBeside;
use sheaf_node::prescale::{PrescaledTags, TagRule};
use sheaf_node::sink::{EventSink, FileSink};
use sheaf_protocol::Identity;
use sheaf_store::event_file::{FlushPolicy, StreamName, WriterOptions};
use sheaf_store::streams::StreamRule;
use sheaf_wire::{Nanos, Tags, Timestamp};
use std::path::Path;

/// The event files of a session of a builder unit or output node in `directory`.
pub(crate) fn files(plan: &Plan, me: &Identity, directory: &Path) -> anyhow::Result<Box<dyn EventSink>> {
    let config = &plan.config;
    let records = config.output.begin_records.as_deref().map(begin_records::read).transpose()?;
    let session = WriterOptions { records: records.unwrap_or_default(), ..session(plan, me) };
    let streams = config
        .streams
        .iter()
        .map(|(name, stream)| Ok((rule(config, name, stream)?, options(config, &session, name, stream))))
        .collect::<anyhow::Result<_>>()?;
    let sink = FileSink::create(directory, streams, &session)?;
    let sink = match hdf5::converter(config, directory)? {
        Some(converter) => sink.with_converter(converter),
        None => sink,
    };
    let sink = match objects::of(config)? {
        Some(objects) => sink.with_uploads(objects.uploads(directory)?),
        None => sink,
    };
    let own_thread = config.output.own_thread.unwrap_or(config.transport.kind != TransportKind::Memory);
    Ok(match own_thread {
        true => Box::new(FilesBeside::start(sink).context("cannot start a thread for the output")?),
        false => Box::new(sink),
    })
}

impl Plan {
    /// An output behind the prescales of tags, where there are any.
    pub(crate) fn prescaled(&self, sink: Box<dyn EventSink>) -> anyhow::Result<Box<dyn EventSink>> {
        let Config { tags, filter, .. } = &self.config;
        let rule = |(name, tag): (&String, &sheaf_config::Tag)| {
            let bit = Tags::by_name(name, &filter.tags)
                .with_context(|| format!("the filter has no tag `{name}`"))?;
            Ok(TagRule { tag: bit, name: name.clone(), prescale: tag.prescale })
        };
        let rules = tags.iter().map(rule).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(if rules.is_empty() { sink } else { Box::new(PrescaledTags::new(rules, sink)) })
    }
}

/// Returns the writer options for files whose stream sets none of its own.
fn session(plan: &Plan, me: &Identity) -> WriterOptions {
    let output = &plan.config.output;
    WriterOptions {
        metadata: plan.file_metadata().to_string(),
        time_base: plan.time_base,
        rotate_bytes: output.rotate_size,
        rotate_events: output.rotate_events,
        rotate_time: output.rotate_time,
        buffer: output.buffer,
        replaced: hdf5::is_hdf5(&plan.config, StreamName::DEFAULT),
        flush: policy(&plan.config, output.sync, output.sync_interval),
        ..WriterOptions::new(me.run, me.node, me.session, Timestamp(me.session.0))
    }
}

/// Returns the writer options for the files of a stream.
fn options(config: &Config, session: &WriterOptions, name: &str, stream: &Stream) -> WriterOptions {
    let output = &config.output;
    let interval = stream.sync_interval.unwrap_or(output.sync_interval);
    WriterOptions {
        rotate_bytes: stream.rotate_size.unwrap_or(session.rotate_bytes),
        rotate_events: stream.rotate_events.unwrap_or(session.rotate_events),
        rotate_time: stream.rotate_time.or(session.rotate_time),
        replaced: hdf5::is_hdf5(config, name),
        flush: policy(config, stream.sync.unwrap_or(output.sync), interval),
        ..session.clone()
    }
}

fn policy(config: &Config, sync: Sync, interval: Nanos) -> FlushPolicy {
    match sync {
        Sync::None => FlushPolicy::WhenFull,
        Sync::Flush => FlushPolicy::EachBatch,
        Sync::Fsync => FlushPolicy::SyncEvery(interval),
        Sync::Uploaded => FlushPolicy::Uploaded(config.object_store.quiet),
    }
}

/// Which events a stream takes.
pub(crate) fn rule(config: &Config, name: &str, stream: &Stream) -> anyhow::Result<StreamRule> {
    let name: StreamName = name.parse()?;
    let tag = |tag: &String| {
        Tags::by_name(tag, &config.filter.tags).with_context(|| format!("the filter has no tag `{tag}`"))
    };
    let tags = stream.tags.iter().map(tag).collect::<anyhow::Result<Vec<_>>>()?;
    let tags = tags.into_iter().fold(Tags::NONE, |all, tag| all | tag);
    Ok(StreamRule { name, tags, prescale: stream.prescale })
}
