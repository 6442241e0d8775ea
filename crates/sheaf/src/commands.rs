//! The commands of a run, in its manifest.

use sheaf_control::{CommandLog, RunCommand};
use sheaf_store::run::{CommandRecord, Manifest};
use sheaf_wire::{SourceNames, Timestamp};

/// The commands of a run that is in progress.
pub(crate) struct RunCommands {
    names: SourceNames,
    /// Returns those so far.
    log: Box<dyn Fn() -> CommandLog + Send + Sync>,
}

/// End of a run, from which results of commands follow.
pub(crate) struct CommandsEnd<'a> {
    pub(crate) at: Timestamp,
    pub(crate) has_begun: bool,
    /// The end in a sentence.
    pub(crate) text: &'a str,
}

impl RunCommands {
    pub(crate) fn new(names: &SourceNames, log: impl Fn() -> CommandLog + Send + Sync + 'static) -> Self {
        Self { names: names.clone(), log: Box::new(log) }
    }

    /// Puts the commands so far into a manifest. Returns whether that has changed it.
    pub(crate) fn fill(&self, manifest: &mut Manifest, end: Option<&CommandsEnd<'_>>) -> bool {
        let mut log = (self.log)();
        if let Some(CommandsEnd { at, has_begun, text }) = end {
            log.conclude(at.as_millis(), *has_begun, text);
        }
        fill(manifest, &log, &self.names)
    }
}

/// Puts commands into a manifest, with the names of sources. Returns whether that has changed it.
pub(crate) fn fill(manifest: &mut Manifest, log: &CommandLog, names: &SourceNames) -> bool {
    let time = |ms: u64| Timestamp(ms.saturating_mul(1_000_000));
    let annotated = |text: &String| names.annotate(text).into_owned();
    let record = |command: &RunCommand| CommandRecord {
        time: time(command.at_ms),
        by: command.by.clone(),
        via: command.via.clone(),
        command: command.command.clone(),
        target: command.target.as_ref().map(annotated),
        comment: command.comment.clone(),
        result: command.end.as_ref().map(|end| end.result.name().to_owned()),
        text: command.end.as_ref().map(|end| end.text.clone()).filter(|text| !text.is_empty()),
        ended: command.end.as_ref().map(|end| time(end.at_ms)),
    };
    let records: Vec<_> = log.commands.iter().map(record).collect();
    let has_changed = records != manifest.commands || log.left_out != manifest.commands_left_out;
    (manifest.commands, manifest.commands_left_out) = (records, log.left_out);
    has_changed
}
