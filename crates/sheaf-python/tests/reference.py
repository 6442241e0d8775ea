"""Slices, coincidences and windows of hits by sorting alone: nothing is streamed, bounded or shared, and no code of Sheaf is used.

Tests compare runs with it. All hits of a run are in memory, as rows of `HIT` in order of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from struct import unpack_from

import numpy as np

HIT = np.dtype([("time_ps", "<u8"), ("channel", "<u4"), ("value", "<u2"), ("extra", "<u2"), ("source", "<u4")])

#: Reading of the clock, channel, value, second value; the reading alone is that of a time marker.
Record = tuple[int, int, int, int] | tuple[int]


@dataclass(frozen=True)
class Clock:
    """Clock of a source. It counts 1 + `drift` times as fast as its tick says, and its counter was 0 at `offset_ps`."""

    tick_ps: Fraction
    drift: Fraction = Fraction(0)
    offset_ps: Fraction = Fraction(0)
    bits: int = 64

    def times_ps(self, readings: list[int]) -> list[int]:
        """Times of readings in the order in which they came, each less than half a lap of the counter from the one before."""
        lap = 1 << self.bits
        ticks = readings[:1]
        for reading in readings[1:]:
            ahead = (reading - ticks[-1]) % lap
            ticks.append(ticks[-1] + (ahead if ahead < lap // 2 else ahead - lap))
        tick = self.tick_ps / (1 + self.drift)
        scale, shift = tick.denominator * self.offset_ps.denominator, self.offset_ps.numerator * tick.denominator
        return [(count * tick.numerator * self.offset_ps.denominator + shift) // scale for count in ticks]


def timed(source: int, records: list[Record], clock: Clock) -> np.ndarray:
    """Hits of a source, from what its clock read."""
    times = clock.times_ps([record[0] for record in records])
    rows = [(time, *record[1:], source) for time, record in zip(times, records) if len(record) > 1 and time >= 0]
    return in_order(np.array(rows, HIT))


def in_order(hits: np.ndarray) -> np.ndarray:
    return np.sort(hits, order=["time_ps", "source", "channel", "value", "extra"])


def within(hits: np.ndarray, begin_ps: int, end_ps: int) -> np.ndarray:
    """Hits of an interval, without its end."""
    begin, end = np.searchsorted(hits["time_ps"], [max(begin_ps, 0), end_ps])
    return hits[begin:end]


def of_sources(hits: np.ndarray, sources: Iterable[int]) -> np.ndarray:
    return hits[np.isin(hits["source"], list(sources))]


def coincidences(hits: np.ndarray, gap_ps: int, min_sources: int) -> Iterator[tuple[int, int, int, int]]:
    """Clusters that end where nothing follows within the gap: first and last time, number of hits, number of sources."""
    begins = np.flatnonzero(np.diff(hits["time_ps"], prepend=hits["time_ps"][:1]) > gap_ps)
    borders = [0, *begins.tolist(), len(hits)]
    for begin, end in zip(borders, borders[1:]):
        cluster = hits[begin:end]
        if len(cluster) >= min_sources and (sources := len(set(cluster["source"].tolist()))) >= min_sources:
            yield int(cluster["time_ps"][0]), int(cluster["time_ps"][-1]), len(cluster), sources


def union(windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same intervals, of which none overlap."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(windows):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def udp_payloads(capture: Path) -> Iterator[bytes]:
    """Payloads of the UDP packets over Ethernet and IPv4 in a little-endian pcapng file."""
    blocks, at = capture.read_bytes(), 0
    while at < len(blocks):
        kind, size = unpack_from("<II", blocks, at)
        if kind == 6:
            frame = blocks[at + 28 : at + 28 + unpack_from("<I", blocks, at + 20)[0]]
            udp = 14 + 4 * (frame[14] & 0xF)
            if frame[12:14] == b"\x08\x00" and frame[23] == 17:
                yield frame[udp + 8 : udp + unpack_from(">H", frame, udp + 4)[0]]
        at += size


def vmm3a(packets: Iterable[bytes]) -> dict[int, list[Record]]:
    """Hits of VMM3a chips by card. A hit counts from the latest time marker of its chip; those before the first one are left out."""
    cards: dict[int, list[Record]] = {}
    markers: dict[tuple[int, int], int] = {}
    for packet in packets:
        if packet[4:7] != b"VM3":
            continue
        card = packet[7] >> 4
        records = np.frombuffer(packet[16 : len(packet) - (len(packet) - 16) % 6], [("upper", ">u4"), ("lower", ">u2")])
        for upper, lower in records.tolist():
            if lower < 0x8000:
                markers[card, lower >> 10] = upper << 10 | lower & 0x3FF
                continue
            chip = upper >> 22 & 0x1F
            if (card, chip) not in markers:
                continue
            offset, clocks = upper >> 27, upper & 0xFFF
            for shift in (1, 2, 4, 8):  # a Gray code
                clocks ^= clocks >> shift
            time = markers[card, chip] + 4096 * (-1 if offset == 31 else offset) + clocks
            extra = lower & 0xFF | (lower >> 14 & 1) << 8
            cards.setdefault(card, []).append((time, chip * 64 + (lower >> 8 & 0x3F), upper >> 12 & 0x3FF, extra))
    return cards
