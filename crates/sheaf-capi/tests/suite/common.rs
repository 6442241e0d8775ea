//! Programs in C for the tests: compiled and linked with the library.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns this package's folder.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder of this package's shared library, which cargo puts beside its tests.
pub(crate) fn library_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Compiles a program of `tests/programs` into `directory`.
pub(crate) fn compile(name: &str, directory: &Path) -> PathBuf {
    let program = directory.join(name);
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-I"])
        .arg(folder().join("include"))
        .arg("-o")
        .arg(&program)
        .arg(folder().join("tests/programs").join(name).with_extension("c"))
        .arg("-L")
        .arg(library_directory())
        .arg("-lsheaf")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Converts the output of a program to text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
