//! Children under a watchdog.

use rustix::process::WaitIdOptions;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum time that a test waits for a condition. Minutes, so that a busy machine makes a test slow but does not fail it.
const WATCHDOG: Duration = Duration::from_secs(300);

/// Interval at which a condition is checked.
const PERIOD: Duration = Duration::from_millis(5);

/// A command that has been started.
pub(crate) struct Running {
    child: Child,
    name: String,
    stdout: File,
    stderr: File,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns `sheaf` with these arguments, in the working directory `directory`.
pub(crate) fn start<A: AsRef<OsStr>>(directory: &Path, arguments: impl IntoIterator<Item = A>) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sheaf"));
    command.args(arguments).current_dir(directory);
    watch(command)
}

/// Starts a command.
pub(crate) fn watch(mut command: Command) -> Running {
    // Credentials for the object store of the tests.
    command.env("AWS_ACCESS_KEY_ID", "AKTEST").env("AWS_SECRET_ACCESS_KEY", "secret");
    // Files accept any amount of output without a reader.
    let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
    let name = format!("{command:?}");
    Running { child: command.spawn().unwrap(), name, stdout, stderr }
}

/// Runs `sheaf` with these arguments to its end.
pub(crate) fn sheaf<A: AsRef<OsStr>>(directory: &Path, arguments: impl IntoIterator<Item = A>) -> Ended {
    start(directory, arguments).end()
}

/// Waits until `condition` holds. `what` describes it for the message of the watchdog.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < WATCHDOG, "the watchdog waited in vain until {what}");
        std::thread::sleep(PERIOD);
    }
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if the command has ended: then there is nothing to wait for.
    pub(crate) fn assert_runs(&self) {
        assert!(!self.has_ended(), "{} has ended:\n{}", self.name, text(&self.stderr));
    }

    /// Returns whether the command has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let process = rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&self.child));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        rustix::process::waitid(process, options).unwrap().is_some()
    }

    /// Waits for the end of the command.
    pub(crate) fn end(mut self) -> Ended {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > WATCHDOG {
                let (name, said) = (&self.name, text(&self.stderr));
                panic!("{name} did not end under the watchdog; it said:\n{said}");
            }
            std::thread::sleep(PERIOD);
        };
        Ended { status, stdout: text(&self.stdout), stderr: text(&self.stderr) }
    }

    /// Returns the standard output so far.
    pub(crate) fn printed(&self) -> String {
        text(&self.stdout)
    }

    /// Returns its output on standard error so far.
    pub(crate) fn said(&mut self) -> String {
        text(&self.stderr)
    }

    /// Waits until this text is on standard error.
    pub(crate) fn wait_until_said(&mut self, what: &str) {
        self.wait_until_said_one_of(&[what]);
    }

    /// Waits until one of these texts is on standard error.
    pub(crate) fn wait_until_said_one_of(&mut self, texts: &[&str]) {
        let name = self.name.clone();
        wait_until(&format!("{name} says one of {texts:?}"), || {
            // In this order: the text may have been printed just before the command ended.
            let ended = self.child.try_wait().unwrap();
            let said = self.said();
            let is_said = texts.iter().any(|text| said.contains(text));
            assert!(ended.is_none() || is_said, "{name} has ended:\n{said}");
            is_said
        });
    }

    /// Sends a signal, by its name for `kill`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Returns the child processes of `sheaf run --processes`: name of the node and process id.
    pub(crate) fn children(&self) -> Vec<(String, u32)> {
        children_of(self.id())
    }

    /// Waits for a process of this node other than `not`, and returns it.
    pub(crate) fn wait_for_node(&self, node: &str, not: u32) -> u32 {
        let find = || self.children().into_iter().find(|(name, id)| name == node && *id != not);
        wait_until(&format!("{} has a process {node}", self.name), || find().is_some());
        find().expect("it was there").1
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Needed if the test has failed. Nodes end with their parent.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a whole file without changing the file position, which is shared with its writer.
fn text(file: &File) -> String {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends a signal, by its name for `kill`.
pub(crate) fn signal(id: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status().unwrap();
    assert!(sent.success(), "kill -{name} {id}: {sent}");
}

/// Returns the nodes that are children of a process: `sheaf node CONFIG NAME`.
pub(crate) fn children_of(parent: u32) -> Vec<(String, u32)> {
    let process = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let id: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let arguments = std::fs::read(path.join("cmdline")).ok()?;
        let arguments: Vec<_> = arguments.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let is_node = arguments.get(1).is_some_and(|argument| argument == "node");
        (is_node && parent_of(&path)? == parent).then(|| Some((arguments.get(3)?.to_string(), id)))?
    };
    std::fs::read_dir("/proc").unwrap().filter_map(process).collect()
}

fn parent_of(process: &Path) -> Option<u32> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

impl Ended {
    /// Checks the exit status.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        let Self { status, stdout, stderr } = &self;
        assert_eq!(status.code(), Some(code), "{status}; it said:\n{stderr}\nand printed:\n{stdout}");
        self
    }

    /// Checks that standard output is one JSON object, and returns it.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value @ Value::Object(_)) => value,
            Ok(value) => panic!("not an object: {value}"),
            Err(error) => {
                panic!("not one JSON object: {error}\n{}\nit said:\n{}", self.stdout, self.stderr)
            }
        }
    }

    /// Checks that standard error contains all of these texts.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in:\n{}", self.stderr);
        }
        self
    }

    /// Checks that standard output contains all of these texts.
    #[track_caller]
    pub(crate) fn prints(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stdout.contains(word), "`{word}` is not in:\n{}", self.stdout);
        }
        self
    }
}

/// A directory for one test, and configurations in it.
pub(crate) struct ScratchDirectory {
    directory: tempfile::TempDir,
}

impl ScratchDirectory {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs `sheaf` here, with arguments separated by blanks.
    pub(crate) fn sheaf(&self, arguments: &str) -> Ended {
        sheaf(self.path(), arguments.split_whitespace())
    }

    /// Starts `sheaf` here, with arguments separated by blanks.
    pub(crate) fn start(&self, arguments: &str) -> Running {
        start(self.path(), arguments.split_whitespace())
    }
}
