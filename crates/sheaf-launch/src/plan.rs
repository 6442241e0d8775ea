//! Plans: files with their contents, and commands in their order.

use std::fmt;

/// Mode of files that hold secrets, or may do so.
pub(crate) const PRIVATE: u32 = 0o600;

/// Mode of scripts.
pub(crate) const SCRIPT: u32 = 0o755;

/// Everything that a launch does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchPlan {
    /// Files to write, in this order.
    pub files: Vec<PlannedFile>,
    /// Commands to run after that, in this order.
    pub commands: Vec<PlannedCommand>,
    /// Advice for people, one sentence or more each.
    pub notes: Vec<String>,
}

/// A file of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Absolute path.
    pub path: String,
    /// Permissions, as for `chmod`.
    pub mode: u32,
    /// Contents.
    pub contents: FileContents,
}

/// Contents of a file of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContents {
    /// A text. An earlier file is replaced.
    Text(String),
    /// A key that is made when the plan is carried out. An earlier file is kept.
    NewKey,
}

/// A command of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCommand {
    /// Purpose, for people.
    pub purpose: String,
    /// The program and its arguments.
    pub words: Vec<String>,
}

impl PlannedFile {
    pub(crate) fn text(path: String, mode: u32, text: String) -> Self {
        Self { path, mode, contents: FileContents::Text(text) }
    }
}

impl PlannedCommand {
    pub(crate) fn new(purpose: &str, words: &[&str]) -> Self {
        Self { purpose: purpose.to_owned(), words: words.iter().map(ToString::to_string).collect() }
    }

    /// Returns the command as a line for a shell.
    #[must_use]
    pub fn line(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| crate::words::quoted(word)).collect();
        words.join(" ")
    }
}

/// Writes the plan for people: each file in full, each command as a line for a shell.
impl fmt::Display for LaunchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for PlannedFile { path, mode, contents } in &self.files {
            writeln!(f, "# file {path}, mode {mode:04o}")?;
            match contents {
                FileContents::NewKey => writeln!(f, "    (a new key, unless the file is there)")?,
                FileContents::Text(text) => {
                    for line in text.lines() {
                        writeln!(f, "{}", format!("    {line}").trim_end())?;
                    }
                }
            }
            writeln!(f)?;
        }
        for command in &self.commands {
            writeln!(f, "# {}\n{}\n", command.purpose, command.line())?;
        }
        for note in &self.notes {
            writeln!(f, "# {note}")?;
        }
        Ok(())
    }
}
