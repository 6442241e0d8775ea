//! Keys in files.
//!
//! A key file contains 64 hexadecimal digits. Only its owner may read it.

use crate::{KEY_BYTES, NoRandomness, RunKey, random};
use rustix::fs::{FileType, Mode, OFlags};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Number of digits of a key in its file.
const DIGITS: usize = 2 * KEY_BYTES;

/// An error of reading or creating a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key of the run from {}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Reason.
        #[source]
        source: io::Error,
    },
    /// The file is a directory, a pipe or a device.
    #[error("{} is not a regular file, as the key of a run must be", .0.display())]
    NoFile(PathBuf),
    /// Other users may read or write the file.
    #[error(
        "others may read or write {path} (mode {mode:04o}), so the key in it is not secret; make a new one that \
         only you can read: `(umask 077; openssl rand -hex 32 > {path})`",
        path = .path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file belongs to another user.
    #[error("{} belongs to another user; the key of a run must belong to the user of its nodes, or to root", .0.display())]
    NotOurs(PathBuf),
    /// The file does not contain a key.
    #[error(
        "{path} has no key: it must contain exactly 64 hexadecimal digits; `(umask 077; openssl rand -hex 32 > {path})` \
         makes one",
        path = .0.display()
    )]
    NoKey(PathBuf),
    /// The file cannot be written.
    #[error("cannot write the key of the run to {}", .path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Reason.
        #[source]
        source: io::Error,
    },
    /// The system provides no randomness for a new key.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl RunKey {
    /// Creates a random key. Also returns its digits, for a process that must have it.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn make_digits() -> Result<(Self, String), NoRandomness> {
        let secret: [u8; KEY_BYTES] = random()?;
        let mut digits = String::with_capacity(DIGITS + 1);
        for byte in secret {
            // Writing to a string does not fail.
            let _ = write!(digits, "{byte:02x}");
        }
        Ok((Self::new(&secret), digits))
    }

    /// Returns the key with these digits; `None` if they are not those of a key.
    #[must_use]
    pub fn from_digits(digits: &str) -> Option<Self> {
        secret(digits.as_bytes()).map(|secret| Self::new(&secret))
    }

    /// Creates a key, and a file of mode 0600 that contains it.
    ///
    /// # Errors
    /// If the file exists already or cannot be written, or the system provides no randomness.
    pub fn make_file(path: &Path) -> Result<Self, KeyError> {
        let (key, digits) = Self::make_digits()?;
        Self::write_file(path, &digits)?;
        Ok(key)
    }

    /// Creates a file of mode 0600 that contains the key with these digits.
    ///
    /// # Errors
    /// If the file exists already or cannot be written.
    pub fn write_file(path: &Path, digits: &str) -> Result<(), KeyError> {
        let unwritable = |source| KeyError::Unwritable { path: path.to_owned(), source };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
        let mut file = std::fs::File::from(file.map_err(|error| unwritable(error.into()))?);
        file.write_all(format!("{digits}\n").as_bytes()).map_err(unwritable)
    }

    /// Reads a key from a file that belongs to this user (or to root) and that no other user may read or write.
    ///
    /// # Errors
    /// If the file cannot be read, is not private, or does not contain a key.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
        // Opening a pipe must not block until there is a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| unreadable(error.into()))?;
        let stat = rustix::fs::fstat(&file).map_err(|error| unreadable(error.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(KeyError::NoFile(path.to_owned()));
        }
        let mode = stat.st_mode & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Open { path: path.to_owned(), mode });
        }
        if ![0, rustix::process::geteuid().as_raw()].contains(&stat.st_uid) {
            return Err(KeyError::NotOurs(path.to_owned()));
        }
        let mut text = Vec::with_capacity(DIGITS + 2);
        let mut bounded = std::fs::File::from(file).take(DIGITS as u64 + 2);
        bounded.read_to_end(&mut text).map_err(unreadable)?;
        let secret = secret(text.trim_ascii()).ok_or_else(|| KeyError::NoKey(path.to_owned()))?;
        Ok(Self::new(&secret))
    }
}

fn secret(text: &[u8]) -> Option<[u8; KEY_BYTES]> {
    if text.len() != DIGITS {
        return None;
    }
    let mut secret = [0; KEY_BYTES];
    for (byte, pair) in secret.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Purpose;
    use std::os::unix::fs::PermissionsExt;

    fn proof(key: &RunKey) -> crate::Proof {
        key.prove(Purpose::TcpCaller, &[b"x"])
    }

    #[test]
    fn a_key_is_read_back_and_its_file_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.key");
        let made = RunKey::make_file(&path).unwrap();
        assert_eq!(proof(&RunKey::load(&path).unwrap()), proof(&made));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        let again = RunKey::make_file(&path);
        assert!(matches!(again, Err(KeyError::Unwritable { .. })), "a key is never overwritten");
        let other = RunKey::make_file(&directory.path().join("other.key")).unwrap();
        assert_ne!(proof(&other), proof(&made));
    }

    #[test]
    fn the_digits_of_a_key_give_the_same_key() {
        let (key, digits) = RunKey::make_digits().unwrap();
        assert_eq!(RunKey::from_digits(&digits).as_ref().map(proof), Some(proof(&key)));
        for wrong in [&digits[1..], &format!("{digits}0"), "", &digits.replace(|_: char| true, "x")] {
            assert!(RunKey::from_digits(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn files_that_are_not_private_or_not_keys_are_refused_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.key");
        RunKey::make_file(&path).unwrap();
        let text = |path: &Path| RunKey::load(path).unwrap_err().to_string();
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(text(&path).contains(&format!("(mode {mode:04o})")), "{}", text(&path));
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for content in ["", "xyz", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64)] {
            std::fs::write(&path, content).unwrap();
            assert!(text(&path).contains("64 hexadecimal digits"), "{content:?}");
        }
        assert!(text(directory.path()).contains("is not a regular file"));
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(text(&pipe).contains("is not a regular file"), "opening does not wait for a writer");
        assert!(text(Path::new("/nowhere/run.key")).starts_with("cannot read the key"));
    }
}
