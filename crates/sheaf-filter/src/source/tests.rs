use super::*;
use crate::abi::POLL_END;
use crate::{FilterFailure, PollRoom, SourcePlugin, SourcePluginSetup};
use sheaf_wire::Nanos;
use std::ffi::c_void;
use std::slice;

/// Sends what its parameters say.
struct Scripted {
    setup: SourcePluginSetup,
    polls: u64,
    has_started: bool,
}

impl SourcePlugin for Scripted {
    fn open(setup: &SourcePluginSetup) -> Result<Self, FilterFailure> {
        match setup.parameters.as_str() {
            "refuse" => Err(FilterFailure(format!("run {} has no crate", setup.run))),
            "panic" => panic!("no crate"),
            _ => Ok(Self { setup: setup.clone(), polls: 0, has_started: false }),
        }
    }

    fn start(&mut self) {
        self.has_started = true;
    }

    fn poll(&mut self, room: &mut PollRoom<'_>) -> Result<PollEnd, FilterFailure> {
        assert!(self.has_started, "polled before the start");
        self.polls += 1;
        match self.polls {
            1 => {
                for (at, source) in self.setup.sources.iter().enumerate() {
                    assert!(room.push(*source, EventId(7), Timestamp(9), &vec![at as u8; at * 3]));
                }
                Ok(PollEnd::More)
            }
            2 => {
                while room.push(SourceId(1), EventId(8), Timestamp::ZERO, b"full") {}
                Ok(PollEnd::After(Nanos::from_secs(3_600)))
            }
            3 => Err(FilterFailure("the crate does not answer".into())),
            4 => panic!("a bug"),
            _ => Ok(PollEnd::Ended),
        }
    }
}

fn setup(parameters: &str) -> PollSetup {
    PollSetup {
        run: RunNumber(5),
        parameters: parameters.into(),
        sources: vec![SourceId(4), SourceId(1)],
        max_fragment: ByteCount(100),
        batch_fragments: 3,
    }
}

#[test]
fn a_plugin_gives_fragments_failures_and_an_end() {
    let mut library = LibrarySource::of_plugin::<Scripted>(&setup("")).expect("it opens");
    library.start();
    assert_eq!(library.poll(), Ok(PollEnd::More));
    let fragment = |source, payload| PolledFragment {
        event: EventId(7),
        source: SourceId(source),
        time: Timestamp(9),
        payload: Some(payload),
    };
    assert_eq!(library.fragment(0), Some(fragment(4, &[][..])));
    assert_eq!(library.fragment(1), Some(fragment(1, &[1, 1, 1][..])));
    assert_eq!(library.fragment(2), None);
    assert_eq!(library.poll(), Ok(PollEnd::After(Nanos::from_secs(1))), "no pause is longer");
    assert_eq!((0..).map_while(|at| library.fragment(at)).count(), 3, "as many as there is room for");
    assert_eq!(library.poll(), Err(FilterFailure("the crate does not answer".into()).into()));
    assert_eq!(library.fragment(0), None, "a failed poll has no fragments");
    let panicked = library.poll().expect_err("it panics").to_string();
    assert!(panicked.contains("a bug"), "{panicked}");
    assert_eq!(library.poll(), Ok(PollEnd::Ended));
    library.stop();
}

#[test]
fn a_plugin_that_does_not_open_says_why() {
    let refused = |parameters| LibrarySource::of_plugin::<Scripted>(&setup(parameters)).expect_err("refused");
    assert!(refused("refuse").to_string().ends_with("rejects its configuration: run 5 has no crate"));
    assert!(refused("panic").to_string().contains("no crate"));
    let error = LibrarySource::check(Path::new("/no/such/library.so"), "sheaf_source").expect_err("absent");
    assert!(error.to_string().starts_with("cannot find the source library /no/such/library.so"), "{error}");
}

/// Answers of a library that break the rules, one after another.
unsafe extern "C" fn nonsense(sources: *mut c_void, batch: *mut PollBatch) -> i32 {
    // SAFETY: what `open_counter` gave, and a batch with room for three fragments.
    let (polls, batch) = unsafe { (&mut *sources.cast::<u32>(), &mut *batch) };
    *polls += 1;
    match *polls {
        1 => batch.count = batch.room + 1,
        2 => batch.then = 17,
        3 => return -3,
        4 => {
            batch.count = 2;
            // SAFETY: there is room for them.
            let fragments = unsafe { slice::from_raw_parts_mut(batch.fragments, 2) };
            fragments[0] = abi::PolledFragment { bytes: 5, ..abi::PolledFragment::default() };
            let far = ptr::without_provenance(64);
            fragments[1] =
                abi::PolledFragment { bytes: usize::MAX, data: far, ..abi::PolledFragment::default() };
        }
        _ => batch.then = POLL_END,
    }
    0
}

unsafe extern "C" fn open_counter(_: *const abi::SourceSetup) -> *mut c_void {
    Box::into_raw(Box::new(0_u32)).cast()
}

unsafe extern "C" fn close_counter(sources: *mut c_void) {
    // SAFETY: what `open_counter` gave.
    drop(unsafe { Box::from_raw(sources.cast::<u32>()) });
}

#[test]
fn answers_that_break_the_rules_are_errors_and_no_fragments() {
    let table = SourceTable {
        abi: FILTER_ABI,
        table_bytes: std::mem::size_of::<SourceTable>() as u32,
        open: Some(open_counter),
        start: None,
        poll: Some(nonsense),
        stop: None,
        close: Some(close_counter),
    };
    // SAFETY: the functions do as the table says, but for the answers of `poll`.
    let open = |table: &SourceTable| unsafe { LibrarySource::of_table(table, &setup("")) };
    let mut library = open(&table).expect("it opens");
    library.start();
    for part in ["4 fragments where there is room for 3", "`then` is 17", "`poll` returned -3"] {
        let error = library.poll().expect_err("invalid").to_string();
        assert!(error.contains(part), "{error}");
        assert_eq!(library.fragment(0), None);
    }
    assert_eq!(library.poll(), Ok(PollEnd::After(Nanos::from_micros(100))));
    assert_eq!([library.fragment(0), library.fragment(1)].map(|it| it.expect("there").payload), [None, None]);
    assert_eq!(library.poll(), Ok(PollEnd::Ended));
    for (table, part) in [
        (SourceTable { poll: None, ..table }, "`poll` is null"),
        (SourceTable { open: None, ..table }, "`open` is null"),
        (SourceTable { abi: 99, ..table }, "version 99"),
        (SourceTable { table_bytes: 8, ..table }, "SheafSourceTable"),
    ] {
        let error = open(&table).expect_err("invalid").to_string();
        assert!(error.contains(part), "{error}");
    }
}
