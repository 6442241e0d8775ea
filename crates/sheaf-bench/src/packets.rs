//! Packets over UDP: a front end that sends at a rate, the described source of a readout unit that counts them, and a bare loop of
//! `recvmmsg`, which is the limit of the machine.

use sheaf_buffer::{Heap, Pool};
use sheaf_datagram::udp::bare;
use sheaf_source::described::{
    ByteOrder, Description, Field, Limits, Listen, ListenError, PacketPath, StreamSource, Width,
};
use sheaf_source::{Batch, BatchEnd, Source};
use sheaf_wire::{ExactNanos, Nanos, SourceId, TimeUnit, Timestamp};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes that the kernel holds for a receiver, if it grants as many. A receiver that is not on a processor for a while loses nothing.
pub const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Time that a receiver polls before it sleeps: as a node does.
const SPIN: Duration = Duration::from_micros(10);

/// Sleep of the bare loop while there is no packet: that of a described source.
const PAUSE: Duration = Duration::from_micros(200);

/// Time without a packet after which all that were sent have come.
const SILENCE: Duration = Duration::from_millis(100);

/// Packets that a front end may be behind. It does not send more at once to catch up: a board has no memory for that.
const BEHIND: f64 = 256.0;

/// Block of the memory of a source.
const BLOCK: usize = 128 << 10;

/// Memory of a source.
const MEMORY: usize = 4 << 20;

/// Maximum number of fragments in one poll.
const MOST: usize = 64;

/// Bytes of the event number at the beginning of a packet.
const EVENT_BYTES: usize = 8;

/// Measurement that failed.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// A socket on loopback.
    #[error("there is no UDP socket on loopback")]
    Socket(#[from] io::Error),
    /// The source.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A signal ended the measurement.
    #[error("interrupted")]
    Interrupted,
}

/// Result of packets that were sent for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Number of packets that were sent.
    pub sent: u64,
    /// Number of packets that were received.
    pub received: u64,
    /// Time from the first to the last packet, in seconds.
    pub seconds: f64,
}

impl Counted {
    /// Number of packets that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Packets that were received in a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
    pub fn rate(&self) -> f64 {
        self.received as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Sender of packets to measure with.
#[derive(Clone, Copy, Debug)]
pub struct PacketSender<'a> {
    /// Size of a packet in bytes, at least that of an event number.
    pub bytes: usize,
    /// Packets a second; `None`: as many as the kernel takes.
    pub rate: Option<f64>,
    /// Time for which it sends.
    pub span: Duration,
    /// Ends the measurement.
    pub stop: &'a AtomicBool,
}

impl PacketSender<'_> {
    /// Measures a loop that receives batches into the same memory again and again, and sleeps only while there is no packet.
    ///
    /// # Errors
    /// A [`PacketError`].
    pub fn into_bare_loop(self) -> Result<Counted, PacketError> {
        let socket = bare::open(RECEIVE_BUFFER_BYTES)?;
        let slot = self.size();
        let mut buffer = vec![0; slot * bare::BATCH];
        self.measure(socket.local_addr()?, |_| match bare::receive(&socket, &mut buffer, slot) {
            Ok(packets) => Ok(packets as u64),
            // A loop that asks an empty socket again and again, or is woken for each packet, holds up its sender.
            Err(_) => Err(PAUSE),
        })
    }

    /// Measures the source of a readout unit that accepts and forgets all fragments.
    ///
    /// # Errors
    /// A [`PacketError`].
    pub fn into_described_source(self) -> Result<Counted, PacketError> {
        let listen = Listen {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
        };
        let width = Width::of_bits(8 * EVENT_BYTES as u32).expect("a width of 64 bits");
        let description = Description::of_event(Field::new(0, width, ByteOrder::Little));
        let limits = Limits {
            waiting_packets: 64,
            wait: Nanos::from_millis(10),
            open_fragments: 64,
            max_fragment: self.size(),
            tick: ExactNanos::from_nanos(1),
            unit: TimeUnit::NANOSECOND,
        };
        let pool: Pool<Heap> = Pool::new(BLOCK, MEMORY / BLOCK);
        let (sources, address) =
            StreamSource::open(PacketPath::Udp(listen), description, limits, vec![(SourceId(0), pool)])?;
        let mut source = sources.into_iter().next().expect("one source was asked for");
        let address = address.expect("a UDP socket has an address");
        source.start();
        let (began, mut batch) = (Instant::now(), Batch::default());
        self.measure(address, |now| {
            let time = |at: Instant| {
                Timestamp(u64::try_from(at.duration_since(began).as_nanos()).unwrap_or(u64::MAX))
            };
            let end = source.poll_batch(time(now), MOST, &mut batch);
            let fragments = batch.fragments.len();
            batch.fragments.clear();
            batch.payload.clear();
            source.handle_accepted(fragments);
            match end {
                BatchEnd::NotBefore(moment) if fragments == 0 => {
                    Err(Duration::from_nanos(moment.0.saturating_sub(time(now).0)))
                }
                _ => Ok(fragments as u64),
            }
        })
    }

    fn size(&self) -> usize {
        self.bytes.max(EVENT_BYTES)
    }

    /// Sends on a thread of its own while this one receives. `receive` returns the number of packets that it took, or, if there are none,
    /// the time for which it sleeps.
    fn measure(
        self,
        to: SocketAddr,
        mut receive: impl FnMut(Instant) -> Result<u64, Duration>,
    ) -> Result<Counted, PacketError> {
        let socket = bare::open(RECEIVE_BUFFER_BYTES)?;
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| self.send(&socket, to));
            let (mut received, mut first, mut last) = (0, None, Instant::now());
            let mut idle_since: Option<Instant> = None;
            loop {
                let now = Instant::now();
                match receive(now) {
                    Ok(packets) => {
                        received += packets;
                        first.get_or_insert(now);
                        (last, idle_since) = (now, None);
                    }
                    Err(sleep) => {
                        let since = *idle_since.get_or_insert(now);
                        if sender.is_finished() && now.duration_since(last) > SILENCE {
                            break;
                        }
                        if now.duration_since(since) < SPIN {
                            std::hint::spin_loop();
                        } else {
                            std::thread::sleep(sleep);
                        }
                    }
                }
            }
            let sent = sender.join().expect("a sender does not panic")?;
            if self.stop.load(Ordering::Relaxed) {
                return Err(PacketError::Interrupted);
            }
            let seconds = first.map_or(0.0, |first| last.duration_since(first).as_secs_f64());
            Ok(Counted { sent, received, seconds })
        })
    }

    /// Sends packets with increasing event numbers. Returns how many.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate need not be exact"
    )]
    fn send(&self, socket: &UdpSocket, to: SocketAddr) -> Result<u64, io::Error> {
        let slot = self.size();
        let mut buffer = vec![0x5a; slot * bare::BATCH];
        let (mut sent, began, mut due_since) = (0_u64, Instant::now(), Instant::now());
        let mut since = 0_u64;
        while began.elapsed() < self.span && !self.stop.load(Ordering::Relaxed) {
            let due = self
                .rate
                .map_or(bare::BATCH as f64, |rate| due_since.elapsed().as_secs_f64() * rate - since as f64);
            if due < 1.0 {
                std::hint::spin_loop();
                continue;
            }
            if due > BEHIND {
                (due_since, since) = (Instant::now(), 0);
                continue;
            }
            let packets = (due as usize).min(bare::BATCH);
            for (number, packet) in (sent..).zip(buffer.chunks_exact_mut(slot).take(packets)) {
                packet[..EVENT_BYTES].copy_from_slice(&number.to_le_bytes());
            }
            let taken = match bare::send(socket, to, &buffer[..packets * slot], slot) {
                Ok(taken) => taken as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            (sent, since) = (sent + taken, since + taken);
        }
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_receivers_count_what_a_slow_sender_of_packets_sends() {
        let stop = AtomicBool::new(false);
        let sender_of_packets =
            PacketSender { bytes: 1_400, rate: Some(2_000.0), span: Duration::from_millis(50), stop: &stop };
        for counted in [sender_of_packets.into_bare_loop(), sender_of_packets.into_described_source()] {
            let counted = counted.expect("there is loopback");
            assert!(counted.sent > 0 && counted.received <= counted.sent, "{counted:?}");
            assert!(counted.received > 0, "{counted:?}");
        }
    }
}
