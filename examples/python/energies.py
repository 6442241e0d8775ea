"""Energies of a run's events and sources, from its files.

    python energies.py runs/run000001 --output energies.png

The energy of a fragment is the sum of its samples of 16 bits, as in the example filter.
"""

# %% What to read
import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import sheaf

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("path", help="an event file or a run directory")
parser.add_argument("--events", type=int, default=50_000, help="maximum number of events to read")
parser.add_argument("--output", default="energies.png", help="the picture: .png, .svg or .pdf")
options = parser.parse_args()

# %% All payload in one array, and where each fragment begins in it
run = sheaf.columns(options.path, events=options.events)
print(f"run {run.run}: {len(run)} events, {len(run.sources)} fragments, {len(run.payload):,} bytes")

# %% The energy of each fragment
# A sample's place within its fragment is even: samples of a fragment at an odd offset begin at odd bytes.
high = np.arange(len(run.payload)) - np.repeat(run.offsets[:-1], np.diff(run.offsets))
value = np.where(high % 2 == 1, run.payload.astype(np.float64) * 256, run.payload)
odd_end = (run.offsets[1:] - 1)[np.diff(run.offsets) % 2 == 1]
value[odd_end] = 0
running = np.concatenate([[0.0], np.cumsum(value)])
energies = running[run.offsets[1:]] - running[run.offsets[:-1]]

# %% The energy of each event
running = np.concatenate([[0.0], np.cumsum(energies)])
of_events = running[run.first[1:]] - running[run.first[:-1]]

# %% Histograms
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.hist(of_events / 1e6, bins=100, histtype="step")
left.set(title=f"Run {run.run}: {len(run):,} events", xlabel="energy of an event (10⁶ units)", ylabel="events")
for source in np.unique(run.sources):
    right.hist(energies[run.sources == source] / 1e6, bins=100, histtype="step", label=f"source {source}")
right.set(title="Sources", xlabel="energy of a fragment (10⁶ units)", ylabel="fragments", yscale="log")
right.legend()
figure.savefig(options.output)
print(f"{options.output} written")
