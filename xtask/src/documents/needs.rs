//! Requirements of a block that this machine may lack.
//!
//! | need | satisfied if |
//! |---|---|
//! | `root` | this process is root |
//! | `data:PATH` | the directory with detector data has such a file |
//! | `python:MODULE` | the interpreter of the Python package can import the module |
//! | `feature:NAME` | the command is built with the optional part |
//! | `libsheaf` | the C library was built with the command |
//! | any other word | a program of this name is on the search path |

use super::network;
use crate::{python, shell, workspace};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable that names the directory with detector data.
const DATA_VARIABLE: &str = "SHEAF_DATA";

/// Properties of this machine that blocks may require.
#[derive(Debug)]
pub(super) struct Machine {
    /// Parent of the directories of pages.
    pub(super) directory: PathBuf,
    /// The command under test.
    pub(super) sheaf: PathBuf,
    /// The interpreter of the Python package.
    pub(super) python: OsString,
    /// Directory with detector data, which may be missing.
    pub(super) data: PathBuf,
    /// Whether each page gets its own network namespace.
    pub(super) has_namespaces: bool,
    features: Vec<String>,
}

impl Machine {
    /// Inspects the machine. `features` are the optional parts of the command, as `package/feature`.
    pub(super) fn new(directory: PathBuf, sheaf: PathBuf, features: Vec<String>) -> Self {
        let data = std::env::var_os(DATA_VARIABLE);
        Self {
            directory,
            sheaf,
            python: absolute(python::package_interpreter()),
            data: data.map_or_else(|| workspace::root().join("../shared/data"), PathBuf::from),
            has_namespaces: network::has_namespaces(),
            features,
        }
    }

    /// Returns the reason why a block cannot run here; `None` if it can.
    pub(super) fn lacks(&self, needs: &[String]) -> Option<String> {
        needs.iter().find_map(|need| self.lacks_one(need))
    }

    fn lacks_one(&self, need: &str) -> Option<String> {
        let (kind, name) = need.split_once(':').unwrap_or(("", need));
        let (is_there, reason) = match kind {
            "data" => {
                let path = self.data.join(name);
                (path.exists(), format!("{} does not exist; set {DATA_VARIABLE}", path.display()))
            }
            "python" => {
                let python = self.python.display();
                (self.can_import(name), format!("{python} cannot import {name}"))
            }
            "feature" => {
                let feature = format!("sheaf/{name}");
                (self.features.contains(&feature), format!("the command is built without {name}"))
            }
            _ if name == "libsheaf" => {
                (library_beside(&self.sheaf).is_some(), "libsheaf was not built with the command".to_owned())
            }
            _ if name == "root" => (shell::is_root(), "needs root".to_owned()),
            _ if name == "python3" => {
                (Path::new(&self.python).is_file(), format!("there is no {}", self.python.display()))
            }
            _ => (is_on_path(name), format!("there is no {name}")),
        };
        (!is_there).then_some(reason)
    }

    fn can_import(&self, module: &str) -> bool {
        python::has_beside_sources(&self.python, module)
    }
}

/// Returns the C library that was built with the command, for its tests.
pub(super) fn library_beside(sheaf: &Path) -> Option<PathBuf> {
    sheaf.parent().map(|folder| folder.join("deps/libsheaf.so")).filter(|library| library.exists())
}

fn is_on_path(program: &str) -> bool {
    find(program.as_ref()).is_some()
}

/// Returns the file of a program on the search path.
fn find(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns a program by its full path. The search path of the pages begins with a program of the same name, which calls this one.
fn absolute(program: OsString) -> OsString {
    let is_name = Path::new(&program).components().count() == 1;
    is_name.then(|| find(program.as_ref())).flatten().map_or(program, PathBuf::into_os_string)
}
