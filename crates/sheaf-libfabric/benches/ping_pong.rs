//! Ping-pong and stream of frames of 2 kB over libfabric, on two threads of one process.
//!
//! `cargo bench -p sheaf-libfabric --features libfabric`

use bytes::Bytes;
use sheaf_libfabric::{LibfabricEndpoint, LibfabricOptions, LibfabricSettings};
use sheaf_tcp::PeerAddress;
use sheaf_transport::{Endpoint, Event, Frame, SendError};
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

const BYTES: usize = 2048;
const SECONDS: Duration = Duration::from_secs(1);
const REPETITIONS: usize = 5;
const NODES: [NodeId; 2] = [NodeId::readout(0), NodeId::builder(0)];

/// Two nodes that are connected.
fn pair(provider: &str) -> Result<[LibfabricEndpoint; 2], Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let make = |own: usize, listener: Option<TcpListener>| {
        LibfabricEndpoint::new(LibfabricOptions {
            node: NODES[own],
            run: RunNumber(1),
            session: SessionId(1),
            listener,
            peers: vec![PeerAddress {
                node: NODES[1 - own],
                addresses: vec![address.clone()],
                initiate: own == 1,
            }],
            provider: provider.to_owned(),
            source: (provider != "shm").then(|| "127.0.0.1".to_owned()),
            settings: LibfabricSettings::default(),
        })
    };
    let mut pair = [make(0, Some(listener))?, make(1, None)?];
    let mut up = [false; 2];
    while up != [true; 2] {
        for (endpoint, up) in pair.iter_mut().zip(&mut up) {
            *up |= matches!(endpoint.poll(), Some(Event::PeerUp { .. }));
            endpoint.flush();
        }
    }
    Ok(pair)
}

/// The frames that come in one round; `None` when the peer is gone.
fn round(endpoint: &mut LibfabricEndpoint) -> Option<u64> {
    let mut frames = 0;
    while let Some(event) = endpoint.poll() {
        match event {
            Event::Received { .. } => frames += 1,
            Event::PeerDown { .. } => return None,
            _ => {}
        }
    }
    Some(frames)
}

/// Half of a round trip.
fn ping_pong(provider: &str, payload: &Bytes) -> Result<f64, Box<dyn std::error::Error>> {
    let [mut first, mut second] = pair(provider)?;
    let answer = payload.clone();
    let other = thread::spawn(move || {
        while let Some(frames) = round(&mut second) {
            for _ in 0..frames {
                second.send(NODES[0], Frame::new(Bytes::new(), [answer.clone()])).expect("there is room");
            }
            second.flush();
        }
    });
    let (start, mut trips) = (Instant::now(), 0_u32);
    while start.elapsed() < SECONDS {
        first.send(NODES[1], Frame::new(Bytes::new(), [payload.clone()])).expect("there is room");
        first.flush();
        while round(&mut first) == Some(0) {
            first.flush();
        }
        trips += 1;
    }
    let time = start.elapsed().as_secs_f64();
    first.close(Nanos::from_secs(1));
    drop(first);
    other.join().map_err(|_| "the other side failed")?;
    Ok(time / f64::from(trips) / 2.0 * 1e6)
}

/// Frames in a second.
fn stream(provider: &str, payload: &Bytes) -> Result<f64, Box<dyn std::error::Error>> {
    let [mut first, mut second] = pair(provider)?;
    let other = thread::spawn(move || {
        let (start, mut all) = (Instant::now(), 0);
        while let Some(frames) = round(&mut second) {
            all += frames;
            second.flush();
        }
        all as f64 / start.elapsed().as_secs_f64()
    });
    let start = Instant::now();
    while start.elapsed() < SECONDS {
        for _ in 0..64 {
            match first.send(NODES[1], Frame::new(Bytes::new(), [payload.clone()])) {
                Ok(()) => {}
                Err(SendError::Full(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        first.flush();
        round(&mut first);
    }
    first.close(Nanos::from_secs(5));
    drop(first);
    other.join().map_err(|_| "the other side failed".into())
}

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let payload = Bytes::from(vec![7; BYTES]);
    for provider in ["shm", "tcp;ofi_rxm"] {
        let mut half_trips = Vec::new();
        let mut rates = Vec::new();
        for _ in 0..REPETITIONS {
            half_trips.push(ping_pong(provider, &payload)?);
            rates.push(stream(provider, &payload)?);
        }
        half_trips.sort_by(f64::total_cmp);
        rates.sort_by(f64::total_cmp);
        let middle = REPETITIONS / 2;
        println!(
            "{provider}: half a round trip {:.1} us ({:.1} to {:.1}), stream {:.0} frames/s ({:.0} to {:.0}), {:.2} GB/s",
            half_trips[middle],
            half_trips[0],
            half_trips[REPETITIONS - 1],
            rates[middle],
            rates[0],
            rates[REPETITIONS - 1],
            rates[middle] * BYTES as f64 / 1e9,
        );
    }
    Ok(())
}
