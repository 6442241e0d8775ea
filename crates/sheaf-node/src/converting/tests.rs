use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Minutes: a machine that does much else makes a test slow, never red.
const WATCHDOG: Duration = Duration::from_secs(300);

fn closed(part: u64) -> ClosedFile {
    ClosedFile {
        file: format!("run000001_bu0_s0000000000000001_{part:04}.sheaf"),
        stream: sheaf_store::event_file::StreamName::default(),
        events: part,
        bytes: 100,
        crc32c: None,
        object: None,
    }
}

fn made(file: &ClosedFile) -> ClosedFile {
    ClosedFile { file: file.file.replace(".sheaf", ".h5"), bytes: 10, ..file.clone() }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < WATCHDOG, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn files_are_converted_in_order_and_each_once() {
    let mut converter = Converter::start(Box::new(|file, _| Ok(made(file)))).unwrap();
    (0..20).for_each(|part| converter.submit(closed(part)));
    converter.finish().unwrap();
    let done: Vec<_> = std::iter::from_fn(|| converter.poll()).collect();
    assert_eq!(done, (0..20).map(|part| made(&closed(part))).collect::<Vec<_>>());
    assert_eq!(converter.waiting(), 0);
    assert_eq!(
        converter.counters(),
        [("converted_files", 20), ("converted_bytes", 200), ("conversions_failed", 0)]
    );
}

#[test]
fn what_fails_is_told_and_tried_again_until_it_works() {
    let failures = Arc::new(AtomicUsize::new(2));
    let left = Arc::clone(&failures);
    let mut converter = Converter::start(Box::new(move |file, _| {
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(ConversionError::new("no room")),
            Err(_) => Ok(made(file)),
        }
    }))
    .unwrap();
    converter.submit(closed(3));
    wait_until("trouble", || converter.trouble().is_some());
    assert_eq!(converter.trouble().unwrap().to_string(), "no room");
    wait_until("the end of the trouble", || converter.trouble().is_none());
    assert_eq!(converter.poll(), Some(made(&closed(3))));
    assert_eq!(converter.counters()[2], ("conversions_failed", 2));
    converter.finish().unwrap();
}

#[test]
fn an_output_that_closes_files_faster_than_they_are_converted_has_no_room() {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let mut converter = Converter::start(Box::new(move |file, _| {
        wait.recv().map_err(ConversionError::new)?;
        Ok(made(file))
    }))
    .unwrap();
    for part in 0..MOST_WAITING as u64 {
        assert!(converter.has_room(), "{part}");
        converter.submit(closed(part));
    }
    assert!(!converter.has_room());
    release.send(()).unwrap();
    wait_until("room", || converter.has_room());
    (1..MOST_WAITING).for_each(|_| release.send(()).unwrap());
    converter.finish().unwrap();
}

#[test]
fn the_end_does_not_wait_for_ever_and_leaves_what_is_under_way() {
    let mut converter = Converter::start(Box::new(|_, is_ended| {
        while !is_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(ConversionError::new("ended"))
    }))
    .unwrap();
    (0..3).for_each(|part| converter.submit(closed(part)));
    converter.finish_within(Duration::from_millis(5)).unwrap();
    assert_eq!((converter.poll(), converter.counters()[2].1), (None, 0));
}

#[test]
fn at_the_end_a_file_that_fails_is_not_tried_for_ever() {
    let mut converter =
        Converter::start(Box::new(|_, _| Err(ConversionError::new("the disk is full")))).unwrap();
    (0..3).for_each(|part| converter.submit(closed(part)));
    assert_eq!(converter.finish().unwrap_err().to_string(), "the disk is full");
}
