//! Files that are replaced as a whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Writes a file in place of the existing one: a reader sees the old one or the new one, even after a crash.
///
/// # Errors
/// The error of the operating system; the old file is then unchanged.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(directory), Some(_)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path does not name a file"));
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let draft = draft_of(path);
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(directory)?.sync_all()
}

/// Returns where [`write_whole`] writes a file before it takes its place. A writer that is killed leaves it there.
#[must_use]
pub fn draft_of(path: &Path) -> PathBuf {
    path.with_added_extension("draft")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_no_draft_is_left() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("state.json");
        for text in ["the first, which is longer", "the second"] {
            write_whole(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        assert!(write_whole(Path::new("/"), b"").is_err());
        assert!(write_whole(&place.path().join("missing/state.json"), b"").is_err());
    }
}
