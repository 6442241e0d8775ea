//! Files of the kernel, below a root: `/`, or a tree that a test has made.

use crate::{ClockState, CpuList, sys};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// No file of the kernel that is read here is longer.
const MOST_BYTES: u64 = 4 << 20;

/// Where the files of the kernel are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// This machine.
    #[must_use]
    pub fn system() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A tree of files below `path`.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns whether this is the root of the running machine. Results of system calls apply only to that one.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// `path`, which begins with `/`, below the root.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The text of a file, without blanks at its end; `None` if it is not there or not readable.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        fs::File::open(self.path(path)).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// The number in a file.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.trim().parse().ok()
    }

    /// The numbers in a file, with blanks between them; `None` if one is no number.
    #[must_use]
    pub fn numbers(&self, path: &str) -> Option<Vec<u64>> {
        self.text(path)?.split_whitespace().map(|word| word.parse().ok()).collect()
    }

    /// The list of processors or nodes in a file.
    #[must_use]
    pub fn list(&self, path: &str) -> Option<CpuList> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory, sorted; none if it is not there.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Whether there is something at `path`.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The processors that are online; empty if unknown.
    #[must_use]
    pub fn cpus_online(&self) -> CpuList {
        self.list("/sys/devices/system/cpu/online").unwrap_or_default()
    }

    /// The NUMA nodes, with the processors of each.
    #[must_use]
    pub fn nodes(&self) -> Vec<(usize, CpuList)> {
        let base = "/sys/devices/system/node";
        let number = |name: &String| name.strip_prefix("node")?.parse::<usize>().ok();
        let mut nodes: Vec<usize> = self.names(base).iter().filter_map(number).collect();
        nodes.sort_unstable();
        let cpus = |node: usize| self.list(&format!("{base}/node{node}/cpulist")).unwrap_or_default();
        nodes.into_iter().map(|node| (node, cpus(node))).collect()
    }

    /// The NUMA nodes that any of `cpus` belongs to.
    #[must_use]
    pub fn nodes_of(&self, cpus: &CpuList) -> CpuList {
        self.nodes()
            .into_iter()
            .filter(|(_, of_node)| !of_node.and(cpus).is_empty())
            .map(|(node, _)| node)
            .collect()
    }

    /// The NUMA nodes that have memory; all nodes if unknown.
    #[must_use]
    pub fn nodes_with_memory(&self) -> CpuList {
        let with_memory = self.list("/sys/devices/system/node/has_memory");
        with_memory.unwrap_or_else(|| self.nodes().into_iter().map(|(node, _)| node).collect())
    }

    /// The clock's discipline, of this machine only.
    #[must_use]
    pub fn clock_state(&self) -> Option<ClockState> {
        if self.is_system() { sys::clock_state().ok() } else { None }
    }
}
