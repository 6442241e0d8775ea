//! Histograms that consumers publish during a run.

use anyhow::Context as _;
use sheaf_config::Config;
use sheaf_histogram::HistogramRecord;
use sheaf_monitor::histograms::{HistogramReceiver, ReceiverOptions, StoredHistograms};
use sheaf_store::run::HistogramsRecord;
use sheaf_telemetry::log_as;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Returns the file of the histograms of a run, if any are taken, in its directory or in that of its temporary files.
pub(crate) fn file(config: &Config, directory: &Path) -> Option<PathBuf> {
    (config.monitor.histogram_bytes.0 > 0).then(|| directory.join(HistogramRecord::FILE))
}

/// Begins to take histograms, if the configuration says so. Where that is not possible, the reason is logged and the run takes data without.
pub(crate) fn begin(config: &Config, directory: &Path) -> Option<HistogramReceiver> {
    let bytes = Some(config.monitor.histogram_bytes.0).filter(|bytes| *bytes > 0)?;
    let options = ReceiverOptions { directory: directory.to_owned(), run: config.run.number.0, bytes };
    HistogramReceiver::start(options)
        .inspect_err(|error| log_as!(HISTOGRAMS_UNAVAILABLE; "histograms are not taken: {error}"))
        .ok()
}

/// Takes no more, and returns what the manifest says of the file.
pub(crate) fn finish(receiver: Option<HistogramReceiver>) -> Option<HistogramsRecord> {
    let StoredHistograms { histograms, bytes } = receiver?.finish()?;
    Some(HistogramsRecord { file: HistogramRecord::FILE.to_owned(), histograms, bytes })
}

/// Reads the histograms of the run in a directory, if it has any.
pub(crate) fn read(directory: &Path) -> anyhow::Result<Option<HistogramRecord>> {
    let path = directory.join(HistogramRecord::FILE);
    let cannot_read = || format!("cannot read {}", path.display());
    match std::fs::read(&path) {
        Ok(bytes) => HistogramRecord::parse(&bytes).map(Some).with_context(cannot_read),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(cannot_read),
    }
}
