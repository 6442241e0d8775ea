//! Shared memory between two processes: round trips, and streams of fragments of 2,000 bytes.
//!
//! `cargo bench -p sheaf-shm` prints medians of five short runs. The second process is this program
//! again, told by its environment what to do. *Written and read*: the sender writes every byte into its arena,
//! the receiver adds all of them up. *Descriptors*: neither touches the payload. Both processes spin while a round trip is
//! measured; in a stream they sleep when they have nothing to do for some rounds.

#![allow(clippy::print_stdout, reason = "the result of a benchmark")]

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("shared memory is for Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use bytes::Bytes;
    use sheaf_buffer::{Block, Pool};
    use sheaf_shm::{Arena, Lender, LentBlock, ShmEndpoint, ShmOptions, ShmPeer, ShmSettings};
    use sheaf_transport::{Endpoint, Event, Frame, SendError};
    use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    const HERE: NodeId = NodeId::readout(0);
    const THERE: NodeId = NodeId::builder(0);
    const TASK: &str = "SHEAF_BENCH_SHM_TASK";
    const PIECE_BYTES: usize = 2000;
    const BLOCK_BYTES: usize = 256 << 10;
    const HEAD_BYTES: usize = 1000;
    const SPINS: u32 = 200;

    pub(super) fn main() {
        if let Ok(task) = std::env::var(TASK) {
            return other(&task);
        }
        // `cargo test --all-targets` runs benchmarks, too: then only that it works is of interest.
        let measuring = std::env::args().any(|argument| argument == "--bench");
        let (runs, span, trips) = if measuring {
            (5, Duration::from_millis(500), 100_000)
        } else {
            (1, Duration::from_millis(20), 100)
        };
        let trips: Vec<[f64; 2]> = (0..runs).map(|_| roundtrip(trips)).collect();
        for (name, index) in [("p50", 0), ("p99", 1)] {
            let all = trips.iter().map(|it| it[index]).collect();
            println!("round trip, empty frame, both spinning: {name} {:6.2} us", median(all));
        }
        for pieces in [1, 32] {
            for touch in [true, false] {
                let rates: Vec<[f64; 2]> = (0..runs).map(|_| stream(pieces, touch, span)).collect();
                let what = if touch { "written and read" } else { "descriptors" };
                println!(
                    "{pieces:2} fragments of 2 kB a frame, {what:<16}: {:7.2} M fragments/s, {:6.1} ns of processor time each",
                    median(rates.iter().map(|it| it[0] * 1e-6).collect()),
                    median(rates.iter().map(|it| it[1] * 1e9).collect()),
                );
            }
        }
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    fn endpoint(node: NodeId, peer: NodeId, name: &str) -> (ShmEndpoint, Arena) {
        let settings = ShmSettings::default();
        let arena =
            Arena::new("sheaf.bench", settings.arena_bytes() + ByteCount::mib(4), false).expect("memory");
        let calls = node == THERE;
        let endpoint = ShmEndpoint::new(ShmOptions {
            node,
            run: RunNumber(1),
            session: SessionId(1),
            name: (!calls).then(|| name.to_owned()),
            peers: vec![ShmPeer { node: peer, call: calls.then(|| name.to_owned()) }],
            arena: arena.clone(),
            settings,
        });
        (endpoint.expect("the options are right"), arena)
    }

    /// An endpoint connected to another process with a task, and its end: what that process has used of a processor.
    fn with_other(task: &str, body: impl FnOnce(&mut ShmEndpoint, &Arena) -> f64) -> [f64; 2] {
        let name = format!("bench/{}", std::process::id());
        let (mut endpoint, arena) = endpoint(HERE, THERE, &name);
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let mut child = command
            .env(TASK, format!("{task} {name}"))
            .stdout(Stdio::inherit())
            .spawn()
            .expect("this program starts");
        while endpoint.poll().is_none() {
            endpoint.wait(Nanos::from_millis(10));
        }
        let value = body(&mut endpoint, &arena);
        endpoint.close(Nanos::from_secs(1));
        assert!(child.wait().expect("it ends").success());
        [value, children_cpu()]
    }

    fn children_cpu() -> f64 {
        // Fields 16 and 17 of the stat file: ticks of 10 ms of all children that have ended.
        cpu([15, 16])
    }

    fn cpu(fields: [usize; 2]) -> f64 {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
        let fields_of_stat: Vec<&str> = stat.split(' ').collect();
        fields.iter().map(|field| fields_of_stat[*field].parse::<f64>().unwrap_or(0.0) * 0.01).sum()
    }

    /// Microseconds: the median and the 99th percentile.
    fn roundtrip(trips: usize) -> [f64; 2] {
        let mut times = Vec::with_capacity(trips);
        with_other("echo", |endpoint, _| {
            for _ in 0..trips {
                let start = Instant::now();
                endpoint.send(THERE, Frame::default()).expect("the queue is empty");
                endpoint.flush();
                while endpoint.poll().is_none() {
                    std::hint::spin_loop();
                }
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
            0.0
        });
        times.sort_by(f64::total_cmp);
        [times[trips / 2], times[trips * 99 / 100]]
    }

    /// Fragments a second, and seconds of processor time of both processes for each.
    fn stream(pieces: usize, touch: bool, span: Duration) -> [f64; 2] {
        let before = children_cpu() + cpu([13, 14]);
        let mut fragments = 0;
        let task = if touch { "read" } else { "take" };
        let [rate, _] = with_other(task, |endpoint, arena| {
            let mut writer = Writer { pool: Pool::with_memory(arena.lender(), BLOCK_BYTES, 16), block: None };
            let head = Bytes::from(vec![1; HEAD_BYTES * pieces / 32]);
            let constant = writer.piece(false).expect("the pool is new");
            let start = Instant::now();
            while start.elapsed() < span {
                let piece = |writer: &mut Writer, endpoint: &mut ShmEndpoint| {
                    loop {
                        match if touch { writer.piece(true) } else { Some(constant.clone()) } {
                            Some(piece) => return piece,
                            None => idle(endpoint),
                        }
                    }
                };
                let payload = (0..pieces).map(|_| piece(&mut writer, endpoint)).collect();
                let mut frame = Frame { head: head.clone(), payload };
                while let Err(error) = endpoint.send(THERE, frame) {
                    assert!(matches!(error, SendError::Full(_)), "{error}");
                    frame = error.into_frame();
                    idle(endpoint);
                }
                endpoint.flush();
                while endpoint.poll().is_some() {}
                fragments += pieces;
            }
            fragments as f64 / start.elapsed().as_secs_f64()
        });
        let used = children_cpu() + cpu([13, 14]) - before;
        [rate, used / fragments as f64]
    }

    fn idle(endpoint: &mut ShmEndpoint) {
        for _ in 0..SPINS {
            while endpoint.poll().is_some() {}
            std::hint::spin_loop();
        }
        endpoint.wait(Nanos::from_micros(200));
    }

    struct Writer {
        pool: Pool<Lender>,
        block: Option<LentBlock>,
    }

    impl Writer {
        fn piece(&mut self, write: bool) -> Option<Bytes> {
            if self.block.as_ref().is_none_or(|block| block.room() < PIECE_BYTES) {
                if let Some(full) = self.block.take() {
                    self.pool.give_back(full);
                }
                self.block = self.pool.take();
            }
            let block = self.block.as_mut()?;
            block.append_fill(u8::from(write), PIECE_BYTES);
            Some(block.cut())
        }
    }

    /// The other process.
    fn other(task: &str) {
        let (task, name) = task.split_once(' ').expect("a task and a name");
        let (mut endpoint, _arena) = endpoint(THERE, HERE, name);
        let (mut idle, mut sum) = (0, 0_u64);
        loop {
            match endpoint.poll() {
                Some(Event::Received { frame, .. }) => {
                    idle = 0;
                    match task {
                        "echo" => endpoint.send(HERE, frame).expect("the queue is empty"),
                        "read" => sum += frame.payload.iter().map(|piece| read(piece)).sum::<u64>(),
                        _ => sum += frame.payload_bytes() as u64,
                    }
                }
                Some(Event::PeerDown { .. }) => break,
                Some(_) => {}
                None => {
                    endpoint.flush();
                    idle += 1;
                    if idle > SPINS && task != "echo" {
                        endpoint.wait(Nanos::from_millis(10));
                    }
                    std::hint::spin_loop();
                }
            }
        }
        std::hint::black_box(sum);
    }

    /// Adds up all bytes, eight at a time.
    fn read(piece: &[u8]) -> u64 {
        let (words, rest) = piece.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_ne_bytes(*word)).fold(0, u64::wrapping_add);
        words.wrapping_add(rest.iter().map(|byte| u64::from(*byte)).sum())
    }
}
