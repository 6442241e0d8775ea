"""Fills the histograms of each run, as long as `sheaf serve` makes runs. They are on its page and in the record of each run.

    python3 monitor.py            until Ctrl-C
    python3 monitor.py --runs 1   until the end of the first run
"""

import argparse
import time

import numpy as np
import sheaf
import sheaf.monitor
from sheaf.control import Controller

PLANES, CALORIMETER, TRIGGER_CARD = (1, 2, 3), 10, 20
HIT = np.dtype([("x", "u1"), ("y", "u1"), ("charge", "<u2")])


def watch(run: str) -> None:
    """Fills the histograms of one run until its end."""
    with sheaf.monitor.connect(run, name="monitor.py") as monitor, sheaf.tap(run, name="monitor.py") as tap:
        energy = monitor.histogram("energy", bins=240, range=(0, 60), title="Energy", x="energy in the calorimeter (GeV)")
        crystals = monitor.profile("crystals", bins=9, range=(0, 9), title="Crystals", x="crystal", y="mean energy (GeV)")
        beam = monitor.histogram2d(
            "beam", bins=(32, 32), range=((0, 64), (0, 64)), title="Beam at plane 1", x="strip in x", y="strip in y"
        )
        efficiency = monitor.profile(
            "efficiency", bins=64, range=(0, 64), title="Efficiency of plane 2", x="strip in x of plane 1", y="efficiency"
        )
        flight = monitor.histogram("flight", bins=100, range=(26, 27.5), title="Time of flight", x="time of flight (ns)")
        for event in tap:
            if CALORIMETER in event:
                of_crystals = (event[CALORIMETER].array("<u2").astype(float) - 50) / 100
                energy.fill(of_crystals.sum())
                crystals.fill(range(9), of_crystals)
            if TRIGGER_CARD in event:
                start, stop = event[TRIGGER_CARD].array("<u2").astype(float) * 0.025
                flight.fill(stop - start)
            hits = {plane: event[plane].array(HIT) for plane in PLANES if plane in event}
            if 1 in hits:
                beam.fill(hits[1]["x"], hits[1]["y"])
            # A track is one hit each in planes 1 and 3, at the same place. Plane 2 should have one, too.
            if len(hits) == 3 and len(hits[1]) == len(hits[3]) == 1:
                x = int(hits[1]["x"][0])
                if abs(x - int(hits[3]["x"][0])) <= 1:
                    efficiency.fill(x, float(np.any(np.abs(hits[2]["x"].astype(int) - x) <= 1)))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--controller", default="runs/control", help="directory of `sheaf serve`")
parser.add_argument("--runs", type=int, default=0, help="number of runs to watch [default: no limit]")
options = parser.parse_args()

controller = Controller(options.controller)
seen = 0
watched: int | None = None
while options.runs == 0 or seen < options.runs:
    status = controller.status()
    if status.run is None or status.run == watched or status.state not in ("running", "paused"):
        time.sleep(0.2)
        continue
    try:
        watch(f"runs/run{status.run:06}")
        print(f"run {status.run}: histograms are in its record", flush=True)
    except (sheaf.monitor.NoRunError, sheaf.SheafError) as error:
        print(f"run {status.run}: {error}", flush=True)
        now = controller.status()
        if now.run == status.run and now.state in ("running", "paused"):  # this program was too slow, and joins again
            time.sleep(0.2)
            continue
    watched = status.run
    seen += 1
