//! `trigger.network.protocol = "udp"`: triggers in datagrams, which can be lost.

use crate::child::ScratchDirectory;
use crate::output::{field, number};
use crate::triggers::{assert_agree, stall_until_busy, stalling_filter, start, supervise};
use sheaf_wire::trigger_link::{FromSupervisor, read_datagram};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const UDP: &str = "protocol = \"udp\"";

#[test]
fn a_builder_that_stalls_holds_a_supervisor_over_udp_back() {
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        let (stalls, go) = stalling_filter(&scratch);
        let (run, port) = start(&scratch, UDP, &stalls, flags);
        let (summary, account) = stall_until_busy(&scratch, (run, port), &go, ("builder_credit", "--udp"));
        assert!(number(&account, "busy_vetoed") > 0, "triggers happened in the meantime");
        assert_eq!(number(&summary, "trigger_link.undelivered"), 0, "{summary}");
        assert!(number(&summary, "trigger_link.datagrams.received") > 0, "{summary}");
    }
}

/// Forwards datagrams between a supervisor and the event manager, and drops the triggers of some. Returns the port, and the number of
/// triggers that were dropped. Its threads end with the test's process.
fn lossy_forwarder(to: u16) -> (u16, Arc<AtomicU64>) {
    let (front, back) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    back.connect(("127.0.0.1", to)).unwrap();
    let port = front.local_addr().unwrap().port();
    let dropped = Arc::new(AtomicU64::new(0));
    let supervisor = Arc::new(std::sync::Mutex::new(None::<SocketAddr>));
    let (its_front, its_back, its_supervisor) =
        (front.try_clone().unwrap(), back.try_clone().unwrap(), supervisor.clone());
    std::thread::spawn(move || {
        let mut room = [0; 65_536];
        while let Ok(length) = its_back.recv(&mut room) {
            if let Some(to) = *its_supervisor.lock().unwrap() {
                let _ = its_front.send_to(&room[..length], to);
            }
        }
    });
    let counts = dropped.clone();
    std::thread::spawn(move || {
        let (mut room, mut seen) = ([0; 65_536], 0_u64);
        while let Ok((length, from)) = front.recv_from(&mut room) {
            *supervisor.lock().unwrap() = Some(from);
            let (_, messages) = read_datagram::<FromSupervisor>(&room[..length]).expect("valid");
            if let [FromSupervisor::Triggers(triggers)] = &messages[..] {
                seen += 1;
                if seen.is_multiple_of(10) {
                    counts.fetch_add(triggers.len() as u64, Ordering::Relaxed);
                    continue;
                }
            }
            let _ = back.send(&room[..length]);
            if seen.is_multiple_of(7) {
                let _ = back.send(&room[..length]);
            }
        }
    });
    (port, dropped)
}

#[test]
fn triggers_that_are_lost_on_their_way_are_no_events_and_are_named() {
    let scratch = ScratchDirectory::new();
    let (run, port) = start(&scratch, UDP, "", "");
    let (forwarded, dropped) = lossy_forwarder(port);
    let account = supervise(&scratch, forwarded, "--udp --rate 3000 --triggers 1000").end().exits(3).json();
    let summary = run.end().exits(3);
    assert!(summary.stderr.is_empty() || !summary.stderr.contains("panicked"), "{}", summary.stderr);
    let summary = summary.json();
    let dropped = dropped.load(Ordering::Relaxed);
    assert!(dropped > 0);
    assert_eq!(number(&account, "sent"), 1_000);
    assert_eq!(number(&account, "event_manager.received"), 1_000 - dropped, "{account}");
    assert_eq!(number(&summary, "trigger_link.undelivered"), dropped, "{summary}");
    assert_eq!(number(&summary, "ledger.stored"), 1_000 - dropped, "{summary}");
    assert_eq!(field(&summary, "ledger.balanced"), true, "{summary}");
    assert_eq!(field(&summary, "kept.all"), false, "{summary}");
    let loss = &field(&summary, "kept.losses")[0];
    assert_eq!((&loss["reason"], &loss["count"]), (&"undelivered".into(), &dropped.into()), "{summary}");
    assert!(number(&summary, "trigger_link.skipped_ids") <= dropped, "the last ones may be missing");
    assert!(
        number(&summary, "trigger_link.first_skipped_id") < number(&summary, "trigger_link.last_skipped_id")
    );
    assert!(number(&summary, "trigger_link.datagrams.lost") > 0);
    assert!(number(&summary, "trigger_link.datagrams.repeated") > 0);
    assert_eq!(number(&summary, "trigger_link.repeated"), 0, "a repeated datagram has no new trigger");
}

#[test]
fn datagrams_of_strangers_are_counted_and_answered_with_nothing() {
    let scratch = ScratchDirectory::new();
    let (run, port) = start(&scratch, UDP, "", "");
    let mut supervisor = supervise(&scratch, port, "--udp --rate 2000 --name TLU");
    supervisor.wait_until_said("the run takes triggers");
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\nHost: sheaf\r\n\r\n"[..], &[], &[0xff; 1_400]] {
        stranger.send_to(bytes, ("127.0.0.1", port)).unwrap();
    }
    let answer = stranger.recv(&mut [0; 2_000]);
    assert!(answer.is_err(), "{answer:?}");
    let second = supervise(&scratch, port, "--udp --name other").end().exits(1);
    assert!(second.stderr.contains("another trigger supervisor is connected: TLU"), "{}", second.stderr);
    supervisor.signal("INT");
    let account = supervisor.end().exits(0).json();
    let summary = run.end().exits(0).json();
    assert_agree(&summary, &account);
    assert_eq!(number(&summary, "trigger_link.datagrams.invalid"), 3, "{summary}");
    assert!(number(&summary, "trigger_link.refused.supervisor_taken") > 0, "{summary}");
}

#[test]
fn a_supervisor_over_udp_that_is_killed_is_noticed_and_the_next_one_continues() {
    let scratch = ScratchDirectory::new();
    let (mut run, port) = start(&scratch, "protocol = \"udp\"\nsilence_ms = 500", "", "");
    let mut first = supervise(&scratch, port, "--udp --rate 2000 --name TLU");
    first.wait_until_said("the run takes triggers");
    first.signal("KILL");
    first.end();
    run.wait_until_said("the trigger supervisor `TLU` has gone; the run waits for one");
    let account = supervise(&scratch, port, "--udp --rate 2000 --triggers 500").end().exits(0).json();
    let summary = run.end().exits(0).json();
    assert_eq!(field(&account, "agrees"), true, "{account}");
    assert_eq!(number(&summary, "trigger_link.connections"), 2);
    assert_eq!(number(&summary, "ledger.stored"), number(&summary, "trigger_link.accepted"));
    assert!(number(&summary, "ledger.time.dead_ns.no_supervisor") > 0);
}
