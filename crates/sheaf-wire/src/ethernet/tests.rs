use super::*;
use proptest::prelude::*;

fn node() -> impl Strategy<Value = NodeId> {
    prop_oneof![
        Just(NodeId::MANAGER),
        any::<u16>().prop_map(NodeId::readout),
        any::<u16>().prop_map(NodeId::builder)
    ]
}

prop_compose! {
    fn head()(
        destination in any::<[u8; 6]>(),
        source in any::<[u8; 6]>(),
        carries in any::<bool>(),
        wants_answer in any::<bool>(),
        rail in 0..128_u8,
        run in any::<u32>(),
        from in node(),
        to in proptest::option::of(node()),
    ) -> FrameHead {
        let kind = if carries { FrameKind::Datagram } else { FrameKind::Address };
        let (destination, source) = (MacAddress(destination), MacAddress(source));
        FrameHead { destination, source, kind, wants_answer, rail, run: RunNumber(run), from, to }
    }
}

fn frame(head: &FrameHead, ethertype: u16, datagram: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xaa; FRAME_HEAD_BYTES];
    frame.extend_from_slice(datagram);
    head.write(ethertype, datagram.len(), &mut frame);
    seal_frame(head.run, &mut frame);
    frame
}

proptest! {
    #[test]
    fn what_is_written_is_read_and_filling_is_left_out(
        head in head(),
        ethertype in any::<u16>(),
        datagram in proptest::collection::vec(any::<u8>(), 0..200),
        filling in 0_usize..60,
    ) {
        let mut bytes = frame(&head, ethertype, &datagram);
        bytes.resize(bytes.len() + filling, 0x5a);
        prop_assert_eq!(FrameHead::parse(ethertype, head.run, &bytes), Ok((head, &datagram[..])));
    }

    #[test]
    fn no_change_behind_the_ethernet_header_goes_unnoticed(
        head in head(),
        datagram in proptest::collection::vec(any::<u8>(), 0..100),
        at in any::<prop::sample::Index>(),
        flip in 1_u8..,
    ) {
        let mut bytes = frame(&head, ETHERTYPE, &datagram);
        let at = ETHERNET_HEADER_BYTES + at.index(bytes.len() - ETHERNET_HEADER_BYTES);
        bytes[at] ^= flip;
        prop_assert!(FrameHead::parse(ETHERTYPE, head.run, &bytes).is_err(), "byte {}", at);
    }

    #[test]
    fn no_part_of_a_frame_is_a_frame(
        head in head(),
        datagram in proptest::collection::vec(any::<u8>(), 0..100),
        keep in any::<prop::sample::Index>(),
    ) {
        let bytes = frame(&head, ETHERTYPE, &datagram);
        let part = &bytes[..keep.index(bytes.len())];
        let truncated = matches!(FrameHead::parse(ETHERTYPE, head.run, part), Err(FrameError::Truncated { .. }));
        prop_assert!(truncated);
    }

    #[test]
    fn whatever_the_bytes_are_a_frame_that_is_understood_is_written_the_same(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        // Random bytes rarely have a right checksum: they are given one.
        let mut bytes = bytes;
        if bytes.len() >= FRAME_HEAD_BYTES {
            bytes[12..15].copy_from_slice(&[0x88, 0xb5, MAGIC]);
            bytes[15] = VERSION << 4 | bytes[15] & 3;
            bytes[17] &= 0x33;
            bytes[22..24].copy_from_slice(&7_u16.to_le_bytes());
            let length = (bytes.len() - FRAME_HEAD_BYTES) as u16;
            bytes[24..26].copy_from_slice(&length.to_le_bytes());
            seal_frame(RunNumber(7), &mut bytes);
        }
        if let Ok((head, datagram)) = FrameHead::parse(ETHERTYPE, RunNumber(7), &bytes) {
            prop_assert_eq!(frame(&head, ETHERTYPE, datagram), bytes);
        }
    }

    #[test]
    fn a_frame_of_another_run_is_none_of_this_one(
        head in head(),
        datagram in proptest::collection::vec(any::<u8>(), 0..100),
        distance in 1_u32..,
    ) {
        let bytes = frame(&head, ETHERTYPE, &datagram);
        let other = RunNumber(head.run.0.wrapping_add(distance));
        let refused = FrameHead::parse(ETHERTYPE, other, &bytes);
        if distance.trailing_zeros() < 16 {
            let stale = matches!(refused, Err(FrameError::Stale { .. }));
            prop_assert!(stale);
        } else {
            let damaged = matches!(refused, Err(FrameError::Damaged { .. }));
            prop_assert!(damaged, "a run with the same lowest bits");
        }
    }

    #[test]
    fn addresses_are_read_as_they_are_shown(bytes in any::<[u8; 6]>()) {
        let address = MacAddress(bytes);
        let read = address.to_string().parse::<MacAddress>();
        prop_assert_eq!(read.ok(), address.is_of_one_interface().then_some(address));
    }
}

#[test]
fn each_fault_of_a_frame_has_its_name() {
    let head = FrameHead {
        destination: MacAddress::BROADCAST,
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        kind: FrameKind::Datagram,
        wants_answer: false,
        rail: 0,
        run: RunNumber(7),
        from: NodeId::readout(1),
        to: None,
    };
    let good = frame(&head, ETHERTYPE, b"payload");
    let parse = |bytes: &[u8]| FrameHead::parse(ETHERTYPE, head.run, bytes).map(|_| ()).unwrap_err();
    let sealed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        seal_frame(head.run, &mut bytes);
        parse(&bytes)
    };
    assert!(matches!(sealed(&|bytes| bytes[13] = 0), FrameError::Stranger { ethertype: 0x8800, .. }));
    assert!(matches!(sealed(&|bytes| bytes[14] = b'X'), FrameError::Stranger { magic: b'X', .. }));
    assert_eq!(sealed(&|bytes| bytes[15] = 0x91), FrameError::Version(9));
    assert_eq!(sealed(&|bytes| bytes[24] = 8), FrameError::Truncated { bytes: 37, needed: 38 });
    assert_eq!(sealed(&|bytes| bytes[22] = 8), FrameError::Stale { theirs: 8, own: 7 });
    assert_eq!(sealed(&|bytes| bytes[15] = 0x29), FrameError::BadField { field: "kind", value: 9 });
    assert_eq!(sealed(&|bytes| bytes[17] = 0xf0), FrameError::BadField { field: "from", value: 0x0f00_0001 });
    assert_eq!(sealed(&|bytes| bytes[17] |= 0xf), FrameError::BadField { field: "to", value: 0x0f00_0000 });
    assert_eq!(sealed(&|bytes| bytes[20] = 1), FrameError::BadField { field: "to", value: 1 });
    let mut damaged = good.clone();
    damaged[32] ^= 1;
    assert!(matches!(parse(&damaged), FrameError::Damaged { .. }));
}

#[test]
fn texts_that_name_no_interface_are_refused() {
    for text in [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:01:02",
        "2:0:0:0:0:1",
        "+2:00:00:00:00:01",
        "01:00:5e:00:00:01",
        "ff:ff:ff:ff:ff:ff",
        "00:00:00:00:00:00",
    ] {
        assert!(text.parse::<MacAddress>().is_err(), "{text}");
    }
}
