"""Event files and fragment streams, read in Python."""

from __future__ import annotations

import gc
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sheaf
from event_files import WrittenEvent, crc32c, write_event_file


def test_an_event_has_what_was_written(example: Path) -> None:
    reader = sheaf.open(example)
    assert isinstance(reader, sheaf.EventReader)
    assert (reader.run, reader.tags, reader.metadata["software"]) == (7, ["muon", "electron"], "a test")
    assert reader.source_names == {1: "right"}
    events = list(reader)
    assert [event.id for event in events] == [0, 1, 2]
    first = events[0]
    assert (first.time, first.trigger_type, first.attempt, first.incomplete) == (1_000, 3, 1, False)
    assert (first.tags, first.tag_bits, bytes(first.payload)) == (("electron",), 2, b"said")
    assert (first.sources, len(first), first.nbytes, first.builder) == ((0, 1), 2, 32, None)
    assert [fragment.source for fragment in first] == [0, 1]
    assert (first[1].event, first[1].time, bytes(first[1])) == (0, 1_001, b"\x02" * 16)


def test_run_records_are_read_without_events(example: Path) -> None:
    name, content = "7.cfg".encode(), b"threshold = 12"
    record = struct.pack("<4sB3xQQIIIII", b"RECD", 1, 99, 1_000, 7, len(name), len(content), 0, crc32c(name + content))
    record += struct.pack("<I", crc32c(record)) + name + content
    example.write_bytes(example.read_bytes() + record)
    reader = sheaf.open(example)
    assert isinstance(reader, sheaf.EventReader)
    (found,) = reader.records()
    assert (found.source, found.kind, found.time, found.name) == (7, "begin", 1_000, "7.cfg")
    assert found.content == content
    assert [event.id for event in reader] == [0, 1, 2]


def run_record(kind: int, number: int, time: int, source: int, name: str, content: bytes) -> bytes:
    body = name.encode() + content
    head = struct.pack(
        "<4sB3xQQIIIII", b"RECD", kind, number, time, source, len(name), len(content), 0, crc32c(body)
    )
    return head + struct.pack("<I", crc32c(head)) + body


def test_run_records_are_selected_by_kind_source_and_time(example: Path) -> None:
    records = [(1, 10, 7), (3, 20, 7), (3, 30, 7), (3, 40, 8), (2, 50, 7)]
    parts = [run_record(kind, time, time, source, "x", b"") for kind, time, source in records]
    example.write_bytes(example.read_bytes() + b"".join(parts))
    reader = sheaf.open(example)
    assert isinstance(reader, sheaf.EventReader)
    assert [record.time for record in reader.records()] == [10, 20, 30, 40, 50]
    assert [record.time for record in reader.records(kind="slow_control", source=7)] == [20, 30]
    assert [record.time for record in reader.records(since=40)] == [40, 50]
    assert reader.records(kind="shift") == [] and reader.shifts == []
    with pytest.raises(ValueError, match="slow_control"):
        reader.records(kind="temperature")


def test_shifts_of_sources_are_read_without_events(example: Path) -> None:
    found = struct.pack("<QqQIBBH", 5_000, -2, 0, 0, 1, 0, 0)
    repaired = struct.pack("<QqQIBBH", 5_000, -2, 5_116, 0, 1, 1, 0)
    other = struct.pack("<QqQIBBH", 6_000, 1, 0, 1, 0, 0, 0)
    parts = [
        run_record(4, number, time, source, "trigger", content)
        for number, time, source, content in [(1, 10, 2, found), (2, 20, 3, other), (3, 30, 2, repaired)]
    ]
    example.write_bytes(example.read_bytes() + b"".join(parts))
    reader = sheaf.open(example)
    assert isinstance(reader, sheaf.EventReader)
    first, second = reader.shifts
    assert (first.source, first.quantity, first.first_event, first.shift) == (2, "trigger", 5_000, -2)
    assert (first.repaired_from, first.policy) == (5_116, "repair")
    assert (second.source, second.repaired_from, second.policy) == (3, None, "mark")
    assert "source 2: -2 from event 5000 on, repaired from event 5116 on" in repr(first)
    assert len(reader.records(kind="shift")) == 3


def test_a_missing_source_has_its_reason(tmp_path: Path) -> None:
    event = WrittenEvent(5, {2: b"here"}, missing={4: 1})
    path = write_event_file(tmp_path / "a.sheaf", [event], [])
    (read,) = sheaf.open(path)
    assert read.incomplete and read.missing == {4: "source_silent"}
    assert 2 in read and 4 not in read
    with pytest.raises(KeyError, match="source_silent"):
        read[4]
    with pytest.raises(KeyError, match="not among the event's sources"):
        read[9]


def test_a_fragment_says_whether_its_event_number_disagrees_or_was_changed(tmp_path: Path) -> None:
    marks = {1: 5 << 10 | 1 << 8, 2: (-3 << 10 & 0xFFFFFFFF) | 3 << 8, 3: 1 << 10 | 2 << 8}
    event = WrittenEvent(5, {source: b"here" for source in range(4)}, marks=marks)
    (read,) = sheaf.open(write_event_file(tmp_path / "a.sheaf", [event], []))
    assert [fragment.difference for fragment in read] == [None, 5, -3, None]
    assert [fragment.renumbered for fragment in read] == [False, False, True, True]
    assert [fragment.disagrees for fragment in read] == [False, True, True, False]
    assert [fragment.moved_by for fragment in read] == [None, None, None, 1]
    c = sheaf.columns(tmp_path / "a.sheaf")
    assert c.disagrees.tolist() == [False, True, True, False]
    assert c.differences.tolist() == [0, 5, -3, 0]
    assert c.renumbered.tolist() == [False, False, True, True]


def test_an_array_views_the_payload_and_outlives_everything_else(example: Path) -> None:
    reader = sheaf.open(example)
    event = next(reader)
    fragment = event[0]
    array, view = fragment.array("<u4"), memoryview(fragment)
    assert np.shares_memory(array, np.frombuffer(view, "u1"))
    assert np.shares_memory(array, event[0].array()), "two arrays of one fragment are one memory"
    assert view.readonly and not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    del reader, event, fragment
    gc.collect()
    assert array.tolist() == [0x01010101] * 4 and bytes(view) == b"\x01" * 16


def test_an_empty_fragment_is_an_empty_array(tmp_path: Path) -> None:
    path = write_event_file(tmp_path / "a.sheaf", [WrittenEvent(1, {0: b""})], [])
    (event,) = sheaf.open(path)
    assert len(event[0]) == 0 and event[0].array("<u2").shape == (0,) and bytes(event[0].data) == b""


def test_damage_costs_one_event_and_is_reported(example: Path) -> None:
    content = bytearray(example.read_bytes())
    content[content.rindex(b"\x01" * 16)] ^= 0xFF
    example.write_bytes(content)
    reader = sheaf.open(example)
    assert [next(reader).id, next(reader).id] == [0, 1]
    with pytest.raises(sheaf.DamagedError, match="event 2, source 0"):
        next(reader)
    assert list(reader) == [] and reader.damaged == 1
    assert [event.id for event in sheaf.open(example, skip_damaged=True)] == [0, 1]
    assert [event.id for event in sheaf.open(example, check=False)] == [0, 1, 2]
    with pytest.raises(sheaf.DamagedError):
        sheaf.columns(example)
    assert sheaf.columns(example, skip_damaged=True).ids.tolist() == [0, 1]


def test_a_run_directory_is_all_of_its_files(tmp_path: Path) -> None:
    for part, ids in enumerate([[1, 2], [3]]):
        name = f"run000007_bu0_s0000000000000009_{part:04}.sheaf"
        write_event_file(tmp_path / name, [WrittenEvent(id, {0: b"x"}) for id in ids], [])
    assert sorted(event.id for event in sheaf.open(tmp_path)) == [1, 2, 3]


def test_an_error_says_that_a_file_is_not_one_of_sheaf(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of the kind")
    with pytest.raises(sheaf.SheafError, match="neither an event file nor a fragment stream"):
        sheaf.open(tmp_path / "notes.txt")
    with pytest.raises(sheaf.SheafError, match="cannot read"):
        sheaf.open(tmp_path / "nowhere")


def test_a_fragment_stream_gives_fragments(tmp_path: Path) -> None:
    path = tmp_path / "source-7.sfrag"
    path.write_bytes(fragment_stream(source=7, run=3, fragments=[(258, 1_000, b"hello"), (259, 2_000, b"")]))
    reader = sheaf.open(path)
    assert isinstance(reader, sheaf.FragmentReader)
    assert (reader.run, reader.source) == (3, 7)
    assert [(f.event, f.source, f.time, bytes(f)) for f in reader] == [(258, 7, 1_000, b"hello"), (259, 7, 2_000, b"")]


def fragment_stream(source: int, run: int, fragments: list[tuple[int, int, bytes]]) -> bytes:
    """Writes a stream as specified in docs/reference/fragment-stream.md, with event ids and times, without a trailer."""
    metadata = b"{}"
    head = struct.pack("<8sHHIII12x", b"SHEAFFS\0", 1, 3, source, run, len(metadata))
    content = head + struct.pack("<I", crc32c(head + bytes(4) + metadata)) + metadata
    for event, time, data in fragments:
        record = struct.pack("<4sIQQI", b"FRAG", len(data), event, time, crc32c(data))
        content += record + struct.pack("<I", crc32c(record)) + data
    return content


def test_columns_are_the_events(example: Path) -> None:
    c = sheaf.columns(example)
    assert (c.run, len(c), c.ids.tolist(), c.times.tolist()) == (7, 3, [0, 1, 2], [1_000, 1_001, 1_002])
    assert c.first.tolist() == [0, 2, 4, 6] and c.offsets.tolist() == list(range(0, 97, 16))
    assert c.sources.tolist() == [0, 1] * 3 and c.fragment_times.tolist()[:2] == [1_000, 1_001]
    assert c.payload[16:32].tolist() == [2] * 16
    assert c.has_tag("electron").tolist() == [True, False, False]
    assert not c.has_tag("quarantined").any()
    only = sheaf.columns(example, sources=[1], tags=["electron"])
    assert (len(only), only.sources.tolist(), bytes(only.payload)) == (1, [1], b"\x02" * 16)
    assert len(sheaf.columns(example, events=2)) == 2


def test_awkward_arrays_have_fragments_of_any_length(tmp_path: Path) -> None:
    pytest.importorskip("awkward", minversion="2")
    events = [WrittenEvent(1, {0: b"\x01\x00" * 3, 5: b""}), WrittenEvent(2, {}), WrittenEvent(3, {0: b"\x02\x00"})]
    path = write_event_file(tmp_path / "a.sheaf", events, [])
    array = sheaf.to_awkward(path, dtype="<u2")
    assert array.id.tolist() == [1, 2, 3]
    assert array.fragments.source.tolist() == [[0, 5], [], [0]]
    assert array.fragments.data.tolist() == [[[1, 1, 1], []], [], [[2]]]
    with pytest.raises(ValueError, match="not a multiple"):
        sheaf.to_awkward(path, dtype="<u4")


def test_a_file_that_states_no_time_base_has_nanoseconds(example: Path) -> None:
    base = sheaf.open(example).time_base
    assert (base.unit, base.epoch_ns, base.stated) == (Fraction(1), None, False)
    assert base.nanoseconds(2**64 - 1) == 2**64 - 1
    assert base.seconds([1_000, 2_000]).tolist() == [1e-6, 2e-6]
    with pytest.raises(ValueError, match="epoch"):
        base.datetime64(0)


def test_unit_and_epoch_of_times_come_from_the_header(example: Path) -> None:
    data = bytearray(example.read_bytes())
    (metadata_bytes,) = struct.unpack_from("<I", data, 40)
    epoch = 1_767_225_600 * 10**9
    struct.pack_into("<H", data, 8, 4)
    struct.pack_into("<IIqI", data, 44, 25, 16, epoch, 0)
    struct.pack_into("<I", data, 60, crc32c(bytes(data[: 64 + metadata_bytes])))
    example.write_bytes(data)
    base = sheaf.open(example).time_base
    assert base == sheaf.TimeBase(Fraction(25, 16), epoch, True)
    assert base.nanoseconds(2**64 - 1) == Fraction(25 * (2**64 - 1), 16)
    assert str(base.datetime64(640_000_003)) == "2026-01-01T00:00:01.000000004"


def test_times_of_the_calendar_are_exact_or_refused() -> None:
    base = sheaf.TimeBase(Fraction(1, 10), -1, True)
    times = np.array([0, 9, 10, 2**63, 2**64 - 1], dtype="u8")
    expected = [time // 10 - 1 for time in times.tolist()]
    assert base.datetime64(times).astype("i8").tolist() == expected
    with pytest.raises(OverflowError, match="2262"):
        sheaf.TimeBase(Fraction(7, 3), 0, True).datetime64(times)
