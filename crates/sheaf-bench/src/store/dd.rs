//! The `dd` of the machine, on the same disk.

use super::{BATCH_BYTES, Policy};
use std::io;
use std::path::Path;
use std::process::Command;

/// Writes `bytes` to a file at `path` with `dd`, and returns the bytes written and the seconds that it reports.
/// Returns `None` if `dd` is missing or reports no time. `dd` writes whole blocks of the size of a batch.
///
/// # Errors
/// If `dd` fails, with its message.
pub(super) fn run(path: &Path, policy: Policy, bytes: u64) -> io::Result<Option<(u64, f64)>> {
    let blocks = bytes.div_ceil(BATCH_BYTES);
    let mut command = Command::new("dd");
    // The words of its last line are those of this locale.
    command.env("LC_ALL", "C").arg("if=/dev/zero");
    let mut file = std::ffi::OsString::from("of=");
    file.push(path);
    command.arg(file).arg(format!("bs={BATCH_BYTES}")).arg(format!("count={blocks}"));
    match policy {
        Policy::None | Policy::Flush => {}
        Policy::FsyncAtEnd => drop(command.arg("conv=fdatasync")),
        Policy::FsyncEachBatch => drop(command.arg("oflag=dsync")),
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(io::Error::other(format!("dd: {}", said.trim_end())));
    }
    Ok(seconds(&said).map(|seconds| (blocks * BATCH_BYTES, seconds)))
}

/// Of `63963136 bytes (64 MB, 61 MiB) copied, 0.0115596 s, 5.5 GB/s`.
fn seconds(said: &str) -> Option<f64> {
    let (_, said) = said.rsplit_once(" copied, ")?;
    let seconds = said.split_once(' ')?.0.parse::<f64>().ok()?;
    (seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_last_line() {
        let said = "122+0 records in\n122+0 records out\n63963136 bytes (64 MB, 61 MiB) copied, 0.0115596 s, 5.5 GB/s\n";
        assert_eq!(seconds(said), Some(0.011_559_6));
        assert_eq!(seconds("63963136 bytes transferred in 0.011 secs"), None);
        assert_eq!(seconds("5 bytes copied, 0 s, Infinity B/s"), None);
    }

    #[test]
    fn a_dd_that_fails_is_an_error_with_its_words() {
        let nowhere = Path::new("/no/such/directory/file");
        match run(nowhere, Policy::None, 1) {
            Ok(None) => println!("skipped: there is no dd here"),
            Ok(Some(_)) => panic!("it wrote where nothing is"),
            Err(error) => assert!(error.to_string().contains("/no/such/directory/file"), "{error}"),
        }
    }
}
