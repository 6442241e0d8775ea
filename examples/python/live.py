"""Energies of a run's events while it goes on: the picture is written again every two seconds.

    python live.py runs/run000001 --seconds 60 --output live.png

The energy of a fragment is the sum of its samples of 16 bits, as in the example filter. What is not seen is known: the title
says what share of the accepted events is in the plot.
"""

# %% Where to look
import argparse
import time

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import sheaf

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("target", help="a run's directory, or the address of a builder's door")
parser.add_argument("--rate", type=float, default=200.0, help="maximum number of events per second")
parser.add_argument("--seconds", type=float, default=60.0, help="time to watch the run")
parser.add_argument("--output", default="live.png", help="the picture: .png, .svg or .pdf")
options = parser.parse_args()

# %% What is shown
edges = np.linspace(0, 1_000, 201)
counts = np.zeros(len(edges) - 1)


def energy(event: sheaf.Event) -> float:
    """In 10⁶ units."""
    return sum(float(f.array()[: len(f) // 2 * 2].view("<u2").sum(dtype=np.uint64)) for f in event) / 1e6


def draw(tap: sheaf.Tap, events: int) -> None:
    """Writes the picture anew."""
    seen = tap.counts["seen"]
    share = f", {100 * tap.counts['taken'] / seen:.2g} % of those accepted" if seen else ""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.stairs(counts, edges)
    axes.set(xlabel="energy of an event (10⁶ units)", ylabel="events", title=f"Run {tap.run}: {events:,} events{share}")
    figure.savefig(options.output)
    plt.close(figure)


# %% Look on
start = drawn = time.monotonic()
events = 0
with sheaf.tap(options.target, rate=options.rate, name="live.py") as tap:
    while time.monotonic() - start < options.seconds:
        event = tap.next(timeout=0.5)
        if event is not None:
            events += 1
            counts += np.histogram([energy(event)], edges)[0]
        if time.monotonic() - drawn > 2:
            draw(tap, events)
            drawn = time.monotonic()
    draw(tap, events)
print(f"{events} events in {options.output}")
