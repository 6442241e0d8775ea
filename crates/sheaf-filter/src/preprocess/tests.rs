use super::*;
use crate::plugin::preprocessor_table;
use crate::{PluginSetup, PreprocessPlugin};
use proptest::prelude::*;
use std::ffi::c_void;

/// Removes zeros, unless the first byte has another instruction.
struct WithoutZeros;

impl PreprocessPlugin for WithoutZeros {
    fn create(setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
        match setup.parameters {
            "refuse" => Err(FilterFailure(format!("run {} has no zeros", setup.run.0))),
            _ => Ok(Self),
        }
    }

    fn process(&mut self, raw: &RawFragment<'_>, room: &mut [u8]) -> Result<Processed, FilterFailure> {
        match raw.payload.first() {
            Some(b'k') => return Ok(Processed::Kept),
            Some(b'f') => return Err(FilterFailure("no\0hidden".into())),
            Some(b'p') => panic!("at source {}", raw.source),
            Some(b'l') => return Ok(Processed::Written(room.len() + 1)),
            _ => {}
        }
        let kept = raw.payload.iter().filter(|byte| **byte != 0);
        let bytes = room.iter_mut().zip(kept).map(|(to, from)| *to = *from).count();
        Ok(Processed::Written(bytes))
    }
}

fn open() -> LibraryPreprocessor {
    let table = preprocessor_table::<WithoutZeros>();
    // SAFETY: the table of a plugin is constant.
    unsafe { LibraryPreprocessor::of_table(table, &Setup::default()) }.unwrap()
}

/// Returns the new payload, or `None` if it is kept.
fn process(preprocessor: &mut impl Preprocessor, payload: &[u8]) -> Result<Option<Vec<u8>>, FilterFailure> {
    let raw = RawFragment { event: EventId(3), source: SourceId(7), time: Timestamp(9), payload };
    let mut room = vec![0xAA; payload.len()];
    Ok(match preprocessor.process(&raw, &mut room)? {
        Processed::Kept => None,
        Processed::Written(bytes) => Some(room[..bytes].to_vec()),
    })
}

proptest! {
    #[test]
    fn what_a_library_writes_is_what_leaves(payload in proptest::collection::vec(0_u8..4, 0..200)) {
        let expected: Vec<u8> = payload.iter().copied().filter(|byte| *byte != 0).collect();
        prop_assert_eq!(process(&mut open(), &payload), Ok(Some(expected)));
    }
}

#[test]
fn what_fails_or_panics_is_told_and_the_next_fragment_is_processed() {
    let mut preprocessor = open();
    let cases = [
        (&b"f"[..], "no"),
        (b"p", "it panicked: at source 7"),
        (b"l..", "the preprocessor's result is invalid: 4 bytes, but at most 3 fit"),
    ];
    for (payload, text) in cases {
        assert_eq!(process(&mut preprocessor, payload).unwrap_err().to_string(), text);
        assert_eq!(process(&mut preprocessor, b"k"), Ok(None));
        assert_eq!(process(&mut preprocessor, &[1, 0, 2]), Ok(Some(vec![1, 2])));
    }
}

#[test]
fn a_library_that_says_nonsense_or_nothing_has_failed() {
    /// Returns the first byte, and has that as `keep`.
    unsafe extern "C" fn echo(
        _: *mut c_void,
        fragment: *const abi::RawFragment,
        processed: *mut abi::Processed,
    ) -> i32 {
        // SAFETY: the caller gives a fragment of two bytes, and a place for the result.
        unsafe {
            (*processed).keep = u32::from(*(*fragment).data.add(1));
            i32::from(*(*fragment).data)
        }
    }
    let table = PreprocessorTable {
        process: Some(echo),
        // SAFETY: the table of a plugin is constant.
        ..unsafe { *preprocessor_table::<WithoutZeros>() }
    };
    // SAFETY: the table outlives the preprocessor.
    let mut preprocessor =
        unsafe { LibraryPreprocessor::of_table(&raw const table, &Setup::default()) }.unwrap();
    let failure = |preprocessor: &mut LibraryPreprocessor, payload: [u8; 2]| {
        process(preprocessor, &payload).unwrap_err().to_string()
    };
    assert_eq!(failure(&mut preprocessor, [3, 0]), "the preprocessor returned 3");
    let said = failure(&mut preprocessor, [0, 2]);
    assert_eq!(said, "the preprocessor's result is invalid: `keep` is 2, not 0 or 1");
    assert_eq!(process(&mut preprocessor, &[0, 1]), Ok(None));
}

#[test]
fn what_cannot_be_made_is_told_in_the_words_of_its_table() {
    let open = |table: *const PreprocessorTable, parameters: &str| {
        let setup =
            Setup { run: sheaf_wire::RunNumber(7), parameters: parameters.into(), ..Setup::default() };
        // SAFETY: null is allowed and refused; the tables outlive the call, and nothing is made of them.
        unsafe { LibraryPreprocessor::of_table(table, &setup) }.unwrap_err().to_string()
    };
    let table = preprocessor_table::<WithoutZeros>();
    assert_eq!(open(ptr::null(), ""), "the preprocessor of this program has an invalid table: it is null");
    assert_eq!(
        open(table, "refuse"),
        "the preprocessor of this program rejects its configuration: run 7 has no zeros"
    );
    assert!(open(table, "a\0").contains("`preprocessing.parameters` has a NUL"));
    // SAFETY: the table of a plugin is constant.
    let empty = PreprocessorTable { process: None, ..unsafe { *table } };
    assert!(open(&raw const empty, "").ends_with("`process` is null"));
}
