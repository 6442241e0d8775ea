//! Paths of Unix sockets, whose names the kernel limits to about a hundred bytes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The longest path that the name of a Unix socket holds everywhere.
const SOCKET_PATH_BYTES: usize = 100;

/// Calls `work` with a path that is short enough for the name of a socket: where this one is not, with one by way of the open directory,
/// which stays open meanwhile.
///
/// # Errors
/// Those of `work`, and that the directory cannot be opened.
pub fn with_short_path<T>(path: &Path, work: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return work(path);
    };
    if path.as_os_str().len() <= SOCKET_PATH_BYTES {
        return work(path);
    }
    let directory = File::open(directory)?;
    work(&Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name))
}
