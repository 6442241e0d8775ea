//! Closed event files become HDF5 files without changing the content of a run.

use super::*;
use crate::event_file::{EXTENSION, FileName, FlushPolicy, SessionName};
use crate::run::{Manifest, RunReader, SessionRecord, closed_files, seal_session};
use crate::streams::{StreamRule, StreamsWriter};
use crate::verify::verify;
use hdf5_metno::types::VarLenUnicode;
use sheaf_wire::Tags;

const OWNER: SessionName = SessionName { run: RunNumber(9), node: NodeId::builder(0), session: SessionId(5) };

/// A session in its own directory, whose files hold a number of events each and are converted to HDF5.
struct Session {
    directory: tempfile::TempDir,
    writer: StreamsWriter,
    events: Vec<Event<Bytes>>,
}

impl Session {
    fn begin(rotate_events: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = WriterOptions {
            rotate_events,
            flush: FlushPolicy::EachBatch,
            replaced: true,
            ..WriterOptions::new(OWNER.run, OWNER.node, OWNER.session, Timestamp(1))
        };
        let rule = StreamRule { name: StreamName::default(), tags: Tags::NONE, prescale: 1 };
        let writer =
            StreamsWriter::create(directory.path(), vec![(rule, options.clone())], &options).unwrap();
        Manifest::new(OWNER.run, "sheaf test", Timestamp(1), "").write(directory.path()).unwrap();
        Self { directory, writer, events: Vec::new() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&mut self, events: u64) {
        for id in 0..events {
            let event = event(self.events.len() as u64, &[30 + id as usize, 2]);
            assert!(self.writer.write(&event, &verdict(&event)).unwrap());
            self.events.push(event);
        }
        self.writer.end_batch(Timestamp(2)).unwrap();
    }

    /// Replaces the files that were closed meanwhile.
    fn replace(&mut self) -> u64 {
        let closed = self.writer.take_replaceable();
        for file in &closed {
            let name = FileName::parse(&file.file).unwrap();
            let made = replace(self.path(), &name, Compression::None, &|| false).unwrap();
            assert_eq!((made.file, made.events), (name.hdf5(), file.events));
        }
        closed.len() as u64
    }

    /// Closes the run with a number of committed events, without the void ones.
    fn close(&self, committed: u64, void: &[[u64; 2]]) -> SettleReport {
        let mut manifest = Manifest::read(self.path()).unwrap().unwrap();
        let sealed = seal_session(self.path(), OWNER, committed).unwrap();
        assert_eq!(sealed.missing, 0);
        let record = SessionRecord {
            node: OWNER.node,
            session: OWNER.session,
            committed,
            void: void.to_vec(),
            sealed: true,
        };
        let report = settle(self.path(), OWNER, &record, &|_| Some(Compression::Deflate(1))).unwrap();
        manifest.ledger = serde_json::json!({ "stored": record.events() });
        manifest.sessions = vec![record];
        manifest.files = closed_files(self.path(), OWNER).unwrap();
        manifest.ended = Some(Timestamp(9));
        manifest.write(self.path()).unwrap();
        report
    }

    fn names(&self, extension: &str) -> usize {
        let names = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|found| found == extension)).count()
    }

    /// The ids that a reader of the run hands out.
    fn ids(&self) -> Vec<u64> {
        let reader = RunReader::open(self.path()).unwrap();
        reader.map(|stored| bare(stored.unwrap()).id.0).collect()
    }

    /// The ids in the columns of all HDF5 files, as any program finds them.
    fn columns(&self) -> Vec<u64> {
        let names = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            names.filter(|path| path.extension().is_some_and(|end| end == "h5")).collect();
        files.sort();
        files.iter().flat_map(|path| column::<u64>(&File::open(path).unwrap(), "events/id")).collect()
    }
}

#[test]
fn a_run_whose_closed_files_become_hdf5_reads_as_before() {
    let _alone = alone();
    let mut session = Session::begin(4);
    session.write(10);
    assert_eq!(session.replace(), 2);
    assert_eq!((session.names("h5"), session.names(EXTENSION)), (2, 1));
    let all: Vec<u64> = (0..10).collect();
    assert_eq!(session.ids(), all);
    let report = verify(session.path()).unwrap();
    assert_eq!((report.events, report.duplicates), (10, 0));

    session.writer.finish().unwrap();
    session.replace();
    assert_eq!(session.close(10, &[]), SettleReport::default());
    assert_eq!((session.names("h5"), session.names(EXTENSION)), (3, 0));
    assert_eq!((session.ids(), session.columns()), (all.clone(), all));
    let events: Vec<_> =
        RunReader::open(session.path()).unwrap().map(|stored| bare(stored.unwrap())).collect();
    assert_eq!(events, with_checksums(&session.events));
    let report = verify(session.path()).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!((report.events, report.files.len()), (10, 3));
}

#[test]
fn what_a_session_that_died_leaves_becomes_hdf5_with_the_events_that_count() {
    let _alone = alone();
    for (committed, void) in
        [(10, vec![]), (9, vec![]), (7, vec![]), (3, vec![]), (9, vec![[1, 2], [5, 5]]), (0, vec![])]
    {
        let mut session = Session::begin(4);
        session.write(10);
        session.replace();
        // The process dies: its last file is open, and a draft of a conversion exists.
        let draft = format!("{OWNER}_0002.h5.draft");
        fs::write(session.path().join(&draft), "half").unwrap();
        let report = session.close(committed, &void);
        let record =
            SessionRecord { node: OWNER.node, session: OWNER.session, committed, void, sealed: true };
        let counting: Vec<u64> = (0..10).filter(|id| record.counts(*id)).collect();
        assert_eq!((session.ids(), session.columns()), (counting.clone(), counting.clone()));
        assert_eq!(session.names(EXTENSION), 0);
        assert!(!session.path().join(draft).exists());
        assert!(report.void <= 10 - counting.len() as u64);
        let verified = verify(session.path()).unwrap();
        assert!(verified.ok, "{committed}: {:?}", verified.problems);
        // Once more changes nothing.
        assert_eq!(session.close(committed, &record.void), SettleReport::default());
    }
}

#[test]
fn an_event_that_is_in_both_files_is_read_once() {
    let _alone = alone();
    let mut session = Session::begin(4);
    session.write(10);
    let first = session.path().join(format!("{OWNER}_0000.{EXTENSION}"));
    let bytes = fs::read(&first).unwrap();
    session.replace();
    // The process died before it removed the event file.
    fs::write(&first, bytes).unwrap();
    assert_eq!(session.ids(), (0..10).collect::<Vec<_>>());
    assert_eq!(session.close(10, &[]).made, 2);
    assert_eq!(session.columns(), (0..10).collect::<Vec<_>>());
    assert!(verify(session.path()).unwrap().ok);
}

#[test]
fn a_damaged_event_file_stays_beside_the_others() {
    let _alone = alone();
    let mut session = Session::begin(4);
    session.write(10);
    let name = FileName::parse(&format!("{OWNER}_0000.{EXTENSION}")).unwrap();
    let path = session.path().join(name.to_string());
    let mut bytes = fs::read(&path).unwrap();
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&path, bytes).unwrap();
    let refused = replace(session.path(), &name, Compression::None, &|| false);
    assert!(matches!(&refused, Err(ExportError::Damaged { path: of, .. }) if *of == path), "{refused:?}");
    let report = session.close(10, &[]);
    assert_eq!((report.damaged.len(), session.names(EXTENSION)), (1, 1));
    assert!(!session.path().join(name.hdf5()).exists());
}

#[test]
fn work_that_is_ended_leaves_the_event_file_and_nothing_else() {
    let _alone = alone();
    let mut session = Session::begin(4);
    session.write(5);
    let name = FileName::parse(&session.writer.take_replaceable()[0].file).unwrap();
    let ended = replace(session.path(), &name, Compression::None, &|| true);
    assert!(matches!(ended, Err(ExportError::Ended { .. })), "{ended:?}");
    assert_eq!((session.names("draft"), session.names("h5"), session.names(EXTENSION)), (0, 0, 2));
}

#[test]
fn changed_payload_is_found_and_costs_its_event_alone() {
    let _alone = alone();
    let mut session = Session::begin(4);
    session.write(4);
    session.writer.finish().unwrap();
    session.replace();
    session.close(4, &[]);
    let name = FileName::parse(&format!("{OWNER}_0000.{EXTENSION}")).unwrap();
    let made = settle_uncompressed(&session, &name);
    let mut bytes = fs::read(&made).unwrap();
    let payload = &session.events[2].fragments[0].payload;
    let at = bytes.windows(payload.len()).position(|window| window == &payload[..]).unwrap();
    bytes[at + 3] ^= 0x10;
    fs::write(&made, bytes).unwrap();
    let read: Vec<_> =
        Reader::open(&made).unwrap().map(|stored| stored.ok().map(|stored| stored.event.id.0)).collect();
    assert_eq!(read, [Some(0), Some(1), None, Some(3)]);
    let report = verify(&made).unwrap();
    assert!(!report.ok && report.problems[0].what.contains("checksum"), "{:?}", report.problems);
}

/// The HDF5 file again, without compression, so that its payload can be found.
fn settle_uncompressed(session: &Session, name: &FileName) -> PathBuf {
    let target = session.path().join("plain.h5");
    export(&session.path().join(name.hdf5()), None, &target, Compression::None).unwrap();
    target
}

#[test]
fn a_file_that_is_no_file_of_ours_is_refused_with_a_reason() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.h5");
    File::create(&path).unwrap().create_group("something").unwrap();
    let refused = verify(&path).unwrap_err().to_string();
    assert!(refused.contains("sheaf-hdf5"), "{refused}");
    fs::write(&path, "no HDF5 at all").unwrap();
    assert!(Reader::open(&path).is_err());
    let later = File::create(&path).unwrap();
    let format: VarLenUnicode = FORMAT.parse().unwrap();
    later.new_attr::<VarLenUnicode>().create("format").unwrap().write_scalar(&format).unwrap();
    later.new_attr::<u32>().create("version").unwrap().write_scalar(&(VERSION + 1)).unwrap();
    later.close().unwrap();
    let refused = verify(&path).unwrap_err().to_string();
    for part in ["other.h5", "`sheaf-hdf5` version 2, this release reads version 1", "or a later one"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

#[test]
fn offsets_that_lie_are_an_error_and_no_panic() {
    let _alone = alone();
    for (name, place, value) in [
        ("events/fragment_offsets", 1, u64::MAX),
        ("events/fragment_offsets", 2, 0),
        ("fragments/payload_offsets", 1, 1 << 50),
        ("events/verdict_offsets", 3, 1 << 40),
        ("events/missing_offsets", 4, 7),
    ] {
        let directory = run(&small_events());
        let path = directory.path().join("run.h5");
        export(directory.path(), None, &path, Compression::None).unwrap();
        let file = File::open_rw(&path).unwrap();
        file.dataset(name).unwrap().write_slice(&[value], place..place + 1).unwrap();
        file.close().unwrap();
        let items: Vec<_> = Reader::open(&path).unwrap().collect();
        assert!(items.iter().any(Result::is_err), "{name}");
    }
}
