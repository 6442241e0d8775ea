//! `[source] kind = "stream"`: packets that the configuration describes. The board of these tests writes its packets byte by
//! byte, without Sheaf's crates.

use crate::child::{ScratchDirectory, wait_until};
use crate::output::{dump, field, number};
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::ops::Range;

/// Bytes that wait for the run at most, so that the kernel drops none whatever it grants as a buffer.
const WAITING_BYTES: u64 = 50_000;

/// A front end of four sources that sends to a run.
struct Board {
    socket: UdpSocket,
    /// The address of the run as the kernel's table of sockets has it.
    in_table: String,
}

/// Returns an address of this host for a test of this process alone.
fn address(test: u8) -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{high}.{low}:6006", 100 + test)
}

impl Board {
    /// Waits until the run listens.
    fn new(address: &str) -> Self {
        let (host, port) = address.rsplit_once(':').expect("host:port");
        let host: Vec<u8> = host.split('.').map(|part| part.parse().expect("a byte")).collect();
        let word = u32::from_ne_bytes(host.try_into().expect("four bytes"));
        let port: u16 = port.parse().expect("a port");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket.connect(address).expect("loopback");
        let board = Self { socket, in_table: format!("{word:08X}:{port:04X}") };
        wait_until("the run listens", || board.waiting().is_some());
        board
    }

    /// Returns the bytes that the run has not read. `None`: it does not listen.
    fn waiting(&self) -> Option<u64> {
        let table = fs::read_to_string("/proc/net/udp").expect("Linux has it");
        let mut lines = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let line = lines.find(|columns| columns.get(1) == Some(&self.in_table.as_str()))?;
        u64::from_str_radix(line[4].split_once(':')?.1, 16).ok()
    }

    /// Sends a packet when the run has room for it.
    fn send(&self, packet: &[u8]) {
        wait_until("the run reads its packets", || self.waiting().is_none_or(|bytes| bytes < WAITING_BYTES));
        self.socket.send(packet).expect("the run listens");
    }
}

fn payload(source: u32, event: u64) -> Vec<u8> {
    let length = (event * 37 + u64::from(source) * 101) % 1_400;
    (0..length).map(|at| (at + event + u64::from(source)) as u8).collect()
}

/// Checks that the run has stored `events` events of four sources, byte for byte.
fn check_content(scratch: &ScratchDirectory, events: u64) {
    let lines = dump(&scratch.join("runs/run000001"));
    assert_eq!(lines.len() as u64, 4 * events);
    for line in lines {
        let mut crc = flate2::Crc::new();
        crc.update(&payload(line.source, line.event));
        assert_eq!((line.bytes, line.crc32), (payload(line.source, line.event).len() as u64, crc.sum()));
    }
}

fn has_socket_table() -> bool {
    let has = fs::exists("/proc/net/udp").unwrap_or(false);
    if !has {
        println!("skipped: without /proc/net/udp the board does not know what the run has read");
    }
    has
}

#[test]
fn the_simplest_packets_become_events_byte_for_byte() {
    const EVENTS: u64 = 500;
    if !has_socket_table() {
        return;
    }
    let (scratch, address) = (ScratchDirectory::new(), address(0));
    let stream = format!("[source]\nkind = \"stream\"\n[source.stream]\nlisten = \"{address}\"\n");
    scratch.file("run.toml", &format!("{stream}event = \"u32 at 0\"\n"));
    let run = scratch.start(&format!("run run.toml --json --events {EVENTS}"));
    let board = Board::new(&address);
    for event in 0..EVENTS {
        board.send(&[&(event as u32).to_be_bytes()[..], &payload(0, event)].concat());
    }
    let summary = run.end().exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    for line in dump(&scratch.join("runs/run000001")) {
        assert_eq!(line.bytes, payload(0, line.event).len() as u64);
    }
}

#[test]
fn the_example_of_boards_without_a_program_builds_their_packets() {
    const EVENTS: u64 = 200;
    if !has_socket_table() {
        return;
    }
    let (scratch, address) = (ScratchDirectory::new(), address(5));
    let example = include_str!("../../../../examples/sources/packets.toml");
    assert!(example.contains("127.0.0.1:6006"), "the address to replace");
    scratch.file("packets.toml", &example.replace("127.0.0.1:6006", &address));
    let run = scratch.start(&format!("run packets.toml --json --events {EVENTS}"));
    let board = Board::new(&address);
    for event in 0..EVENTS {
        for source in 0..2 {
            let head = [&(event as u32).to_be_bytes()[..], &[source]].concat();
            board.send(&[head, payload(u32::from(source), event)].concat());
        }
    }
    let summary = run.end().exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    for line in dump(&scratch.join("runs/run000001")) {
        assert_eq!(line.bytes, payload(line.source, line.event).len() as u64);
    }
}

/// Words of 32 bits, the least significant byte first: mark and source; packet number; then for each fragment event (12 bits,
/// rolls over) and length in bytes (16 bits), payload, trailer.
const BOARD: &str = "
magic = [\"efbe at 2\"]
source = \"u8 at packet 0 & 0x0f\"
packet_number = \"u24le at 4\"
packet_header_bytes = 8
event = \"u16le at 2 >> 4\"
length = \"u16le at 0\"
length_counts = \"all\"
trailer_bytes = 4
several = true
keep_alive_below_bytes = 4
";

/// One fragment as the board sends it.
fn fragment(source: u32, event: u64) -> Vec<u8> {
    let body = payload(source, event);
    let length = (body.len() + 8) as u16;
    let event = ((event % 4096) << 4 | 0xa) as u16;
    [&length.to_le_bytes()[..], &event.to_le_bytes(), &body, b"tail"].concat()
}

fn packet(source: u32, number: u64, fragments: &[u8]) -> Vec<u8> {
    let number = &number.to_le_bytes()[..3];
    [&[0xf0 | source as u8, 0, 0xef, 0xbe], number, &[0x77], fragments].concat()
}

/// The packets of all sources with five events each. Of a hundred packets of a source one comes twice, and one before its
/// predecessor.
fn packets(events: u64) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for number in 0..events / 5 {
        for source in 0..4 {
            let fragments: Vec<u8> =
                (5 * number..5 * number + 5).flat_map(|event| fragment(source, event)).collect();
            packets.push(packet(source, number, &fragments));
        }
    }
    for hundred in (0..packets.len()).step_by(400) {
        for source in 0..4 {
            packets.swap(hundred + 200 + source, hundred + 204 + source);
        }
    }
    let is_twice = |index: usize| index % 400 < 4;
    packets
        .into_iter()
        .enumerate()
        .flat_map(|(index, one)| vec![one; 1 + usize::from(is_twice(index))])
        .collect()
}

#[test]
fn several_fragments_in_a_packet_from_several_sources_out_of_order() {
    const EVENTS: u64 = 5_000;
    if !has_socket_table() {
        return;
    }
    for (test, flags) in [(1, ""), (2, "--processes")] {
        let (scratch, address) = (ScratchDirectory::new(), address(test));
        let sources = "[source]\nkind = \"stream\"\ncount = 4\n[incomplete]\npolicy = \"wait\"\n";
        scratch.file("run.toml", &format!("{sources}[source.stream]\nlisten = \"{address}\"\n{BOARD}"));
        let run = scratch.start(&format!("run run.toml --json --events {EVENTS} {flags}"));
        let board = Board::new(&address);
        board.send(b"hi");
        board.send(b"this is no packet of a board");
        for packet in packets(EVENTS) {
            board.send(&packet);
        }
        let summary = run.end().exits(0).json();
        assert_eq!(number(&summary, "ledger.stored"), EVENTS, "{flags}");
        assert_eq!(field(&summary, "ledger.balanced"), true);
        for (counter, value) in [
            ("packets", 4 * EVENTS / 5),
            ("packets_keep_alive", 1),
            ("packets_damaged_no_magic", 1),
            ("packets_repeated", 4 * EVENTS / 500),
            ("packets_waited", 4 * EVENTS / 500),
        ] {
            assert_eq!(number(&summary, &format!("counters.source_{counter}")), value, "{counter}");
        }
        check_content(&scratch, EVENTS);
    }
}

/// A front end that is connected to a run.
struct Feeder(TcpStream);

impl Feeder {
    /// Sends a stream in pieces that do not respect the boundaries of its packets.
    fn send(&mut self, stream: &[u8]) {
        let mut rest = stream;
        for length in (1..).map(|step: usize| 1 + step * 7919 % 5_000) {
            let (piece, more) = rest.split_at(length.min(rest.len()));
            self.0.write_all(piece).expect("the run reads");
            rest = more;
            if rest.is_empty() {
                return;
            }
        }
    }
}

/// Mark and source in a word, length of the packet, number of the packet; then as [`BOARD`].
const STREAM_BOARD: &str = "
protocol = \"tcp\"
magic = [\"efbe at 2\"]
keep_alive = [\"70696e67 at 0\"]
marked_packet_bytes = 4
source = \"u8 at packet 0 & 0x0f\"
packet_length = \"u32le at packet 8\"
packet_number = \"u24le at 4\"
packet_header_bytes = 12
event = \"u16le at 2 >> 4\"
length = \"u16le at 0\"
length_counts = \"all\"
trailer_bytes = 4
several = true
end_on_close = true
";

/// The stream of a source with five events in each packet, and keep-alives between them.
fn stream(source: u32, events: Range<u64>) -> Vec<u8> {
    let mut stream = Vec::new();
    for number in events.start / 5..events.end / 5 {
        let fragments: Vec<u8> =
            (5 * number..5 * number + 5).flat_map(|event| fragment(source, event)).collect();
        let one = packet(source, number, &fragments);
        stream.extend_from_slice(&one[..8]);
        stream.extend_from_slice(&((one.len() + 4) as u32).to_le_bytes());
        stream.extend_from_slice(&one[8..]);
        if number % 10 == 0 {
            stream.extend_from_slice(b"ping");
        }
    }
    stream
}

#[test]
fn front_ends_that_a_run_connects_to_over_tcp_end_it_when_they_close() {
    const EVENTS: u64 = 5_000;
    let scratch = ScratchDirectory::new();
    // The first of them is not there when the run begins. No other test listens at its address.
    let late = address(4);
    let listeners: Vec<TcpListener> =
        (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port is free")).collect();
    let address_of = |listener: &TcpListener| listener.local_addr().expect("bound").to_string();
    let mut addresses = vec![late.clone()];
    addresses.extend(listeners.iter().map(address_of));
    let memory = "memory_bytes = 1048576\nblock_bytes = 65536";
    let sources =
        format!("[source]\nkind = \"stream\"\ncount = 4\n{memory}\n[incomplete]\npolicy = \"wait\"\n");
    let connect = format!("[source.stream]\nconnect = {addresses:?}\n{STREAM_BOARD}");
    scratch.file("run.toml", &format!("{sources}{connect}"));
    let run = scratch.start("run run.toml --json");
    let serve = |source: u32, listener: TcpListener| {
        std::thread::spawn(move || {
            let mut feeder = Feeder(listener.accept().expect("the run connects").0);
            feeder.send(&stream(source, 0..EVENTS));
        })
    };
    let mut boards: Vec<_> =
        listeners.into_iter().zip(1..).map(|(listener, source)| serve(source, listener)).collect();
    // The others have sent more than the run has memory for when it finds the first.
    boards.push(serve(0, TcpListener::bind(&late).expect("the address is its own")));
    boards.into_iter().for_each(|board| board.join().expect("a board ends"));
    let summary = run.end().exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    assert_eq!(field(&summary, "ledger.balanced"), true);
    for (counter, value) in [
        ("connections", 4),
        ("connections_closed", 4),
        ("packets", 4 * EVENTS / 5),
        ("packets_keep_alive", 4 * EVENTS / 50),
    ] {
        assert_eq!(number(&summary, &format!("counters.source_{counter}")), value, "{counter}");
    }
    assert!(summary["counters"]["source_bytes_skipped"].is_null(), "there are none");
    assert!(summary["counters"]["source_fragments_no_memory"].is_null(), "a connection waits for memory");
    check_content(&scratch, EVENTS);
}

#[test]
fn front_ends_that_connect_over_tcp_may_come_back_and_send_bytes_between_packets() {
    const EVENTS: u64 = 1_000;
    let (scratch, address) = (ScratchDirectory::new(), address(3));
    let sources = "[source]\nkind = \"stream\"\ncount = 4\n[incomplete]\npolicy = \"wait\"\n";
    let listen = format!("[source.stream]\nlisten = \"{address}\"\nconnections = 8\n{STREAM_BOARD}");
    scratch.file("run.toml", &format!("{sources}{listen}"));
    let run = scratch.start("run run.toml --json");
    let mut first = None;
    wait_until("the run listens", || {
        first = TcpStream::connect(&address).ok();
        first.is_some()
    });
    let mut feeders = vec![Feeder(first.expect("it is connected"))];
    feeders.extend((1..4).map(|_| Feeder(TcpStream::connect(&address).expect("the run listens"))));
    for (mut feeder, source) in feeders.into_iter().zip(0..) {
        feeder.send(&stream(source, 0..EVENTS / 2));
        feeder.send(b"the board restarts");
    }
    for source in 0..4 {
        let mut feeder = Feeder(TcpStream::connect(&address).expect("the run listens"));
        feeder.send(b"debug: started");
        feeder.send(&stream(source, EVENTS / 2..EVENTS));
    }
    let summary = run.end().exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    for (counter, value) in [("connections", 8), ("resynchronisations", 8), ("bytes_skipped", 4 * (18 + 14))]
    {
        assert_eq!(number(&summary, &format!("counters.source_{counter}")), value, "{counter}");
    }
    check_content(&scratch, EVENTS);
}
