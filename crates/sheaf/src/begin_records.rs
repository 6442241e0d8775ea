//! Begin-of-run records from a directory of files.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use sheaf_store::event_file::{RecordKind, RunRecord};
use sheaf_wire::event_file::{MAX_RECORD_BYTES, MAX_RECORD_NAME_BYTES};
use sheaf_wire::{SourceId, Timestamp};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Maximum bytes of all records, because each event file has a copy of them.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// Reads the records of `directory`, ordered by source and name. Hidden files are passed over.
///
/// # Errors
/// If a file cannot be read, has a name without the id of a source, or exceeds a limit.
pub(crate) fn read(directory: &Path) -> anyhow::Result<Arc<[RunRecord]>> {
    let cannot_list =
        || format!("cannot list {}, the directory of `output.begin_records`", directory.display());
    let mut records = Vec::new();
    let mut total = 0;
    for entry in fs::read_dir(directory).with_context(cannot_list)? {
        let path = entry.with_context(cannot_list)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            bail!("begin-of-run record {}: the name of the file is not UTF-8", path.display());
        };
        if name.starts_with('.') {
            continue;
        }
        let record =
            record(&path, name).with_context(|| format!("begin-of-run record {}", path.display()))?;
        total += record.content.len();
        ensure!(
            total <= MAX_TOTAL_BYTES,
            "the files in {} exceed {MAX_TOTAL_BYTES} bytes, the limit of all begin-of-run records",
            directory.display()
        );
        records.push(record);
    }
    records.sort_by(|a, b| (a.source, &a.name).cmp(&(b.source, &b.name)));
    Ok(records.into())
}

fn record(path: &Path, name: &str) -> anyhow::Result<RunRecord> {
    ensure!(name.len() <= MAX_RECORD_NAME_BYTES, "the name exceeds {MAX_RECORD_NAME_BYTES} bytes");
    let digits = name.find(|character: char| !character.is_ascii_digit()).unwrap_or(name.len());
    let source = name[..digits].parse().map(SourceId);
    let source = source.context("the name must begin with the id of a source, such as `7.cfg`")?;
    let metadata = fs::metadata(path)?;
    ensure!(metadata.is_file(), "not a file");
    let changed = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut content = Vec::new();
    fs::File::open(path)?.take(MAX_RECORD_BYTES as u64 + 1).read_to_end(&mut content)?;
    ensure!(content.len() <= MAX_RECORD_BYTES, "the file exceeds {MAX_RECORD_BYTES} bytes");
    let (kind, time) = (RecordKind::Begin, Timestamp(u64::try_from(changed.as_nanos())?));
    // The writers of a run agree on the number, and a file that has changed when a writer restarts has another one.
    Ok(RunRecord::derived(source, kind, time, name.to_owned(), Bytes::from(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(directory.path().join(name), content).unwrap();
        }
        directory
    }

    fn refusal(files: &[(&str, &[u8])]) -> String {
        format!("{:#}", read(directory(files).path()).unwrap_err())
    }

    #[test]
    fn files_are_records_of_the_sources_in_their_names() {
        let directory = directory(&[("12.cfg", b"x"), ("3", b""), ("3-map.txt", b"y"), (".3.swp", b"z")]);
        let records = read(directory.path()).unwrap();
        let found: Vec<_> =
            records.iter().map(|record| (record.source.0, &record.name[..], &record.content[..])).collect();
        assert_eq!(found, [(3, "3", &b""[..]), (3, "3-map.txt", b"y"), (12, "12.cfg", b"x")]);
        assert_eq!(read(directory.path()).unwrap(), records, "every writer has the same records");
        fs::write(directory.path().join("12.cfg"), b"changed").unwrap();
        assert_ne!(read(directory.path()).unwrap()[2].number, records[2].number);
    }

    #[test]
    fn files_that_cannot_be_records_are_refused_by_name() {
        assert!(
            refusal(&[("board.cfg", b"")]).contains("board.cfg: the name must begin with the id of a source")
        );
        assert!(refusal(&[("99999999999.cfg", b"")]).contains("must begin with the id"));
        let large = vec![0; MAX_RECORD_BYTES + 1];
        assert!(refusal(&[("1.cfg", &large)]).contains("1.cfg: the file exceeds"));
        let most = vec![0; MAX_RECORD_BYTES];
        let names = ["1", "2", "3", "4", "5"];
        assert!(
            refusal(&names.map(|name| (name, &most[..]))).contains("the limit of all begin-of-run records")
        );
        let absent = format!("{:#}", read(Path::new("/nonexistent")).unwrap_err());
        assert!(absent.contains("`output.begin_records`"), "{absent}");
    }
}
