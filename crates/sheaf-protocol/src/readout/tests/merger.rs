//! Many inputs into one output: each has a bound of its own.

use super::*;

const INPUTS: u32 = 16;
const BOUND: u64 = 10;

#[test]
fn one_slow_input_holds_the_others_at_their_bound_and_no_further() {
    let mut unit = unit(|config| {
        config.sources = (0..INPUTS).map(|id| SourceConfig { id: SourceId(id), optional: false }).collect();
        config.buffer_events = BOUND as usize;
        config.wait_for_required = true;
    });
    // Number of events of each input whose fragments were accepted.
    let mut given = [0_u64; INPUTS as usize];
    let mut offer = |unit: &mut ReadoutUnit<Size>, source: u32, up_to: u64| {
        let next = &mut given[source as usize];
        while *next < up_to && unit.handle_fragment(Timestamp(0), fragment(*next + 1, source, 10)).is_ok() {
            *next += 1;
        }
        *next
    };
    for source in 1..INPUTS {
        assert_eq!(offer(&mut unit, source, 30), BOUND, "input {source} is ahead by its bound");
    }
    for done in 1..=20 {
        // The slow input comes with one event: it is merged, and every other input has room for one more.
        assert_eq!(offer(&mut unit, 0, done), done);
        ask(&mut unit, 0, done, 1, 1);
        let answer = answers(&mut unit, Timestamp(0)).remove(0).1;
        assert_eq!((answer.entries[0].event, answer.fragments.len()), (EventId(done), INPUTS as usize));
        release(&mut unit, done, 1, Outcome::Stored, None);
        for source in 1..INPUTS {
            assert_eq!(offer(&mut unit, source, 30), done + BOUND);
        }
    }
    assert_eq!(ledger(&unit).stored, 20 * u64::from(INPUTS));
    assert_eq!(ledger(&unit).dropped_total(), 0);
}
