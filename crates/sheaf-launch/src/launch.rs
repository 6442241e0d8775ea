//! A configuration with everything that launchers have in common.

use crate::plan::{FileContents, PRIVATE, PlannedFile};
use crate::{LaunchError, words};
use sheaf_config::{Config, TransportKind};
use sheaf_wire::Nanos;
use std::path::PathBuf;

/// Time in which each agent must answer: some of them wait for their scheduler.
const ANSWER_TIMEOUT: Nanos = Nanos::from_secs(120);

/// Function of the scripts that have a run.
const TAKE_RUN_TEXT: &str = include_str!("run.sh");

/// A system that is to be launched.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The configuration, as its file has it.
    pub config: Config,
    /// Absolute path of the configuration file.
    pub file: String,
    /// Absolute path of the command `sheaf`, the same on all hosts.
    pub program: String,
    /// Absolute path of the directory for the files of the launch.
    pub directory: String,
    /// Absolute path of the directory in which relative paths of the configuration begin, on all hosts.
    pub place: String,
    /// First port: that of agents. Nodes have those that follow.
    pub port: u16,
    /// Further flags of `sheaf run`.
    pub run_flags: Vec<String>,
}

impl Launch {
    /// Returns the path of a file of the launch.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Returns the path of the key of the agents: that of the configuration, or one of the launch.
    pub(crate) fn key(&self) -> String {
        match &self.config.agents.key_file {
            Some(file) => PathBuf::from(&self.place).join(file).display().to_string(),
            None => self.path("agents.key"),
        }
    }

    /// Returns the file of that key, if the launch makes it.
    pub(crate) fn key_file(&self) -> Option<PlannedFile> {
        let is_new = self.config.agents.key_file.is_none();
        is_new.then(|| PlannedFile { path: self.key(), mode: PRIVATE, contents: FileContents::NewKey })
    }

    /// Returns the configuration with what several hosts need, whatever the nodes are.
    pub(crate) fn for_hosts(&self) -> Config {
        let mut config = self.config.clone();
        config.agents.key_file = Some(self.key().into());
        config.agents.answer_timeout = config.agents.answer_timeout.max(ANSWER_TIMEOUT);
        if matches!(config.transport.kind, TransportKind::Memory | TransportKind::Shm) {
            config.transport.kind = TransportKind::Mixed;
        }
        config
    }

    /// Returns the function of a shell that takes a run with this configuration file to its end. `file` is quoted for a shell.
    pub(crate) fn take_run(&self, file: &str) -> Result<String, LaunchError> {
        let mut words = vec![file.to_owned()];
        for flag in &self.run_flags {
            words.push(words::shell("the flag of `sheaf run`", flag)?);
        }
        Ok(words::filled(TAKE_RUN_TEXT, &[("@RUN@", words.join(" "))]))
    }
}
