//! A file to an object.

use crate::client::{Client, base64};
use crate::error::ObjectError;
use crate::settings::Verification;
use sheaf_wire::ByteCount;
use sheaf_wire::checksum::{crc32c, crc32c_append};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most parts that an object has.
const MOST_PARTS: u64 = 10_000;

/// The largest part, 5 GiB.
const LARGEST_PART: u64 = 5 << 30;

/// Size and checksum of a sent object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Bytes of the object.
    pub bytes: u64,
    /// Their CRC-32C.
    pub crc32c: u32,
    /// Requests that had a part of it.
    pub parts: u64,
}

/// Uploads the file at `path` to the object `key`, and verifies that the object equals the data that were read.
/// `expected` is the CRC-32C of the file, if known. `is_ended` is called between two parts.
///
/// # Errors
/// An [`ObjectError`]: the object must then count as missing, and can be sent again.
pub fn upload(
    client: &Client,
    path: &Path,
    key: &str,
    expected: Option<u32>,
    is_ended: &dyn Fn() -> bool,
) -> Result<Sent, ObjectError> {
    let io_error = |error| ObjectError::File { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(io_error)?;
    let bytes = file.metadata().map_err(io_error)?.len();
    let part_bytes = part_bytes(client.settings().part.0, bytes)
        .ok_or(ObjectError::TooLarge { path: path.to_owned(), bytes: ByteCount(bytes) })?;
    let sent = if bytes <= part_bytes {
        let content = read_part(&mut file, bytes).map_err(io_error)?;
        let checksum = crc32c(&content);
        compare(path, expected, checksum)?;
        client.put(key, &content, checksum)?;
        Whole { sent: Sent { bytes, crc32c: checksum, parts: 1 }, of_parts: None }
    } else {
        let upload = client.begin(key)?;
        let reading = Reading { path, file: &mut file, bytes, part_bytes, expected };
        let sent = send_parts(client, reading, key, &upload, is_ended);
        if sent.is_err()
            && let Err(error) = client.abort(key, &upload)
        {
            log::debug!("parts of {key} are left in the object store: {error}");
        }
        sent?
    };
    verify(client, key, &sent)?;
    Ok(sent.sent)
}

/// Returns the size of a file's parts: the smallest power-of-two multiple of `part` for which 10,000 parts suffice.
fn part_bytes(part: u64, bytes: u64) -> Option<u64> {
    let mut size = part.max(1);
    while size.saturating_mul(MOST_PARTS) < bytes {
        size = size.saturating_mul(2);
    }
    (size <= LARGEST_PART).then_some(size)
}

struct Reading<'a> {
    path: &'a Path,
    file: &'a mut File,
    bytes: u64,
    part_bytes: u64,
    expected: Option<u32>,
}

/// Sent object, and the checksum of the checksums of its parts, which some stores keep instead.
struct Whole {
    sent: Sent,
    of_parts: Option<String>,
}

fn send_parts(
    client: &Client,
    reading: Reading<'_>,
    key: &str,
    upload: &str,
    is_ended: &dyn Fn() -> bool,
) -> Result<Whole, ObjectError> {
    let (mut whole, mut sums, mut tags, mut left) = (0, Vec::new(), Vec::new(), reading.bytes);
    while left > 0 {
        if is_ended() {
            return Err(ObjectError::Ended { key: key.to_owned() });
        }
        let content = read_part(reading.file, left.min(reading.part_bytes))
            .map_err(|error| ObjectError::File { path: reading.path.to_owned(), error })?;
        left -= content.len() as u64;
        let checksum = crc32c(&content);
        whole = crc32c_append(whole, &content);
        sums.extend(checksum.to_be_bytes());
        // At most 10,000 by `part_bytes`.
        let number = tags.len() as u16 + 1;
        tags.push(client.part(key, upload, number, &content, checksum)?);
    }
    compare(reading.path, reading.expected, whole)?;
    client.complete(key, upload, &tags, whole)?;
    let parts = tags.len() as u64;
    let of_parts = Some(format!("{}-{parts}", base64(crc32c(&sums))));
    Ok(Whole { sent: Sent { bytes: reading.bytes, crc32c: whole, parts }, of_parts })
}

/// The next `bytes` of a file, all of them.
fn read_part(file: &mut File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(usize::try_from(bytes).map_err(io::Error::other)?);
    let read = file.take(bytes).read_to_end(&mut content)?;
    if read as u64 == bytes { Ok(content) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn compare(path: &Path, expected: Option<u32>, found: u32) -> Result<(), ObjectError> {
    match expected {
        Some(expected) if expected != found => {
            Err(ObjectError::Changed { path: path.to_owned(), expected, found })
        }
        _ => Ok(()),
    }
}

/// Verifies that the object equals the data that were sent.
fn verify(client: &Client, key: &str, whole: &Whole) -> Result<(), ObjectError> {
    let different = |found: String, expected: String| {
        Err(ObjectError::Different { key: key.to_owned(), found, expected })
    };
    let sent = whole.sent;
    let in_bytes = |bytes: u64| format!("{bytes} bytes");
    match client.settings().verification {
        Verification::Checksum => {
            let Some(head) = client.head(key)? else {
                return different("vanished".to_owned(), in_bytes(sent.bytes));
            };
            if head.bytes != sent.bytes {
                return different(in_bytes(head.bytes), in_bytes(sent.bytes));
            }
            let Some(found) = head.checksum else {
                return Err(ObjectError::NoChecksum { key: key.to_owned() });
            };
            let expected = base64(sent.crc32c);
            if found != expected && Some(&found) != whole.of_parts.as_ref() {
                return different(format!("the checksum {found}"), expected);
            }
        }
        Verification::Read => {
            let (bytes, checksum) = client.read(key)?;
            if bytes != sent.bytes {
                return different(in_bytes(bytes), in_bytes(sent.bytes));
            }
            if checksum != sent.crc32c {
                return different(format!("the CRC-32C {checksum:08x}"), format!("{:08x}", sent.crc32c));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_parts_are_enough_for_any_file_that_an_object_can_hold() {
        assert_eq!(part_bytes(8 << 20, 0), Some(8 << 20));
        assert_eq!(part_bytes(8 << 20, (8 << 20) * 10_000), Some(8 << 20));
        assert_eq!(part_bytes(8 << 20, (8 << 20) * 10_000 + 1), Some(16 << 20));
        assert_eq!(part_bytes(5 << 30, (5 << 30) * 10_000 + 1), None);
    }
}
