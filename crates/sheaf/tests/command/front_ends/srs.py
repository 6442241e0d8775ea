"""Cards of RD51's scalable readout system that send a recorded capture over UDP, without Sheaf.

    srs.py CAPTURE ADDRESS FIRST LAST [--recorded-speed]

Sends the UDP payloads of a pcapng file to ADDRESS as soon as a process receives there. A packet is sent when the receiver's queue has room, so
that none is lost however slow the receiver is; with --recorded-speed, not before its recorded time. Before its first packet, each card sends
one with a time marker and a hit (chip 31, channel 0, charge 0) at the bunch clock FIRST, so that all cards begin at the same time, and behind
its last packet one with a time marker SECONDS behind LAST, as cards without hits do. Prints number and card of each packet of the capture, and the CRC-32 of its payload.
"""

import argparse
import socket
import struct
import time
import zlib

SECONDS = 0.1
CLOCKS_A_SECOND = 44_444_444

#: A chip that no card of the captures has, for what is added.
CHIP = 31

#: Bytes that may wait at the receiver. Its kernel also counts what surrounds a packet.
QUEUE = 65_536


def blocks(data):
    """Returns type and body of each block of a pcapng file."""
    at, order = 0, "<"
    while at < len(data):
        if struct.unpack_from("<I", data, at)[0] == 0x0A0D0D0A:
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
        kind, length = struct.unpack_from(order + "II", data, at)
        yield order, kind, data[at + 8 : at + length - 4]
        at += length


def seconds_a_tick(order, body):
    """Returns the resolution of the times of an interface."""
    at = 8
    while at + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, at)
        if code == 9:
            value = body[at + 4]
            return 2.0 ** -(value & 0x7F) if value & 0x80 else 10.0**-value
        if code == 0:
            break
        at += 4 + (length + 3) // 4 * 4
    return 1e-6


def packets(path):
    """Returns the time in seconds and the UDP payload of each packet."""
    with open(path, "rb") as file:
        data = file.read()
    ticks = []
    for order, kind, body in blocks(data):
        if kind == 1:
            ticks.append(seconds_a_tick(order, body))
        elif kind == 6:
            interface, high, low, captured = struct.unpack_from(order + "IIII", body)
            frame = body[20 : 20 + captured]
            ip = frame[14:]
            if frame[12:14] != b"\x08\x00" or ip[9] != 17:
                continue  # not UDP over IPv4
            udp = ip[(ip[0] & 15) * 4 :]
            length = struct.unpack_from(">H", udp, 4)[0]
            yield (high << 32 | low) * ticks[interface], udp[8:length]


def waiting(port):
    """Returns the number of bytes that wait at the receiver; None if there is no receiver."""
    with open("/proc/net/udp") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            if int(fields[1].split(":")[1], 16) == port:
                return int(fields[4].split(":")[1], 16)
    return None


def send(sender, port, payload):
    while (bytes_there := waiting(port)) is None or bytes_there > QUEUE:
        time.sleep(0.001)
    sender.send(payload)


def marker(payload, step, moment):
    """Returns a packet of the card of another packet, with nothing but a time marker."""
    counter, head = struct.unpack_from(">I12s", payload)
    return struct.pack(">I12sIH", counter + step, head, moment >> 10, CHIP << 10 | moment & 0x3FF)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture")
    parser.add_argument("address")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--recorded-speed", action="store_true")
    options = parser.parse_args()
    host, port = options.address.rsplit(":", 1)
    sender, port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), int(port)
    sender.connect((host, port))
    recorded = [(seconds, payload) for seconds, payload in packets(options.capture) if payload[4:7] == b"VM3"]
    of_card = {payload[7] >> 4: payload for _, payload in reversed(recorded)}
    for payload in of_card.values():
        send(sender, port, marker(payload, -1, options.first) + struct.pack(">IH", CHIP << 22, 0x8000))
    began = time.monotonic() - recorded[0][0]
    for seconds, payload in recorded:
        if options.recorded_speed:
            time.sleep(max(0.0, began + seconds - time.monotonic()))
        send(sender, port, payload)
        card = payload[7] >> 4
        of_card[card] = payload
        print(struct.unpack_from(">I", payload)[0], card, f"{zlib.crc32(payload):08x}")
    for payload in of_card.values():
        send(sender, port, marker(payload, 1, options.last + int(SECONDS * CLOCKS_A_SECOND)))


main()
