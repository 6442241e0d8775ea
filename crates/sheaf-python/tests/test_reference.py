"""Runs of free-running front ends, compared hit by hit with a reference that only sorts (`reference.py`).

They need the command (SHEAF_COMMAND), and one of them detector data (SHEAF_DATA).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sheaf
from reference import HIT, Clock, Record, coincidences, in_order, of_sources, timed, udp_payloads, union, vmm3a, within

ROOT = Path(__file__).resolve().parents[3]
COMMAND = os.environ.get("SHEAF_COMMAND")
CAPTURE = Path(os.environ.get("SHEAF_DATA", ROOT.parent / "shared/data")) / "vmm3a_srs/example.pcapng"

pytestmark = pytest.mark.skipif(COMMAND is None, reason="SHEAF_COMMAND does not name the command")
needs_capture = pytest.mark.skipif(not CAPTURE.is_file(), reason=f"no detector data: {CAPTURE}")

#: The records of the configurations in `examples`: time markers have the kind 2, hits the kind 1.
RECORD = np.dtype([("kind", "u1"), ("time", ">u4"), ("value", ">u2"), ("extra", "u1")])
HEADER_BYTES = 4

US = 1_000_000
MS = 1_000_000_000


def sheaf_command(*arguments: str | Path) -> str:
    assert COMMAND is not None
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def stored(config: Path, *arguments: str) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Runs a configuration, and returns hits and windows of its events by number."""
    summary = json.loads(sheaf_command("run", config, "--json", *arguments))
    assert summary["ledger"]["balanced"] and summary["events_incomplete"] == 0
    events = {}
    for event in sheaf.open(summary["output"]):
        rows = [
            (hit["time_ps"], hit["channel"], hit["value"], hit["extra"], fragment.source)
            for fragment in event
            for hit in fragment.array(np.dtype(HIT.descr[:4]))
        ]
        events[event.id] = in_order(np.array(rows, HIT)), np.frombuffer(event.payload, sheaf.WINDOW)
    return events


def exact(text: str) -> Fraction:
    """A number with a unit, such as "-1/3 us", in picoseconds or as a ratio."""
    number, unit = text.split()
    units = {"s": 10**12, "ms": MS, "us": US, "ns": 1_000, "ps": 1, "ppm": Fraction(1, 10**6), "ppb": Fraction(1, 10**9)}
    return Fraction(number) * units[unit]


def frames(config: Path, directory: Path) -> np.ndarray:
    """All hits of the frames of an emulated detector."""
    sheaf_command("source", "frames", config, "--output", directory)
    hits = []
    for stream in directory.glob("*.sfrag"):
        reader, records = sheaf.open(stream), list[Record]()
        clock = reader.metadata["clock"]
        source = -1
        for frame in reader:
            source = frame.source
            found = np.frombuffer(bytes(frame)[HEADER_BYTES:], RECORD)
            for kind, time, value, extra in found.tolist():
                records.append((time, kind & 0x3F, value, extra) if kind >> 6 == 1 else (time,))
        tick, drift, offset = (exact(clock[key]) for key in ("tick", "drift", "offset"))
        hits.append(timed(source, records, Clock(tick, drift, offset, clock["bits"])))
    return in_order(np.concatenate(hits))


def captured() -> np.ndarray:
    """All hits of the capture."""
    clock = Clock(Fraction(45, 2) * 1_000, bits=42)
    return in_order(np.concatenate([timed(card, hits, clock) for card, hits in vmm3a(udp_payloads(CAPTURE)).items()]))


def by_slice(found: Iterable[tuple[int, int, int, int]], slice_ps: int) -> dict[int, list[tuple[int, int, int, int]]]:
    slices: dict[int, list[tuple[int, int, int, int]]] = {}
    for cluster in found:
        slices.setdefault(cluster[0] // slice_ps, []).append(cluster)
    return slices


def compare_slices(
    events: dict[int, tuple[np.ndarray, np.ndarray]],
    hits: np.ndarray,
    cut: tuple[int, int, int],
    rule: tuple[int, int],
) -> None:
    """Compares stored slices, of a length and with overlaps, with the coincidences among all hits, by a gap and a number of sources."""
    (slice_ps, before_ps, after_ps), (gap_ps, min_sources) = cut, rule
    expected = by_slice(coincidences(hits, gap_ps, min_sources), slice_ps)
    assert len(expected) > 10 and events.keys() == expected.keys()
    for number, clusters in expected.items():
        found, windows = events[number]
        begin, end = number * slice_ps, (number + 1) * slice_ps
        assert np.array_equal(found, within(hits, begin - before_ps, end + after_ps)), f"hits of slice {number}"
        assert [(w["begin_ps"], w["end_ps"]) for w in windows] == union((first, last + 1) for first, last, *_ in clusters)
        assert sum(windows["hits"]) == sum(count for *_, count, _ in clusters)


def test_slices_of_an_emulated_detector(tmp_path: Path) -> None:
    config = ROOT / "examples/free-running.toml"
    hits = frames(config, tmp_path / "frames")
    events = stored(config, "--output", str(tmp_path / "runs"))
    compare_slices(events, hits, (1 * MS, 1 * US, 2 * US), (200_000, 6))


def test_windows_of_coincidences_of_an_emulated_detector(tmp_path: Path) -> None:
    config = tmp_path / "windows.toml"
    example = (ROOT / "examples/windows.toml").read_text()
    config.write_text(example.replace("duration_s = 2.0", "duration_s = 0.5"))
    hits = frames(config, tmp_path / "frames")
    events = stored(config, "--output", str(tmp_path / "runs"))
    first, others = of_sources(hits, range(4)), of_sources(hits, range(4, 16))
    expected = by_slice(coincidences(first, 200_000, 3), MS)
    assert len(expected) > 10 and events.keys() == expected.keys()
    for number, clusters in expected.items():
        windows = union((begin - 2 * US, end + 10 * US + 1) for begin, end, *_ in clusters)
        parts = [within(first, number * MS - 1 * US, (number + 1) * MS + 2 * US)]
        parts += [within(others, *window) for window in windows]
        assert np.array_equal(events[number][0], in_order(np.concatenate(parts))), f"slice {number}"


@needs_capture
def test_slices_of_a_capture(tmp_path: Path) -> None:
    config = tmp_path / "coincidences.toml"
    config.write_text((ROOT / "examples/coincidences.toml").read_text().replace("capture.pcapng", str(CAPTURE)))
    events = stored(config, "--output", str(tmp_path / "runs"))
    compare_slices(events, captured(), (100 * US, 1 * US, 100 * US), (450_000, 2))


@needs_capture
def test_windows_of_triggers_in_a_capture(tmp_path: Path) -> None:
    hits = captured()
    times_ns = [int(time) // 1_000 for time in hits["time_ps"][500:-500:3_000]]
    (tmp_path / "times.txt").write_text("".join(f"{time}\n" for time in times_ns))
    config = tmp_path / "windows.toml"
    config.write_text(
        f'[source]\nkind = "capture"\nbuild_by = "window"\n[source.timed]\nfile = "{CAPTURE}"\nfront_end = "vmm3a"\ntick = "22.5 ns"\n'
        f'[trigger]\nmode = "command"\n[trigger.command]\ncommand = ["{COMMAND}", "emulate-trigger", "--times", "{tmp_path}/times.txt"]\n'
        "[windows]\nbefore_us = 10\nafter_us = 40\n"
    )
    events = stored(config, "--output", str(tmp_path / "runs"))
    assert len(events) == len(times_ns) > 10
    for time_ns, number in zip(times_ns, sorted(events)):
        expected = within(hits, time_ns * 1_000 - 10 * US, time_ns * 1_000 + 40 * US)
        assert np.array_equal(events[number][0], expected), f"trigger {number} at {time_ns} ns"
