//! UDP packets that arrive at an address, before there is a description of them.

use super::{Report, tally::Tally};
use crate::listening::Arrived;
use anyhow::Context;
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which an end is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Maximum number of senders with an account of their own.
const MOST_SENDERS: usize = 256;

/// The largest UDP payload.
const LARGEST_PACKET_BYTES: usize = 65_535;

/// Returns the address that a text names, if it names one.
pub(super) fn resolve(text: &str) -> Option<SocketAddr> {
    text.to_socket_addrs().ok()?.next()
}

/// Receives packets, at most `most`, and returns an account for each sender.
pub(super) fn listen(
    address: SocketAddr,
    most: Option<u64>,
    (stop, time): (&AtomicBool, Option<Duration>),
) -> anyhow::Result<Report> {
    let socket = UdpSocket::bind(address).with_context(|| {
        format!("cannot listen on {address}; is it in use, or does it belong to another host?")
    })?;
    socket.set_read_timeout(Some(LOOK)).context("cannot set a time limit")?;
    log::info!("waiting for packets at {address} (Ctrl-C ends it)");
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut buffer = vec![0; LARGEST_PACKET_BYTES];
    let (start, mut left) = (Instant::now(), most.unwrap_or(u64::MAX));
    while left > 0 && !stop.load(Ordering::Relaxed) && time.is_none_or(|time| start.elapsed() < time) {
        let (length, sender) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            // Errors of a UDP socket concern single packets.
            Err(error) if error.kind() != ErrorKind::InvalidInput => continue,
            Err(error) => return Err(error).context("cannot receive packets"),
        };
        left -= 1;
        let name = sender.to_string();
        let has_room = tallies.len() < MOST_SENDERS || tallies.contains_key(&name);
        let name = if has_room { name } else { "others".to_owned() };
        let now = Timestamp(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let arrived = Arrived {
            source: SourceId(0),
            event: EventId(0),
            time: Timestamp::ZERO,
            now,
            payload: &buffer[..length],
        };
        tallies.entry(name).or_default().take(None, &arrived);
    }
    let time = start.elapsed();
    let sources = tallies.into_iter().map(|(sender, tally)| tally.report(sender, time)).collect();
    Ok(Report { seconds: time.as_secs_f64(), sources, program_failures: 0 })
}
