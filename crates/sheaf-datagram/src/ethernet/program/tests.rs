//! Runs both programs on interpreters that implement only their instructions, and compares the results with the
//! intended ones.

use super::*;
use proptest::prelude::*;
use sheaf_wire::RunNumber;
use sheaf_wire::ethernet::{ETHERTYPE, FRAME_HEAD_BYTES, FrameHead, FrameKind, MacAddress, seal_frame};

const MAP: i32 = 77;

/// Result of the first program: pass, or redirect by this map and key.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Pass,
    Redirect { map: u64, queue: u64, otherwise: u64 },
}

/// Runs a program. Addresses: the context at 0x1000, the frame at 0x10_0000.
fn run(program: &[Instruction], frame: &[u8], queue: u32) -> Answer {
    const CONTEXT: u64 = 0x1000;
    const FRAME: u64 = 0x10_0000;
    let mut registers = [0_u64; 11];
    registers[1] = CONTEXT;
    let end = FRAME + frame.len() as u64;
    let (mut at, mut redirected) = (0, None);
    for _ in 0..100 {
        let Instruction { code, registers: pair, offset, immediate } = program[at];
        let (to, from) = (usize::from(pair & 15), usize::from(pair >> 4));
        let place = registers[from].wrapping_add_signed(offset.into());
        let jump = |taken: bool| at + 1 + if taken { usize::try_from(offset).unwrap() } else { 0 };
        let mut next = at + 1;
        match code {
            code::LOAD_U32 => {
                registers[to] = match place - CONTEXT {
                    0 => FRAME,
                    4 => end,
                    16 => queue.into(),
                    other => panic!("reads the context at {other}"),
                }
            }
            code::LOAD_U16 => {
                assert!(place >= FRAME && place + 2 <= end, "reads within the frame");
                let at = (place - FRAME) as usize;
                registers[to] = u16::from_ne_bytes([frame[at], frame[at + 1]]).into();
            }
            code::MOVE => registers[to] = registers[from],
            code::MOVE_IMMEDIATE => registers[to] = i64::from(immediate).cast_unsigned(),
            code::ADD_IMMEDIATE => registers[to] = registers[to].wrapping_add_signed(immediate.into()),
            code::JUMP_IF_GREATER => next = jump(registers[to] > registers[from]),
            code::JUMP_IF_NOT_IMMEDIATE => {
                next = jump(registers[to] != i64::from(immediate).cast_unsigned());
            }
            code::LOAD_WIDE_IMMEDIATE => {
                assert_eq!(from, usize::from(MAP_DESCRIPTOR));
                registers[to] = u64::from(immediate.cast_unsigned());
                next = at + 2;
            }
            code::CALL => {
                assert_eq!(immediate, REDIRECT_MAP);
                let [_, map, queue, otherwise, ..] = registers;
                redirected = Some(Answer::Redirect { map, queue, otherwise });
                registers[0] = u64::MAX;
            }
            code::EXIT if registers[0] == PASS as u64 => return Answer::Pass,
            code::EXIT => return redirected.expect("an answer"),
            other => panic!("instruction {other:#x}"),
        }
        at = next;
    }
    panic!("no end")
}

/// Runs a classic filter; whether the frame comes through.
fn accepts(filter: &[libc::sock_filter], frame: &[u8]) -> bool {
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let libc::sock_filter { code, jt, jf, k } = filter[at];
        let load = |bytes: usize| {
            let from = frame.get(k as usize..k as usize + bytes)?;
            Some(from.iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte)))
        };
        at += 1;
        match code {
            classic::LOAD_LENGTH => accumulator = frame.len() as u32,
            classic::LOAD_U8 | classic::LOAD_U16 => {
                // The kernel ends a filter that reads beyond the frame with "drop".
                let Some(value) = load(if code == classic::LOAD_U8 { 1 } else { 2 }) else { return false };
                accumulator = value;
            }
            classic::KEEP_BITS => accumulator &= k,
            classic::JUMP_IF_EQUAL => at += usize::from(if accumulator == k { jt } else { jf }),
            classic::JUMP_UNLESS_BELOW => at += usize::from(if accumulator >= k { jt } else { jf }),
            classic::ANSWER => return k != 0,
            other => panic!("instruction {other:#x}"),
        }
    }
}

proptest! {
    #[test]
    fn frames_of_our_type_go_to_the_socket_of_their_queue_and_all_others_go_on(
        ethertype in any::<u16>(),
        ours in any::<bool>(),
        mut frame in proptest::collection::vec(any::<u8>(), 0..80),
        queue in any::<u32>(),
    ) {
        if ours && frame.len() >= 14 {
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        }
        let is_ours = frame.get(12..14) == Some(&ethertype.to_be_bytes()) && frame.len() >= 14;
        let answer = run(&redirect(ethertype, MAP), &frame, queue);
        let redirect = Answer::Redirect { map: MAP as u64, queue: queue.into(), otherwise: PASS as u64 };
        prop_assert_eq!(answer, if is_ours { redirect } else { Answer::Pass });
    }

    #[test]
    fn the_filter_drops_only_what_says_that_it_is_for_another_node(
        me in 0_u16..3,
        to in proptest::option::of((any::<bool>(), 0_u16..3)),
        datagram in proptest::collection::vec(any::<u8>(), 0..60),
        keep in any::<prop::sample::Index>(),
    ) {
        let head = FrameHead {
            destination: MacAddress::BROADCAST,
            source: MacAddress([2, 0, 0, 0, 0, 1]),
            kind: FrameKind::Datagram,
            wants_answer: false,
            rail: 0,
            run: RunNumber(1),
            from: NodeId::MANAGER,
            to: to.map(|(readout, index)| if readout { NodeId::readout(index) } else { NodeId::builder(index) }),
        };
        let mut frame = vec![0; FRAME_HEAD_BYTES];
        frame.extend_from_slice(&datagram);
        head.write(ETHERTYPE, datagram.len(), &mut frame);
        seal_frame(head.run, &mut frame);
        let filter = only_for(NodeId::readout(me));
        prop_assert_eq!(accepts(&filter, &frame), to.is_none_or(|to| to == (true, me)));
        let part = &frame[..keep.index(22)];
        prop_assert!(accepts(&filter, part), "what is too short to say it comes through");
        frame[14] = b'X';
        prop_assert!(accepts(&filter, &frame), "a stranger comes through");
    }
}
