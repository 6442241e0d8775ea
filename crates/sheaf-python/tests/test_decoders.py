"""Decoders of hits: loading, their process, and a run that decodes with one. The run needs the command (SHEAF_COMMAND)."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sheaf
from test_live import COMMAND, PATIENCE, Run

DECODERS = """
import sheaf

FRAME = [("pmt", "u1"), ("tdc", "<u4"), ("tot", "u1")]

@sheaf.decoder
class Frames:
    def __init__(self, parameters):
        self.offset, self.calls = int(parameters or 0), 0

    def decode(self, fragment):
        self.calls += 1
        if fragment.data[:1] == b"\\xff":
            raise ValueError("a broken frame")
        found = fragment.array(FRAME)
        return sheaf.hits(found["tdc"] + self.offset, channel=found["pmt"], value=found["tot"], extra=self.calls)

def plain(fragment):
    print("to the log")
    return [1, 2, 3]
"""


def frame(*records: tuple[int, int, int]) -> bytes:
    return b"".join(struct.pack("<BIB", *record) for record in records)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "frames.py"
    path.write_text(DECODERS)
    return path


def test_a_decoder_is_made_for_each_source_with_its_parameters(file: Path) -> None:
    make = sheaf.load_decoder(str(file), "100")
    first, second = make(), make()
    payload = memoryview(frame((3, 7, 9), (4, 1, 8)) + b"rest")
    fragment = sheaf.RawFragment(1, 2, 3, payload)
    assert first(fragment).tolist() == [(107, 3, 9, 1), (101, 4, 8, 1)]
    assert [first(fragment)["extra"][0], second(fragment)["extra"][0]] == [2, 1]
    assert len(fragment) == 16
    with pytest.raises(sheaf.SheafError, match="has no decoder other; it has: Frames"):
        sheaf.load_decoder(f"{file}:other")
    with pytest.raises(TypeError, match="has no method decode"):
        sheaf.decoder(int)


def test_the_hits_of_a_fragment_have_sixteen_bytes() -> None:
    assert np.dtype(sheaf.HIT).itemsize == 16
    marker = sheaf.hits([9], channel=sheaf.TIME_MARKER)
    assert marker["channel"].tolist() == [0xFFFF_FFFF]
    assert sheaf.hits([]).size == 0
    # The numbers of the C header.
    readings = [sheaf.TIME_PULSE, sheaf.TIME_RESET, sheaf.TIME_PULSE_RESET]
    assert readings == [sheaf.TIME_MARKER - at for at in (1, 2, 3)]


def ask(file: Path, name: str, payloads: list[bytes]) -> list[tuple[int, bytes]]:
    """Sends one request to a process, and returns status and data of each answer."""
    request = struct.pack("<I", len(payloads))
    for event, payload in enumerate(payloads):
        request += struct.pack("<IQQI", 5, event, 0, len(payload)) + payload
    command = [sys.executable, "-m", "sheaf.decoding", f"{file}:{name}"]
    answers = subprocess.run(command, input=request, stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
    assert answers[:4] == b"\0\0\0\0", "it is ready"
    at, found = 4, []
    while at < len(answers):
        status, size = struct.unpack_from("<II", answers, at)
        found.append((status, answers[at + 8 : at + 8 + size]))
        at += 8 + size
    return found


def test_failures_concern_one_fragment_and_output_goes_to_the_log(file: Path) -> None:
    found = ask(file, "Frames", [frame((1, 2, 3)), b"\xff", b""])
    assert found == [(0, struct.pack("<QIHH", 2, 1, 3, 1)), (1, b"ValueError: a broken frame"), (0, b"")]
    ((status, text),) = ask(file, "plain", [b""])
    assert (status, text) == (1, b"TypeError: the decoder returned a list; it must return an array of sheaf.hits(...)")


@pytest.mark.skipif(COMMAND is None, reason="SHEAF_COMMAND does not name the command")
def test_a_run_decodes_fragments_with_a_function_in_python(
    start: Callable[..., Run],  # noqa: F811
    tmp_path: Path,
    file: Path,
) -> None:
    run = start(
        '[source]\nkind = "feed"\nbuild_by = "time"\ncount = 2\n[readout]\ncount = 1\n[builder]\ncount = 1\n'
        '[source.timed]\nfront_end = "python"\ntimes = "fragment"\ntick = "1 ns"\nslice_us = 10\ntolerance_us = 0\n'
        f'[source.decoder]\npath = "{file}"\npython = "{sys.executable}"\nparameters = "5"\n'
    )
    with sheaf.Source(tmp_path / "run.toml", sources=[0, 1], wait=PATIENCE) as board:
        assert board.wait_for_start()
        for number in range(300):
            for source in (0, 1):
                # One hit in each slice of 10 us.
                payload = frame((source, number % 1_000, 7)) if number != 20 or source == 1 else b"\xff"
                board.send(event=number, time_ns=number * 10_000, payload=payload, source=source)
        board.end()
        assert board.drain()
    summary = run.finish(status=3)
    assert summary["hits"]["received"] == summary["hits"]["in_slices"] == 599
    assert summary["hits"]["packets_undecoded"] == 1
    found = {
        (event.id, fragment.source): [hit[:3] for hit in fragment.array(sheaf.HIT).tolist()]
        for event in sheaf.open(run.directory)
        for fragment in event
        if len(fragment.data) > 0
    }
    assert found == {
        (number, source): [(number * 10_000_000 + (number % 1_000 + 5) * 1_000, source, 7)]
        for number in range(300)
        for source in (0, 1)
        if (number, source) != (20, 0)
    }
