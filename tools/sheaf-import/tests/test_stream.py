"""The writer and reader of one stream."""

import os
import random
import shutil
import struct
import subprocess

import pytest

from sheaf_import import StreamError, StreamWriter, read_header, read_stream
from sheaf_import.checksum import crc32c, crc32c_pure


def make_fragments(seed, count):
    rng = random.Random(seed)
    sizes = [0, 1, 31, 4096]
    return [
        (rng.randrange(1 << 64), rng.randrange(1 << 64), rng.randbytes(rng.choice(sizes))) for _ in range(count)
    ]


def write(path, fragments, **options):
    with StreamWriter(path, 7, **options) as stream:
        for event, time_ns, payload in fragments:
            stream.append(event, time_ns, payload)


def test_checksum_matches_the_published_vectors():
    for checksum in (crc32c, crc32c_pure):
        assert checksum(b"123456789") == 0xE3069283
        assert checksum(bytes(32)) == 0x8A9136AA  # RFC 3720, appendix B.4
        assert checksum(bytes(range(32))) == 0x46DD794E
        assert checksum(b"") == 0


def test_both_checksums_agree_and_continue():
    rng = random.Random(1)
    for size in range(0, 200, 7):
        first, second = rng.randbytes(size), rng.randbytes(size // 2)
        assert crc32c(first) == crc32c_pure(first)
        assert crc32c(second, crc32c(first)) == crc32c_pure(first + second)


def test_what_is_written_is_read(tmp_path):
    fragments = make_fragments(seed=2, count=200)
    path = tmp_path / "source-7.sfrag"
    write(path, fragments, run=12, metadata={"detector": "Überwasser"})
    header = read_header(path)
    assert (header.source, header.run, header.has_ids, header.has_times) == (7, 12, True, True)
    assert header.metadata == {"detector": "Überwasser"}
    assert [tuple(fragment) for fragment in read_stream(path)] == fragments


def test_the_layout_is_the_documented_one(tmp_path):
    path = tmp_path / "one.sfrag"
    write(path, [(3, 5, b"abc")], run=9)
    data = path.read_bytes()
    assert len(data) == 40 + 2 + 32 + 3 + 32
    assert data[:8] == b"SHEAFFS\0" and data[40:42] == b"{}"
    assert struct.unpack_from("<HHIII", data, 8) == (1, 3, 7, 9, 2)
    assert data[24:36] == bytes(12)
    assert struct.unpack_from("<I", data, 36)[0] == crc32c_pure(data[:36] + bytes(4) + b"{}")
    assert struct.unpack_from("<IIQQI", data, 42) == (0x47415246, 3, 3, 5, crc32c_pure(b"abc"))
    assert struct.unpack_from("<I", data, 70)[0] == crc32c_pure(data[42:70])
    assert struct.unpack_from("<IIQQI", data, 77) == (0x444E4546, 0, 1, 3, 0)


@pytest.mark.parametrize("options, fragment", [
    ({"has_ids": False}, (None, 5, b"x")),
    ({"has_times": False}, (5, None, b"x")),
])
def test_a_stream_may_have_only_times_or_only_ids(tmp_path, options, fragment):
    path = tmp_path / "s.sfrag"
    write(path, [fragment], **options)
    assert [tuple(read) for read in read_stream(path)] == [fragment]
    with pytest.raises(ValueError, match="give None"):
        write(path, [(5, 5, b"x")], **options)


def test_wrong_arguments_are_refused(tmp_path):
    path = tmp_path / "s.sfrag"
    with pytest.raises(ValueError, match="ids or times"):
        StreamWriter(path, 7, has_ids=False, has_times=False)
    for source in (-1, 1 << 32, 1.5, "7"):
        with pytest.raises(ValueError, match="source"):
            StreamWriter(path, source)
    for event in (-1, 1 << 64, None):
        with pytest.raises(ValueError, match="event"):
            write(path, [(event, 0, b"")])
    assert os.listdir(tmp_path) == []


def test_a_failed_writer_leaves_nothing_and_spares_the_old_file(tmp_path):
    path = tmp_path / "s.sfrag"
    write(path, [(1, 1, b"old")])
    with pytest.raises(RuntimeError):
        with StreamWriter(path, 7) as stream:
            stream.append(2, 2, b"new")
            raise RuntimeError("the detector fell over")
    assert os.listdir(tmp_path) == ["s.sfrag"]
    assert [fragment.payload for fragment in read_stream(path)] == [b"old"]


def test_every_flipped_byte_and_every_truncation_is_noticed(tmp_path):
    path = tmp_path / "s.sfrag"
    write(path, [(1, 2, b"payload"), (3, 4, b"")], metadata={"a": 1})
    good = path.read_bytes()
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 0x10
        for data in (bytes(damaged), good[:position]):
            path.write_bytes(data)
            with pytest.raises(StreamError):
                list(read_stream(path))


def test_the_command_reads_the_same_fragments(tmp_path):
    command = os.environ.get("SHEAF_BINARY") or shutil.which("sheaf")
    if command is None:
        pytest.skip("no sheaf command on the PATH and none named by SHEAF_BINARY")
    fragments = [(event, 10 * event, bytes([event]) * event) for event in range(1, 50)]
    path = tmp_path / "source-7.sfrag"
    write(path, fragments, run=3)
    dump = subprocess.run([command, "dump", path, "--csv"], check=True, capture_output=True, text=True).stdout
    rows = [line.split(",")[:4] for line in dump.splitlines()[1:]]
    assert rows == [[str(event), "7", str(time_ns), str(len(payload))] for event, time_ns, payload in fragments]
