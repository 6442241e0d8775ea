//! Free space on disks.

use std::io;
use std::path::Path;

/// Returns the bytes that an ordinary user may still write on the file system of `path`, which must exist.
///
/// # Errors
/// Those of `statvfs`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let statistics = rustix::fs::statvfs(path)?;
    Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
}
