"""A board reader: feeds one source of the run of a configuration file.   python board.py boards.toml 1 1000"""

import sys

import sheaf

target, source, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with sheaf.Source(target, source=source, name=f"board {source}") as board:
    board.wait_for_start()
    last = board.last_event()  # what an earlier life of this program has sent
    for event in range(0 if last is None else last + 1, events):
        payload = event.to_bytes(4, "little") * 32  # your board is read here
        board.send(event=event, time_ns=event * 1000, payload=payload)
