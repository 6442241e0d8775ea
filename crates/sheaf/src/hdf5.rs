//! Streams with `format = "hdf5"`, in builds that have HDF5.
//!
//! Their events are stored in event files, like those of every stream. A thread converts closed files to HDF5 during
//! the run. The process that closes the run converts the rest.

use sheaf_config::{Config, OutputFormat, OutputKind};
use sheaf_node::converting::Converter;
use sheaf_store::run::SessionRecord;
use sheaf_wire::RunNumber;
use std::path::Path;

/// Returns whether the files of a stream become HDF5 files.
pub(crate) fn is_hdf5(config: &Config, stream: &str) -> bool {
    let own = config.streams.get(stream).and_then(|stream| stream.format);
    config.output.kind == OutputKind::File && own.unwrap_or(config.output.format) == OutputFormat::Hdf5
}

/// Returns whether the files of any stream do.
pub(crate) fn is_used(config: &Config) -> bool {
    config.stream_names().any(|stream| is_hdf5(config, stream))
}

/// Checks, before a run begins, that this build supports what the configuration needs.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    if is_used(config) { built::check(config) } else { Ok(()) }
}

/// The thread that makes HDF5 files of the closed event files in `directory`; `None` where no stream asks for it.
pub(crate) fn converter(config: &Config, directory: &Path) -> anyhow::Result<Option<Converter>> {
    if is_used(config) { built::converter(config, directory).map(Some) } else { Ok(None) }
}

/// Converts the remaining files of a session to HDF5, with only the events that count, after the session has ended and
/// its event files are sealed.
pub(crate) fn settle(
    config: &Config,
    directory: &Path,
    run: RunNumber,
    record: &SessionRecord,
) -> anyhow::Result<()> {
    built::settle(config, directory, run, record)
}

#[cfg(feature = "hdf5")]
mod built {
    use super::{Config, Converter, Path, RunNumber, SessionRecord, is_hdf5};
    use anyhow::Context;
    use sheaf_config::OutputCompression;
    use sheaf_node::converting::ConversionError;
    use sheaf_store::event_file::{FileName, SessionName, StreamName};
    use sheaf_store::hdf5::{Compression, replace, settle as settle_session};

    fn compression(config: &Config) -> Compression {
        let level = |default| config.output.compression_level.unwrap_or(default);
        match config.output.compression {
            OutputCompression::None => Compression::None,
            OutputCompression::Deflate => Compression::Deflate(level(Compression::DEFLATE_LEVEL)),
            OutputCompression::Zstd => Compression::Zstd(level(Compression::ZSTD_LEVEL)),
        }
    }

    pub(super) fn check(config: &Config) -> anyhow::Result<()> {
        compression(config).check().context("`output.compression` cannot be used")
    }

    pub(super) fn converter(config: &Config, directory: &Path) -> anyhow::Result<Converter> {
        let (directory, compression) = (directory.to_owned(), compression(config));
        let convert = move |file: &sheaf_store::event_file::ClosedFile, is_ended: &dyn Fn() -> bool| {
            let name = FileName::parse(&file.file).ok_or_else(|| {
                ConversionError::new(format!("`{}` is not the name of an event file", file.file))
            })?;
            replace(&directory, &name, compression, is_ended).map_err(ConversionError::new)
        };
        Converter::start(Box::new(convert)).context("cannot start the thread that converts files to HDF5")
    }

    pub(super) fn settle(
        config: &Config,
        directory: &Path,
        run: RunNumber,
        record: &SessionRecord,
    ) -> anyhow::Result<()> {
        let session = SessionName { run, node: record.node, session: record.session };
        let of_stream = |stream: &StreamName| is_hdf5(config, stream.as_str()).then(|| compression(config));
        let report = settle_session(directory, session, record, &of_stream).with_context(|| {
            format!("not all files of {session} were converted to HDF5; their event files are complete")
        })?;
        if report.cut > 0 {
            let node = record.node;
            sheaf_telemetry::log_as!(
                EVENTS_VOID, node = node;
                "{node}: {} events that do not count are removed from {} files",
                report.void,
                report.cut
            );
        }
        for damaged in &report.damaged {
            sheaf_telemetry::log_as!(CONVERTED_FILE_DAMAGED, node = record.node; "{damaged}");
        }
        Ok(())
    }
}

#[cfg(not(feature = "hdf5"))]
mod built {
    use super::{Config, Converter, Path, RunNumber, SessionRecord};

    fn none<T>() -> anyhow::Result<T> {
        anyhow::bail!(
            "`format = \"hdf5\"` needs libhdf5, which this build lacks; build it with: \
             cargo build --release --features hdf5"
        )
    }

    pub(super) fn check(_config: &Config) -> anyhow::Result<()> {
        none()
    }

    pub(super) fn converter(_config: &Config, _directory: &Path) -> anyhow::Result<Converter> {
        none()
    }

    pub(super) fn settle(
        _config: &Config,
        _directory: &Path,
        _run: RunNumber,
        _record: &SessionRecord,
    ) -> anyhow::Result<()> {
        none()
    }
}
