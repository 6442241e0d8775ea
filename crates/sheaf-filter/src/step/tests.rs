use super::*;
use crate::plugin::step_table;
use crate::testing::event;
use crate::{EventView, PluginSetup, StepPlugin};
use proptest::prelude::*;
use sheaf_wire::{MissingReason, MissingSource};

/// Follows the instruction in the first byte of the first fragment; the bytes that follow are sources.
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

#[test]
fn nonsense_is_a_failure() {
    let part = event(1, &[]);
    let failure = |said: StepVerdict| decision(&said, &part).unwrap_err().to_string();
    let cases = [
        (StepVerdict { decision: 4, ..StepVerdict::default() }, "`decision` is 4, and 3 is the greatest"),
        (
            StepVerdict { decision: STEP_SOURCES, source_count: 2, ..StepVerdict::default() },
            "its list of 2 sources is null",
        ),
        (
            StepVerdict { decision: STEP_SOURCES, source_count: usize::MAX, ..StepVerdict::default() },
            "but at most 65536 are allowed",
        ),
    ];
    for (said, text) in cases {
        let message = failure(said);
        assert!(message.contains(text), "{message}");
    }
}
