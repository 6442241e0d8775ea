//! Feeding sources of a run in progress with fragments.

#![allow(unsafe_code)]

mod error;
pub mod in_place;
pub mod many;

use crate::argument::{self, ArgumentError};
use error::{SourceArgumentError, SourceOpenError, described};
use sheaf_config::feed_place_at;
use sheaf_feed::client::{SourceFragment, TlsFiles};
use sheaf_feed::{ClientOptions, FeedError, SourceClient, SourceRecord, environment};
use sheaf_filter::text;
use sheaf_wire::feed::Phase;
use sheaf_wire::run_record::RecordKind;
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::time::Duration;

/// Answer of functions that have done what was asked.
const DONE: i32 = 1;

/// The run has ended.
const ENDED: i32 = 0;

/// There is no room now, or the time is over.
const NOT_NOW: i32 = 2;

const FAILED: i32 = -1;

/// Feeds sources of a readout unit.
pub struct Source {
    client: SourceClient,
    message: CString,
}

/// Options of a program that feeds sources. All zero: the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SourceOptions {
    /// Name of the program for the operator; null: the name by which a run has started it, or its process id.
    pub name: *const c_char,
    /// Copy of the transport.key_file of the run, readable only by the user, for connections over the network; null: that of the
    /// configuration file, if this is the target, else none.
    pub key_file: *const c_char,
    /// Time for which the readout unit may be absent, at first and after its connection has ended, in milliseconds; 0: 10,000.
    pub patience_ms: u32,
    /// 1: fragments carry no checksum of their payload.
    pub no_checksum: u8,
    /// 1: fragments are not kept until they are accepted; those that are under way when a connection ends are lost.
    pub no_keep: u8,
    /// 1: sheaf_source_record is called after the end of the run. The run ends only when the connection is closed, or ten seconds later.
    pub late_records: u8,
    /// Always 0.
    pub reserved: u8,
    /// Certificate of this program (PEM), for one of the source.feed.guest_names of the run, for connections over the network to a run
    /// with TLS. Set the three files, or none; null: those of the configuration file, if this is the target, else none.
    pub tls_certificate: *const c_char,
    /// Private key of the certificate (PEM).
    pub tls_key: *const c_char,
    /// Certificates of the authorities that sign those of the nodes (PEM).
    pub tls_authority: *const c_char,
}

/// A fragment to send.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SentFragment {
    /// Event number.
    pub event: u64,
    /// Time by the source's own clock in nanoseconds; 0: it has none.
    pub time_ns: u64,
    /// Payload.
    pub data: *const c_void,
    /// Size of the payload.
    pub bytes: usize,
}

/// Connects to a readout unit to feed `source_count` sources of it. `target` is its socket (`runs/ru0.feed`), the
/// configuration file of the run, or HOST:PORT of its `source.feed.listen`. A program that has the configuration file and not the
/// socket, because it is on another host, connects over the network, with the key and the certificate of the configuration.
/// `options` may be null: the defaults. Waits for the run for the patience of the options.
/// A program that a run has started (`source.kind = "command"`) may pass null as `target`, null as `sources` and 0 as `source_count`:
/// they are then those of its environment, and sheaf_source_id tells the sources.
/// On failure, returns null and writes the reason to `message` (a buffer of `message_bytes` bytes, or null). The caller
/// owns the result and closes it with sheaf_source_close. One thread at a time may use it.
///
/// Functions return 1 if they have done what was asked, 0 if the run has ended, and -1 if they failed;
/// sheaf_source_message then has the reason. Each call also takes what the readout unit has said.
///
/// # Safety
/// `target` is null or a NUL-terminated text, `sources` is null or a list of `source_count` numbers, `options` is null or a
/// valid SheafSourceOptions, and `message` is null or a buffer of `message_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_open(
    target: *const c_char,
    sources: *const u32,
    source_count: usize,
    options: *const SourceOptions,
    message: *mut c_char,
    message_bytes: usize,
) -> *mut Source {
    // SAFETY: as the caller promises.
    match unsafe { open(target, sources, source_count, options) } {
        Ok(client) => Box::into_raw(Box::new(Source { client, message: CString::default() })),
        Err(error) => {
            // SAFETY: as the caller promises.
            unsafe { text::write(&described(&error), message, message_bytes) };
            ptr::null_mut()
        }
    }
}

/// # Safety
/// As `sheaf_source_open`.
unsafe fn open(
    target: *const c_char,
    sources: *const u32,
    source_count: usize,
    options: *const SourceOptions,
) -> Result<SourceClient, SourceOpenError> {
    let target = if target.is_null() {
        environment::address()?
    } else {
        // SAFETY: a NUL-terminated text, as the caller promises.
        unsafe { argument::path(target)? }
    };
    // SAFETY: null or a list of this length, as the caller promises.
    let given = unsafe { argument::list(sources, source_count, "the list of sources")? };
    let mut ids: Vec<SourceId> = given.iter().copied().map(SourceId).collect();
    if sources.is_null() {
        ids = environment::sources()?;
    }
    let mut chosen = ClientOptions {
        sources: ids,
        name: environment::name().unwrap_or_else(|| format!("process {}", std::process::id())),
        checksum: true,
        keep: true,
        ..ClientOptions::default()
    };
    // SAFETY: null or options, as the caller promises.
    if let Some(options) = unsafe { options.as_ref() } {
        if !options.name.is_null() {
            // SAFETY: not null, and so a NUL-terminated text.
            chosen.name = unsafe { CStr::from_ptr(options.name) }.to_string_lossy().into_owned();
        }
        if !options.key_file.is_null() {
            // SAFETY: not null, and so a NUL-terminated text.
            chosen.key = Some(unsafe { argument::path(options.key_file)? });
        }
        if options.patience_ms != 0 {
            chosen.patience = Duration::from_millis(options.patience_ms.into());
        }
        (chosen.checksum, chosen.keep) = (options.no_checksum == 0, options.no_keep == 0);
        chosen.late_records = options.late_records != 0;
        // SAFETY: null or NUL-terminated texts, as the caller promises.
        chosen.tls = unsafe { tls_files(options)? };
    }
    let place = feed_place_at(&target, &chosen.sources)?;
    chosen.network = place.network;
    chosen.key = chosen.key.or(place.key_file);
    chosen.tls = chosen.tls.or(place.tls.map(TlsFiles::from));
    Ok(SourceClient::connect(&place.address, chosen)?)
}

/// Returns the files of a certificate.
///
/// # Safety
/// The files are null or NUL-terminated texts.
unsafe fn tls_files(options: &SourceOptions) -> Result<Option<TlsFiles>, SourceOpenError> {
    let files = [options.tls_certificate, options.tls_key, options.tls_authority];
    match files.iter().filter(|file| file.is_null()).count() {
        0 => {
            // SAFETY: none is null, and so each is a NUL-terminated text.
            let path = |file| unsafe { argument::path(file) };
            Ok(Some(TlsFiles::from([path(files[0])?, path(files[1])?, path(files[2])?])))
        }
        3 => Ok(None),
        _ => Err(SourceOpenError::SomeTlsFiles),
    }
}

impl Source {
    /// Returns the index of a source that it feeds.
    fn index_of(&self, source: u32) -> Result<usize, SourceArgumentError> {
        let index = self.client.sources().iter().position(|ours| ours.0 == source);
        index.ok_or(SourceArgumentError::NotOpened(source))
    }

    fn fail(&mut self, error: &dyn std::error::Error) -> i32 {
        self.message = argument::c_text(&described(error));
        FAILED
    }

    /// Returns the answer to the caller.
    fn answer(&mut self, result: Result<i32, FeedError>) -> i32 {
        match result {
            Ok(answer) => answer,
            Err(FeedError::RunEnded(_)) => ENDED,
            Err(error) => self.fail(&error),
        }
    }

    /// Sends fragments, and waits while there is no room.
    fn send_all(&mut self, source: u32, fragments: &[SourceFragment<'_>]) -> i32 {
        match self.index_of(source) {
            Ok(index) => {
                let sent = self.client.send_all(index, fragments);
                self.answer(sent.map(|()| DONE))
            }
            Err(error) => self.fail(&error),
        }
    }
}

/// # Safety
/// `data` is null or has `bytes` bytes, which stay as they are while the result is used.
unsafe fn fragment<'a>(sent: &SentFragment) -> Result<SourceFragment<'a>, SourceArgumentError> {
    // SAFETY: as the caller promises.
    let payload = unsafe { argument::list(sent.data.cast(), sent.bytes, "the payload")? };
    Ok(SourceFragment { event: EventId(sent.event), time: Timestamp(sent.time_ns), payload })
}

/// Writes the number of the source with this index to `id`. Returns 1, or 0 if there are not as many sources.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed; `id` is null or a number to be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_id(source: *const Source, index: usize, id: *mut u32) -> i32 {
    // SAFETY: null or valid, as the caller promises.
    let Some(found) = (unsafe { source.as_ref() }).and_then(|source| source.client.sources().get(index))
    else {
        return ENDED;
    };
    // SAFETY: null or valid, as the caller promises.
    if let Some(id) = unsafe { id.as_mut() } {
        *id = found.0;
    }
    DONE
}

/// Waits until the run starts, at most `timeout_ms` milliseconds. Returns 1 if it is in progress, 0 if it has ended, 2 if
/// it has not started in this time, and -1 on failure.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_wait_for_start(source: *mut Source, timeout_ms: u32) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    let waited = source.client.wait_for_start(Some(Duration::from_millis(timeout_ms.into())));
    let answer = match source.client.phase() {
        Phase::Waiting => NOT_NOW,
        Phase::Ended => ENDED,
        Phase::Running | Phase::Paused => DONE,
    };
    source.answer(waited.map(|_| answer))
}

/// Waits until the run has ended, at most `timeout_ms` milliseconds. Returns 1 if it has, 2 if it has not in this time, and -1
/// on failure. Records of the end of the run follow, if `late_records` was set.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_wait_for_end(source: *mut Source, timeout_ms: u32) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    let waited = source.client.wait_for_end(Some(Duration::from_millis(timeout_ms.into())));
    source.answer(waited.map(|has_ended| if has_ended { DONE } else { NOT_NOW }))
}

/// Declines the start of the run: it ends before it has started, and says `reason`.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed; `reason` is null or a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_decline(source: *mut Source, reason: *const c_char) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    if reason.is_null() {
        return source.fail(&ArgumentError::Null("the reason"));
    }
    // SAFETY: not null, and so a NUL-terminated text.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy();
    let declined = source.client.decline(&reason);
    source.answer(declined.map(|()| DONE))
}

/// Sends a fragment of the source `id`. Waits while there is no room for it. The payload is copied.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed; `data` is null or has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_send(
    source: *mut Source,
    id: u32,
    event: u64,
    time_ns: u64,
    data: *const c_void,
    bytes: usize,
) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    // SAFETY: as the caller promises.
    match unsafe { fragment(&SentFragment { event, time_ns, data, bytes }) } {
        Ok(fragment) => source.send_all(id, &[fragment]),
        Err(error) => source.fail(&error),
    }
}

/// Sends a run record of the source `id`, and waits until the run has it: its configuration (`kind` 1) or state at the end (2), or a
/// value of slow control (3). It is in every event file that is not closed yet. `time_ns` is in nanoseconds since 1970; 0: now.
/// `name` has at most 256 bytes, the content at most 1 MiB. Records are also taken before the run begins, and after its end if the
/// option `late_records` is set. A record that is sent again with the same time changes nothing.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed; `name` is a NUL-terminated text; `data` is null or has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_record(
    source: *mut Source,
    id: u32,
    kind: u8,
    time_ns: u64,
    name: *const c_char,
    data: *const c_void,
    bytes: usize,
) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    // SAFETY: as the caller promises.
    match unsafe { record(kind, time_ns, name, data, bytes) }.and_then(|it| Ok((source.index_of(id)?, it))) {
        Ok((index, record)) => {
            let recorded = source.client.record(index, record);
            source.answer(recorded.map(|()| DONE))
        }
        Err(error) => source.fail(&error),
    }
}

/// # Safety
/// `name` is null or a NUL-terminated text; `data` is null or has `bytes` bytes.
unsafe fn record(
    kind: u8,
    time_ns: u64,
    name: *const c_char,
    data: *const c_void,
    bytes: usize,
) -> Result<SourceRecord, SourceArgumentError> {
    let kind = RecordKind::from_code(kind)
        .filter(|kind| kind.is_of_programs())
        .ok_or(SourceArgumentError::RecordKind(kind))?;
    if name.is_null() {
        return Err(ArgumentError::Null("the name of a run record").into());
    }
    // SAFETY: not null, and so a NUL-terminated text.
    let name = unsafe { CStr::from_ptr(name) }.to_str();
    let name = name.map_err(|_| ArgumentError::NotUtf8("the name of a run record is"))?.to_owned();
    // SAFETY: as the caller promises.
    let content = unsafe { argument::list(data.cast::<u8>(), bytes, "the content of a run record")? };
    let time = (time_ns != 0).then_some(Timestamp(time_ns));
    Ok(SourceRecord { kind, time, name, content: content.to_vec().into() })
}

/// Sends a fragment as sheaf_source_send does, if there is room for it now; returns 2 if there is none.
///
/// # Safety
/// As `sheaf_source_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_try_send(
    source: *mut Source,
    id: u32,
    event: u64,
    time_ns: u64,
    data: *const c_void,
    bytes: usize,
) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    // SAFETY: as the caller promises.
    let fragment = unsafe { fragment(&SentFragment { event, time_ns, data, bytes }) };
    match fragment.and_then(|fragment| Ok((source.index_of(id)?, fragment))) {
        Ok((index, fragment)) => {
            let sent = source.client.try_send(index, fragment);
            source.answer(sent.map(|sent| if sent { DONE } else { NOT_NOW }))
        }
        Err(error) => source.fail(&error),
    }
}

/// Waits for news of the readout unit, at most `timeout_ms` milliseconds. A program that sends nothing for long need not call
/// this, but learns only by a call that the run has ended.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_wait(source: *mut Source, timeout_ms: u32) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    let waited = source.client.wait(Duration::from_millis(timeout_ms.into()));
    let answer = if source.client.phase() == Phase::Ended { ENDED } else { DONE };
    source.answer(waited.map(|()| answer))
}

/// Writes the number of fragments of the source `id` that were sent in this run to `sent`, and of those that the run has
/// accepted, which are in its accounts, to `accepted`. Either may be null.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed; `sent` and `accepted` are null or point to writable numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_progress(
    source: *mut Source,
    id: u32,
    sent: *mut u64,
    accepted: *mut u64,
) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    let index = match source.index_of(id) {
        Ok(index) => index,
        Err(error) => return source.fail(&error),
    };
    let progress = source.client.progress(index);
    for (place, number) in [(sent, progress.0), (accepted, progress.1)] {
        if !place.is_null() {
            // SAFETY: not null, and so writable.
            unsafe { place.write(number) };
        }
    }
    DONE
}

/// Writes the event number of the last fragment of the source `id` that the readout unit had when the connection began to
/// `event`. Returns 0 if it had none in this run. A program that was started again continues behind this event.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed; `event` is null or points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_last_event(source: *mut Source, id: u32, event: *mut u64) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    if event.is_null() {
        return source.fail(&ArgumentError::Null("the pointer to the event number"));
    }
    match source.index_of(id).map(|index| source.client.last_event(index)) {
        Ok(None) => 0,
        Ok(Some(last)) => {
            // SAFETY: not null, and so writable.
            unsafe { event.write(last.0) };
            DONE
        }
        Err(error) => source.fail(&error),
    }
}

/// Returns 1 if the source `id` has ended in this run, by this program or by an earlier one in its place, and 0 if not. A source that has
/// ended takes no more fragments.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_has_ended(source: *mut Source, id: u32) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    match source.index_of(id) {
        Ok(index) => i32::from(source.client.has_ended(index)),
        Err(error) => source.fail(&error),
    }
}

/// Returns the number of the run.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_run(source: *const Source) -> u32 {
    // SAFETY: as the caller promises.
    unsafe { source.as_ref() }.and_then(|source| source.client.run()).map_or(0, |run| run.0)
}

/// Ends the source `id`: it sends nothing more in this run. A run ends by itself when all of its sources have ended.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_end(source: *mut Source, id: u32) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    match source.index_of(id) {
        Ok(index) => {
            let ended = source.client.end(index);
            source.answer(ended.map(|()| DONE))
        }
        Err(error) => source.fail(&error),
    }
}

/// Waits until all fragments that were sent are accepted. Returns 0 if the run has ended before.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_drain(source: *mut Source) -> i32 {
    // SAFETY: as the caller promises.
    let Some(source) = (unsafe { source.as_mut() }) else { return FAILED };
    let drained = source.client.drain();
    source.answer(drained.map(|all| if all { DONE } else { ENDED }))
}

/// Describes the error of the last function that returned -1. The text belongs to the source and is valid until the next
/// call.
///
/// # Safety
/// `source` is null or from sheaf_source_open and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_message(source: *const Source) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { source.as_ref() }.map_or(c"the source is null".as_ptr(), |source| source.message.as_ptr())
}

/// Closes the connection. Sources that have not ended can be fed by another program. Fragments that were not received are
/// lost: call sheaf_source_drain before. Null is ignored.
///
/// # Safety
/// `source` is null or from sheaf_source_open, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaf_source_close(source: *mut Source) {
    if !source.is_null() {
        // SAFETY: made with `Box::into_raw` by `sheaf_source_open`, and not used again.
        drop(unsafe { Box::from_raw(source) });
    }
}
