//! Figures of each readout unit, for the map of the page.

use super::*;

fn waits(builder: &BuilderUnit<Size>, now: Timestamp) -> [u64; 2] {
    // Values of an earlier report must not stay.
    let mut waits = [Nanos(7); 2];
    builder.write_waits(now, &mut waits);
    waits.map(|wait| wait.0)
}

#[test]
fn the_oldest_event_that_waits_counts_for_each_readout_unit() {
    let mut builder = builder(|config| config.incomplete = IncompletePolicy::Wait);
    assert_eq!(waits(&builder, LATER), [0, 0]);
    assign(&mut builder, 5, 2, 1);
    assert_eq!(waits(&builder, LATER), [LATER.0, LATER.0]);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 0, 6, &[0, 1], &[]);
    assert_eq!(waits(&builder, LATER), [0, LATER.0]);
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    assert_eq!(waits(&builder, LATER), [0, LATER.0], "a younger event waits as well");
    answer(&mut builder, 1, 6, &[2, 3], &[]);
    assert_eq!(waits(&builder, LATER), [0, 0], "built events wait for nobody");
}

#[test]
fn repeated_requests_do_not_shorten_a_wait() {
    for asking in [Asking::AtOnce, Asking::Paced(ByteCount(1_000)), Asking::Unasked] {
        let mut builder = builder(|config| {
            (config.asking, config.incomplete) = (asking, IncompletePolicy::Wait);
        });
        assign(&mut builder, 5, 1, 1);
        let _ = asked(&mut builder, START);
        answer(&mut builder, 0, 5, &[0, 1], &[]);
        let mut now = START;
        for _ in 0..5 {
            now += TIMEOUT;
            builder.handle_timeout(now);
            let _ = asked(&mut builder, now);
            assert_eq!(waits(&builder, now), [0, now.0], "{asking:?}");
        }
    }
}

#[test]
fn requests_without_credit_do_not_wait_for_a_readout_unit() {
    let mut builder = builder(|config| {
        config.asking = Asking::Paced(ByteCount(1));
        config.incomplete = IncompletePolicy::Wait;
    });
    assign(&mut builder, 5, 1, 1);
    assert_eq!(waits(&builder, LATER), [0, 0], "nothing has been sent");
    assert_eq!(asked(&mut builder, START), [(0, 5, 1)], "the credit is that of one request");
    assert_eq!(waits(&builder, LATER), [LATER.0, 0]);
}

#[test]
fn payload_counts_once_for_the_readout_unit_that_sent_it() {
    let mut builder = builder(|_| {});
    assign(&mut builder, 5, 1, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 1, 5, &[2], &[3]);
    answer(&mut builder, 1, 77, &[2, 3], &[]);
    assert_eq!(builder.received().collect::<Vec<_>>(), [ByteCount(20), ByteCount(10)]);
}

#[test]
fn a_wait_begins_again_with_each_part_and_ends_while_the_part_is_judged() {
    let mut builder = builder(|config| {
        config.scope.first_step = BTreeSet::from([SourceId(0)]);
        config.incomplete = IncompletePolicy::Wait;
    });
    assign(&mut builder, 5, 1, 1);
    assert_eq!(
        waits(&builder, LATER),
        [LATER.0, 0],
        "the second readout unit has no source of the first step"
    );
    let entry =
        |part| SuperFragment { count: 1, event: EventId(5), attempt: 1, part, fragments: 0, missing: 0 };
    let readout = Identity { node: NodeId::readout(0), run: RunNumber(1), session: SessionId(1) };
    let empty = SuperFragments { entries: vec![entry(1)], fragments: Vec::new(), missing: Vec::new() };
    builder.handle_input(START, readout.plain(Body::SuperFragments(empty)));
    assert_eq!(waits(&builder, LATER), [0, 0]);
    let part = std::iter::from_fn(|| builder.poll_event()).find_map(|event| match event {
        BuilderEvent::Part(part) => Some(part),
        _ => None,
    });
    builder.handle_part_decision(
        LATER,
        part.expect("its only answer is there"),
        PartDecision::More(More::All),
    );
    let now = LATER + TIMEOUT;
    assert_eq!(waits(&builder, now), [TIMEOUT.0, TIMEOUT.0]);
}
