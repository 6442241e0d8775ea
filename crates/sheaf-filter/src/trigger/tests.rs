use super::*;
use crate::abi::{POLL_END, POLL_MORE};
use crate::loading::MESSAGE_BYTES;
use crate::{FilterFailure, text};
use crate::{TriggerInfo, TriggerPlugin, TriggerPluginSetup, TriggerRoom};
use sheaf_wire::Nanos;
use std::ffi::{c_char, c_void};
use std::mem;

/// Board of the tests: counts its polls, and remembers the reason of busy.
#[derive(Default)]
struct Board {
    next: u64,
    polls: u32,
    busy: Option<String>,
}

unsafe extern "C" fn open(setup: *const abi::TriggerSetup) -> *mut c_void {
    // SAFETY: valid during the call.
    assert_eq!(unsafe { (*setup).max_payload_bytes }, 100);
    Box::into_raw(Box::<Board>::default()).cast()
}

unsafe extern "C" fn start(board: *mut c_void, next: u64) {
    // SAFETY: the board of `open`.
    unsafe { (*board.cast::<Board>()).next = next };
}

unsafe extern "C" fn refuse(setup: *const abi::TriggerSetup) -> *mut c_void {
    let text = b"no crate\0";
    // SAFETY: the buffer is longer.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), (*setup).message, text.len()) };
    ptr::null_mut()
}

unsafe extern "C" fn busy(board: *mut c_void, reason: *const c_char) {
    // SAFETY: the board of `open`, and null or a text.
    unsafe { (*board.cast::<Board>()).busy = text::read(reason, MESSAGE_BYTES) };
}

unsafe extern "C" fn poll(board: *mut c_void, batch: *mut TriggerBatch) -> i32 {
    // SAFETY: the board of `open`, and a batch that is valid during the call.
    let (board, batch) = unsafe { (&mut *board.cast::<Board>(), &mut *batch) };
    board.polls += 1;
    match board.polls {
        1 => {
            let payload = b"hits";
            let id = board.next;
            let trigger = abi::PolledTrigger {
                id,
                time_ns: 9,
                bits: 5,
                kind: 3,
                data: payload.as_ptr(),
                bytes: payload.len(),
                ..abi::PolledTrigger::default()
            };
            // SAFETY: there is room for two.
            unsafe {
                batch.triggers.write(trigger);
                batch.triggers.add(1).write(abi::PolledTrigger { id: id + 1, data: ptr::null(), ..trigger });
            }
            (batch.count, batch.then, batch.vetoed) = (2, POLL_MORE, 11);
        }
        2 => batch.count = batch.room + 1,
        3 => batch.then = 99,
        4 => batch.failure = c"no link".as_ptr(),
        _ => batch.then = POLL_END,
    }
    i32::from(board.polls == 4)
}

unsafe extern "C" fn close(board: *mut c_void) {
    // SAFETY: the board of `open`, which is not used again.
    drop(unsafe { Box::from_raw(board.cast::<Board>()) });
}

fn table() -> TriggerTable {
    TriggerTable {
        abi: FILTER_ABI,
        table_bytes: mem::size_of::<TriggerTable>() as u32,
        open: Some(open),
        start: Some(start),
        poll: Some(poll),
        busy: Some(busy),
        stop: None,
        close: Some(close),
    }
}

fn setup() -> TriggerSetup {
    TriggerSetup {
        run: RunNumber(5),
        parameters: "crate 3".into(),
        max_payload: ByteCount(100),
        batch_triggers: 3,
    }
}

fn opened(table: &TriggerTable) -> Result<LibraryTrigger, OpenError> {
    // SAFETY: the functions of this module do as the table says.
    unsafe { LibraryTrigger::of_table(table, &setup()) }
}

#[test]
fn a_library_gives_triggers_and_its_nonsense_is_an_error() {
    let mut library = opened(&table()).expect("it opens");
    library.start(EventId(7));
    assert_eq!(library.poll(), Ok(PollEnd::More));
    let first = PolledTrigger {
        id: EventId(7),
        time: Timestamp(9),
        kind: TriggerType(3),
        bits: 5,
        payload: Some(b"hits"),
    };
    assert_eq!(library.trigger(0), Some(first));
    assert_eq!(library.trigger(1), Some(PolledTrigger { id: EventId(8), payload: None, ..first }));
    assert_eq!((library.trigger(2), library.vetoed()), (None, 11));
    for reason in ["4 triggers where there is room for 3", "`then` is 99", "no link"] {
        let error = library.poll().expect_err("nonsense").to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!((library.trigger(0), library.vetoed()), (None, 0));
    }
    assert_eq!(library.poll(), Ok(PollEnd::Ended));
    library.stop();
}

#[test]
fn a_library_learns_of_busy_with_the_reason() {
    assert!(!opened(&TriggerTable { busy: None, ..table() }).expect("it opens").has_veto());
    let mut library = opened(&table()).expect("it opens");
    assert!(library.has_veto());
    let board: *const Board = library.device.as_ptr().cast_const().cast();
    for reason in [Some(c"readout_memory"), None] {
        library.busy(reason);
        // SAFETY: the board of `open`, which nothing else uses now.
        let heard = unsafe { (*board).busy.clone() };
        assert_eq!(heard.as_deref(), reason.map(|reason| reason.to_str().expect("a text")));
    }
}

#[test]
fn a_table_that_is_incomplete_old_or_unwilling_is_refused_with_the_reason() {
    for (table, reason) in [
        (TriggerTable { abi: 1, ..table() }, "has version 1"),
        (TriggerTable { table_bytes: 8, ..table() }, "SheafTriggerTable"),
        (TriggerTable { open: None, ..table() }, "`open` is null"),
        (TriggerTable { poll: None, ..table() }, "`poll` is null"),
        (TriggerTable { open: Some(refuse), ..table() }, "no crate"),
    ] {
        let error = opened(&table).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// Gives triggers with payloads, fails and panics in turn.
struct Plugin {
    next: EventId,
    polls: u32,
    busy: Option<String>,
}

impl TriggerPlugin for Plugin {
    const HAS_VETO: bool = true;

    fn open(setup: &TriggerPluginSetup) -> Result<Self, FilterFailure> {
        if setup.parameters.is_empty() {
            return Err(FilterFailure("name a crate".into()));
        }
        assert_eq!((setup.run, setup.max_payload), (RunNumber(5), ByteCount(100)));
        Ok(Self { next: EventId(0), polls: 0, busy: None })
    }

    fn start(&mut self, next: EventId) {
        self.next = next;
    }

    fn poll(&mut self, room: &mut TriggerRoom<'_>) -> Result<PollEnd, FilterFailure> {
        self.polls += 1;
        match self.polls {
            1 => {
                while room.left() > 0 {
                    let info = TriggerInfo { time: Timestamp(self.next.0), kind: TriggerType(3), bits: 5 };
                    assert!(room.push_with(self.next, info, &self.next.0.to_le_bytes()));
                    self.next.0 += 1;
                }
                assert!(!room.push(self.next), "there is no room");
                Ok(PollEnd::After(Nanos(8)))
            }
            2 => Err(FilterFailure(format!("busy is {:?}", self.busy))),
            3 => panic!("no link"),
            _ => {
                room.add_vetoed(4);
                Ok(PollEnd::Ended)
            }
        }
    }

    fn busy(&mut self, reason: Option<&str>) {
        self.busy = reason.map(str::to_owned);
    }
}

#[test]
fn a_type_in_rust_gives_triggers_and_its_panic_is_a_failure() {
    let mut library = LibraryTrigger::of_plugin::<Plugin>(&setup()).expect("it opens");
    assert!(library.has_veto());
    library.start(EventId(40));
    assert_eq!(library.poll(), Ok(PollEnd::After(Nanos(8))));
    for (place, id) in [40, 41, 42].into_iter().enumerate() {
        let payload = u64::to_le_bytes(id);
        let expected = PolledTrigger {
            id: EventId(id),
            time: Timestamp(id),
            kind: TriggerType(3),
            bits: 5,
            payload: Some(&payload),
        };
        assert_eq!(library.trigger(place), Some(expected));
    }
    library.busy(Some(c"output"));
    for reason in ["busy is Some(\"output\")", "it panicked: no link"] {
        let error = library.poll().expect_err("a failure").to_string();
        assert!(error.contains(reason), "{error}");
    }
    library.busy(None);
    assert_eq!((library.poll(), library.vetoed()), (Ok(PollEnd::Ended), 4));
    library.stop();
    let error = LibraryTrigger::of_plugin::<Plugin>(&TriggerSetup { parameters: String::new(), ..setup() });
    let error = error.expect_err("it has no crate").to_string();
    assert!(error.ends_with("name a crate"), "{error}");
}
