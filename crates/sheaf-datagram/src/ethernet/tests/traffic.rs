//! Purpose of the port: datagrams from one host to another.

use super::*;
use std::collections::BTreeSet;
use std::path::Path;

/// Sends datagrams of all sizes both ways, in bursts, and compares every byte.
fn exchange(backends: [Backend; 2], mtu: usize) {
    let Some(world) = World::new(Cables { mtu, ..PLAIN }) else { return };
    let mut ports = pair(&world, 1, backends);
    let limit = ports[0].max_datagram_bytes();
    assert_eq!(limit, mtu - 16, "the head of the port is 16 bytes");
    let mut sizes: Vec<usize> = (0..300).map(|number| number * 7919 % (limit + 1)).collect();
    sizes.extend([0, 1, 8, limit - 1, limit]);
    for (number, sizes) in sizes.chunks(40).enumerate() {
        for _ in 0..2 {
            let [from, to] = &mut ports;
            let sent: Vec<_> = sizes.iter().map(|bytes| content(number, *bytes)).collect();
            for bytes in &sent {
                // A head and pieces that are cut anywhere.
                let (head, rest) = bytes.split_at(bytes.len().min(7));
                let (one, two) = rest.split_at(rest.len() / 3);
                from.send(to.node(), 0, head, &[one, &[], two]).unwrap();
            }
            from.flush();
            for bytes in &sent {
                assert_eq!(await_datagram(to), (from.node(), 0, bytes.clone()));
            }
            ports.swap(0, 1);
        }
    }
    for port in &ports {
        let counted: Vec<_> =
            port.stats().fields().filter(|(name, _)| name.starts_with("datagrams")).collect();
        let wrong: Vec<_> =
            counted.into_iter().filter(|(name, n)| *n > 0 && *name != "datagrams_unaddressed").collect();
        assert_eq!(wrong, [], "no datagram was dropped");
    }
}

#[test]
fn datagrams_of_all_sizes_arrive_byte_for_byte_through_xdp() {
    exchange([Backend::Xdp; 2], 1500);
}

#[test]
fn datagrams_of_all_sizes_arrive_byte_for_byte_through_xdp_in_jumbo_frames() {
    exchange([Backend::Xdp; 2], 9000);
}

#[test]
fn datagrams_of_all_sizes_arrive_byte_for_byte_through_packet_rings() {
    exchange([Backend::Packet; 2], 1500);
}

#[test]
fn datagrams_of_all_sizes_arrive_byte_for_byte_through_packet_rings_in_jumbo_frames() {
    exchange([Backend::Packet; 2], 9000);
}

#[test]
fn a_port_over_xdp_and_one_over_packet_rings_understand_each_other() {
    exchange([Backend::Xdp, Backend::Packet], 1500);
    exchange([Backend::Packet, Backend::Xdp], 9000);
}

#[test]
fn a_driver_without_zero_copy_is_used_through_packet_rings_unless_told_otherwise() {
    let Some(world) = World::new(PLAIN) else { return };
    let port = port(&world, Host::A, options(Host::A, 1, Backend::Auto));
    let reports: Vec<_> = port.rail_reports().collect();
    assert!(reports[0].way.starts_with("packet rings"), "{reports:?}");
    assert!(reports[0].reason.contains("without a copy"), "{reports:?}");
    assert_eq!((reports[0].interface.as_str(), reports[0].mtu), ("e0", 1500));
}

#[test]
fn what_is_not_taken_in_time_is_lost_and_counted_and_the_port_goes_on() {
    for backend in BOTH {
        let Some(world) = World::new(PLAIN) else { return };
        let [mut a, mut b] = pair(&world, 1, [backend; 2]);
        let before = b.stats().datagrams_overrun;
        let mut sent = 0;
        while sent < 2000 {
            match a.send(b.node(), 0, &content(sent, 300), &[]) {
                Ok(()) => sent += 1,
                Err(DatagramRefused::Full) => {}
                Err(other) => panic!("{other}"),
            }
            a.flush();
        }
        let mut received = 0;
        let all: BTreeSet<Vec<u8>> = (0..sent).map(|number| content(number, 300)).collect();
        until("every datagram was received or counted", || {
            while let Some((_, _, bytes)) = receive(&mut b) {
                assert!(all.contains(&bytes), "it is one that was sent");
                received += 1;
            }
            received + b.stats().datagrams_overrun - before == sent as u64
        });
        assert!(received >= 256, "as many as there are slots: {received} over {backend}");
        assert!(b.stats().datagrams_overrun > before, "{backend}");
        a.send(b.node(), 0, b"still there", &[]).unwrap();
        a.flush();
        assert_eq!(await_datagram(&mut b).2, b"still there");
    }
}

#[test]
fn other_traffic_of_the_interface_goes_on_while_datagrams_flow() {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    for backend in BOTH {
        for mtu in [1500, 9000] {
            let Some(world) = World::new(Cables { mtu, ..PLAIN }) else { return };
            let [mut a, mut b] = pair(&world, 1, [backend; 2]);
            // Both ways, from no entry in the tables of neighbours: needs ARP.
            let listener = world.inside(Host::B, || TcpListener::bind("10.77.0.2:0").unwrap());
            let address = listener.local_addr().unwrap();
            let mut caller = world.inside(Host::A, || TcpStream::connect(address).unwrap());
            let (mut called, _) = listener.accept().unwrap();
            let sender = std::thread::spawn(move || {
                caller.write_all(&content(1, 200_000)).unwrap();
            });
            let mut number = 0;
            let mut got = vec![0; 200_000];
            for part in got.chunks_mut(1000) {
                called.read_exact(part).unwrap();
                number += 1;
                a.send(b.node(), 0, &content(number, 900), &[]).unwrap();
                a.flush();
                assert_eq!(await_datagram(&mut b).2, content(number, 900));
            }
            sender.join().unwrap();
            assert!(got == content(1, 200_000), "TCP over {backend} with MTU {mtu}");
            if Path::new("/bin/ping").exists() || Path::new("/usr/bin/ping").exists() {
                assert!(world.succeeds(Host::A, &["ping", "-c", "2", "-i", "0.01", "-W", "5", "10.77.0.2"]));
            }
        }
    }
}

#[test]
fn each_rail_is_a_way_of_its_own_and_one_that_is_down_leaves_the_other_running() {
    for backend in BOTH {
        let Some(world) = World::new(Cables { rails: 2, ..PLAIN }) else { return };
        let [mut a, mut b] = pair(&world, 2, [backend; 2]);
        let send = |a: &mut EthernetPort, b: &mut EthernetPort, rail| {
            let sent = a.send(b.node(), rail, &content(rail, 100), &[]);
            a.flush();
            if sent.is_ok() {
                assert_eq!(await_datagram(b), (a.node(), rail, content(rail, 100)), "{backend}");
            }
            sent
        };
        for rail in [0, 1, 1, 0] {
            send(&mut a, &mut b, rail).unwrap();
        }
        world.ip(Host::A, "link set e1 down");
        until("the rail is down", || {
            let sent = a.send(b.node(), 1, b"lost", &[]);
            a.wait(Nanos::from_millis(1));
            sent == Err(DatagramRefused::RailDown(1))
        });
        for _ in 0..10 {
            send(&mut a, &mut b, 0).unwrap();
        }
        assert_eq!((a.stats().rails_down, a.stats().rails_up), (1, 0));
        world.ip(Host::A, "link set e1 up");
        until("the rail is up", || {
            a.wait(Nanos::from_millis(1));
            a.stats().rails_up == 1
        });
        // Frames queued before may still arrive.
        until("datagrams come through again", || {
            let _ = a.send(b.node(), 1, b"again", &[]);
            a.flush();
            b.wait(Nanos::from_millis(5));
            std::iter::from_fn(|| receive(&mut b)).any(|(_, rail, bytes)| rail == 1 && bytes == b"again")
        });
    }
}

#[test]
fn nodes_that_share_an_interface_through_packet_rings_get_what_is_for_them() {
    let Some(world) = World::new(PLAIN) else { return };
    let peers = |nodes: &[NodeId]| {
        nodes.iter().map(|node| EthernetPeer { node: *node, addresses: Vec::new() }).collect::<Vec<_>>()
    };
    let (ru, bu) = (NodeId::readout(0), [NodeId::builder(0), NodeId::builder(1)]);
    let of = |node, peers| EthernetOptions { node, peers, ..options(Host::A, 1, Backend::Packet) };
    let mut a = port(&world, Host::A, of(ru, peers(&bu)));
    let mut b = bu.map(|node| port(&world, Host::B, of(node, peers(&[ru]))));
    until("all have met", || {
        while a.poll().is_some() {}
        for b in &mut b {
            while b.poll().is_some() {}
            let _ = b.send(ru, 0, &[], &[]);
            b.flush();
        }
        a.knows_all(0) && b.iter().all(|b| b.knows_all(0))
    });
    for round in 0..20 {
        for (number, b) in bu.iter().enumerate() {
            a.send(*b, 0, &content(number, 10 + round), &[]).unwrap();
        }
    }
    a.flush();
    for round in 0..20 {
        for (number, b) in b.iter_mut().enumerate() {
            assert_eq!(await_datagram(b), (ru, 0, content(number, 10 + round)));
        }
    }
    // The filter drops frames for the other node in the kernel.
    for b in &b {
        assert_eq!(b.stats().datagrams_misdirected, 0);
    }
}

#[test]
fn all_queues_of_an_interface_are_listened_to_and_sent_through() {
    let Some(world) = World::new(Cables { queues: 4, ..PLAIN }) else { return };
    let nodes: Vec<_> = (0..8).map(NodeId::builder).collect();
    let peer = |node: &NodeId| EthernetPeer {
        node: *node,
        addresses: vec![sheaf_conformance::namespaces::address(Host::B, 0)],
    };
    let peers = nodes.iter().map(peer).collect();
    let mut a = port(&world, Host::A, EthernetOptions { peers, ..options(Host::A, 1, Backend::Xdp) });
    // A frame takes the queue of its peer, at both ends of a veth pair. All but the first are for others.
    let mut arrived = |queues: u32, wanted: u64| {
        let mut options = options(Host::B, 1, Backend::Xdp);
        options.settings.queues = queues;
        let mut b = port(&world, Host::B, options);
        let mut received = 0;
        for node in nodes.iter().cycle().take(80) {
            a.send(*node, 0, b"hello", &[]).unwrap();
        }
        a.flush();
        until("what goes to the queues that are listened to arrives", || {
            received += std::iter::from_fn(|| receive(&mut b)).count() as u64;
            received + b.stats().datagrams_misdirected >= wanted
        });
        b.wait(Nanos::from_millis(20));
        assert_eq!(b.poll(), None);
        received + b.stats().datagrams_misdirected
    };
    assert_eq!(arrived(0, 80), 80);
    assert_eq!(arrived(1, 20), 20, "a quarter of the peers has queue 0");
}

#[test]
fn a_waker_ends_the_wait_of_another_thread_and_a_datagram_ends_it_too() {
    for backend in BOTH {
        let Some(world) = World::new(PLAIN) else { return };
        let [mut a, mut b] = pair(&world, 1, [backend; 2]);
        let waker = b.waker();
        // Rung before: no sleep. Without the notice this would last for ten minutes.
        waker.wake_by_ref();
        b.wait(Nanos::from_secs(600));
        let ringer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        b.wait(Nanos::from_secs(600));
        ringer.join().unwrap();
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            a.send(node(Host::B), 0, b"wake up", &[]).unwrap();
            a.flush();
            a
        });
        let datagram = loop {
            if let Some((.., bytes)) = receive(&mut b) {
                break bytes;
            }
            b.wait(Nanos::from_secs(600));
        };
        assert_eq!(datagram, b"wake up");
        drop(sender.join());
    }
}

#[test]
fn busy_polling_finds_datagrams_without_sleeping() {
    for backend in BOTH {
        let Some(world) = World::new(PLAIN) else { return };
        let busy = |host| {
            let mut options = options(host, 1, backend);
            options.settings.busy_poll = Nanos::from_secs(60);
            port(&world, host, options)
        };
        let (mut a, mut b) = (busy(Host::A), busy(Host::B));
        meet(&mut a, &mut b);
        let before = b.stats().sleeps;
        for number in 0..50 {
            a.send(b.node(), 0, &content(number, 200), &[]).unwrap();
            a.flush();
            assert_eq!(await_datagram(&mut b).2, content(number, 200));
        }
        assert_eq!(b.stats().sleeps, before);
    }
}
