"""Feeds the sources of a run as fast as the Python package allows:   feeder.py BYTES BATCH

`sheaf bench feed --client "python3 benches/feed/feeder.py"` measures it. BYTES is the payload of a fragment, BATCH the number of
fragments in a call.
"""

import array
import sys

import sheaf


def one_at_a_time(board, size):
    payload, event = bytes(size), 0
    while True:
        board.send(event, payload, time_ns=event)
        event += 1


def in_batches(board, size, batch):
    payload = bytes(size * batch)
    offsets = array.array("Q", range(0, size * batch + 1, size))
    first = 0
    while True:
        events = array.array("Q", range(first, first + batch))
        board.send_batch(events, payload, offsets, times_ns=events)
        first += batch


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: feeder.py BYTES BATCH")
    size, batch = int(sys.argv[1]), int(sys.argv[2])
    try:
        with sheaf.Source() as board:
            board.wait_for_start()
            if batch == 1:
                one_at_a_time(board, size)
            else:
                in_batches(board, size, batch)
    except sheaf.RunEndedError:
        pass


main()
