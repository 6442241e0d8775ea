//! Guarantees of a shaper, whatever waits for which peer.

mod slot_clock;

use super::*;
use proptest::prelude::*;

const UNIT: u64 = 1_500;
/// A byte takes 10 ns: 100 MB/s.
const RATE: u64 = 100_000_000;
const BYTE: u64 = 10;

#[test]
fn a_line_has_room_for_a_unit_when_it_is_through_with_what_went_before() {
    let config = ShaperConfig {
        line_rate: ByteRate::new(RATE),
        burst: ByteCount::ZERO,
        unit: ByteCount(UNIT),
        policy: Policy::Unshaped,
    };
    let mut shaper = Shaper::new(config, 1, 0);
    assert_eq!(shaper.line_has_room_at(Timestamp(0)), None, "an idle line");
    shaper.spent(Timestamp(0), 0, ByteCount(UNIT));
    let through = Timestamp(UNIT * BYTE);
    assert_eq!(shaper.line_has_room_at(Timestamp(1)), Some(through));
    assert_eq!(shaper.line_has_room_at(through), None);
    let free = Shaper::new(ShaperConfig { line_rate: None, ..config }, 1, 0);
    assert_eq!(free.line_has_room_at(Timestamp(0)), None, "a line without a rate");
}

/// A user of a shaper that sends pieces of at most a unit, and records them with their times.
struct Sender {
    shaper: Shaper,
    waiting: Vec<u64>,
    now: Timestamp,
    /// Time, peer and size.
    sent: Vec<(Timestamp, usize, u64)>,
}

impl Sender {
    fn new(config: ShaperConfig, peers: usize, me: usize) -> Self {
        Self {
            shaper: Shaper::new(config, peers, me),
            waiting: vec![0; peers],
            now: Timestamp(0),
            sent: Vec::new(),
        }
    }

    fn add(&mut self, peer: usize, bytes: u64) {
        self.waiting[peer] += bytes;
        self.shaper.offer(self.now, peer, ByteCount(self.waiting[peer]));
    }

    /// Sends whatever may go now, in pieces as `piece` makes them.
    fn send(&mut self, mut piece: impl FnMut() -> u64) {
        while let Some(turn) = self.shaper.turn(self.now) {
            let mut left = turn.bytes.0;
            let mut is_first = true;
            loop {
                let bytes = piece().clamp(1, turn.piece.0).min(self.waiting[turn.peer]);
                if bytes == 0 || (bytes > left && !is_first) {
                    break;
                }
                (left, is_first) = (left.saturating_sub(bytes), false);
                self.waiting[turn.peer] -= bytes;
                self.sent.push((self.now, turn.peer, bytes));
                self.shaper.spent(self.now, turn.peer, ByteCount(bytes));
            }
            self.shaper.offer(self.now, turn.peer, ByteCount(self.waiting[turn.peer]));
        }
    }

    /// Sends until `end`, or until nothing is left to do.
    fn run(&mut self, end: Timestamp, mut piece: impl FnMut() -> u64) {
        loop {
            self.send(&mut piece);
            match self.shaper.poll_timeout() {
                Some(at) if at < end => {
                    assert!(at > self.now, "a deadline at {at} in the past, at {}", self.now);
                    self.now = at;
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn sent_to(&self, peer: usize) -> u64 {
        self.sent.iter().filter(|sent| sent.1 == peer).map(|sent| sent.2).sum()
    }
}

fn unshaped(line_rate: Option<ByteRate>) -> ShaperConfig {
    ShaperConfig { line_rate, burst: ByteCount(2 * UNIT), unit: ByteCount(UNIT), policy: Policy::Unshaped }
}

fn barrel(slots: SlotSchedule, builders: usize, senders: usize) -> BarrelConfig {
    BarrelConfig {
        builders,
        senders,
        block: ByteCount(8 * UNIT),
        guard: Nanos(UNIT * BYTE),
        slots,
        patience: Nanos::from_millis(1),
    }
}

fn shifting(config: BarrelConfig) -> ShaperConfig {
    ShaperConfig { policy: Policy::Barrel(config), ..unshaped(ByteRate::new(RATE)) }
}

/// A sequence of sizes from a seed, without a random number generator: nothing about it matters but that it varies.
fn sizes(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % UNIT + 1
    }
}

proptest! {
    #[test]
    fn a_line_never_gets_more_than_its_rate_and_a_burst(
        offers in prop::collection::vec((0..4_usize, 1..20_000_u64, 0..400_000_u64), 1..60),
        rate in 1_000_000..200_000_000_000_u64,
        seed: u64,
    ) {
        let rate = ByteRate::new(rate).unwrap();
        let mut sender = Sender::new(unshaped(Some(rate)), 4, 0);
        let mut piece = sizes(seed);
        for (peer, bytes, pause) in offers {
            sender.add(peer, bytes);
            let until = sender.now + Nanos(pause);
            sender.run(until, &mut piece);
        }
        sender.run(Timestamp(u64::MAX / 2), &mut piece);
        prop_assert_eq!(sender.waiting.iter().sum::<u64>(), 0, "everything went in the end");
        let sent = &sender.sent;
        for first in (0..sent.len()).step_by(7) {
            let mut bytes = 0;
            for (at, _, piece) in &sent[first..] {
                bytes += piece;
                let may = rate.bytes_in(at.since(sent[first].0) + Nanos(2)).0 + 2 * UNIT;
                prop_assert!(bytes <= may, "{} bytes in {}", bytes, at.since(sent[first].0));
            }
        }
    }

    #[test]
    fn a_busy_line_is_never_idle(seed: u64, rate in 1_000_000..200_000_000_000_u64) {
        let rate = ByteRate::new(rate).unwrap();
        let mut sender = Sender::new(unshaped(Some(rate)), 3, 0);
        (0..3).for_each(|peer| sender.add(peer, 1 << 40));
        let end = Timestamp(rate.time_for(ByteCount(1_000_000)).0);
        sender.run(end, sizes(seed));
        let sent: u64 = sender.sent.iter().map(|sent| sent.2).sum();
        prop_assert!(sent >= 1_000_000 - UNIT, "{} of a million bytes", sent);
    }

    #[test]
    fn unshaped_peers_that_wait_get_equal_shares_whatever_their_pieces(
        pieces in prop::collection::vec(1..=UNIT, 2..8),
        turns in 100..400_u64,
    ) {
        let mut sender = Sender::new(unshaped(ByteRate::new(RATE)), pieces.len(), 0);
        (0..pieces.len()).for_each(|peer| sender.add(peer, 1 << 40));
        for _ in 0..turns {
            while let Some(turn) = sender.shaper.turn(sender.now) {
                let bytes = pieces[turn.peer];
                sender.sent.push((sender.now, turn.peer, bytes));
                sender.shaper.spent(sender.now, turn.peer, ByteCount(bytes));
            }
            sender.now = sender.shaper.poll_timeout().unwrap();
        }
        let shares: Vec<u64> = (0..pieces.len()).map(|peer| sender.sent_to(peer)).collect();
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        prop_assert!(most - least <= (16 << 10) + 2 * UNIT, "{:?}", shares);
    }

    #[test]
    fn synchronised_sources_never_send_to_one_builder_at_once(
        builders in 1..6_usize,
        senders in 1..6_usize,
        seed: u64,
    ) {
        let config = shifting(barrel(SlotSchedule::Synchronised, builders, senders));
        let turn = builders.max(senders) as u64;
        let slot = 9 * UNIT * BYTE;
        let end = Timestamp(20 * turn * slot);
        let mut all: Vec<(u64, u64, usize, usize)> = Vec::new();
        for me in 0..senders {
            let mut sender = Sender::new(config, builders, me);
            sender.shaper.set_epoch(Timestamp(0));
            (0..builders).for_each(|peer| sender.add(peer, 1 << 40));
            sender.run(end, sizes(seed.wrapping_add(me as u64)));
            // The bucket gives a piece when it has room for it: the line is busy with it from then on at the latest.
            let mut busy = 0;
            for (at, peer, bytes) in &sender.sent {
                let from = busy.max(at.0);
                busy = from + bytes * BYTE;
                all.push((from, busy, *peer, me));
            }
            let sent: u64 = sender.sent.iter().map(|sent| sent.2).sum();
            let ideal = 20 * 8 * UNIT * builders as u64;
            prop_assert!(sent <= ideal && sent >= ideal * 7 / 8, "{} of {}", sent, ideal);
        }
        all.sort_unstable();
        for (from, until, peer, me) in &all {
            prop_assert_eq!(from / slot, (until - 1) / slot, "within one slot");
            prop_assert_eq!((*me as u64 + from / slot) % turn, *peer as u64);
        }
    }

    /// Pieces do not divide a block. A sender that cuts the last one of a slot loses less than the least that it cuts, and the
    /// others' slots stay theirs.
    #[test]
    fn a_sender_that_cuts_pieces_fills_synchronised_slots(
        block in 2 * UNIT..9 * UNIT,
        builders in 1..6_usize,
    ) {
        const LEAST: u64 = 100;
        let config = BarrelConfig { block: ByteCount(block), ..barrel(SlotSchedule::Synchronised, builders, builders) };
        let mut sender = Sender::new(shifting(config), builders, 0);
        sender.shaper = sender.shaper.clone().cutting_from(ByteCount(LEAST));
        sender.shaper.set_epoch(Timestamp(0));
        (0..builders).for_each(|peer| sender.add(peer, 1 << 40));
        let slot = (block + UNIT) * BYTE;
        sender.run(Timestamp(50 * slot), || UNIT);
        let sent: u64 = sender.sent.iter().map(|sent| sent.2).sum();
        prop_assert!(sent <= 50 * block && sent > 50 * (block - LEAST), "{} of {}", sent, 50 * block);
        for (at, peer, _) in &sender.sent {
            prop_assert_eq!(at.0 / slot % builders as u64, *peer as u64, "in its own slot");
        }
    }

    #[test]
    fn a_free_running_barrel_serves_every_builder_alike_and_fills_the_line(seed: u64, builders in 1..6_usize) {
        let config = BarrelConfig { guard: Nanos::ZERO, ..barrel(SlotSchedule::FreeRunning, builders, 3) };
        let mut sender = Sender::new(shifting(config), builders, 1);
        (0..builders).for_each(|peer| sender.add(peer, 1 << 40));
        let turn = builders.max(3) as u64;
        sender.run(Timestamp(20 * turn * 8 * UNIT * BYTE), sizes(seed));
        for peer in 0..builders {
            let sent = sender.sent_to(peer);
            prop_assert!((20 * 7 * UNIT - UNIT..=21 * 8 * UNIT).contains(&sent), "builder {} got {}", peer, sent);
        }
    }

    #[test]
    fn a_free_running_barrel_loses_nothing_by_pieces_that_do_not_divide_a_block(
        piece in UNIT / 3..=UNIT,
        block in UNIT..10 * UNIT,
        builders in 1..6_usize,
    ) {
        let block = ByteCount(block);
        let config = BarrelConfig { guard: Nanos::ZERO, block, ..barrel(SlotSchedule::FreeRunning, builders, builders) };
        let mut sender = Sender::new(shifting(config), builders, 0);
        (0..builders).for_each(|peer| sender.add(peer, 1 << 40));
        let turns = 50;
        let ideal = turns * builders as u64 * block.0;
        sender.run(Timestamp(ideal * BYTE), || piece);
        // Half a piece may be missing at the beginning of a slot and half a piece at its end, with some sizes in every turn.
        for peer in 0..builders {
            let least = (turns * (block.0 - UNIT)).saturating_sub(UNIT);
            prop_assert!(sender.sent_to(peer) >= least, "builder {}", peer);
        }
        let sent: u64 = sender.sent.iter().map(|sent| sent.2).sum();
        prop_assert!(sent + 2 * UNIT >= ideal && sent <= ideal + 3 * UNIT, "{} of {}", sent, ideal);
    }

    #[test]
    fn a_barrel_without_a_line_rate_serves_whoever_waits(offers in prop::collection::vec((0..5_usize, 1..30_000_u64), 1..50), seed: u64) {
        let config = ShaperConfig { line_rate: None, ..shifting(barrel(SlotSchedule::FreeRunning, 5, 2)) };
        let config = match config.policy {
            Policy::Barrel(barrel) => {
                ShaperConfig { policy: Policy::Barrel(BarrelConfig { guard: Nanos::ZERO, ..barrel }), ..config }
            }
            Policy::Unshaped => config,
        };
        let mut sender = Sender::new(config, 5, 0);
        let mut piece = sizes(seed);
        for (peer, bytes) in offers {
            sender.add(peer, bytes);
            sender.send(&mut piece);
            prop_assert_eq!(sender.waiting.iter().sum::<u64>(), 0);
        }
    }
}

#[test]
fn what_waits_for_the_event_manager_goes_before_all_slots() {
    let mut sender = Sender::new(shifting(barrel(SlotSchedule::Synchronised, 2, 2)), 3, 0);
    sender.add(0, 10_000);
    sender.add(2, 100);
    let turn = sender.shaper.turn(sender.now).unwrap();
    assert_eq!(turn.peer, 2);
}

#[test]
fn a_link_that_takes_nothing_holds_its_slot_no_longer_than_the_patience() {
    let mut sender = Sender::new(shifting(barrel(SlotSchedule::FreeRunning, 2, 2)), 2, 0);
    sender.add(0, 100_000);
    sender.add(1, 100_000);
    sender.shaper.back_pressure(sender.now, 0, true);
    assert_eq!(sender.shaper.turn(sender.now), None);
    assert_eq!(sender.shaper.poll_timeout(), Some(Timestamp(1_000_000)));
    sender.now = Timestamp(1_000_000);
    assert_eq!(sender.shaper.turn(sender.now), None, "the guard");
    sender.now += Nanos(UNIT * BYTE);
    assert_eq!(sender.shaper.turn(sender.now).unwrap().peer, 1);
}

#[test]
fn a_link_that_takes_again_ends_the_wait_in_its_slot() {
    let mut sender = Sender::new(shifting(barrel(SlotSchedule::FreeRunning, 2, 2)), 2, 0);
    sender.add(0, 100_000);
    sender.add(1, 100_000);
    sender.shaper.back_pressure(sender.now, 0, true);
    assert_eq!(sender.shaper.turn(sender.now), None);
    sender.now = Timestamp(500_000);
    sender.shaper.back_pressure(sender.now, 0, false);
    assert_eq!(sender.shaper.turn(sender.now).unwrap().peer, 0);
}

#[test]
fn a_peer_that_is_lost_leaves_its_slots_empty_until_it_is_back() {
    let mut sender = Sender::new(shifting(barrel(SlotSchedule::FreeRunning, 2, 2)), 2, 0);
    sender.add(0, 1 << 30);
    sender.add(1, 1 << 30);
    sender.shaper.peer_lost(sender.now, 0);
    sender.run(Timestamp(2_000_000), || UNIT);
    assert_eq!(sender.sent_to(0), 0);
    let slots = sender.shaper.slots_passed();
    assert!(slots.1 * 2 >= slots.0 - 1 && slots.0 > 10, "{slots:?}");
    sender.shaper.peer_back(sender.now, 0);
    sender.run(Timestamp(4_000_000), || UNIT);
    assert!(sender.sent_to(0) >= 5 * 8 * UNIT);
}

#[test]
fn a_barrel_that_is_stopped_serves_all_in_fair_shares_until_it_turns_again() {
    let mut sender = Sender::new(shifting(barrel(SlotSchedule::Synchronised, 2, 8)), 2, 0);
    sender.add(0, 1 << 30);
    sender.add(1, 1 << 30);
    sender.shaper.turn_barrel(sender.now, false);
    sender.run(Timestamp(1_000_000), || UNIT);
    let sent = sender.sent_to(0) + sender.sent_to(1);
    assert!(sent >= 99_000 - UNIT, "no slot is empty: {sent}");
    sender.shaper.turn_barrel(sender.now, true);
    sender.sent.clear();
    sender.run(Timestamp(1_000_000 + 8 * 9 * UNIT * BYTE), || UNIT);
    let turning = sender.sent_to(0) + sender.sent_to(1);
    assert!(turning <= 2 * 8 * UNIT + 2 * UNIT, "two slots of eight: {turning}");
}

#[test]
fn a_pause_of_a_year_costs_no_more_than_another() {
    let mut sender = Sender::new(shifting(barrel(SlotSchedule::FreeRunning, 4, 4)), 4, 2);
    sender.now = Timestamp(365 * 86_400 * 1_000_000_000);
    sender.add(1, 100);
    let until = sender.now + Nanos(4 * 9 * UNIT * BYTE);
    sender.run(until, || UNIT);
    assert_eq!(sender.sent_to(1), 100);
}
