"""Histograms of a run in progress: charges of fragments, and what each source sends. They are on the page of the run and in its record.

    python charge.py runs/run000001 --seconds 60

The charge of a fragment is the sum of its samples of 16 bits, as in the example filter. A fragment of other data needs another `charge`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import sheaf
import sheaf.monitor


def charge(fragment: sheaf.Fragment) -> float:
    """In 10³ units."""
    return float(fragment.array()[: len(fragment) // 2 * 2].view("<u2").sum(dtype=np.uint64)) / 1e3


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("run", help="directory of a run in progress")
parser.add_argument("--rate", type=float, default=200.0, help="maximum number of events per second")
parser.add_argument("--seconds", type=float, default=float("inf"), help="time to watch the run [default: until its end]")
options = parser.parse_args()

events = 0
end = time.monotonic() + options.seconds
with (
    sheaf.monitor.connect(options.run, name="charge") as monitor,
    sheaf.tap(options.run, rate=options.rate, name="charge.py") as tap,
):
    sources = len(tap.sources)
    index = {source: at for at, source in enumerate(tap.sources)}
    charges = monitor.histogram("charge", bins=100, range=(0, 400_000), title="Charge", x="charge (10³ units)")
    sizes = monitor.histogram2d(
        "sizes",
        bins=(sources, 50),
        range=((0, sources), (0, 25_000)),
        title="Sizes",
        x="source",
        y="size of a fragment (B)",
    )
    means = monitor.profile(
        "charge-of-sources", bins=sources, range=(0, sources), title="Charge of sources", x="source", y="charge"
    )
    for event in tap:
        at = [index[source] for source in event.sources]
        of_fragments = [charge(fragment) for fragment in event]
        charges.fill(of_fragments)
        sizes.fill(at, [len(fragment) for fragment in event])
        means.fill(at, of_fragments)
        events += 1
        if time.monotonic() > end:
            break
print(f"{events} events in 3 histograms")
