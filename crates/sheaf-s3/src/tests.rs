//! Uploads against a small object store in this process.

use crate::client::{Client, base64};
use crate::error::ObjectError;
use crate::settings::{Secrets, Settings, Verification};
use crate::testing::{ACCESS_KEY, Fault, Server};
use crate::transfer::{self, Sent};
use crate::uploader::Uploader;
use sheaf_store::event_file::{ClosedFile, StreamName};
use sheaf_store::upload::Uploads;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SECRET: &str = "no-text-has-this";
const PART: usize = 1_000;

fn settings(server: &Server) -> Settings {
    Settings {
        endpoint: server.endpoint(),
        bucket: "bucket".into(),
        prefix: "beam/2026".into(),
        region: "us-east-1".into(),
        path_style: true,
        part: ByteCount(PART as u64),
        connections: 2,
        timeout: Nanos::from_millis(2_000),
        verification: Verification::Checksum,
        authorities: None,
    }
}

fn client(settings: Settings) -> Client {
    Client::new(settings, Secrets::new(ACCESS_KEY, SECRET)).unwrap()
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * at / 3 + at) as u8).collect()
}

/// A directory with files to upload.
struct FilesDirectory(tempfile::TempDir);

impl FilesDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content(bytes)).unwrap();
        path
    }

    /// An existing closed file of this name and size.
    fn closed(&self, name: &str, bytes: usize) -> ClosedFile {
        self.file(name, bytes);
        let crc32c = Some(crc32c(&content(bytes)));
        ClosedFile {
            file: name.into(),
            stream: StreamName::default(),
            events: 1,
            bytes: bytes as u64,
            crc32c,
            object: None,
        }
    }
}

fn upload(client: &Client, path: &std::path::Path, expected: Option<u32>) -> Result<Sent, ObjectError> {
    transfer::upload(client, path, &client.key("run/file"), expected, &|| false)
}

#[test]
fn an_object_is_the_file_byte_by_byte_in_one_request_or_in_parts() {
    let server = Server::start();
    let files = FilesDirectory::new();
    for verification in [Verification::Checksum, Verification::Read] {
        let client = client(Settings { verification, ..settings(&server) });
        for bytes in [0, 1, PART - 1, PART, PART + 1, 2 * PART, 7 * PART / 2] {
            let path = files.file("file", bytes);
            let sum = crc32c(&content(bytes));
            let sent = upload(&client, &path, Some(sum)).unwrap();
            let parts = bytes.div_ceil(PART).max(1) as u64;
            assert_eq!(sent, Sent { bytes: bytes as u64, crc32c: sum, parts });
            let state = server.state();
            assert!(state.objects["beam/2026/run/file"] == content(bytes), "{bytes} bytes");
            assert!(state.open.is_empty());
        }
    }
}

#[test]
fn an_object_that_is_not_what_was_sent_is_found_out() {
    let server = Server::start();
    let files = FilesDirectory::new();
    for verification in [Verification::Checksum, Verification::Read] {
        let client = client(Settings { verification, ..settings(&server) });
        server.fail_at(0, Fault::Damage);
        let one = upload(&client, &files.file("file", PART), None).unwrap_err();
        assert!(matches!(one, ObjectError::Different { .. }), "{one}");
        // The second part of three, behind the request that begins the upload.
        server.fail_at(2, Fault::Damage);
        let in_parts = upload(&client, &files.file("file", 3 * PART), None).unwrap_err();
        assert!(matches!(in_parts, ObjectError::Different { .. }), "{in_parts}");
    }
}

#[test]
fn a_file_that_is_not_what_was_written_is_not_sent() {
    let server = Server::start();
    let files = FilesDirectory::new();
    let client = client(settings(&server));
    for bytes in [PART, 3 * PART] {
        let error = upload(&client, &files.file("file", bytes), Some(7)).unwrap_err();
        assert!(matches!(error, ObjectError::Changed { expected: 7, .. }), "{error}");
        let state = server.state();
        assert!(state.objects.is_empty() && state.open.is_empty(), "nothing is left");
    }
}

#[test]
fn a_store_that_keeps_no_checksums_is_named_and_the_way_out_works() {
    let server = Server::start();
    server.state().keeps_checksums = false;
    let files = FilesDirectory::new();
    let path = files.file("file", PART);
    let error = upload(&client(settings(&server)), &path, None).unwrap_err();
    assert!(error.to_string().contains("set `object_store.verify` to \"read\""), "{error}");
    let reading = client(Settings { verification: Verification::Read, ..settings(&server) });
    upload(&reading, &path, None).unwrap();
}

#[test]
fn an_error_says_what_the_store_says_and_nothing_secret() {
    let server = Server::start();
    let files = FilesDirectory::new();
    let path = files.file("file", 10);
    server.state().is_locked = true;
    let refused = upload(&client(settings(&server)), &path, None).unwrap_err();
    let endpoint = Settings { endpoint: "http://127.0.0.1:1".into(), ..settings(&server) };
    let away = upload(&client(endpoint), &path, None).unwrap_err();
    server.state().is_locked = false;
    server.fail_at(0, Fault::Cut);
    let cut = upload(&client(settings(&server)), &path, None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "PUT {}/bucket/beam/2026/run/file: the object store says 403 AccessDenied: said the test",
            server.endpoint()
        )
    );
    assert!(!refused.is_passing() && away.is_passing() && cut.is_passing());
    for error in [refused, away, cut] {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("X-Amz") && !text.contains(SECRET) && !text.contains(ACCESS_KEY), "{text}");
    }
    assert!(!format!("{:?}", Secrets::new("a", SECRET)).contains(SECRET));
}

#[test]
fn every_fault_of_the_store_is_survived_and_counted_and_nothing_is_left_open() {
    let faults = [
        Fault::Status(500, "InternalError"),
        Fault::Status(503, "SlowDown"),
        Fault::Status(403, "RequestTimeTooSkewed"),
        Fault::Cut,
        Fault::Silence,
        Fault::LateError,
    ];
    for fault in faults {
        let server = Server::start();
        let files = FilesDirectory::new();
        let quick = Settings { timeout: Nanos::from_millis(300), ..settings(&server) };
        let mut uploader = Uploader::start(client(quick), files.0.path(), "run000004").unwrap();
        // Put; begin, two parts, completion, each of which may be hit.
        for hit in 0..5_usize {
            let name = format!("f{hit}.sheaf");
            let file = files.closed(&name, if hit == 0 { 10 } else { PART + 10 });
            server.fail_at(hit.saturating_sub(1), fault);
            uploader.submit(file.clone());
            let done = wait_for(|| uploader.poll());
            assert_eq!(done.object.as_deref(), Some(&*format!("s3://bucket/beam/2026/run000004/{name}")));
            assert_eq!(ClosedFile { object: None, ..done }, file);
            let state = server.state();
            assert!(state.objects[&format!("beam/2026/run000004/{name}")] == content(file.bytes as usize));
        }
        let failed = counter(&uploader, "uploads_failed");
        assert_eq!(counter(&uploader, "uploaded_files"), 5);
        assert!(failed >= 4, "{fault:?}: {failed}");
        assert!(uploader.trouble().is_none());
        uploader.finish(Duration::ZERO).unwrap();
    }
}

#[test]
fn a_store_that_lets_nobody_in_is_trouble_until_it_does() {
    let server = Server::start();
    server.state().is_locked = true;
    let files = FilesDirectory::new();
    let mut uploader = Uploader::start(client(settings(&server)), files.0.path(), "run").unwrap();
    uploader.submit(files.closed("a.sheaf", 10));
    let trouble = wait_for(|| uploader.trouble()).to_string();
    assert!(trouble.contains("403 AccessDenied"), "{trouble}");
    assert!(uploader.poll().is_none() && uploader.waiting() == 1);
    server.state().is_locked = false;
    wait_for(|| uploader.poll());
    assert!(uploader.trouble().is_none() && uploader.waiting() == 0);
}

#[test]
fn the_end_does_not_wait_for_a_store_that_is_away_and_names_what_is_not_there() {
    let server = Server::start();
    let files = FilesDirectory::new();
    let away = Settings { endpoint: "http://127.0.0.1:1".into(), ..settings(&server) };
    let mut uploader = Uploader::start(client(away), files.0.path(), "run").unwrap();
    for name in ["a.sheaf", "b.sheaf", "c.sheaf"] {
        uploader.submit(files.closed(name, 10));
    }
    wait_for(|| uploader.trouble());
    let left = uploader.finish(Duration::from_secs(600)).unwrap_err().to_string();
    assert!(left.starts_with("3 files are not in the object store: PUT http://127.0.0.1:1/"), "{left}");
}

#[test]
fn the_end_waits_for_files_that_the_store_takes() {
    let server = Server::start();
    let files = FilesDirectory::new();
    let mut uploader = Uploader::start(client(settings(&server)), files.0.path(), "run").unwrap();
    for name in ["a.sheaf", "b.sheaf", "c.sheaf"] {
        uploader.submit(files.closed(name, 2 * PART));
    }
    uploader.finish(Duration::from_secs(600)).unwrap();
    assert_eq!(std::iter::from_fn(|| uploader.poll()).count(), 3);
}

/// Vectors computed with Python's `base64` from the bytes of the checksum.
#[test]
fn checksums_are_written_as_stores_write_them() {
    assert_eq!(base64(0), "AAAAAA==");
    assert_eq!(base64(0xe306_9283), "4waSgw==");
    assert_eq!(base64(u32::MAX), "/////w==");
}

fn counter(uploader: &Uploader, name: &str) -> u64 {
    uploader.counters().into_iter().find(|(counter, _)| *counter == name).unwrap().1
}

/// Asks again and again; a watchdog, not an expectation, ends a test that hangs.
fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing happens");
        std::thread::sleep(Duration::from_millis(2));
    }
}
