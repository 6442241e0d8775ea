use super::*;
use crate::abi::{FILTER_ABI, Hit, TIME_MARKER};
use crate::plugin::{DecoderPlugin, PluginSetup, decoder_table};
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::ffi::c_void;

/// Decodes bytes: each is the time of a hit of the source's channel; 0 is a marker, 255 no hit, 254 a failure, 253 a panic.
struct Bytes {
    seen: u16,
}

impl DecoderPlugin for Bytes {
    fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
        match setup.parameters {
            "no" => Err(FilterFailure("`no` is not a valid parameter".into())),
            _ => Ok(Self { seen: 0 }),
        }
    }

    fn decode(&mut self, raw: &RawFragment<'_>, room: &mut HitRoom<'_>) -> Result<(), FilterFailure> {
        for byte in raw.payload {
            match byte {
                0 => room.marker(raw.time.0),
                253 => panic!("a defect"),
                254 => return Err(FilterFailure("byte 254".into())),
                255 => room.skip(),
                time => {
                    let (time, channel) = (u64::from(*time), raw.source.0);
                    self.seen += 1;
                    room.hit(Hit { time, channel, value: self.seen, extra: raw.event.0 as u16 });
                }
            }
        }
        Ok(())
    }
}

fn open(parameters: &str, room: usize) -> Result<LibraryDecoder, OpenError> {
    let setup = Setup { parameters: parameters.into(), ..Setup::default() };
    // SAFETY: the table of a plugin.
    unsafe { LibraryDecoder::of_table(decoder_table::<Bytes>(), &setup, room) }
}

fn fragment(payload: &[u8]) -> RawFragment<'_> {
    RawFragment { event: EventId(9), source: SourceId(3), time: Timestamp(500), payload }
}

#[test]
fn hits_markers_and_other_records_arrive() {
    let mut decoder = open("", 10).unwrap();
    let hit = |time, value| Hit { time, channel: 3, value, extra: 9 };
    let marker = Hit { time: 500, channel: TIME_MARKER, value: 0, extra: 0 };
    let decoded = decoder.decode(&fragment(&[7, 0, 255, 5])).unwrap();
    assert_eq!(decoded, DecodedHits { hits: &[hit(7, 1), marker, hit(5, 2)], skipped: 1 });
    let decoded = decoder.decode(&fragment(&[1])).unwrap();
    assert_eq!(decoded, DecodedHits { hits: &[hit(1, 3)], skipped: 0 }, "it keeps its state");
    assert_eq!(decoder.decode(&fragment(&[])).unwrap(), DecodedHits { hits: &[], skipped: 0 });
}

#[test]
fn failures_panics_and_too_many_hits_concern_one_fragment() {
    let mut decoder = open("", 2).unwrap();
    let mut failure = |payload: &[u8]| decoder.decode(&fragment(payload)).unwrap_err().0;
    assert_eq!(failure(&[1, 254]), "byte 254");
    assert!(failure(&[253]).contains("a defect"));
    assert_eq!(
        failure(&[1, 2, 3]),
        "the decoder found 3 hits in a fragment, but at most 2 fit (`source.decoder.max_hits`)"
    );
    assert_eq!(decoder.decode(&fragment(&[4])).unwrap().hits.len(), 1);
    let refused = open("no", 2).unwrap_err().to_string();
    assert_eq!(
        refused,
        "the decoder of this program rejects its configuration: `no` is not a valid parameter"
    );
}

/// Says that it has found more hits than there is room for.
unsafe extern "C" fn liar(_: *mut c_void, _: *const abi::RawFragment, decoded: *mut abi::Decoded) -> i32 {
    // SAFETY: the caller gives a struct that is valid during the call.
    unsafe { (*decoded).count = usize::MAX };
    0
}

unsafe extern "C" fn something(_: *const abi::FilterSetup) -> *mut c_void {
    ptr::without_provenance_mut(1)
}

#[test]
fn a_count_beyond_the_room_is_a_failure_and_a_table_without_function_is_invalid() {
    let table = DecoderTable {
        abi: FILTER_ABI,
        table_bytes: size_of::<DecoderTable>() as u32,
        create: Some(something),
        decode: Some(liar),
        destroy: None,
    };
    let open = |table: &DecoderTable| {
        // SAFETY: its functions behave as documented, but for the count, which is checked.
        unsafe { LibraryDecoder::of_table(table, &Setup::default(), 4) }
    };
    let failure = open(&table).unwrap().decode(&fragment(&[1])).unwrap_err().0;
    assert!(failure.contains("but at most 4 fit"), "{failure}");
    let invalid = open(&DecoderTable { decode: None, ..table }).unwrap_err().to_string();
    assert_eq!(invalid, "the decoder of this program has an invalid table: `decode` is null");
}
