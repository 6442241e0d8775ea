//! Ways in which a builder receives its super-fragments: at once, paced, pushed, in slots.

use super::*;
use proptest::prelude::*;
use sheaf_wire::message::Shape;

#[test]
fn who_does_not_answer_is_asked_again_after_ever_longer_waits() {
    let mut builder = builder(|config| config.incomplete = IncompletePolicy::Wait);
    assign(&mut builder, 5, 2, 1);
    assert_eq!(asked(&mut builder, START), [(0, 5, 2), (1, 5, 2)]);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 0, 6, &[0, 1], &[]);
    let mut waits = Vec::new();
    for wait in 1..=50 {
        let now = START + Nanos(wait * TIMEOUT.0);
        builder.handle_timeout(now);
        match asked(&mut builder, now)[..] {
            [] => {}
            [(1, 5, 2)] => waits.push(wait),
            ref other => panic!("after {wait} times the wait: {other:?}"),
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 48]);
    assert_eq!(builder.books().counters[&Counter::RetriedRequests], 14);
}

/// Readout units that answer in any order, some only after a repeated request.
struct Field {
    builder: BuilderUnit<Size>,
    now: Timestamp,
    readouts: u16,
    /// Payload of a super-fragment.
    bytes: u64,
    /// Asked for and not answered: readout unit, event.
    open: Vec<(u16, u64)>,
    built: usize,
    /// Messages with requests.
    requests: usize,
}

impl Field {
    fn new(readouts: u16, bytes: u64, me: u16, asking: Asking) -> Self {
        let sources = |index: u16| ReadoutSources { sources: vec![SourceId(u32::from(index))] };
        let mut builder = super::builder(|config| {
            config.readouts = (0..readouts).map(sources).collect();
            config.slots = 1_000;
            config.memory = ByteCount(1 << 40);
            config.incomplete = IncompletePolicy::Wait;
            config.asking = asking;
        });
        builder.me.node = NodeId::builder(me);
        builder.asks = Asks::new(&builder.config, me);
        Self { builder, now: START, readouts, bytes, open: Vec::new(), built: 0, requests: 0 }
    }

    /// Assigns `count` events to the builder, with their true size as the expected one.
    fn assign(&mut self, first: u64, count: u64) {
        let charged = u32::try_from(self.bytes * u64::from(self.readouts)).unwrap();
        let assignment = |event| Assignment {
            event: EventId(event),
            time: START,
            trigger_type: TriggerType(0),
            attempt: 1,
            charged,
        };
        from_manager(&mut self.builder, Body::Assign((first..first + count).map(assignment).collect()));
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(transmit) = self.builder.poll_transmit(self.now) {
            let Body::FragmentRequest(ranges) = transmit.message.body else {
                continue;
            };
            self.requests += 1;
            for range in ranges {
                let events = range.first.0..range.first.0 + u64::from(range.count);
                self.open.extend(events.map(|event| (transmit.to.index, event)));
            }
        }
        while let Some(event) = self.builder.poll_event() {
            if let BuilderEvent::Built(built) = event {
                let fragments = self.builder.lend(built, |event| event.fragments.len());
                assert_eq!(fragments, usize::from(self.readouts));
                self.built += 1;
                self.builder.handle_decision(self.now, built.event(), Decision::Stored);
            }
        }
    }

    /// Answers or loses one of the open requests.
    fn end_one(&mut self, which: usize, lost: bool) {
        let (readout, event) = self.open.swap_remove(which % self.open.len());
        if !lost {
            self.answer(readout, event);
        }
        self.drain();
    }

    fn answer(&mut self, readout: u16, event: u64) {
        let me = Identity { node: NodeId::readout(readout), run: RunNumber(1), session: SessionId(1) };
        let payload = Size(usize::try_from(self.bytes).unwrap());
        let source = SourceId(u32::from(readout));
        let fragment = Fragment {
            event: EventId(event),
            source,
            time: START,
            checksum: None,
            processed: false,
            mark: sheaf_wire::NumberMark::NONE,
            payload,
        };
        let parts = SuperFragments {
            entries: vec![SuperFragment {
                count: 1,
                event: EventId(event),
                attempt: 0,
                part: 0,
                fragments: 1,
                missing: 0,
            }],
            fragments: vec![fragment],
            missing: vec![],
        };
        self.builder.handle_input(self.now, me.plain(Body::SuperFragments(parts)));
    }

    fn open_bytes(&self) -> u64 {
        self.open.len() as u64 * self.bytes
    }

    /// Lets the time for retries pass.
    fn wait(&mut self) {
        self.now += TIMEOUT + TIMEOUT;
        self.builder.handle_timeout(self.now);
        self.drain();
    }
}

proptest! {
    #[test]
    fn no_more_than_the_credit_is_ever_in_flight_and_everything_is_built(
        readouts in 1..8_u16,
        me in 0..8_u16,
        bytes in 1..5_000_u64,
        credit in 1..60_000_u64,
        batches in prop::collection::vec(1..20_u64, 1..6),
        choices in prop::collection::vec((any::<usize>(), 0..10_u8), 2_000),
    ) {
        let mut field = Field::new(readouts, bytes, me, Asking::Paced(ByteCount(credit)));
        // One event larger than the credit may be requested, and the oldest event of one readout unit beyond the credit.
        let bound = credit.max(bytes + 64) + bytes + 64;
        let (mut events, mut choices) = (0, choices.into_iter().cycle());
        for batch in batches {
            field.assign(events, batch);
            events += batch;
            for _ in 0..3 {
                prop_assert!(field.open_bytes() <= bound && field.builder.in_flight().0 <= bound);
                if let Some((which, luck)) = choices.next().filter(|_| !field.open.is_empty()) {
                    field.end_one(which, luck == 0);
                }
            }
        }
        // Later some requests are lost and repeated. Those keep the bound, too.
        let mut rounds = 0;
        while field.built < usize::try_from(events).unwrap() {
            match choices.next().filter(|_| !field.open.is_empty()) {
                Some((which, luck)) => field.end_one(which, luck == 0),
                None => field.wait(),
            }
            prop_assert!(field.open_bytes() <= bound, "{} open, {} allowed", field.open_bytes(), bound);
            rounds += 1;
            prop_assert!(rounds < 100_000, "{} of {} built", field.built, events);
        }
        prop_assert_eq!(field.builder.in_flight(), ByteCount::ZERO);
    }
}

#[test]
fn builders_begin_at_different_readout_units_and_ask_for_several_events_at_a_time() {
    for me in 0..4 {
        let mut field = Field::new(4, 1_000, me, Asking::Paced(ByteCount(64_000)));
        field.assign(0, 100);
        assert_eq!(field.open[0].0, me);
        let in_first = field.open.iter().take_while(|(readout, _)| *readout == me).count();
        assert_eq!(in_first, 7, "an eighth of the credit: 8,000 bytes");
        assert_eq!(field.requests, 8);
    }
}

#[test]
fn a_silent_readout_unit_holds_a_quarter_of_the_credit_and_the_others_go_on() {
    let mut field = Field::new(8, 1_000, 0, Asking::Paced(ByteCount(64_000)));
    field.assign(0, 200);
    while let Some(which) = field.open.iter().position(|(readout, _)| *readout != 3) {
        field.end_one(which, false);
    }
    let silent = field.open.len();
    assert!((1..=16).contains(&silent), "{silent} events are requested from the silent one");
    assert_eq!(field.builder.in_flight().0, silent as u64 * 1_064);
}

#[test]
fn the_oldest_event_is_asked_for_though_others_that_do_not_come_hold_all_credit() {
    let mut field = Field::new(3, 1_000, 0, Asking::Paced(ByteCount(8_000)));
    field.assign(100, 50);
    let stuck = field.open.len();
    assert!(stuck > 0);
    field.assign(7, 1);
    // The oldest event is requested from one readout unit after the other, and no younger event.
    for round in 1..=3 {
        assert_eq!(field.open.len(), stuck + 1, "in round {round}");
        let oldest = field.open.iter().position(|(_, event)| *event == 7).expect("it is asked for");
        assert_eq!(field.built, 0);
        field.end_one(oldest, false);
    }
    assert_eq!((field.built, field.open.len()), (1, stuck));
}

#[test]
fn events_that_time_out_give_their_credit_back() {
    let mut field = Field::new(2, 1_000, 0, Asking::Paced(ByteCount(10_000)));
    field.builder.config.incomplete = IncompletePolicy::Drop;
    field.builder.waits = Waits::new(&field.builder.config);
    field.assign(0, 50);
    for _ in 0..100 {
        field.wait();
    }
    assert_eq!(field.builder.held().0, 0);
    assert_eq!(field.builder.in_flight(), ByteCount::ZERO);
}

#[test]
fn a_barrel_that_stands_is_bounded_by_the_credit_and_one_that_turns_is_not() {
    let mut field = Field::new(4, 1_000, 0, Asking::Barrel(ByteCount(16_000)));
    field.assign(0, 100);
    assert!(field.open_bytes() <= 16_000);
    let shape = |turning, clock| Body::Shape(Shape { turning, epoch: START, clock: Timestamp(clock) });
    from_manager(&mut field.builder, shape(true, 10));
    field.drain();
    assert_eq!(field.open_bytes(), 400_000, "all that is assigned");
    from_manager(&mut field.builder, shape(false, 20));
    from_manager(&mut field.builder, shape(true, 15));
    field.assign(100, 100);
    assert_eq!(field.open_bytes(), 400_000, "an older shape that arrives late is ignored");
}

#[test]
fn what_comes_unasked_before_its_assignment_is_built_with_it() {
    let mut field = Field::new(2, 1_000, 0, Asking::Unasked);
    field.answer(0, 7);
    field.answer(1, 7);
    field.answer(0, 8);
    field.assign(7, 2);
    assert_eq!((field.built, field.open.len()), (1, 0), "nothing is asked for");
    field.answer(1, 8);
    field.drain();
    assert_eq!(field.built, 2);
    field.answer(1, 8);
    assert_eq!(field.builder.books().counters[&Counter::StaleSuperFragments], 1, "it is over");
}

#[test]
fn what_was_lost_of_what_comes_unasked_is_asked_for() {
    let mut field = Field::new(2, 1_000, 0, Asking::Unasked);
    field.assign(1, 1);
    field.answer(0, 1);
    field.wait();
    assert_eq!(field.open, [(1, 1)]);
    field.end_one(0, false);
    assert_eq!(field.built, 1);
}

#[test]
fn what_comes_unasked_and_is_never_assigned_takes_a_quarter_of_the_memory_at_most() {
    let mut field = Field::new(1, 1_000, 0, Asking::Unasked);
    field.builder.early = Some(Early::new(10_000, 100));
    for event in 0..50 {
        field.answer(0, event);
    }
    assert_eq!(field.builder.books().counters[&Counter::StaleSuperFragments], 40);
    field.assign(40, 10);
    assert_eq!(field.built, 10, "the youngest were kept");
}
