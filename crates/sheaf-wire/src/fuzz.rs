//! Bodies and helpers of the fuzz targets for byte layouts.
//!
//! A fuzzer does not guess checksums. The `seal_` functions correct them in any bytes, wherever a layout would be read,
//! so that the code behind the checksums is tested as well.

use crate::checksum::{crc32c, crc32c_append};
use crate::ethernet::{ETHERTYPE, FRAME_HEAD_BYTES, FrameHead, FrameKind, MacAddress, seal_frame};
use crate::file::file_header_checksum;
use crate::message::hello::{Hello, VersionRange};
use crate::message::layout::{self, FragmentBytes, HeaderBytes, MissingBytes};
use crate::message::{DecodeError, Message};
use crate::{NodeId, RunNumber, SessionId, event_file, stream_file};
use bytes::Bytes;
use std::collections::VecDeque;
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

/// A payload checksum of this value is left wrong, so that damaged payloads are tried too.
const LEFT_WRONG: u32 = u32::MAX;

/// Decodes `bytes` as a message: the header gives the size of the head, the rest is the payload. A decoded message must
/// be the same after encoding, even with its payload in pieces.
///
/// # Panics
/// If the codec violates its contract.
pub fn fuzz_message(bytes: &[u8]) {
    let declared =
        HeaderBytes::ref_from_prefix(bytes).map_or(0, |(header, _)| header.head_bytes.get() as usize);
    let (head, payload) = bytes.split_at(declared.min(bytes.len()));
    let payload = Bytes::copy_from_slice(payload);
    let decoded: Result<Message<Bytes>, DecodeError> = Message::decode(head, &mut payload.clone());
    let message = match decoded {
        Ok(message) => message,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error says what is wrong");
            return;
        }
    };
    let (mut encoded, mut pieces) = (Vec::new(), VecDeque::new());
    message.clone().encode(&mut encoded, |piece| pieces.push_back(piece));
    assert_eq!(encoded.len(), head.len(), "encoding adds and loses no entry");
    let joined: Vec<u8> = pieces.iter().flatten().copied().collect();
    assert_eq!(joined, payload, "every payload byte is in one fragment");
    assert_eq!(Message::decode(&encoded, &mut payload.clone()).as_ref(), Ok(&message));
    assert_eq!(Message::decode(&encoded, &mut pieces), Ok(message), "payload in pieces is the same payload");
}

/// Parses `bytes` as a hello, as they are and with a right checksum. A parsed hello must be the same after encoding.
///
/// # Panics
/// If the parser violates its contract.
pub fn fuzz_hello(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    crate::message::hello::seal(&mut sealed);
    for bytes in [bytes, &sealed] {
        match Hello::parse(bytes) {
            Err(error) => assert!(!error.to_string().is_empty(), "an error says what is wrong"),
            Ok(hello) => assert_eq!(Hello::parse(&hello.emit()), Ok(hello)),
        }
    }
}

/// Some hellos, for the fuzzer to begin with: name and bytes.
#[must_use]
pub fn hello_seeds() -> Vec<(String, Vec<u8>)> {
    let said = |software: &str, host: &str, versions| {
        let (software, host) = (software.to_owned(), host.to_owned());
        Hello { session: SessionId(0x1234), versions, software, host }.emit()
    };
    let later = VersionRange { oldest: 4, newest: 9 };
    let no_range = VersionRange { oldest: 9, newest: 4 };
    let long = "abcdefghijklmnop".repeat(16);
    let more = [said("sheaf 9.0.0", "daq2", later), vec![7; 40]].concat();
    vec![
        ("no_range".to_owned(), said("sheaf 9.0.0", "daq2", no_range)),
        ("with_long_texts".to_owned(), said(&long, &long, later)),
        ("with_more_fields".to_owned(), more),
        ("own".to_owned(), said("sheaf 0.1.0", "daq1", VersionRange::OWN)),
        ("later".to_owned(), said("sheaf 9.0.0", "daq2", later)),
        ("without_texts".to_owned(), said("", "", VersionRange::OWN)),
    ]
}

/// The run that frames of raw Ethernet are read in.
const RUN: RunNumber = RunNumber(7);

/// Parses `bytes` as a frame of raw Ethernet, whose checksum is corrected first if the last byte is odd. A parsed frame
/// must be the same after encoding, up to the padding after the datagram.
///
/// # Panics
/// If the parser violates its contract.
pub fn fuzz_ethernet_frame(bytes: &[u8]) {
    let mut frame = bytes.to_vec();
    if frame.len() >= FRAME_HEAD_BYTES && frame.last().is_some_and(|last| last % 2 == 1) {
        let stated = FRAME_HEAD_BYTES + usize::from(u16::from_le_bytes([frame[24], frame[25]]));
        let end = stated.min(frame.len());
        seal_frame(RUN, &mut frame[..end]);
    }
    match FrameHead::parse(ETHERTYPE, RUN, &frame) {
        Err(error) => assert!(!error.to_string().is_empty(), "an error says what is wrong"),
        Ok((head, datagram)) => {
            let mut written = vec![0; FRAME_HEAD_BYTES];
            written.extend_from_slice(datagram);
            head.write(ETHERTYPE, datagram.len(), &mut written);
            seal_frame(RUN, &mut written);
            assert_eq!(written, frame[..written.len()]);
        }
    }
}

/// Some frames, for the fuzzer to begin with: name and bytes.
#[must_use]
pub fn ethernet_frame_seeds() -> Vec<(String, Vec<u8>)> {
    let frame = |kind, wants_answer, to, datagram: &[u8]| {
        let (destination, source) = (MacAddress::BROADCAST, MacAddress([2, 0x5e, 0, 0, 0, 1]));
        let (rail, run, from) = (1, RUN, NodeId::readout(3));
        let head = FrameHead { destination, source, kind, wants_answer, rail, run, from, to };
        let mut frame = vec![0; FRAME_HEAD_BYTES];
        frame.extend_from_slice(datagram);
        head.write(ETHERTYPE, datagram.len(), &mut frame);
        seal_frame(run, &mut frame);
        frame
    };
    let to = Some(NodeId::builder(2));
    let mut filled = frame(FrameKind::Datagram, false, to, b"a few bytes");
    filled.resize(60, 0);
    vec![
        ("address".to_owned(), frame(FrameKind::Address, true, None, b"")),
        ("datagram".to_owned(), frame(FrameKind::Datagram, false, to, b"what it carries")),
        ("filled".to_owned(), filled),
        ("empty".to_owned(), frame(FrameKind::Datagram, false, to, b"")),
        ("asks".to_owned(), frame(FrameKind::Datagram, true, Some(NodeId::MANAGER), b"where are you")),
        ("long".to_owned(), frame(FrameKind::Datagram, false, to, &[0xa5; 1476])),
        ("for-all".to_owned(), frame(FrameKind::Datagram, false, None, b"means nothing")),
    ]
}

/// As [`fuzz_message`], after [`seal_message`].
///
/// # Panics
/// If the codec violates its contract.
pub fn fuzz_sealed_message(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    seal_message(&mut bytes);
    fuzz_message(&bytes);
}

/// Makes `bytes` a message with a good header: magic, version, lengths and checksum. Fewer than a header's bytes are
/// filled up.
pub fn seal_message(bytes: &mut Vec<u8>) {
    let header_bytes = size_of::<HeaderBytes>();
    if bytes.len() < header_bytes {
        bytes.resize(header_bytes, 0);
    }
    let total = bytes.len();
    let Ok((header, _)) = HeaderBytes::mut_from_prefix(bytes.as_mut_slice()) else {
        return;
    };
    let head_bytes = (header.head_bytes.get() as usize).clamp(header_bytes, total);
    header.magic = layout::MAGIC;
    header.version = layout::VERSION;
    header.head_bytes = u32_of(head_bytes);
    header.payload_bytes = u32_of(total - head_bytes);
    header.checksum = U32::ZERO;
    let checksum = crc32c(&bytes[..head_bytes]);
    let at = offset_of!(HeaderBytes, checksum);
    bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Makes `bytes` a fragment stream whose header and records have good checksums, whatever else is wrong with them.
pub fn seal_stream(bytes: &mut [u8]) {
    use stream_file::{RECORD_MARKER, RecordBytes, TRAILER_MARKER};
    let Some(mut rest) = seal_stream_header(bytes) else { return };
    let markers = [RECORD_MARKER.to_le_bytes(), TRAILER_MARKER.to_le_bytes()];
    while let Some(at) = find(rest, &markers) {
        let Ok((record, payload)) = RecordBytes::mut_from_prefix(&mut rest[at..]) else {
            return;
        };
        let length = (record.length.get() as usize).min(payload.len());
        let (payload, after) = payload.split_at_mut(length);
        if record.marker.get() == RECORD_MARKER && record.payload_checksum.get() != LEFT_WRONG {
            record.payload_checksum = U32::new(crc32c(payload));
        }
        let covered = offset_of!(RecordBytes, header_checksum);
        record.header_checksum = U32::new(crc32c(&record.as_bytes()[..covered]));
        rest = after;
    }
}

/// As [`seal_stream`], for the header and the metadata. Returns the rest.
fn seal_stream_header(bytes: &mut [u8]) -> Option<&mut [u8]> {
    use stream_file::{FileHeader2Bytes, FileHeaderBytes, MAGIC, VERSION, VERSION_WITHOUT_TIME_BASE};
    let all = bytes.len();
    let (header, _) = FileHeaderBytes::mut_from_prefix(bytes).ok()?;
    header.magic = MAGIC;
    let version = header.version.get().clamp(VERSION_WITHOUT_TIME_BASE, VERSION);
    header.version = version.into();
    let head = if version == VERSION { size_of::<FileHeader2Bytes>() } else { size_of::<FileHeaderBytes>() };
    let metadata_bytes = (header.metadata_bytes.get() as usize).min(all.checked_sub(head)?);
    header.metadata_bytes = u32_of(metadata_bytes);
    let (head, rest) = bytes.split_at_mut(head);
    let (metadata, rest) = rest.split_at_mut(metadata_bytes);
    let checksum = file_header_checksum(head, metadata);
    let field = head.len() - 4;
    head[field..].copy_from_slice(&checksum.to_le_bytes());
    Some(rest)
}

/// Makes `bytes` an event file whose header, events, index and footer have good checksums, whatever else is wrong.
pub fn seal_event_file(bytes: &mut [u8]) {
    use event_file::{EVENT_MARKER, FileHeaderBytes, MAGIC, VERSION, VERSION_WITHOUT_TIME_BASE};
    seal_footer(bytes);
    let Ok((header, rest)) = FileHeaderBytes::mut_from_prefix(bytes) else {
        return;
    };
    header.magic = MAGIC;
    header.version = header.version.get().clamp(VERSION_WITHOUT_TIME_BASE, VERSION).into();
    header.flags = 0.into();
    let metadata_bytes = (header.metadata_bytes.get() as usize).min(rest.len());
    header.metadata_bytes = u32_of(metadata_bytes);
    let (metadata, mut rest) = rest.split_at_mut(metadata_bytes);
    header.checksum = U32::ZERO;
    header.checksum = U32::new(crc32c_append(crc32c(header.as_bytes()), metadata));
    while let Some(at) = find(rest, &[EVENT_MARKER.to_le_bytes()]) {
        let event = &mut rest[at..];
        let sealed = seal_event(event);
        rest = &mut event[sealed..];
    }
}

/// Seals the event at the start of `bytes` and returns the offset at which to look for the next.
fn seal_event(bytes: &mut [u8]) -> usize {
    use event_file::EventHeaderBytes;
    let Ok((header, body)) = EventHeaderBytes::mut_from_prefix(bytes) else {
        return bytes.len();
    };
    let fragment_bytes = (header.fragments.get() as usize).saturating_mul(size_of::<FragmentBytes>());
    let missing_bytes = (header.missing.get() as usize).saturating_mul(size_of::<MissingBytes>());
    let verdict_bytes = header.verdict_bytes.get() as usize;
    let body_bytes = fragment_bytes.saturating_add(missing_bytes).saturating_add(verdict_bytes);
    let mut sealed = size_of::<EventHeaderBytes>();
    if body_bytes <= body.len() {
        let (entries, payload) = body.split_at_mut(body_bytes);
        let payload_bytes = seal_payload(&mut entries[..fragment_bytes], payload);
        header.body_checksum = U32::new(crc32c(entries));
        sealed += body_bytes + payload_bytes;
    }
    let covered = offset_of!(EventHeaderBytes, header_checksum);
    header.header_checksum = U32::new(crc32c(&header.as_bytes()[..covered]));
    sealed
}

/// Seals the fragment entries whose payload is present, and returns the number of its bytes that they describe.
fn seal_payload(entries: &mut [u8], payload: &[u8]) -> usize {
    let mut rest = payload;
    for entry in entries.chunks_exact_mut(size_of::<FragmentBytes>()) {
        let Ok(entry) = FragmentBytes::mut_from_bytes(entry) else {
            break;
        };
        let Some((bytes, after)) = rest.split_at_checked(entry.length.get() as usize) else {
            break;
        };
        if entry.checksum.get() != LEFT_WRONG {
            entry.checksum = U32::new(crc32c(bytes));
        }
        rest = after;
    }
    payload.len() - rest.len()
}

/// Seals the footer at the end of `bytes`, if there is one, and the index to which it points.
fn seal_footer(bytes: &mut [u8]) {
    use event_file::{FOOTER_BYTES, FOOTER_MAGIC, FooterBytes};
    let Some(at) = bytes.len().checked_sub(FOOTER_BYTES) else {
        return;
    };
    let (before, footer) = bytes.split_at_mut(at);
    let Ok(footer) = FooterBytes::mut_from_bytes(footer) else {
        return;
    };
    if footer.magic != FOOTER_MAGIC {
        return;
    }
    let index = usize::try_from(footer.index_offset.get()).ok().and_then(|offset| before.get(offset..));
    footer.index_checksum = U32::new(crc32c(index.unwrap_or_default()));
    let covered = offset_of!(FooterBytes, footer_checksum);
    footer.footer_checksum = U32::new(crc32c(&footer.as_bytes()[..covered]));
}

/// Returns the offset of the first of the markers.
fn find(bytes: &[u8], markers: &[[u8; 4]]) -> Option<usize> {
    bytes.windows(4).position(|window| markers.iter().any(|marker| window == marker))
}

fn u32_of(length: usize) -> U32 {
    U32::new(u32::try_from(length).unwrap_or(u32::MAX))
}
