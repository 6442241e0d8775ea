//! The program of this process, which an upgrade may have replaced.

use std::fs::{Metadata, metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The kernel's name for the program of a process, whatever is at its path now. In a child that is about to call it, it is that of the parent.
const KEPT: &str = "/proc/self/exe";

/// Returns a path of the program of this process. If another file is at the place from which it was started, such as a later release, the
/// path leads to the present program all the same: all processes of a run are one program.
///
/// # Errors
/// There is no `/proc`.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    Ok(if is_same(&path, Path::new(KEPT)) { path } else { KEPT.into() })
}

fn is_same(one: &Path, other: &Path) -> bool {
    let place = |file: Metadata| (file.dev(), file.ino());
    matches!((metadata(one).map(place), metadata(other).map(place)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_that_of_this_program_as_long_as_it_is_there() {
        let path = own_program().expect("there is /proc");
        assert_eq!(path, std::env::current_exe().expect("there is /proc"));
    }

    #[test]
    fn another_file_at_the_same_place_is_not_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, copy) = (directory.path().join("sheaf"), directory.path().join("copy"));
        std::fs::write(&path, "one").expect("a file");
        std::fs::hard_link(&path, &copy).expect("a link");
        assert!(is_same(&path, &copy));
        std::fs::write(directory.path().join("new"), "other").expect("a file");
        std::fs::rename(directory.path().join("new"), &path).expect("it is replaced");
        assert!(!is_same(&path, &copy));
        assert!(!is_same(&directory.path().join("none"), &copy));
    }
}
