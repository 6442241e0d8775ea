//! Unix sockets at paths: the kernel limits their names to about a hundred bytes, and shows them before they take connections.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// The longest path that the name of a Unix socket holds everywhere.
const SOCKET_PATH_BYTES: usize = 100;

/// Listens at a path of any length, in place of what was there. Whoever finds the socket can connect: until it takes connections, it has
/// another name.
///
/// # Errors
/// That the directory cannot be opened or written to, or that the socket cannot be made.
pub fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let Some(name) = path.file_name() else { return Err(ErrorKind::InvalidInput.into()) };
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(".new");
    let temporary = path.with_file_name(temporary);
    // Of a process that was killed in between.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_short_path(&temporary, |short| UnixListener::bind(short))?;
    fs::rename(&temporary, path).inspect_err(|_| _ = fs::remove_file(&temporary))?;
    Ok(listener)
}

/// Connects to a socket at a path of any length.
///
/// # Errors
/// That nobody listens there, or that the directory cannot be opened.
pub fn connect_to(path: &Path) -> io::Result<UnixStream> {
    with_short_path(path, |short| UnixStream::connect(short))
}

/// Calls `work` with a path that is short enough for the name of a socket: where this one is not, with one by way of the open directory,
/// which stays open meanwhile.
fn with_short_path<T>(path: &Path, work: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return work(path);
    };
    if path.as_os_str().len() <= SOCKET_PATH_BYTES {
        return work(path);
    }
    let directory = File::open(directory)?;
    work(&Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    fn assert_connected(path: &Path, listener: &UnixListener) {
        connect_to(path).expect("somebody listens").write_all(b"hello").expect("the socket takes it");
        let (mut stream, _) = listener.accept().expect("somebody has called");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it ends");
        assert_eq!(said, "hello");
    }

    #[test]
    fn a_socket_replaces_the_one_of_a_process_that_was_killed_at_paths_of_any_length() {
        let directory = tempfile::tempdir().expect("temporary files can be made");
        let long = directory.path().join("a-directory-with-a-name".repeat(8));
        fs::create_dir(&long).expect("it is new");
        for path in [directory.path().join("socket"), long.join("socket")] {
            drop(listen_at(&path).expect("nothing is there"));
            assert!(connect_to(&path).is_err(), "nobody listens any more");
            assert_connected(&path, &listen_at(&path).expect("it is replaced"));
            let files = fs::read_dir(path.parent().expect("it has one")).expect("it is there");
            assert!(files.flatten().all(|file| !file.file_name().to_string_lossy().ends_with(".new")));
        }
    }

    /// A socket that was visible before it took connections refused callers on a busy machine.
    #[test]
    fn a_socket_that_is_there_takes_connections() {
        let directory = tempfile::tempdir().expect("temporary files can be made");
        let path = directory.path().join("socket");
        let call = || loop {
            match connect_to(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                result => return result,
            }
        };
        for _ in 0..200 {
            std::thread::scope(|scope| {
                let caller = scope.spawn(call);
                let listener = listen_at(&path).expect("the directory is there");
                caller.join().expect("it does not panic").expect("whoever finds the socket can connect");
                fs::remove_file(&path).expect("it is there");
                drop(listener);
            });
        }
    }
}
