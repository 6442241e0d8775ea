//! Closing a run, or the part of it that is on this host.

use crate::hdf5;
use crate::objects::{self, RunObjects};
use anyhow::Context as _;
use sheaf_config::Config;
use sheaf_store::event_file::{ClosedFile, FileName, SessionName};
use sheaf_store::run::{Manifest, SessionRecord, closed_files, remove_list, seal_session};
use sheaf_telemetry::log_as;
use sheaf_wire::{NodeId, RunNumber};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A run that is being closed.
pub(super) struct Closing<'a> {
    pub(super) path: &'a Path,
    /// Its manifest. It lists the sessions that the event manager knows, of nodes of all hosts.
    pub(super) manifest: &'a mut Manifest,
    pub(super) objects: Option<&'a dyn RunObjects>,
    pub(super) config: &'a Config,
    /// Whether the files of a node are in this directory.
    pub(super) here: &'a dyn Fn(NodeId) -> bool,
}

impl Closing<'_> {
    /// Removes events that do not count, lists the files, and writes the manifest.
    pub(super) fn close(mut self) -> anyhow::Result<()> {
        let run = self.manifest.run;
        let before = event_files(self.path)?;
        self.add_unknown_sessions(&before);
        let here: Vec<SessionRecord> =
            self.manifest.sessions.iter().filter(|record| (self.here)(record.node)).cloned().collect();
        for record in &here {
            seal(self.path, run, record)?;
        }
        let names =
            || here.iter().map(|record| SessionName { run, node: record.node, session: record.session });
        self.list_files(names())?;
        self.list_removed(&before)?;
        // The events that count are on this disk, even if HDF5 conversion or the upload fails.
        self.manifest.write(self.path)?;
        if hdf5::is_used(self.config) {
            for record in &here {
                hdf5::settle(self.config, self.path, run, record)?;
            }
            self.list_files(names())?;
            self.list_removed(&before)?;
            self.manifest.write(self.path)?;
        }
        if let Some(objects) = self.objects {
            self.settle(objects).with_context(|| {
                format!(
                    "the upload of this run is incomplete; when the object store is available, run `sheaf upload {}`",
                    self.path.display()
                )
            })?;
        }
        // The content of the lists is now in the manifest.
        for name in names() {
            remove_list(self.path, name)
                .with_context(|| format!("cannot remove the list of closed files of {name}"))?;
        }
        Ok(())
    }

    /// Adds the sessions that ended before the event manager received any event from them. None of their events count.
    fn add_unknown_sessions(&mut self, files: &BTreeSet<FileName>) {
        for name in files.iter().filter(|name| (self.here)(name.node)) {
            let (node, session) = (name.node, name.session);
            if self.manifest.session(node, session).is_none() {
                let unknown = SessionRecord { node, session, committed: 0, void: Vec::new(), sealed: true };
                self.manifest.sessions.push(unknown);
            }
        }
        self.manifest.sessions.sort_by_key(|record| (record.node, record.session));
    }

    /// Has the manifest list the closed files of these sessions as they are now.
    fn list_files(&mut self, sessions: impl Iterator<Item = SessionName>) -> anyhow::Result<()> {
        let files = sessions.map(|name| closed_files(self.path, name)).collect::<Result<Vec<_>, _>>()?;
        self.manifest.files = files.concat();
        Ok(())
    }

    /// Lists files of `before` that no longer exist in the manifest, by their object names. Builders may have uploaded
    /// them, and a later `sheaf upload` knows them only from the manifest.
    fn list_removed(&mut self, before: &BTreeSet<FileName>) -> anyhow::Result<()> {
        let after = event_files(self.path)?;
        let config = self.config;
        let uploaded = |name: &&FileName| objects::is_uploaded(config, name.stream.as_str());
        let object = |name: &FileName| match hdf5::is_hdf5(config, name.stream.as_str()) {
            true => name.hdf5(),
            false => name.to_string(),
        };
        self.manifest.removed_objects = before.difference(&after).filter(uploaded).map(object).collect();
        Ok(())
    }

    /// Makes the object store match the sealed files, and uploads the manifest for its readers if it is that of the whole run.
    fn settle(&mut self, objects: &dyn RunObjects) -> anyhow::Result<()> {
        let config = self.config;
        let is_uploaded = |file: &&ClosedFile| objects::is_uploaded(config, file.stream.as_str());
        let mut files: Vec<ClosedFile> = self.manifest.files.iter().filter(is_uploaded).cloned().collect();
        objects.settle(self.path, &mut files, &self.manifest.removed_objects)?;
        objects::merge(&mut self.manifest.files, &files);
        self.manifest.removed_objects.clear();
        self.manifest.write(self.path)?;
        if self.manifest.part.is_none() { objects.put_manifest(self.path) } else { Ok(()) }
    }
}

/// The event files in a directory.
fn event_files(directory: &Path) -> anyhow::Result<BTreeSet<FileName>> {
    let list = || -> std::io::Result<BTreeSet<_>> {
        let entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
        Ok(entries
            .into_iter()
            .filter_map(|entry| FileName::parse_either(entry.file_name().to_str()?))
            .collect())
    };
    list().with_context(|| format!("cannot read directory {}", directory.display()))
}

/// Truncates the files of a session after the last event that counts.
fn seal(directory: &Path, run: RunNumber, record: &SessionRecord) -> anyhow::Result<()> {
    let SessionRecord { node, session, committed, .. } = *record;
    let sealed = seal_session(directory, SessionName { run, node, session }, committed)?;
    if sealed.void > 0 {
        log_as!(
            EVENTS_VOID, node = node;
            "{node}: {} events at the end of the files of session {:x} do not count and are cut off: they had not \
             been reported to the event manager when it gave up that session. Each was built again, or is booked as dropped",
            sealed.void,
            session.0
        );
    }
    if sealed.missing > 0 {
        log_as!(
            EVENTS_MISSING, node = node;
            "{node}: {} events that it reported as stored are not in its files", sealed.missing
        );
    }
    Ok(())
}
