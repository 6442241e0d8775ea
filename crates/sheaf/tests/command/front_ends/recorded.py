"""A set of front ends that sends recorded data over TCP, without Sheaf: it reads fragment streams by the table of bytes in
docs/reference/fragment-stream.md, and sends packets of its own.

    recorded.py STREAMS ADDRESS [--recorded-speed] [--passes N] [--count-triggers] [--miss SOURCE:TRIGGER]

Waits for connections at ADDRESS and prints it. Each packet is: 5eaf, length of the payload (u32), place of the source among all sources
(u16), number of the event (u64), payload; the most significant byte first.

--count-triggers  The number of the event counts the packets of the source. Before the payload comes the number that the experiment gave
                  the event (u64), as a trigger unit would.
--miss S:T        The front end of the source at place S misses trigger T, and counts one less from there on.
"""

import argparse
import os
import socket
import struct
import time


def read_stream(path):
    """Returns the source of a stream, and (event, time, payload) of each record."""
    with open(path, "rb") as file:
        data = file.read()
    magic, _, flags, source, _, metadata_bytes = struct.unpack_from("<8sHHIII", data)
    assert magic == b"SHEAFFS\0" and flags & 1, f"{path} is no fragment stream with event ids"
    records, at = [], 40 + metadata_bytes
    while True:
        marker, length, event, time_ns = struct.unpack_from("<4sIQQ", data, at)
        if marker == b"FEND":
            return source, records
        assert marker == b"FRAG", f"no record at byte {at} of {path}"
        records.append((event, time_ns, data[at + 32 : at + 32 + length]))
        at += 32 + length


def read_all(directory):
    """Returns the records of all sources, in the order of their ids."""
    streams = [read_stream(os.path.join(directory, name)) for name in sorted(os.listdir(directory)) if name.endswith(".sfrag")]
    return [records for _, records in sorted(streams)]


def packets(options, sources):
    """Yields the time and the bytes of each packet: one record of each source after the other."""
    counted = [0] * len(sources)
    missed = tuple(map(int, options.miss.split(":"))) if options.miss else None
    for one_pass in range(options.passes):
        for index in range(max(map(len, sources))):
            for place, records in enumerate(sources):
                if index >= len(records):
                    continue
                event, time_ns, payload = records[index]
                if options.count_triggers:
                    trigger = one_pass * len(records) + index
                    if missed == (place, trigger):
                        continue
                    payload = struct.pack(">Q", event + one_pass * (records[-1][0] + 1)) + payload
                    event = counted[place]
                    counted[place] += 1
                yield time_ns, b"\x5e\xaf" + struct.pack(">IHQ", len(payload), place, event) + payload


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("streams")
    parser.add_argument("address")
    parser.add_argument("--recorded-speed", action="store_true")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--count-triggers", action="store_true")
    parser.add_argument("--miss", metavar="SOURCE:TRIGGER")
    options = parser.parse_args()
    sources = read_all(options.streams)
    host, port = options.address.rsplit(":", 1)
    with socket.create_server((host, int(port))) as server:
        print("%s:%d" % server.getsockname(), flush=True)
        run, _ = server.accept()
    began, first = time.monotonic(), None
    with run:
        for time_ns, packet in packets(options, sources):
            if options.recorded_speed:
                first = time_ns if first is None else first
                time.sleep(max(0.0, began + (time_ns - first) * 1e-9 - time.monotonic()))
            run.sendall(packet)


main()
