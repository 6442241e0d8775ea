"""One fragment stream: a documented file that holds the fragments of one source.

All fields are little-endian, without padding.

======  ======================  ===============================================================================
offset  header, 40 bytes        meaning
======  ======================  ===============================================================================
0       magic, 8 bytes          ``SHEAFFS\\0``
8       version u16             1
10      flags u16               bit 0: fragments have event ids; bit 1: they have times; at least one is set
12      source u32              the source's number, in the detector's own numbering
16      run u32                 run number
20      metadata_bytes u32      length of the UTF-8 JSON object after the header, at most 16 MiB
24      reserved, 12 bytes      zero
36      checksum u32            CRC-32C of the header with this field zero, continued over the metadata
======  ======================  ===============================================================================

======  ======================  ===============================================================================
offset  record, 32 bytes        meaning; the payload follows
======  ======================  ===============================================================================
0       marker u32              ``FRAG``
4       length u32              payload bytes, at most 1 GiB
8       event u64               event id; 0 where fragments have none
16      time u64                nanoseconds; 0 where fragments have none
24      payload_checksum u32    CRC-32C of the payload
28      header_checksum u32     CRC-32C of the 28 bytes before it
======  ======================  ===============================================================================

The trailer has a record's shape: marker ``FEND``, length 0, the number of records as event, the total of payload
bytes as time, payload_checksum 0. A file without it was not finished.
"""

import json
import operator
import os
import struct
from typing import Iterator, NamedTuple, Optional

from .checksum import crc32c

__all__ = ["Fragment", "StreamError", "StreamHeader", "StreamWriter", "read_header", "read_stream"]

MAGIC = b"SHEAFFS\0"
VERSION = 1
HAS_IDS = 1
HAS_TIMES = 2
MAX_PAYLOAD_BYTES = 1 << 30
MAX_METADATA_BYTES = 16 << 20

_HEADER = struct.Struct("<8sHHIII12xI")
_RECORD = struct.Struct("<4sIQQII")
_CHECKSUM = struct.Struct("<I")
_FRAGMENT_MARKER = b"FRAG"
_END_MARKER = b"FEND"

_U32_MAX = (1 << 32) - 1
_U64_MAX = (1 << 64) - 1


class StreamError(ValueError):
    """A stream file is damaged or unfinished; the text names the file and the byte."""


class StreamHeader(NamedTuple):
    """What a stream says about itself."""

    source: int
    run: int
    has_ids: bool
    has_times: bool
    metadata: dict


class Fragment(NamedTuple):
    """What one source saw of one event."""

    event: Optional[int]
    """Event id, or None in a stream without ids."""
    time_ns: Optional[int]
    """The source's own time in nanoseconds, or None in a stream without times."""
    payload: bytes
    """The bytes as the front end sent them. May be empty: the source has answered, but saw nothing."""


class StreamWriter:
    """Writes one fragment stream.

    The file appears under its name only when it is complete: until :meth:`close` it is ``PATH.part``, and an exception
    inside the ``with`` block removes it.

    Args:
        path: the file to write, by convention ``source-<id>.sfrag``. An existing file is replaced at the end.
        source: the source's number in the detector's own numbering, 0 to 2**32 - 1.
        run: the run's number, 0 to 2**32 - 1.
        has_ids: whether fragments have event ids. A source without ids must have times.
        has_times: whether fragments have times.
        metadata: a description that JSON can hold: detector, origin, meaning and unit of id, time and payload.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "source-7.sfrag")
    >>> with StreamWriter(path, source=7, run=42, metadata={"detector": "example"}) as stream:
    ...     stream.append(event=1, time_ns=1_000, payload=b"four words of data")
    ...     stream.append(event=2, time_ns=26_000, payload=b"")
    >>> read_header(path)
    StreamHeader(source=7, run=42, has_ids=True, has_times=True, metadata={'detector': 'example'})
    >>> for fragment in read_stream(path):
    ...     print(fragment)
    Fragment(event=1, time_ns=1000, payload=b'four words of data')
    Fragment(event=2, time_ns=26000, payload=b'')
    """

    def __init__(self, path, source, run=0, has_ids=True, has_times=True, metadata=None):
        if not (has_ids or has_times):
            raise ValueError("a stream needs event ids or times: without both nothing can be built from it")
        source = _in_range("source", source, _U32_MAX)
        run = _in_range("run", run, _U32_MAX)
        # File names need not be text; what is not becomes a question mark.
        text = json.dumps({} if metadata is None else dict(metadata), ensure_ascii=False).encode(errors="replace")
        if len(text) > MAX_METADATA_BYTES:
            raise ValueError(f"metadata of {len(text)} bytes: the format allows {MAX_METADATA_BYTES}")
        flags = (HAS_IDS if has_ids else 0) | (HAS_TIMES if has_times else 0)

        self.path = os.fspath(path)
        self.fragments = 0
        self.payload_bytes = 0
        self._has_ids = has_ids
        self._has_times = has_times
        self._part = self.path + ".part"

        blank = _HEADER.pack(MAGIC, VERSION, flags, source, run, len(text), 0)
        self._file = open(self._part, "wb", buffering=1 << 16)
        self._file.write(blank[:-4] + _CHECKSUM.pack(crc32c(text, crc32c(blank))) + text)

    def append(self, event, time_ns, payload):
        """Appends a fragment. Fragments need not come in the order of their ids or times: keep the source's order.

        Args:
            event: event id, 0 to 2**64 - 1; None in a stream without ids.
            time_ns: time in nanoseconds, 0 to 2**64 - 1; None in a stream without times.
            payload: bytes-like, at most 1 GiB.
        """
        event = self._field("event", event, self._has_ids)
        time_ns = self._field("time_ns", time_ns, self._has_times)
        payload = bytes(payload)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise ValueError(f"a payload of {len(payload)} bytes: the format allows {MAX_PAYLOAD_BYTES}")
        self._file.write(_record(_FRAGMENT_MARKER, len(payload), event, time_ns, crc32c(payload)))
        self._file.write(payload)
        self.fragments += 1
        self.payload_bytes += len(payload)

    def close(self):
        """Writes the trailer and gives the file its name. Closing twice does nothing."""
        if self._file.closed:
            return
        try:
            self._file.write(_record(_END_MARKER, 0, self.fragments, self.payload_bytes, 0))
            self._file.close()
            os.replace(self._part, self.path)
        except BaseException:
            self.abort()
            raise

    def abort(self):
        """Gives the stream up: nothing of it is left."""
        try:
            self._file.close()
        except OSError:
            pass  # The disk is full, say; what it could not write is not wanted any more.
        try:
            os.unlink(self._part)
        except FileNotFoundError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            self.close()
        else:
            self.abort()

    @staticmethod
    def _field(name, value, present):
        if not present:
            if value is not None:
                raise ValueError(f"{name} is {value!r} in a stream without it: give None")
            return 0
        return _in_range(name, value, _U64_MAX)


def read_header(path):
    """The :class:`StreamHeader` of a stream file. Raises :class:`StreamError` where it is damaged."""
    with open(path, "rb") as file:
        return _read_header(file, os.fspath(path))


def read_stream(path) -> Iterator[Fragment]:
    """Yields every :class:`Fragment` of a stream file, checking every checksum and the trailer's totals.

    Raises :class:`StreamError` at the first damage; ``sheaf inspect`` and ``sheaf verify`` go on after it.
    """
    path = os.fspath(path)
    with open(path, "rb") as file:
        header = _read_header(file, path)
        fragments = payload_bytes = 0
        while True:
            offset = file.tell()
            marker, length, event, time_ns, checksum = _read_record(file, path, offset)
            if marker == _END_MARKER:
                if (fragments, payload_bytes) != (event, time_ns):
                    raise StreamError(
                        f"{path}: the trailer counts {event} fragments of {time_ns} bytes, "
                        f"the file has {fragments} of {payload_bytes}"
                    )
                if file.read(1):
                    raise StreamError(f"{path}: data after the trailer at byte {offset}")
                return
            payload = _read_exactly(file, path, length, "payload")
            if crc32c(payload) != checksum:
                raise StreamError(f"{path}: payload of the fragment at byte {offset} does not fit its checksum")
            fragments += 1
            payload_bytes += length
            yield Fragment(event if header.has_ids else None, time_ns if header.has_times else None, payload)


def _record(marker, length, event, time_ns, payload_checksum):
    head = _RECORD.pack(marker, length, event, time_ns, payload_checksum, 0)[:-4]
    return head + _CHECKSUM.pack(crc32c(head))


def _in_range(name, value, maximum):
    """`value` as an int. Integers of other libraries, such as numpy's, are integers too."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= maximum:
        raise ValueError(f"{name} is {value!r}: it must be an integer from 0 to {maximum}")
    return number


def _read_header(file, path):
    head = _read_exactly(file, path, _HEADER.size, "header")
    magic, version, flags, source, run, metadata_bytes, checksum = _HEADER.unpack(head)
    if magic != MAGIC:
        raise StreamError(f"{path}: not a fragment stream: it begins with {magic!r}")
    if version != VERSION:
        raise StreamError(f"{path}: version {version} of the format; this reader knows {VERSION}")
    text = _read_exactly(file, path, metadata_bytes, "metadata")
    if crc32c(text, crc32c(head[:-4] + b"\0\0\0\0")) != checksum:
        raise StreamError(f"{path}: the header does not fit its checksum")
    metadata = json.loads(text) if text else {}
    return StreamHeader(source, run, bool(flags & HAS_IDS), bool(flags & HAS_TIMES), metadata)


def _read_record(file, path, offset):
    head = file.read(_RECORD.size)
    if len(head) < _RECORD.size:
        raise StreamError(f"{path}: ends at byte {offset + len(head)} without a trailer: its writer did not finish")
    marker, length, event, time_ns, payload_checksum, header_checksum = _RECORD.unpack(head)
    if crc32c(head[:-4]) != header_checksum or marker not in (_FRAGMENT_MARKER, _END_MARKER):
        raise StreamError(f"{path}: damaged record at byte {offset}")
    return marker, length, event, time_ns, payload_checksum


def _read_exactly(file, path, length, what):
    # Ask the file how much there is before asking the memory for it: the length may be damaged.
    left = os.fstat(file.fileno()).st_size - file.tell()
    if length > left:
        raise StreamError(f"{path}: the {what} needs {length} bytes, {left} are left")
    return file.read(length)
