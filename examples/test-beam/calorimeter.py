"""The board reader of the calorimeter: nine crystals of 25 mm, three by three. The run starts it.

A fragment has nine ADC values of 16 bits, little-endian. A count is 10 MeV, above a pedestal of 50 counts.
"""

import math
import os
import struct

import sheaf
from beam import ENERGY_GEV, Cable, deposit_gev, particle

CRYSTALS = [(25.0 * column, 25.0 * row) for row in (-1, 0, 1) for column in (-1, 0, 1)]
COUNTS_PER_GEV, PEDESTAL, NOISE = 100, 50, 1.5


def read_crystals(shower, dice):
    """What the electronics would give: this is the function to replace."""
    energy = deposit_gev(shower, dice)
    shares = [math.exp(-math.hypot(shower.x_mm - x, shower.y_mm - y) / 6) for x, y in CRYSTALS]
    total = sum(shares)
    counts = [PEDESTAL + COUNTS_PER_GEV * energy * share / total + dice.gauss(0, NOISE) for share in shares]
    return struct.pack("<9H", *(min(max(int(count), 0), 65535) for count in counts))


with sheaf.Source() as board:
    print(f"beam of {ENERGY_GEV:g} GeV")  # is in the log of the run
    board.record("begin", "beam.toml", f"energy_gev = {ENERGY_GEV:g}\n".encode())  # is in every event file
    board.wait_for_start()
    for event in Cable().triggers(board):
        if not os.path.exists("faults/calorimeter"):
            board.send(event, read_crystals(*particle(board.run, event)))
