//! `sheaf source describe`: a capture as the description of a configuration reads it.

use crate::check_source::CheckArguments;
use crate::frames::FramesArguments;
use crate::print::print;
use crate::truth::TruthArguments;
use crate::{Verdict, check_source, described, frames, truth};
use anyhow::Context;
use clap::{Args, Subcommand};
use sheaf_config as conf;
use sheaf_config::{Config, PacketProtocol};
use sheaf_source::described::deframer::FrameCounts;
use sheaf_source::described::{
    Decoder, Deframer, Description, Limits, Mark, Origin, PacketError, PacketKind, Piece,
};
use sheaf_source::timed::{Capture, CaptureError};
use sheaf_wire::{SourceId, TimeUnit, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a line of the hex dump.
const BYTES_A_LINE: usize = 16;

/// Lines of the hex dump of a packet.
const MOST_LINES: usize = 16;

/// Sources that are listed.
const MOST_SOURCES: usize = 32;

/// Letters under the bytes of fields, by the names of their keys.
const LETTERS: [(&str, char); 7] = [
    ("packet_number", 'n'),
    ("event", 'e'),
    ("source", 's'),
    ("time", 't'),
    ("length", 'l'),
    ("part", 'i'),
    ("last", 'z'),
];

/// Subcommands of `sheaf source`.
#[derive(Debug, Subcommand)]
pub(crate) enum SourceCommand {
    /// Show the packets of a capture as the `[source.stream]` of a configuration describes them, and what does not fit.
    Describe(DescribeArguments),
    /// Show rate, sizes, gaps, disorder, times and first bytes of the sources of a configuration, without a run.
    Check(CheckArguments),
    /// Write the flashes of emulated front ends and their hits, at their true times, as comma-separated values.
    Truth(TruthArguments),
    /// Write the frames of emulated front ends to fragment streams, before they are cut into slices.
    Frames(FramesArguments),
}

#[derive(Debug, Args)]
pub(crate) struct SourceArguments {
    #[command(subcommand)]
    command: SourceCommand,
}

#[derive(Debug, Args)]
pub(crate) struct DescribeArguments {
    /// Capture file (pcap or pcapng); with `protocol = "tcp"`, a file with the bytes of a connection.
    capture: PathBuf,
    /// Configuration file with the description.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Number of packets that are shown: the first ones, and as many that do not fit.
    #[arg(long, default_value_t = 3, value_name = "N")]
    packets: u64,
}

/// Runs `sheaf source`.
pub(crate) fn command(arguments: &SourceArguments) -> anyhow::Result<Verdict> {
    match &arguments.command {
        SourceCommand::Describe(arguments) => describe(arguments),
        SourceCommand::Check(arguments) => check_source::command(arguments),
        SourceCommand::Truth(arguments) => truth::command(arguments),
        SourceCommand::Frames(arguments) => frames::command(arguments),
    }
}

fn describe(arguments: &DescribeArguments) -> anyhow::Result<Verdict> {
    let config = Config::load(&arguments.config)?;
    crate::console::name_sources(&config.names);
    let stream = &config.source.stream;
    let description = described::description(stream)?;
    description.check()?;
    let mut report = Report::default();
    let (packets, counts) = read(stream, &description, &arguments.capture)?;
    for packet in &packets {
        report.take(&description, packet, arguments.packets);
    }
    print(&report.text)?;
    let limits = described::limits(stream, TimeUnit::NANOSECOND, usize::MAX);
    let totals = report.totals(description, limits, &packets).context("cannot decode the packets")?;
    print(&totals)?;
    print(&stream_text(counts))?;
    let fits = report.damaged.is_empty() && counts == FrameCounts::default();
    Ok(if fits && !packets.is_empty() { Verdict::Good } else { Verdict::NotGood })
}

/// Returns the packets of a capture, or of the bytes of a connection with the counts of its stream.
fn read(
    stream: &conf::Described,
    description: &Description,
    path: &Path,
) -> anyhow::Result<(Vec<Vec<u8>>, FrameCounts)> {
    let mut packets = Vec::new();
    if stream.protocol == PacketProtocol::Tcp {
        let ending = described::ending(stream);
        ending.check(description)?;
        let cannot = || format!("cannot read {}", path.display());
        let mut file = File::open(path).with_context(cannot)?;
        let take = |packet: &[u8]| packets.push(packet.to_vec());
        let counts = Deframer::new(ending, description).divide(description, |room| file.read(room), take);
        return counts.with_context(cannot).map(|counts| (packets, counts));
    }
    let mut capture = Capture::open(path)?;
    loop {
        match capture.next_payload() {
            Ok(Some(packet)) => packets.push(packet.to_vec()),
            Ok(None) => break,
            Err(error @ CaptureError::Damaged { packets: 1.., .. }) => {
                log::warn!("{error}; the packets before it are used");
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((packets, FrameCounts::default()))
}

/// Returns the counts of a stream that are not 0.
fn stream_text(counts: FrameCounts) -> String {
    let FrameCounts { resynchronisations, bytes_skipped, packets_cut } = counts;
    let all = [
        ("resynchronisations", resynchronisations),
        ("bytes_skipped", bytes_skipped),
        ("packets_cut", packets_cut),
    ];
    all.iter().filter(|(_, value)| *value > 0).map(|(name, value)| format!("{name}: {value}\n")).collect()
}

/// Everything that was found in a capture.
#[derive(Debug, Default)]
struct Report {
    text: String,
    shown: u64,
    shown_damaged: u64,
    number: u64,
    /// Packets that do not fit, by the name of the reason.
    damaged: BTreeMap<&'static str, u64>,
    sources: BTreeSet<SourceId>,
}

impl Report {
    /// Reads a packet, and shows it if it is one of the first.
    fn take(&mut self, description: &Description, packet: &[u8], most: u64) {
        let kind = description.kind(packet);
        let mut pieces = Vec::new();
        let mut error = kind.err();
        if kind == Ok(PacketKind::Data) {
            for piece in description.pieces(packet) {
                match piece {
                    Ok(piece) => pieces.push(piece),
                    Err(wrong) => error = Some(wrong),
                }
            }
        }
        let ids = pieces.iter().map(|piece| piece.source.unwrap_or_default());
        self.sources.extend(ids.filter_map(|id| u32::try_from(id).ok()).map(SourceId));
        let shown = match error {
            None => &mut self.shown,
            Some(error) => {
                *self.damaged.entry(error.name()).or_default() += 1;
                &mut self.shown_damaged
            }
        };
        if *shown < most {
            *shown += 1;
            let packet = Packet { number: self.number, bytes: packet, kind, pieces: &pieces, error };
            self.text += &packet.text(description);
        }
        self.number += 1;
    }

    /// Decodes all packets as a run would, and returns the sums.
    fn totals(
        &self,
        description: Description,
        limits: Limits,
        packets: &[Vec<u8>],
    ) -> anyhow::Result<String> {
        let mut text = format!("{} packets\n", packets.len());
        let sources: Vec<SourceId> = self.sources.iter().copied().collect();
        if sources.is_empty() {
            return Ok(text + "no fragment was found\n");
        }
        let mut found: BTreeMap<SourceId, (u64, u64, u64, u64)> = BTreeMap::new();
        let mut take = |one: sheaf_source::described::Described<'_>| {
            let event = one.event.0;
            let (fragments, bytes, first, last) = found.entry(one.source).or_insert((0, 0, event, event));
            *fragments += 1;
            *bytes += one.payload.len() as u64;
            (*first, *last) = (event.min(*first), event.max(*last));
        };
        let mut decoder = Decoder::new(description, limits, &sources)?;
        for packet in packets {
            decoder.handle_packet(Timestamp::ZERO, packet, &mut take);
        }
        decoder.finish(Timestamp::ZERO, &mut take);
        for (source, (fragments, bytes, first, last)) in found.iter().take(MOST_SOURCES) {
            let _ = writeln!(
                text,
                "source {source}: {fragments} fragments, {bytes} bytes, events {first} to {last}"
            );
        }
        if found.len() > MOST_SOURCES {
            let _ = writeln!(text, "and {} more sources: is `source` right?", found.len() - MOST_SOURCES);
        }
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (name, value) in
            sources.iter().flat_map(|source| decoder.books(*source).fields().collect::<Vec<_>>())
        {
            *sums.entry(name).or_default() += value;
        }
        for (name, value) in sums.iter().filter(|(_, value)| **value > 0) {
            let _ = writeln!(text, "{name}: {value}");
        }
        Ok(text)
    }
}

/// A packet, and what the description finds in it.
struct Packet<'a> {
    number: u64,
    bytes: &'a [u8],
    kind: Result<PacketKind, PacketError>,
    pieces: &'a [Piece],
    error: Option<PacketError>,
}

impl Packet<'_> {
    fn text(&self, description: &Description) -> String {
        let kind = match self.kind {
            Ok(PacketKind::KeepAlive) => " (keep-alive)",
            Ok(PacketKind::Reset) => " (reset)",
            _ => "",
        };
        let mut text = format!("packet {}, {} bytes{kind}\n", self.number, self.bytes.len());
        text += &dump(self.bytes, &letters(description, self.bytes, self.pieces));
        for piece in self.pieces {
            let _ = write!(text, "  event {}", piece.event);
            let more = [("source", piece.source), ("time", piece.time), ("part", piece.part)];
            for (name, value) in more.into_iter().filter_map(|(name, value)| Some((name, value?))) {
                let _ = write!(text, ", {name} {value}");
            }
            let (bytes, start) = (piece.payload.len(), piece.payload.start);
            let _ = writeln!(text, ", payload of {bytes} bytes from byte {start}");
        }
        if let Some(error) = self.error {
            let _ = writeln!(text, "  does not fit ({}): {error}", error.name());
        }
        text + "\n"
    }
}

/// Returns a letter for each byte of a packet.
fn letters(description: &Description, packet: &[u8], pieces: &[Piece]) -> Vec<char> {
    let mut letters = vec![' '; packet.len()];
    let mut put = |from: usize, to: usize, letter: char| {
        let to = to.min(packet.len());
        letters[from.min(to)..to].fill(letter);
    };
    for piece in pieces {
        put(piece.span.start, piece.span.end, '-');
        put(piece.payload.start, piece.payload.end, '.');
    }
    // The fields of a piece that cannot be read are shown where it would be.
    let end = pieces.last().map_or(description.packet_header_bytes, |piece| piece.span.end);
    let starts = pieces.iter().map(|piece| piece.span.start).chain(pieces.is_empty().then_some(end));
    for start in starts {
        for (name, field) in description.fields() {
            let letter = LETTERS.iter().find(|(known, _)| *known == name).map_or('?', |(_, letter)| *letter);
            let from = if field.origin == Origin::Packet { 0 } else { start };
            put(from + field.range().start, from + field.range().end, letter);
        }
    }
    let marks: [(&[Mark], char); 3] =
        [(&description.magic, 'm'), (&description.keep_alive, 'k'), (&description.reset, 'r')];
    for (mark, letter) in
        marks.iter().flat_map(|(marks, letter)| marks.iter().map(move |mark| (mark, *letter)))
    {
        if mark.is_in(packet) {
            put(mark.offset, mark.offset + mark.bytes.len(), letter);
        }
    }
    letters
}

/// Returns the bytes of a packet in lines, with the letters below.
fn dump(packet: &[u8], letters: &[char]) -> String {
    let mut text = String::new();
    let lines = packet.chunks(BYTES_A_LINE).zip(letters.chunks(BYTES_A_LINE));
    for (line, (bytes, letters)) in lines.enumerate().take(MOST_LINES) {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let below: Vec<String> = letters.iter().map(|letter| format!("{letter}{letter}")).collect();
        let _ = writeln!(text, "  {:04x}  {}", line * BYTES_A_LINE, hex.join(" "));
        let _ = writeln!(text, "        {}", below.join(" ").trim_end());
    }
    if packet.len() > MOST_LINES * BYTES_A_LINE {
        let _ = writeln!(text, "  and {} more bytes", packet.len() - MOST_LINES * BYTES_A_LINE);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_source::described::{ByteOrder, Field, PacketEnding, PacketLength, Width};

    fn description() -> Description {
        let field = |offset, bits| Field::new(offset, Width::of_bits(bits).expect("a width"), ByteOrder::Big);
        Description {
            magic: vec![Mark { offset: 0, bytes: vec![0xbe, 0xef] }],
            source: Some(field(4, 8)),
            header_bytes: 6,
            trailer_bytes: 1,
            ..Description::of_event(field(2, 16))
        }
    }

    #[test]
    fn fields_are_marked_below_their_bytes() {
        let mut report = Report::default();
        report.take(&description(), &[0xbe, 0xef, 1, 2, 7, 0, 0xaa, 0xbb, 0xff], 3);
        let expected = "\
packet 0, 9 bytes
  0000  be ef 01 02 07 00 aa bb ff
        mm mm ee ee ss -- .. .. --
  event 258, source 7, payload of 2 bytes from byte 6

";
        assert_eq!(report.text, expected);
    }

    #[test]
    fn packets_that_do_not_fit_say_why_and_the_sums_are_those_of_a_run() {
        let mut report = Report::default();
        let packets = [vec![0xbe, 0xef, 0, 5, 7, 0, 1, 2], vec![0xbe, 0xef, 0], vec![1, 2, 3, 4, 5, 6, 7]];
        packets.iter().for_each(|packet| report.take(&description(), packet, 1));
        assert!(
            report.text.contains("does not fit (too_short): 3 bytes are fewer than the 7"),
            "{}",
            report.text
        );
        assert!(!report.text.contains("packet 2"), "one of those that do not fit is shown: {}", report.text);
        let limits = described::limits(&sheaf_config::Described::default(), TimeUnit::NANOSECOND, usize::MAX);
        let totals = report.totals(description(), limits, &packets).expect("it is valid");
        let expected = "\
3 packets
source 7: 1 fragments, 1 bytes, events 5 to 5
packets: 1
packets_damaged_no_magic: 1
packets_damaged_too_short: 1
";
        assert_eq!(totals, expected);
    }

    #[test]
    fn a_stream_is_divided_and_what_is_in_no_packet_is_counted() {
        let field =
            Field { origin: Origin::Packet, ..Field::new(5, Width::of_bits(8).expect("8"), ByteOrder::Big) };
        let packet_length = Some(PacketLength { field, unit_bytes: 1, counts_header: true });
        let ending = PacketEnding { packet_length, marked_bytes: None, max_packet: 100 };
        let packets = [vec![0xbe, 0xef, 0, 5, 7, 8, 1, 2], vec![0xbe, 0xef, 0, 6, 7, 7, 9]];
        let stream = [&packets[0][..], b"noise", &packets[1], &packets[0], &[0xbe, 0xef]].concat();
        let (mut found, mut rest) = (Vec::new(), &stream[..]);
        let take = |packet: &[u8]| found.push(packet.to_vec());
        let deframer = Deframer::new(ending, &description());
        let counts =
            deframer.divide(&description(), |room| rest.read(room), take).expect("memory can be read");
        assert_eq!(found, [&packets[0][..], &packets[1], &packets[0]]);
        assert_eq!(stream_text(counts), "resynchronisations: 1\nbytes_skipped: 7\npackets_cut: 1\n");
    }
}
