"""Decodes fragments for a readout unit, which starts this process: `python -m sheaf.decoding hits.py:superframe`.

Standard input has requests, standard output their answers. All numbers are unsigned and little-endian.

A request is the number of its fragments (4 bytes), and for each fragment the source (4), the event id (8), the time (8), the size of the
payload (4) and the payload. The answer is, for each fragment, a status (4), a size (4) and that many bytes: hits of 16 bytes if the
status is 0, or the reason of a failure, as text, if it is 1.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

import sheaf

from ._decoders import RawFragment

_COUNT = struct.Struct("<I")
_FRAGMENT = struct.Struct("<IQQI")
_ANSWER = struct.Struct("<II")

_FOUND, _FAILED = 0, 1

_HIT_BYTES = 16


def main(arguments: list[str] | None = None) -> int:
    """Answers requests until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m sheaf.decoding", description="Decode fragments for a readout unit.")
    parser.add_argument("decoder", help="decoder as MODULE:NAME or FILE.py:NAME")
    parser.add_argument("--parameters", default="", help="text for the decoder (source.decoder.parameters)")
    options = parser.parse_args(arguments)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a decoder prints goes to the log, not among the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    decode = _Decoders(sheaf.load_decoder(options.decoder, options.parameters))
    # Loading took place: the readout unit waits for this.
    answers.write(_COUNT.pack(0))
    answers.flush()
    while _answer(requests, answers, decode):
        answers.flush()
    return 0


class _Decoders:
    """The decoders of the sources, each made with its first fragment."""

    def __init__(self, make: Callable[[], Callable[[RawFragment], Any]]) -> None:
        self._make = make
        self._of_sources: dict[int, Callable[[RawFragment], Any]] = {}

    def __call__(self, fragment: RawFragment) -> bytes | memoryview:
        decode = self._of_sources.get(fragment.source)
        if decode is None:
            decode = self._of_sources[fragment.source] = self._make()
        found = decode(fragment)
        dtype: Any = getattr(found, "dtype", None)
        if getattr(dtype, "itemsize", None) != _HIT_BYTES or dtype.names is None:
            raise TypeError(f"the decoder returned {_shown(found)}; it must return an array of sheaf.hits(...)")
        data: bytes = found.tobytes()
        return data


def _shown(found: object) -> str:
    dtype = getattr(found, "dtype", None)
    return f"a {type(found).__name__}" if dtype is None else f"an array of {dtype}"


def _answer(requests: BinaryIO, answers: BinaryIO, decode: _Decoders) -> bool:
    """Answers one request. Returns `False` if there is none."""
    count = requests.read(_COUNT.size)
    if len(count) < _COUNT.size:
        return False
    # The whole request is read before anything is answered: both pipes could be full otherwise.
    fragments = []
    for _ in range(_COUNT.unpack(count)[0]):
        source, event, time, size = _FRAGMENT.unpack(requests.read(_FRAGMENT.size))
        fragments.append(RawFragment(source, event, time, memoryview(requests.read(size))))
    for fragment in fragments:
        try:
            status, data = _FOUND, decode(fragment)
        except Exception:
            status, data = _FAILED, traceback.format_exc(limit=0).strip().splitlines()[-1].encode()
        answers.write(_ANSWER.pack(status, len(data)))
        answers.write(data)
    return True


if __name__ == "__main__":
    sys.exit(main())
