use super::*;
use crate::plugin::step_table;
use crate::testing::event;
use crate::{EventView, PluginSetup, StepPlugin};
use proptest::prelude::*;
use sheaf_wire::{MissingReason, MissingSource};

/// Follows the instruction in the first byte of the first fragment; the bytes that follow are sources, or ends of windows.
struct Obedient;

impl StepPlugin for Obedient {
    fn create(_setup: &PluginSetup<'_>) -> Result<Self, FilterFailure> {
        Ok(Self)
    }

    fn judge(&mut self, part: &EventView<'_>) -> Result<Step, FilterFailure> {
        let order = part.fragments().next().map_or(&[][..], |fragment| fragment.payload());
        Ok(match order.split_first() {
            Some((b'a', _)) => Step::All,
            Some((b'e', _)) => Step::Enough,
            Some((b's', sources)) => {
                Step::Sources(sources.iter().map(|source| SourceId(u32::from(*source))).collect())
            }
            Some((b'w', ends)) => {
                let window = |ends: &[u8]| HitInterval { from_ps: ends[0].into(), until_ps: ends[1].into() };
                Step::Windows(ends.chunks_exact(2).map(window).collect())
            }
            Some((b'f', _)) => return Err(FilterFailure("no idea".into())),
            Some((b'p', _)) => panic!("at event {}", part.id()),
            _ => Step::Reject,
        })
    }
}

fn open() -> LibraryStep {
    // SAFETY: the table of a plugin is constant.
    unsafe { LibraryStep::of_table(step_table::<Obedient>(), &Setup::default()) }.unwrap()
}

fn judge(order: &[u8]) -> Result<Step, FilterFailure> {
    open().judge(&event(1, &[order.to_vec()]))
}

#[test]
fn the_steps_of_a_library_are_those_that_it_said() {
    assert_eq!(judge(b""), Ok(Step::Reject));
    assert_eq!(judge(b"a"), Ok(Step::All));
    assert_eq!(judge(b"e"), Ok(Step::Enough));
    assert_eq!(judge(b"f"), Err(FilterFailure("no idea".into())));
    assert_eq!(judge(b"p"), Err(FilterFailure("it panicked: at event 1".into())));
}

proptest! {
    #[test]
    fn only_sources_of_which_nothing_is_known_are_asked_for_each_once(
        listed in proptest::collection::vec(0_u8..12, 0..30),
        missing in proptest::collection::btree_set(1_u32..12, 0..6),
    ) {
        let mut part = event(1, &[[&b"s"[..], &listed].concat()]);
        let reason = MissingReason::SourceSilent;
        part.missing = missing.iter().map(|source| MissingSource { source: SourceId(*source), reason }).collect();
        let mut expected: Vec<SourceId> = listed.iter().map(|source| SourceId(u32::from(*source))).collect();
        expected.retain(|source| source.0 != 0 && !missing.contains(&source.0));
        expected.sort_unstable();
        expected.dedup();
        let expected = if expected.is_empty() { Step::Enough } else { Step::Sources(expected) };
        prop_assert_eq!(open().judge(&part), Ok(expected));
    }
}

proptest! {
    #[test]
    fn windows_are_those_that_were_listed_and_each_one_has_a_length(
        ends in proptest::collection::vec((0..200_u8, 0..200_u8), 1..70),
    ) {
        let order: Vec<u8> = ends.iter().flat_map(|(from, until)| [*from, *until]).collect();
        let answer = judge(&[&b"w"[..], &order].concat());
        match ends.iter().position(|(from, until)| from >= until) {
            _ if ends.len() > STEP_MAX_WINDOWS => {
                let message = answer.unwrap_err().to_string();
                prop_assert!(message.contains("but at most 64 are allowed"), "{}", message);
            }
            Some(place) => {
                let message = answer.unwrap_err().to_string();
                prop_assert!(message.contains(&format!("window {place} is from")), "{}", message);
            }
            None => {
                let window = |(from, until): &(u8, u8)| HitInterval { from_ps: (*from).into(), until_ps: (*until).into() };
                prop_assert_eq!(answer, Ok(Step::Windows(ends.iter().map(window).collect())));
            }
        }
    }
}

#[test]
fn nonsense_is_a_failure() {
    let part = event(1, &[]);
    let windows = [abi::Window { from_ps: 1, until_ps: 2 }; 2];
    let misaligned = windows.as_ptr().wrapping_byte_add(1);
    let of_windows = |windows, window_count| StepVerdict {
        decision: STEP_WINDOWS,
        windows,
        window_count,
        ..StepVerdict::default()
    };
    let failure = |said: StepVerdict| decision(&said, &part).unwrap_err().to_string();
    let cases = [
        (StepVerdict { decision: 5, ..StepVerdict::default() }, "`decision` is 5, and 4 is the greatest"),
        (
            StepVerdict { decision: STEP_SOURCES, source_count: 2, ..StepVerdict::default() },
            "its list of 2 sources is null",
        ),
        (
            StepVerdict { decision: STEP_SOURCES, source_count: usize::MAX, ..StepVerdict::default() },
            "but at most 65536 are allowed",
        ),
        (of_windows(std::ptr::null(), 2), "its list of 2 windows is null"),
        (of_windows(misaligned, 1), "its list of 1 windows is not aligned"),
        (of_windows(windows.as_ptr(), usize::MAX), "but at most 64 are allowed"),
        (of_windows(windows.as_ptr(), 0), "it lists no window; reject the event"),
    ];
    for (said, text) in cases {
        let message = failure(said);
        assert!(message.contains(text), "{message}");
    }
}
