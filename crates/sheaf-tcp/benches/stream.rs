//! One sender, one receiver, as fast as it goes: each transport beside a plain vectored stream over the same loopback.
//!
//! `cargo bench -p sheaf-tcp` prints medians of five short runs, taken in turn so that a disturbance of the machine
//! meets all of them. A frame is a head of 1,000 bytes and 32 payload pieces of 2,000 bytes, as a readout unit would send
//! 32 fragments. `GB/s` counts payload.

#![allow(clippy::print_stdout, reason = "the result of a benchmark")]

use bytes::Bytes;
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpOptions, TcpSettings};
use sheaf_transport::memory::{MemoryLimits, MemoryNetwork};
use sheaf_transport::{Endpoint, Event, Frame, SendError};
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId};
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const HEAD_BYTES: usize = 1000;
const PIECES: usize = 32;
const PIECE_BYTES: usize = 2000;
const RUNS: usize = 5;

/// Number of polls of an idle driver before it sleeps.
const SPINS: usize = 20;

fn main() {
    // `cargo test --all-targets` runs benchmarks, too: then only that it works is of interest.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let (runs, span) =
        if measuring { (RUNS, Duration::from_millis(600)) } else { (1, Duration::from_millis(20)) };
    type Case = (&'static str, fn(Duration) -> f64);
    let cases: [Case; 3] =
        [("plain writev and read", plain), ("tcp transport", tcp), ("memory transport", memory)];
    let mut rates = vec![Vec::new(); cases.len()];
    let mut costs = vec![Vec::new(); cases.len()];
    for _ in 0..runs {
        for (place, (_, case)) in cases.iter().enumerate() {
            let (start, cpu) = (Instant::now(), cpu_seconds());
            let frames_per_second = case(span);
            let frames = frames_per_second * start.elapsed().as_secs_f64();
            rates[place].push(frames_per_second);
            costs[place].push((cpu_seconds() - cpu) / frames);
        }
    }
    println!(
        "{PIECES} payload pieces of {PIECE_BYTES} B and a head of {HEAD_BYTES} B a frame; median of {runs} runs"
    );
    let rates: Vec<f64> = rates.into_iter().map(median).collect();
    let costs: Vec<f64> = costs.into_iter().map(median).collect();
    for ((name, _), (rate, cost)) in cases.iter().zip(rates.iter().zip(&costs)) {
        let payloads = rate * PIECES as f64;
        println!(
            "{name:<24} {:8.2} GB/s {:9.3} M payloads/s {rate:10.0} frames/s {:8.2} us of processor time a frame",
            payloads * PIECE_BYTES as f64 * 1e-9,
            payloads * 1e-6,
            cost * 1e6,
        );
    }
    let (rate, cost) = (rates[1] / rates[0], costs[1] / costs[0]);
    println!("tcp transport to plain stream: rate {rate:.2}, processor time a frame {cost:.2}");
}

/// The processor time that this process has used, which other load on the machine disturbs less than the rate.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn frame() -> Frame {
    let pieces = (0..PIECES).map(|piece| Bytes::from(vec![piece as u8; PIECE_BYTES]));
    Frame::new(Bytes::from(vec![0xee; HEAD_BYTES]), pieces)
}

/// Frames per second by a loop of vectored writes and a loop of large reads.
fn plain(span: Duration) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let sender = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let frame = frame();
        let start = Instant::now();
        while start.elapsed() < span {
            let mut slices: Vec<IoSlice<'_>> = vec![IoSlice::new(&frame.head)];
            slices.extend(frame.payload.iter().map(|piece| IoSlice::new(piece)));
            let mut slices = slices.as_mut_slice();
            while !slices.is_empty() {
                let written = stream.write_vectored(slices).expect("the reader lives");
                IoSlice::advance_slices(&mut slices, written);
            }
        }
    });
    let (mut stream, _) = listener.accept().expect("the sender connects");
    let mut block = vec![0; 256 << 10];
    let start = Instant::now();
    let mut bytes = 0;
    loop {
        match stream.read(&mut block).expect("the sender lives") {
            0 => break,
            read => bytes += read,
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    sender.join().expect("the sender ends");
    bytes as f64 / (HEAD_BYTES + PIECES * PIECE_BYTES) as f64 / seconds
}

fn tcp(span: Duration) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (from, to) = (NodeId::readout(0), NodeId::builder(0));
    let endpoint = |node, listener, peer| {
        let options = TcpOptions {
            node,
            run: RunNumber(1),
            session: SessionId(1),
            listener,
            peers: vec![peer],
            settings: TcpSettings::default(),
        };
        TcpEndpoint::new(options).expect("the options are right")
    };
    let called = PeerAddress { node: to, addresses: vec![address], initiate: true };
    let calling = PeerAddress { node: from, addresses: Vec::new(), initiate: false };
    let sender = endpoint(from, None, called);
    stream(sender, endpoint(to, Some(listener), calling), span)
}

fn memory(span: Duration) -> f64 {
    let threads = [vec![NodeId::readout(0)], vec![NodeId::builder(0)]];
    let limits = MemoryLimits::default();
    let (_network, mut endpoints) = MemoryNetwork::with_threads(&threads, limits).expect("two nodes");
    let receiver = endpoints.remove(1).remove(0);
    stream(endpoints.remove(0).remove(0), receiver, span)
}

/// Frames per second from `sender` to `receiver`, each driven as a node drives it.
fn stream(mut sender: impl Endpoint + 'static, mut receiver: impl Endpoint, span: Duration) -> f64 {
    let to = receiver.node();
    let sending = thread::spawn(move || {
        let frame = frame();
        let mut end = None;
        let mut idle = 0;
        while end.is_none_or(|end| Instant::now() < end) {
            while let Some(event) = sender.poll() {
                if matches!(event, Event::PeerUp { .. }) {
                    end = Some(Instant::now() + span);
                }
            }
            idle += 1;
            // A node sends as much as it has in one duty cycle, and no more than the link takes.
            for _ in 0..16 {
                match sender.send(to, frame.clone()) {
                    Ok(()) => idle = 0,
                    Err(SendError::Full(_) | SendError::NotConnected(_)) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            sender.flush();
            rest(&mut sender, idle);
        }
        sender.close(Nanos::from_secs(10));
    });
    let (mut frames, mut start, mut idle) = (0_u64, Instant::now(), 0);
    'streaming: loop {
        idle += 1;
        while let Some(event) = receiver.poll() {
            idle = 0;
            match event {
                Event::Received { frame, .. } => {
                    assert_eq!(frame.payload_bytes(), PIECES * PIECE_BYTES);
                    frames += 1;
                }
                Event::PeerUp { .. } => start = Instant::now(),
                _ => break 'streaming,
            }
        }
        receiver.flush();
        rest(&mut receiver, idle);
    }
    let seconds = start.elapsed().as_secs_f64();
    sending.join().expect("the sender ends");
    frames as f64 / seconds
}

fn rest(endpoint: &mut impl Endpoint, idle: usize) {
    if idle > SPINS {
        endpoint.wait(Nanos::from_millis(10));
    } else if idle > 0 {
        std::hint::spin_loop();
    }
}
