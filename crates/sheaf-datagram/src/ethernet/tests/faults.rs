//! Frames that should not be there, and interfaces that are not as they should be.

use super::*;
use crate::ethernet::interface::Interface;
use crate::ethernet::packet::PacketWire;
use crate::ethernet::wire::Wire as _;
use sheaf_transport::LinkStats;
use sheaf_wire::ethernet::{ETHERTYPE, FRAME_HEAD_BYTES, FrameHead, FrameKind, MacAddress, seal_frame};
use std::error::Error as _;

/// A node in host A that sends arbitrary bytes.
fn stranger(world: &World) -> PacketWire {
    world.inside(Host::A, || {
        let interface = Interface::open("e0").unwrap();
        PacketWire::open(&interface, NodeId::readout(999), ETHERTYPE, 1500, 16).unwrap()
    })
}

fn inject(stranger: &mut PacketWire, frame: &[u8]) {
    assert!(stranger.put(0, frame.len(), &mut |slot| slot.copy_from_slice(frame)));
    stranger.flush(&mut LinkStats::default());
}

/// A frame of A's to B, with changes to its head, and then to its bytes.
fn frame(head: impl FnOnce(&mut FrameHead), bytes: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut of = FrameHead {
        destination: sheaf_conformance::namespaces::address(Host::B, 0),
        source: sheaf_conformance::namespaces::address(Host::A, 0),
        kind: FrameKind::Datagram,
        wants_answer: false,
        rail: 0,
        run: RUN,
        from: node(Host::A),
        to: Some(node(Host::B)),
    };
    head(&mut of);
    let mut frame = vec![0; FRAME_HEAD_BYTES];
    frame.extend_from_slice(b"what is in it, and is long enough for any interface");
    of.write(ETHERTYPE, frame.len() - FRAME_HEAD_BYTES, &mut frame);
    seal_frame(of.run, &mut frame);
    bytes(&mut frame);
    frame
}

/// Name of a case, its counter, and its frame.
type Case = (&'static str, fn(&LinkStats) -> u64, Vec<u8>);

fn cases() -> Vec<Case> {
    let reseal = |change: fn(&mut Vec<u8>)| {
        frame(
            |_| {},
            |bytes| {
                change(bytes);
                seal_frame(RUN, bytes);
            },
        )
    };
    vec![
        ("a replayed run", |s| s.datagrams_stale, frame(|head| head.run = RunNumber(4), |_| {})),
        (
            "a node that is no peer",
            |s| s.datagrams_of_strangers,
            frame(|head| head.from = NodeId::readout(7), |_| {}),
        ),
        ("this node itself", |s| s.datagrams_of_strangers, frame(|head| head.from = node(Host::B), |_| {})),
        ("no magic", |s| s.datagrams_of_strangers, frame(|_| {}, |bytes| bytes[14] = 0)),
        ("another rail", |s| s.datagrams_crossed, frame(|head| head.rail = 1, |_| {})),
        ("a flipped bit", |s| s.datagrams_damaged, frame(|_| {}, |bytes| bytes[50] ^= 4)),
        ("a flipped bit of the head", |s| s.datagrams_damaged, frame(|_| {}, |bytes| bytes[18] ^= 4)),
        (
            "a replayed run with the same lowest bits",
            |s| s.datagrams_damaged,
            frame(|head| head.run = RunNumber(RUN.0 + (1 << 16)), |_| {}),
        ),
        ("another version", |s| s.datagrams_of_other_versions, frame(|_| {}, |bytes| bytes[15] ^= 0x70)),
        ("a kind that means nothing", |s| s.datagrams_malformed, reseal(|bytes| bytes[15] |= 0xf)),
        ("a node that means nothing", |s| s.datagrams_malformed, reseal(|bytes| bytes[17] |= 0xf0)),
        ("an end that is missing", |s| s.datagrams_truncated, frame(|_| {}, |bytes| bytes.truncate(70))),
        ("less than a head", |s| s.datagrams_truncated, frame(|_| {}, |bytes| bytes.truncate(20))),
    ]
}

#[test]
fn what_should_not_be_there_is_dropped_and_counted_by_its_fault() {
    for backend in BOTH {
        let Some(world) = World::new(PLAIN) else { return };
        let mut stranger = stranger(&world);
        let mut b = port(&world, Host::B, options(Host::B, 1, backend));
        for (what, counter, bytes) in cases() {
            let before = b.stats();
            inject(&mut stranger, &bytes);
            // A good frame after it shows that the bad one was processed, and that nothing stopped.
            inject(&mut stranger, &frame(|_| {}, |_| {}));
            assert_eq!(await_datagram(&mut b).0, node(Host::A), "{what}");
            let after = b.stats();
            assert_eq!(counter(&after) - counter(&before), 1, "{what} over {backend}");
            let dropped = |stats: &LinkStats| -> u64 {
                stats
                    .fields()
                    .filter(|(name, _)| name.starts_with("datagrams_"))
                    .map(|(_, count)| count)
                    .sum()
            };
            assert_eq!(dropped(&after) - dropped(&before), 1, "{what}: one counter");
        }
        // For another node: a packet socket drops it in the kernel.
        let before = b.stats().datagrams_misdirected;
        inject(&mut stranger, &frame(|head| head.to = Some(NodeId::builder(9)), |_| {}));
        inject(&mut stranger, &frame(|_| {}, |_| {}));
        await_datagram(&mut b);
        let counted = b.stats().datagrams_misdirected - before;
        assert_eq!(counted, u64::from(backend == Backend::Xdp), "{backend}");
    }
}

#[test]
fn a_peer_that_comes_back_with_another_address_is_found_and_one_at_a_given_address_only_there() {
    let Some(world) = World::new(PLAIN) else { return };
    let [a, mut b] = pair(&world, 1, [Backend::Packet; 2]);
    let before = b.stats().datagrams_unaddressed;
    drop(a);
    world.ip(Host::A, "link set e0 address 02:5e:00:00:00:99");
    let mut a = port(&world, Host::A, options(Host::A, 1, Backend::Packet));
    // It announces itself without being asked.
    until("the new address is known, and answered", || {
        while b.poll().is_some() {}
        while a.poll().is_some() {}
        a.knows_all(0)
    });
    b.send(a.node(), 0, b"found", &[]).unwrap();
    b.flush();
    assert_eq!(await_datagram(&mut a).2, b"found");
    assert_eq!(b.stats().datagrams_unaddressed, before);

    let mut given = options(Host::B, 1, Backend::Packet);
    given.node = NodeId::builder(1);
    given.peers[0].addresses = vec![sheaf_conformance::namespaces::address(Host::A, 0)];
    let mut c = port(&world, Host::B, given);
    let mut stranger = stranger(&world);
    let to_c = |source| frame(|head| (head.to, head.source) = (Some(NodeId::builder(1)), source), |_| {});
    inject(&mut stranger, &to_c(MacAddress([2, 0x5e, 0, 0, 0, 0x99])));
    inject(&mut stranger, &to_c(sheaf_conformance::namespaces::address(Host::A, 0)));
    await_datagram(&mut c);
    assert_eq!(c.stats().datagrams_of_strangers, 1);
}

#[test]
fn a_stranger_that_says_it_is_the_peer_gets_what_is_sent_aside_and_nothing_else() {
    let Some(world) = World::new(PLAIN) else { return };
    let [mut a, mut b] = pair(&world, 1, [Backend::Packet; 2]);
    a.send(b.node(), 0, b"surely", &[]).unwrap();
    a.flush();
    assert_eq!(await_datagram(&mut b).2, b"surely");
    b.take_home();
    let mut stranger = stranger(&world);
    let elsewhere = MacAddress([2, 0x5e, 0, 0, 0, 0x99]);
    inject(&mut stranger, &frame(|head| head.source = elsewhere, |_| {}));
    until("the stranger is heard", || {
        let heard = b.poll().is_some_and(|datagram| !datagram.is_home);
        b.wait(Nanos::from_millis(1));
        heard
    });
    b.note_aside();
    b.send_aside(node(Host::A), 0, b"an answer").unwrap();
    b.send(node(Host::A), 0, b"for the peer", &[]).unwrap();
    b.flush();
    assert!(
        b.is_home(0, sheaf_conformance::namespaces::address(Host::A, 0)),
        "the peer's place does not change"
    );
    // A cable without a switch delivers every frame to all nodes: its destination is in the frame.
    for (content, place) in [
        (&b"an answer"[..], elsewhere),
        (b"for the peer", sheaf_conformance::namespaces::address(Host::A, 0)),
    ] {
        assert_eq!(await_datagram(&mut a).2, content);
        let (head, _) = FrameHead::parse(ETHERTYPE, RUN, a.last_frame(0)).unwrap();
        assert_eq!(head.destination, place);
    }
    // The link is down: the next caller may be the peer.
    b.leave_home(node(Host::A));
    inject(&mut stranger, &frame(|head| head.source = elsewhere, |_| {}));
    until("the stranger is heard again", || {
        while b.poll().is_some() {}
        b.wait(Nanos::from_millis(1));
        b.is_home(0, elsewhere)
    });
}

#[test]
fn a_datagram_that_cannot_be_sent_is_refused_with_the_reason() {
    let Some(world) = World::new(PLAIN) else { return };
    let mut a = port(&world, Host::A, options(Host::A, 1, Backend::Packet));
    let limit = a.max_datagram_bytes();
    let too_large = DatagramRefused::TooLarge { bytes: limit + 1, limit };
    assert_eq!(a.send(node(Host::B), 0, &content(0, limit), &[b"x"]), Err(too_large));
    assert_eq!(a.send(NodeId::MANAGER, 0, b"x", &[]), Err(DatagramRefused::UnknownPeer));
    let stats = a.stats();
    assert_eq!((stats.refused_too_large, stats.refused_unknown_peer), (1, 1));
    // There is no peer: only a request is sent now and then.
    for _ in 0..1000 {
        a.send(node(Host::B), 0, b"anybody?", &[]).unwrap();
    }
    assert_eq!(a.stats().datagrams_unaddressed, 1000);
}

#[test]
fn a_datagram_waits_until_it_is_known_where_its_peer_is_and_never_goes_to_all() {
    let Some(world) = World::new(PLAIN) else { return };
    // B announces itself before A has started.
    let mut b = port(&world, Host::B, options(Host::B, 1, Backend::Packet));
    let mut a = port(&world, Host::A, options(Host::A, 1, Backend::Packet));
    let large = content(1, 1000);
    until("B is asked and answers, and gets the datagram", || {
        a.send(node(Host::B), 0, &large, &[]).unwrap();
        a.flush();
        while a.poll().is_some() {}
        receive(&mut b).is_some_and(|(_, _, bytes)| bytes == large)
    });
    let (head, _) = FrameHead::parse(ETHERTYPE, RUN, b.last_frame(0)).unwrap();
    assert_eq!(head.destination, sheaf_conformance::namespaces::address(Host::B, 0));
    assert!(a.stats().datagrams_unaddressed > 0);
}

#[test]
fn slots_that_the_network_has_not_taken_are_refused_until_there_is_room_again() {
    for backend in BOTH {
        let Some(world) = World::new(PLAIN) else { return };
        let [mut a, mut b] = pair(&world, 1, [backend; 2]);
        let mut taken = 0;
        // Nothing is flushed: the slots fill up.
        while a.send(b.node(), 0, &content(taken, 500), &[]).is_ok() {
            taken += 1;
            assert!(taken < 10_000, "there is a bound");
        }
        assert!(taken >= 256 && a.stats().refused_full == 1, "{taken} over {backend}");
        until("there is room again", || {
            a.wait(Nanos::from_millis(1));
            while b.poll().is_some() {}
            a.send(b.node(), 0, b"more", &[]).is_ok()
        });
    }
}

#[test]
fn an_interface_that_cannot_be_used_is_refused_with_a_remedy() {
    let Some(world) = World::new(PLAIN) else { return };
    let refused = |options: EthernetOptions| {
        world.inside(Host::A, || EthernetPort::new(options).map(|_| ())).unwrap_err().to_string()
    };
    let mut missing = options(Host::A, 1, Backend::Auto);
    missing.interfaces = vec!["eth9".to_owned()];
    let text = refused(missing.clone());
    assert!(text.contains("no interface \"eth9\"") && text.contains("e0"), "{text}");
    missing.interfaces = vec!["a-name-that-is-too-long".to_owned()];
    assert!(refused(missing.clone()).contains("no interface"));
    missing.interfaces = vec!["lo".to_owned()];
    assert!(refused(missing).contains("not an Ethernet interface"));

    let mut large = options(Host::A, 1, Backend::Auto);
    large.settings.mtu = Some(9000);
    let text = refused(large);
    assert!(
        text.contains("MTU of 1500, and 9000 is configured") && text.contains("ip link set e0 mtu 9000"),
        "{text}"
    );

    world.ip(Host::A, "link set e0 mtu 200");
    assert!(refused(options(Host::A, 1, Backend::Auto)).contains("must be 576 or more"));
    world.ip(Host::A, "link set e0 mtu 1500");
    world.ip(Host::A, "link set e0 down");
    let text = refused(options(Host::A, 1, Backend::Auto));
    assert!(text.contains("is down; `ip link set e0 up`"), "{text}");
}

#[test]
fn options_that_cannot_work_are_refused() {
    let refused = |change: &dyn Fn(&mut EthernetOptions)| {
        let mut options = options(Host::A, 1, Backend::Auto);
        change(&mut options);
        EthernetPort::new(options).map(|_| ()).unwrap_err().to_string()
    };
    assert!(refused(&|options| options.interfaces.clear()).contains("it must be 1 to 16"));
    assert!(refused(&|options| options.interfaces = vec!["e0".to_owned(); 2]).contains("listed twice"));
    assert!(refused(&|options| options.peers[0].node = options.node).contains("named twice"));
    let twice = |options: &mut EthernetOptions| options.peers.extend_from_within(..);
    assert!(refused(&twice).contains("named twice"));
    let addresses = |options: &mut EthernetOptions| {
        options.peers[0].addresses = vec![sheaf_conformance::namespaces::address(Host::B, 0); 3]
    };
    assert!(refused(&addresses).contains("3 addresses, and there are 1 rails"));
    assert!(refused(&|options| options.settings.ethertype = 0x05ff).contains("at least 0x0600"));
    for slots in [0, 8, 100, 65_536] {
        assert!(refused(&|options| options.settings.frame_slots = slots).contains("a power of two from 16"));
    }
}

#[test]
fn a_queue_that_another_port_has_is_in_use_until_that_is_gone() {
    let Some(world) = World::new(PLAIN) else { return };
    let first = port(&world, Host::A, options(Host::A, 1, Backend::Xdp));
    let second = world.inside(Host::A, || EthernetPort::new(options(Host::A, 1, Backend::Xdp)));
    let error = second.map(|_| ()).unwrap_err();
    assert!(matches!(error, EthernetError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("queue 0 of interface \"e0\" is in use"), "{error}");
    assert!(error.source().is_none());
    drop(first);
    port(&world, Host::A, options(Host::A, 1, Backend::Xdp));
}
