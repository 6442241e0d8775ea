"""The trigger card: random triggers, held back while the run is busy, each with the times of two scintillators.

The run starts it. It speaks the trigger protocol (docs/reference/trigger-protocol.md) with Python's standard library alone. A card of your own
needs `wait_for_beam` and `read_scintillators`; the rest is the protocol.
"""

import os
import random
import select
import socket
import struct
import time

from beam import Cable

RATE_HZ = float(os.environ.get("RATE_HZ", "200"))
HELLO, SEND, END, TOTALS, WELCOME, BUSY, PHASE, REFUSED, ACCOUNT = 1, 2, 3, 4, 16, 17, 19, 20, 21
RUNNING, STOPPING = 1, 2
TDC_PS = 25  # a count of the TDC


def wait_for_beam():
    """Returns the time until the next particle, in seconds."""
    return max(random.expovariate(RATE_HZ), 0.0002)  # the card is busy for 200 us


def read_scintillators():
    """Returns two times of 16 bits, little-endian: 8 m of flight, and 80 ps of resolution each."""
    start = random.randrange(4000)
    return struct.pack("<2H", start, int(start + (26_700 + random.gauss(0, 113)) / TDC_PS))


host, port = os.environ["SHEAF_TRIGGER_ADDRESS"].rsplit(":", 1)
link = socket.create_connection((host, int(port)))
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def send(kind, body):
    link.sendall(struct.pack("<IB3x", 8 + len(body), kind) + body)


def receive(length):
    return link.recv(length, socket.MSG_WAITALL) if length else b""


send(HELLO, struct.pack("<II", 2, 12) + b"trigger card")
phase, run, event, sent, offered, has_ended = 0, 0, 0, 0, 0, False
cable = Cable()  # to the emulated boards
busy, since, times = None, 0, {}  # the cause of busy, its begin, and for each cause: intervals, time, triggers held back


def book(cause):
    """Books the busy interval that ends, and begins the next."""
    global busy, since
    now = time.monotonic_ns()
    if busy:
        times[busy][0] += 1
        times[busy][1] += now - since
    if cause:
        times.setdefault(cause, [0, 0, 0])
    busy, since = cause, now


due = time.monotonic()
while True:
    wait = max(0.0, due - time.monotonic()) if phase == RUNNING and not has_ended else 0.1
    if select.select([link], [], [], wait)[0]:
        length, kind = struct.unpack("<IB3x", receive(8))
        body = receive(length - 8)
        if kind == WELCOME:
            run, event, phase = struct.unpack_from("<4xIQB", body)
        elif kind == PHASE:
            phase, due = body[0], time.monotonic()
        elif kind == BUSY:
            book(body[8:16] if body[8] else None)  # cause, flags, node
        elif kind == REFUSED:
            raise SystemExit(body[8:].decode())
        elif kind == ACCOUNT:
            break
    if phase >= STOPPING and not has_ended:
        send(END, struct.pack("<Q", sent))
        has_ended = True
    if phase == RUNNING and not has_ended and time.monotonic() >= due:
        due, offered = time.monotonic() + wait_for_beam(), offered + 1
        if busy:
            times[busy][2] += 1
        else:
            payload = read_scintillators()
            send(SEND, struct.pack("<QQQHHI", event, time.time_ns(), 0, 1, 0, len(payload)) + payload)
            event, sent = event + 1, sent + 1
            cable.pulse(run, event)

book(None)
send(
    TOTALS,
    struct.pack("<QQQII", offered, sent, 0, len(times), 0)
    + b"".join(cause + struct.pack("<QQQ", *numbers) for cause, numbers in sorted(times.items())),
)
link.shutdown(socket.SHUT_WR)
