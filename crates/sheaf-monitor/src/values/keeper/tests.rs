//! Files that are read, that hang and that change.

use super::*;
use crate::values::book::ValueReport;
use std::fs;
use std::sync::mpsc::{Receiver, channel};

fn files(directory: &Path, names: &[&str]) -> Vec<DeclaredValue> {
    let value = |name: &&str| DeclaredValue {
        name: (*name).to_owned(),
        stale: Duration::from_secs(3_600),
        file: Some(ValueFile {
            path: directory.join(name),
            period: Duration::from_millis(1),
            is_live: false,
        }),
        ..DeclaredValue::default()
    };
    names.iter().map(value).collect()
}

fn plain() -> OpenFile {
    Arc::new(|path| File::open(path))
}

/// Waits for a state of the values. The limit is a watchdog.
fn wait_for(keeper: &ValueKeeper, why: &str, is_so: impl Fn(&[ValueReport]) -> bool) -> Vec<ValueReport> {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let reports = keeper.board().reports();
        if is_so(&reports) {
            return reports;
        }
        assert!(Instant::now() < until, "{why}: {reports:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_file_is_read_whenever_it_changes_and_a_bad_one_has_a_reason() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("hv");
    let keeper = ValueKeeper::start(files(place.path(), &["hv"]), plain(), SentFile::None).unwrap();
    let problem = |text: &'static str| {
        move |reports: &[ValueReport]| {
            reports[0].problem.as_ref().is_some_and(|problem| problem.contains(text))
        }
    };
    wait_for(&keeper, "there is no file", problem("No such file"));
    fs::write(&path, "1500\n").unwrap();
    let reports = wait_for(&keeper, "it is read", |reports| reports[0].fresh() == Some(1500.0));
    assert_eq!(reports[0].problem, None);
    fs::write(&path, "15").unwrap();
    let reports = wait_for(&keeper, "it is half-written", problem("half-written"));
    assert_eq!(reports[0].value, Some(1500.0), "the last number is kept, with its age");
    fs::write(&path, "1501\n").unwrap();
    wait_for(&keeper, "it is whole", |reports| {
        reports[0].fresh() == Some(1501.0) && reports[0].problem.is_none()
    });
}

#[test]
fn a_file_that_was_written_long_ago_is_stale_from_the_beginning() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("hv");
    fs::write(&path, "1500\n").unwrap();
    let old = SystemTime::now() - Duration::from_secs(7_200);
    File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    let mut declared = files(place.path(), &["hv"]);
    let keeper = ValueKeeper::start(declared.clone(), plain(), SentFile::None).unwrap();
    let reports = wait_for(&keeper, "it is read", |reports| reports[0].value.is_some());
    assert_eq!(reports[0].fresh(), None);
    assert!(reports[0].age_ms.unwrap() >= 7_000_000);
    // One that shows the present value whenever it is read is fresh, and read again each time.
    declared[0].file.as_mut().unwrap().is_live = true;
    keeper.declare(declared);
    wait_for(&keeper, "it is read again", |reports| {
        reports[0].fresh() == Some(1500.0) && reports[0].readings > 3
    });
}

#[test]
fn a_file_that_hangs_holds_up_only_those_of_its_directory() {
    let place = tempfile::tempdir().unwrap();
    let (hanging, working) = (place.path().join("nfs"), place.path().join("run"));
    for directory in [&hanging, &working] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(hanging.join("a"), "1\n").unwrap();
    fs::write(working.join("b"), "2\n").unwrap();
    let (release, released): (_, Receiver<()>) = channel();
    let released = Mutex::new(released);
    let hangs = hanging.clone();
    let open: OpenFile = Arc::new(move |path| {
        if path.starts_with(&hangs) {
            // It returns when the test drops the sender.
            let _ = released.lock().unwrap().recv();
        }
        File::open(path)
    });
    let mut declared = files(&hanging, &["a"]);
    declared.extend(files(&working, &["b"]));
    let keeper = ValueKeeper::start(declared, open, SentFile::None).unwrap();
    wait_for(&keeper, "the other is read", |reports| reports[1].fresh() == Some(2.0));
    let hangs = |reports: &[ValueReport]| {
        reports[0].problem.as_ref().is_some_and(|problem| problem.contains("its file system hangs"))
    };
    wait_for(&keeper, "it says so", hangs);
    drop(release);
    wait_for(&keeper, "it goes on", |reports| reports[0].fresh() == Some(1.0));
}

#[test]
fn files_of_many_directories_share_threads() {
    let file = |index: usize| {
        let path = PathBuf::from(format!("/{index:03}/value"));
        (format!("v{index}"), ValueFile { path, period: Duration::from_secs(1), is_live: false })
    };
    for count in [0, 1, READERS, READERS + 1, 5 * READERS + 3] {
        let all: Vec<_> = (0..count).map(file).collect();
        let threads = by_directory(&all);
        assert_eq!(threads.len(), count.min(READERS));
        let mut divided: Vec<_> = threads.concat();
        divided.sort_by(|one, other| one.1.path.cmp(&other.1.path));
        assert_eq!(divided, all);
    }
}

#[test]
fn a_run_and_the_next_controller_get_what_programs_have_sent() {
    use crate::values::book::Offer;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("values.json");
    let sent = || {
        vec![DeclaredValue {
            name: "hv".into(),
            stale: Duration::from_secs(3_600),
            ..DeclaredValue::default()
        }]
    };
    let send = |keeper: &ValueKeeper, value| {
        let offer = Offer { name: "hv", value: Some(value), age: 0, by: Some("bridge") };
        assert_eq!(keeper.board().take_sent(&[offer]), []);
    };
    let is = |value| move |reports: &[ValueReport]| reports[0].fresh() == Some(value);
    let controller = ValueKeeper::start(sent(), plain(), SentFile::Write(path.clone())).unwrap();
    let run = ValueKeeper::start(sent(), plain(), SentFile::Follow(path.clone())).unwrap();
    send(&controller, 1.0);
    wait_for(&run, "the run gets it", is(1.0));
    drop(controller);
    let controller = ValueKeeper::start(sent(), plain(), SentFile::Write(path.clone())).unwrap();
    assert_eq!(controller.board().reports()[0].fresh(), Some(1.0), "it is known at once");
    send(&controller, 2.0);
    let reports = wait_for(&run, "the run gets it", is(2.0));
    assert_eq!(reports[0].by.as_deref(), Some("bridge"));
    let later = ValueKeeper::start(sent(), plain(), SentFile::Follow(path.clone())).unwrap();
    later.begin_run();
    assert_eq!(later.board().reports()[0].fresh(), Some(2.0), "a run knows what was sent before it");
    fs::write(&path, "damaged").unwrap();
    send(&controller, 3.0);
    wait_for(&run, "the file is written anew", is(3.0));
    let numbers = later.end_run();
    assert_eq!(
        numbers[0].extremes,
        Some([2.0, 3.0, 2.0, 3.0]),
        "its record has what was sent before its end"
    );
}
