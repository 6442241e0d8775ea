//! The object store of a run, in builds that have one: the files of streams with `sync = "uploaded"`, and the manifest.
//!
//! Builders upload the files that they close; their events count once they are uploaded. When the run closes, files
//! changed by sealing are uploaded again, removed files are removed, and `run.json` lists the files that count.

use crate::Verdict;
use anyhow::Context;
use clap::Args;
use sheaf_config::{Config, OutputKind, Sync};
use sheaf_store::event_file::ClosedFile;
use sheaf_store::upload::Uploads;
use std::path::{Path, PathBuf};

#[cfg(feature = "s3")]
mod store;

#[derive(Debug, Args)]
pub(crate) struct UploadArguments {
    /// Run directory.
    path: PathBuf,
}

/// Returns whether the events of a stream count as stored only once they are uploaded.
pub(crate) fn is_uploaded(config: &Config, stream: &str) -> bool {
    let own = config.streams.get(stream).and_then(|stream| stream.sync);
    config.output.kind == OutputKind::File && own.unwrap_or(config.output.sync) == Sync::Uploaded
}

/// The object store of a run.
pub(crate) trait RunObjects: Send {
    /// Begins a run whose directory has a manifest: checks that the store exists, is writable, keeps the required
    /// metadata, and has no run of this name, unless it may be replaced.
    fn begin(&self, directory: &Path, may_replace: bool) -> anyhow::Result<()>;

    /// Threads that upload files of the run's directory.
    fn uploads(&self, directory: &Path) -> anyhow::Result<Box<dyn Uploads>>;

    /// Makes the store match the directory: uploads missing `files`, removes those in `removed`, and records the
    /// location of each of `files`.
    fn settle(&self, directory: &Path, files: &mut [ClosedFile], removed: &[String]) -> anyhow::Result<()>;

    /// Uploads the manifest.
    fn put_manifest(&self, directory: &Path) -> anyhow::Result<()>;
}

/// Returns the object store of a run; `None` if nothing is uploaded.
///
/// # Errors
/// If files are uploaded and this build or the environment does not support it.
pub(crate) fn of(config: &Config) -> anyhow::Result<Option<Box<dyn RunObjects>>> {
    if config.stream_names().any(|stream| is_uploaded(config, stream)) {
        open(config).map(Some)
    } else {
        Ok(None)
    }
}

#[cfg(feature = "s3")]
fn open(config: &Config) -> anyhow::Result<Box<dyn RunObjects>> {
    Ok(Box::new(store::Store::open(config)?))
}

#[cfg(not(feature = "s3"))]
fn open(_config: &Config) -> anyhow::Result<Box<dyn RunObjects>> {
    anyhow::bail!(
        "`sync = \"uploaded\"` needs an object store, which this build does not support; build it with: \
         cargo build --release --features s3"
    )
}

/// `sheaf upload`: completes the uploads of a run that has ended.
pub(crate) fn command(arguments: &UploadArguments) -> anyhow::Result<Verdict> {
    use sheaf_store::run::Manifest;

    let path = &arguments.path;
    let kind = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !kind.is_dir() {
        anyhow::bail!("{} is a file; `sheaf upload` takes a run directory", path.display());
    }
    let manifest = Manifest::read(path)?;
    let mut manifest =
        manifest.with_context(|| format!("{} is not a run directory: it has no run.json", path.display()))?;
    let config = Config::parse(&manifest.configuration, "run.json")
        .with_context(|| format!("cannot parse the configuration in {}/run.json", path.display()))?;
    let objects = of(&config)?
        .with_context(|| format!("the run in {} has no stream with `sync = \"uploaded\"`", path.display()))?;
    if manifest.ended.is_none() {
        log::warn!("the run has not ended, or was not closed: only files in its manifest are uploaded");
    }
    let mut files: Vec<ClosedFile> =
        manifest.files.iter().filter(|file| is_uploaded(&config, file.stream.as_str())).cloned().collect();
    // The objects in the manifest may have been lost since.
    files.iter_mut().for_each(|file| file.object = None);
    objects.settle(path, &mut files, &manifest.removed_objects)?;
    merge(&mut manifest.files, &files);
    manifest.removed_objects.clear();
    manifest.write(path)?;
    objects.put_manifest(path)?;
    crate::print::print(&format!("{} files are in the object store\n", files.len()))?;
    Ok(Verdict::Good)
}

/// Takes over where files are.
pub(crate) fn merge(all: &mut [ClosedFile], uploaded: &[ClosedFile]) {
    for file in uploaded {
        if let Some(known) = all.iter_mut().find(|known| known.file == file.file) {
            known.object.clone_from(&file.object);
        }
    }
}
