"""The filter: keeps events with energy in the calorimeter, and drops the muons.

`filter.parameters` of the configuration is `threshold_gev=2`. To try another threshold on a run that is there:

    python3 -m sheaf.processor --file runs/run000001 --parameters "threshold_gev=5" filter.py

To try what a slow filter does: it takes 100 ms more for each event while there is a file `faults/slow-filter`.
"""

import os
import re
import struct
import time

import numpy
import sheaf

CALORIMETER = 10
COUNTS_PER_GEV, PEDESTAL = 100, 50


@sheaf.filter
class Energy:
    def __init__(self, parameters: str) -> None:
        match = re.fullmatch(r"\s*threshold_gev=([0-9.]+)\s*", parameters)
        if match is None:
            raise ValueError('`filter.parameters` should be like "threshold_gev=2"')
        self.threshold_gev = float(match[1])

    def judge(self, event: sheaf.Event) -> sheaf.Verdict:
        if os.path.exists("faults/slow-filter"):
            time.sleep(0.1)
        if CALORIMETER not in event:  # it is excluded, or was silent: nobody can tell what this event is
            return sheaf.accept(tags=["unmeasured"])
        counts = numpy.frombuffer(event[CALORIMETER].data, dtype="<u2")
        energy_gev = (int(counts.sum()) - PEDESTAL * len(counts)) / COUNTS_PER_GEV
        if energy_gev < self.threshold_gev:
            return sheaf.reject()
        return sheaf.accept(tags=["electron"], payload=struct.pack("<f", energy_gev))
