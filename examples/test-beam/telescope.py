"""The board reader of the telescope: three planes of 64 strips in x and y, 1 mm wide. The run starts it.

A fragment is a list of hits, four bytes each: strip in x, strip in y, charge (16 bits, little-endian).

To try what a broken board does: a plane is silent while a file of its name is in the directory `faults`, as after `touch faults/plane-2`.
"""

import os
import struct

import sheaf
from beam import Cable, particle

STRIPS = 64
EFFICIENCY = 0.98
NOISE = 0.02  # hits of noise in a plane and event
DEAD_STRIP = int(os.environ.get("DEAD_STRIP", "-1"))  # of plane 2


def read_plane(plane, track, dice):
    """What the electronics of a plane would give: this is the function to replace."""
    hits = []
    x, y = (int(at + STRIPS / 2 + dice.gauss(0, 0.2)) for at in (track.x_mm, track.y_mm))
    is_dead = plane == 2 and x == DEAD_STRIP
    if 0 <= x < STRIPS and 0 <= y < STRIPS and dice.random() < EFFICIENCY and not is_dead:
        hits.append((x, y, int(dice.gammavariate(8, 25))))
    if dice.random() < NOISE:
        hits.append((dice.randrange(STRIPS), dice.randrange(STRIPS), int(dice.gammavariate(2, 25))))
    return b"".join(struct.pack("<BBH", x, y, min(charge, 65535)) for x, y, charge in hits)


with sheaf.Source() as boards:
    print("planes", boards.sources, "with the dead strip", DEAD_STRIP)  # is in the log of the run
    boards.wait_for_start()
    for event in Cable().triggers(boards):
        track, dice = particle(boards.run, event)
        for plane in boards.sources:
            data = read_plane(plane, track, dice)
            if not os.path.exists(f"faults/plane-{plane}"):
                boards.send(event, data, source=plane)
