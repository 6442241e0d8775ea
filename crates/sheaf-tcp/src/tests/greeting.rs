use super::super::framing::{RAILS_VERSION, VERSION};
use super::super::greeting::{GreetingBuffer, RailGreeting};
use super::super::sequence::Window;
use sheaf_transport::Refusal;
use sheaf_transport::greeting::Greeting;
use sheaf_wire::{NodeId, RunNumber, SessionId};

fn me() -> Greeting {
    Greeting {
        node: NodeId::builder(3),
        run: RunNumber(12),
        session: SessionId(900),
        max_frame_bytes: 1 << 20,
    }
}

fn peer() -> Greeting {
    Greeting { node: NodeId::readout(5), session: SessionId(77), max_frame_bytes: 1 << 16, ..me() }
}

#[test]
fn a_greeting_is_heard_as_it_was_said() {
    assert_eq!(me().parse(&peer().emit(None)), Ok(peer()));
}

#[test]
fn the_bytes_are_the_documented_ones() {
    let bytes = peer().emit(None);
    let mut expected = b"SHEAFTCP".to_vec();
    expected.extend([1, 0, 0, 0]); // version 1, no refusal
    expected.extend([5, 0, 0, 2]); // ru5
    expected.extend([12, 0, 0, 0]); // run
    expected.extend([0, 0, 1, 0]); // 64 KiB
    expected.extend([77, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes.as_slice(), expected);
}

#[test]
fn every_wrong_field_is_refused_by_its_name() {
    let with = |at: usize, value: u8| {
        let mut bytes = peer().emit(None);
        bytes[at] = value;
        me().parse(&bytes).unwrap_err()
    };
    assert_eq!(with(0, b's'), Refusal::WrongMagic);
    assert_eq!(with(8, 2), Refusal::WrongVersion(2));
    assert_eq!(with(12 + 3, 9), Refusal::UnknownNode(0x0900_0005));
    assert_eq!(with(16, 13), Refusal::WrongRun(RunNumber(13)));
    assert_eq!(with(20 + 3, 0x7f), Refusal::Malformed);
    let nobody = Greeting { session: SessionId(0), ..peer() };
    assert_eq!(me().parse(&nobody.emit(None)), Err(Refusal::Malformed));
}

#[test]
fn a_refusal_reaches_the_refused_with_its_reason() {
    let tells = |refusal| me().parse(&peer().emit(Some(refusal))).unwrap_err();
    // The refusing side returns our identity and its own.
    let stale = Refusal::StaleSession(SessionId(900));
    assert_eq!(tells(stale), stale);
    let unknown = Refusal::UnknownNode(NodeId::builder(3).to_code());
    assert_eq!(tells(unknown), unknown);
    assert_eq!(tells(Refusal::BothInitiate), Refusal::BothInitiate);
    assert_eq!(tells(Refusal::Malformed), Refusal::Malformed);
    assert_eq!(tells(Refusal::WrongVersion(44)), Refusal::WrongVersion(1));
    let other_run = Greeting { run: RunNumber(13), ..peer() };
    let answer = me().parse(&other_run.emit(Some(Refusal::WrongRun(RunNumber(12)))));
    assert_eq!(answer, Err(Refusal::WrongRun(RunNumber(13))));
    let mut bytes = peer().emit(None);
    bytes[10] = 200;
    assert_eq!(me().parse(&bytes), Err(Refusal::Other(200)));
}

fn rail() -> RailGreeting {
    RailGreeting { rail: 1, rails: 3, epoch: 7, window: Window { frames: 1024, bytes: 1 << 24 } }
}

/// Feeds `bytes` to a buffer one by one; returns the decoded greeting and the number of bytes taken.
fn trickle(version: u16, bytes: &[u8]) -> (Option<Vec<u8>>, usize) {
    let mut buffer = GreetingBuffer::of_call(version);
    for (at, byte) in bytes.iter().enumerate() {
        assert!(!buffer.room().is_empty(), "there is room until it is whole");
        buffer.room()[0] = *byte;
        if let Some(whole) = buffer.filled(1) {
            return (Some(whole.to_vec()), at + 1);
        }
        assert_eq!(buffer.is_hopeless(), None);
    }
    (None, bytes.len())
}

#[test]
fn a_greeting_may_come_byte_by_byte_and_nothing_behind_it_is_taken() {
    let short = peer().emit(None).to_vec();
    let with_frames = [short.as_slice(), &[9; 40]].concat();
    assert_eq!(trickle(VERSION, &with_frames), (Some(short), 32));

    let long = [peer().emit_as(RAILS_VERSION, None).as_slice(), &rail().emit()].concat();
    let with_frames = [long.as_slice(), &[9; 40]].concat();
    assert_eq!(trickle(RAILS_VERSION, &with_frames), (Some(long), 56));
}

#[test]
fn a_refusal_and_another_version_are_whole_when_their_common_part_is() {
    let refused = peer().emit_as(RAILS_VERSION, Some(Refusal::BothInitiate)).to_vec();
    assert_eq!(trickle(RAILS_VERSION, &refused), (Some(refused), 32));
    let other = peer().emit(None).to_vec();
    assert_eq!(trickle(RAILS_VERSION, &other), (Some(other.clone()), 32));
    let answer = me().parse_as(RAILS_VERSION, other.first_chunk().unwrap());
    assert_eq!(answer, Err(Refusal::WrongVersion(VERSION)));
}

#[test]
fn a_rail_is_heard_as_it_was_said() {
    let bytes = rail().emit();
    assert_eq!(RailGreeting::parse(&bytes), Some(rail()));
    let mut expected = vec![1, 0, 3, 0, 7, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0];
    expected.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(bytes.as_slice(), expected, "the documented bytes");
    assert_eq!(RailGreeting::parse(&bytes[1..]), None);
    let no_window = RailGreeting { window: Window { frames: 0, bytes: 9 }, ..rail() };
    assert_eq!(RailGreeting::parse(&no_window.emit()), None);
}

#[test]
fn rubbish_is_seen_at_once() {
    let mut buffer = GreetingBuffer::of_call(VERSION);
    buffer.room()[..3].copy_from_slice(b"GET");
    assert_eq!(buffer.filled(3), None);
    assert_eq!(buffer.is_hopeless(), Some(Refusal::WrongMagic));
}
