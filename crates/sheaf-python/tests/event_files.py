"""Writes event files as specified in docs/reference/event-file.md, without code of Sheaf: the package is tested against the page."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path

BUILDER = 3 << 24


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


@dataclass
class WrittenEvent:
    id: int
    fragments: dict[int, bytes]
    tags: int = 0
    payload: bytes = b""
    missing: dict[int, int] = field(default_factory=dict)
    time: int = 0
    trigger_type: int = 0
    # Marks of event numbers by source, as bits of the flags of a fragment.
    marks: dict[int, int] = field(default_factory=dict)


def _event(event: WrittenEvent, sequence: int) -> bytes:
    entries = b"".join(
        struct.pack("<IIQII", source, len(data), event.time + source, crc32c(data), 1 | event.marks.get(source, 0))
        for source, data in sorted(event.fragments.items())
    )
    entries += b"".join(struct.pack("<IB3x", source, reason) for source, reason in sorted(event.missing.items()))
    body = entries + event.payload
    data = b"".join(data for _, data in sorted(event.fragments.items()))
    head = struct.pack(
        "<4sIQQHHIIIQQQI",
        b"EVNT",
        1 if event.missing else 0,
        event.id,
        event.time,
        1,
        event.trigger_type,
        len(event.fragments),
        len(event.missing),
        len(event.payload),
        len(data),
        event.tags,
        sequence,
        crc32c(body),
    )
    return head + struct.pack("<I", crc32c(head)) + body + data


def write_event_file(path: Path, events: list[WrittenEvent], tags: list[str], run: int = 7) -> Path:
    """Writes an event file that was not closed: without index and footer, which readers do not need."""
    metadata = json.dumps({"software": "a test", "tags": tags, "source_names": {"1": "right"}}).encode()
    head = struct.pack("<8sHHIIIQQI16x", b"SHEAFEV\0", 3, 0, run, BUILDER, 0, 9, 1, len(metadata))
    checksum = crc32c(head + bytes(4) + metadata)
    content = head + struct.pack("<I", checksum) + metadata
    path.write_bytes(content + b"".join(_event(event, sequence) for sequence, event in enumerate(events)))
    return path
