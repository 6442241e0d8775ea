//! The code blocks of a page, and the comments before them.

use anyhow::{Context as _, Result, bail, ensure};

/// Opening of a comment that controls the next block.
const COMMENT: &str = "<!-- docs-test:";

/// A page with the blocks that can be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Path from the root of the repository.
    pub(super) path: String,
    pub(super) blocks: Vec<Block>,
}

/// A block, or an expectation about the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Line of the opening fence, from 1.
    pub(super) line: usize,
    pub(super) action: Action,
    /// Commands that run first.
    pub(super) before: String,
    /// Needs of the block.
    pub(super) needs: Vec<String>,
}

/// Treatment of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Run these commands; the last one must end with this status.
    Shell { commands: String, status: u8 },
    /// Run this program.
    Python(String),
    /// Check this configuration.
    Configuration(String),
    /// Write a file.
    File { name: String, text: String },
    /// Compare the output of the previous block with this.
    Output(String),
    /// Skip the block for this reason.
    Skip(String),
}

/// The comments before a block.
#[derive(Clone, Debug, Default)]
struct Comments {
    needs: Vec<String>,
    skip: Option<String>,
    file: Option<String>,
    is_output: bool,
    status: Option<u8>,
    before: String,
}

impl Page {
    pub(super) fn parse(path: &str, text: &str) -> Result<Self> {
        let mut blocks = Vec::new();
        let mut comments = Comments::default();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let place = || format!("{path}:{}", index + 1);
            if let Some(said) = line.trim_start().strip_prefix(COMMENT) {
                let mut said = said.to_owned();
                while !said.contains("-->") {
                    let (_, more) =
                        lines.next().with_context(|| format!("{}: the comment has no end", place()))?;
                    said.push('\n');
                    said.push_str(more);
                }
                let said = said.split("-->").next().unwrap_or_default();
                comments.add(said.trim()).with_context(place)?;
            } else if let Some(language) = line.trim_start().strip_prefix("```") {
                let indent = line.len() - line.trim_start().len();
                let mut body = String::new();
                for (_, line) in lines.by_ref().take_while(|(_, line)| line.trim() != "```") {
                    body.push_str(line.get(indent..).unwrap_or_default());
                    body.push('\n');
                }
                let comments = std::mem::take(&mut comments);
                blocks.extend(comments.block(index + 1, language, body).with_context(place)?);
            } else {
                let is_used = line.trim().is_empty() || comments.is_empty();
                ensure!(is_used, "{}: the comment before this line belongs to no block", place());
            }
        }
        ensure!(comments.is_empty(), "{path}: the last comment belongs to no block");
        Ok(Self { path: path.to_owned(), blocks })
    }
}

impl Comments {
    fn add(&mut self, said: &str) -> Result<()> {
        let (word, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
        let rest = rest.trim();
        match word {
            "needs" => self.needs.extend(rest.split(',').map(|need| need.trim().to_owned())),
            "skip" => self.skip = Some(rest.to_owned()),
            "file" => self.file = Some(rest.to_owned()),
            "output" => self.is_output = true,
            "status" => self.status = Some(rest.parse().context("a status must be a number")?),
            "run" => self.before = format!("{rest}\n"),
            _ => bail!("unknown word `{word}`; use needs, skip, file, output, status or run"),
        }
        ensure!(rest.is_empty() == (word == "output"), "`{word}` is followed by too little or too much");
        Ok(())
    }

    fn is_empty(&self) -> bool {
        let Self { needs, skip, file, is_output, status, before } = self;
        needs.is_empty()
            && skip.is_none()
            && file.is_none()
            && !is_output
            && status.is_none()
            && before.is_empty()
    }

    /// Returns the blocks of a fence in this language: several if it shows commands with their output.
    fn block(self, line: usize, language: &str, body: String) -> Result<Vec<Block>> {
        let status = self.status.unwrap_or(0);
        let block = |action| Block { line, action, before: self.before.clone(), needs: self.needs.clone() };
        let language = language.split([' ', ',']).next().unwrap_or_default();
        let action = match language {
            _ if self.skip.is_some() => Action::Skip(self.skip.clone().unwrap_or_default()),
            _ if self.is_output => Action::Output(body),
            _ if self.file.is_some() => {
                Action::File { name: self.file.clone().unwrap_or_default(), text: body }
            }
            "sh" => Action::Shell { commands: body, status },
            "console" => {
                let (commands, printed) = typed_and_printed(&body);
                let mut blocks = vec![block(Action::Shell { commands, status })];
                blocks.extend((!printed.is_empty()).then(|| Block {
                    line,
                    action: Action::Output(printed),
                    before: String::new(),
                    needs: Vec::new(),
                }));
                return Ok(blocks);
            }
            "python" => Action::Python(body),
            "toml" => Action::Configuration(body),
            _ => {
                ensure!(self.is_empty(), "a block in `{language}` can only have `skip`, `file` or `output`");
                return Ok(Vec::new());
            }
        };
        Ok(vec![block(action)])
    }
}

/// Splits a terminal session into commands, which follow `$ `, and output.
fn typed_and_printed(body: &str) -> (String, String) {
    let (mut typed, mut printed) = (String::new(), String::new());
    for line in body.lines() {
        let (text, line) = match line.strip_prefix("$ ") {
            Some(command) => (&mut typed, command),
            None => (&mut printed, line),
        };
        text.push_str(line);
        text.push('\n');
    }
    (typed, printed)
}
