"""A trigger supervisor without libraries: a trigger each millisecond, held back while the run is busy.

The messages are those of docs/reference/trigger-protocol.md, over TCP and without a key.
"""

import os
import select
import socket
import struct
import time

TRIGGERS = int(os.environ.get("TRIGGERS", "2000"))
HELLO, SEND, END, TOTALS, WELCOME, BUSY, PHASE, REFUSED, ACCOUNT = 1, 2, 3, 4, 16, 17, 19, 20, 21
RUNNING, STOPPING = 1, 2

host, port = os.environ["SHEAF_TRIGGER_ADDRESS"].rsplit(":", 1)
link = socket.create_connection((host, int(port)))
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def send(kind, body):
    link.sendall(struct.pack("<IB3x", 8 + len(body), kind) + body)


def receive(length):
    return link.recv(length, socket.MSG_WAITALL) if length else b""


send(HELLO, struct.pack("<II", 2, 7) + b"example")
phase, event, sent, offered, has_ended = 0, 0, 0, 0, False
busy, since, times = None, 0, {}  # the reason of busy, its begin, and for each reason: intervals, time, vetoed triggers


def book(reason):
    """Books the busy interval that ends, and begins the next."""
    global busy, since
    now = time.monotonic_ns()
    if busy:
        times[busy][0] += 1
        times[busy][1] += now - since
    if reason:
        times.setdefault(reason, [0, 0, 0])
    busy, since = reason, now


due = time.monotonic()
while True:
    wait = max(0.0, due - time.monotonic()) if phase == RUNNING and not has_ended else 0.1
    if select.select([link], [], [], wait)[0]:
        length, kind = struct.unpack("<IB3x", receive(8))
        body = receive(length - 8)
        if kind == WELCOME:
            event, phase = struct.unpack_from("<QB", body, 8)
        elif kind == PHASE:
            phase, due = body[0], time.monotonic()
        elif kind == BUSY:
            book(body[8:16] if body[8] else None)  # cause, flags, node
        elif kind == REFUSED:
            raise SystemExit(body[8:].decode())
        elif kind == ACCOUNT:
            break
    if (phase >= STOPPING or sent == TRIGGERS) and not has_ended:
        send(END, struct.pack("<Q", sent))
        has_ended = True
    if phase == RUNNING and not has_ended and time.monotonic() >= due:
        due, offered = due + 0.001, offered + 1
        if busy:
            times[busy][2] += 1
        else:
            send(SEND, struct.pack("<QQQHHI", event, time.time_ns(), 0, 1, 0, 0))
            event, sent = event + 1, sent + 1

book(None)
send(
    TOTALS,
    struct.pack("<QQQII", offered, sent, 0, len(times), 0)
    + b"".join(reason + struct.pack("<QQQ", *numbers) for reason, numbers in sorted(times.items())),
)
link.shutdown(socket.SHUT_WR)
print(f"{sent} of {offered} triggers sent, {struct.unpack_from('<Q', body, 8)[0]} became events")
