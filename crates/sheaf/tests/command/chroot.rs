//! Runs in processes where the root directory lacks what the kernel provides in `/proc` and `/dev`.

use crate::child::{Ended, ScratchDirectory, watch};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A root directory with the program and its libraries.
struct Root {
    scratch: ScratchDirectory,
}

impl Root {
    /// Makes a root directory. If this process may not change to it, prints the reason and returns `None`.
    fn make() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may change the root directory");
            return None;
        }
        if let Err(problem) = Command::new("chroot").arg("--version").output() {
            println!("skipped: cannot run chroot: {problem}");
            return None;
        }
        let root = Self { scratch: ScratchDirectory::new() };
        let program = Path::new(env!("CARGO_BIN_EXE_sheaf"));
        root.add(program, "sheaf");
        for library in libraries(program) {
            let place = library.strip_prefix("/").unwrap();
            root.add(&library, place.to_str().unwrap());
        }
        root.directory("tmp");
        Some(root)
    }

    fn directory(&self, name: &str) {
        std::fs::create_dir_all(self.scratch.join(name)).unwrap();
    }

    fn add(&self, file: &Path, place: &str) {
        let place = self.scratch.join(place);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        // On another file system a copy is needed.
        if std::fs::hard_link(file.canonicalize().unwrap(), &place).is_err() {
            std::fs::copy(file, &place).unwrap();
        }
    }

    /// Makes a run of two readout units and two builder units in processes of their own.
    fn run(&self) -> Ended {
        let mut command = Command::new("chroot");
        command.arg(self.scratch.path()).args(["/sheaf", "run", "--processes", "--output", "/tmp/runs"]);
        command.args(["--readouts", "2", "--builders", "2", "--events", "100", "--full-speed"]);
        watch(command).end()
    }
}

/// Returns the shared libraries of a program, and the one that loads them: none if it is static.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

#[test]
fn a_run_in_processes_says_which_files_of_the_kernel_are_missing() {
    let Some(root) = Root::make() else { return };
    root.run().exits(1).says(&["to start ", "a chroot needs /proc", "mount -t proc"]);
    root.directory("proc/self");
    std::os::unix::fs::symlink("/sheaf", root.scratch.join("proc/self/exe")).unwrap();
    root.run().exits(1).says(&["cannot open /dev/null", "a chroot needs /dev", "mount --rbind /dev"]);
    root.directory("dev");
    root.scratch.file("dev/null", "");
    root.run().exits(0);
}
