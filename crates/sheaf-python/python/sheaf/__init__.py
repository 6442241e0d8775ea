"""Read events, watch a run in progress, feed one, write filters.

Events of a file or a run directory:

>>> import sheaf
>>> for event in sheaf.open(example):
...     print(event.id, event.sources, event.nbytes)
...     break
0 (0, 1) 32

NumPy accesses a fragment's memory without a copy; the array keeps the memory alive:

>>> event[0].array("<u2")[:4]
array([257, 257, 257, 257], dtype=uint16)

`sheaf.columns` and `sheaf.to_awkward` read whole files as columns, for vectorised work. `sheaf.tap` gives events of a run in
progress, `sheaf.Source` feeds the sources of a run with fragments. A filter is a function or a class decorated with
`sheaf.filter`; `python -m sheaf.processor` runs it. A decoder, which finds the hits in fragments of self-triggered front ends, is one
decorated with `sheaf.decoder`.
"""

from __future__ import annotations

from ._columns import EventColumns, columns, to_awkward
from ._decoders import (
    HIT,
    TIME_MARKER,
    TIME_PULSE,
    TIME_PULSE_RESET,
    TIME_RESET,
    WINDOW,
    RawFragment,
    decoder,
    hits,
    load_decoder,
)
from ._filters import FilterLike, accept, filter, judge, load_filter, reject
from ._sheaf import (
    DamagedError,
    Event,
    EventReader,
    Fragment,
    FragmentReader,
    NobodyThereError,
    Payload,
    Processor,
    RunEndedError,
    RunRecord,
    SheafError,
    Shift,
    Source,
    Tap,
    Verdict,
    __version__,
    open,
)
from ._times import TimeBase

#: Joins a run in progress: an iterator over a sample of its accepted events. See `Tap`.
tap = Tap

__all__ = [
    "HIT",
    "TIME_MARKER",
    "TIME_PULSE",
    "TIME_PULSE_RESET",
    "TIME_RESET",
    "WINDOW",
    "DamagedError",
    "Event",
    "EventColumns",
    "EventReader",
    "FilterLike",
    "Fragment",
    "FragmentReader",
    "NobodyThereError",
    "Payload",
    "Processor",
    "RawFragment",
    "RunEndedError",
    "RunRecord",
    "SheafError",
    "Shift",
    "Source",
    "Tap",
    "TimeBase",
    "Verdict",
    "__version__",
    "accept",
    "columns",
    "decoder",
    "filter",
    "hits",
    "judge",
    "load_decoder",
    "load_filter",
    "open",
    "reject",
    "tap",
    "to_awkward",
]
