"""The beam that the emulated boards see, and the cable over which they get their triggers. Real boards need nothing of this file.

A particle depends on the run and the event alone, so that all boards see the same one without talking to each other.
"""

import math
import mmap
import os
import random
import struct
from typing import NamedTuple

#: Energy of the beam in GeV: `environment` of the calorimeter in test-beam.toml.
ENERGY_GEV = float(os.environ.get("BEAM_GEV", "20"))

#: Fraction of the particles that are electrons. The others are muons, which leave little in the calorimeter.
ELECTRONS = 0.8


class Particle(NamedTuple):
    is_electron: bool
    x_mm: float
    y_mm: float


def particle(run: int, event: int) -> tuple[Particle, random.Random]:
    """Returns the particle of an event, and random numbers for what a board makes of it."""
    dice = random.Random(run << 40 | event)
    return Particle(dice.random() < ELECTRONS, dice.gauss(0, 8), dice.gauss(0, 8)), dice


def deposit_gev(of: Particle, dice: random.Random) -> float:
    """Energy in the calorimeter: 10 % / sqrt(E) and 1 % for electrons, a Landau-like tail for muons."""
    if of.is_electron:
        return ENERGY_GEV * dice.gauss(1, math.hypot(0.10 / math.sqrt(ENERGY_GEV), 0.01))
    return 0.25 + 0.05 * dice.expovariate(1)



class Cable:
    """The cable from the trigger card to the boards: a run and the number of its triggers, in memory that all of them share."""

    def __init__(self):
        file = os.open("cable", os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, 16)
        self.words = mmap.mmap(file, 16)

    def pulse(self, run, triggers):
        """Says how many triggers of the run there are by now."""
        struct.pack_into("<QQ", self.words, 0, run, triggers)

    def triggers(self, board):
        """Yields the number of each trigger until the run of the board has ended."""
        last = board.last_event(board.sources[0])  # of an earlier life of this program
        event = 0 if last is None else last + 1
        while not board.wait_for_end(0.001):
            run, triggers = struct.unpack_from("<QQ", self.words)
            while run == board.run and event < triggers:
                yield event
                event += 1
