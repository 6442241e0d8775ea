"""Whole files at once, as NumPy columns and Awkward arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._sheaf import read_columns

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class EventColumns:
    """Events as columns. Event `i` has the fragments `first[i]` to `first[i + 1] - 1`. Fragment `j` has the payload bytes
    `offsets[j]` to `offsets[j + 1] - 1`."""

    #: Number of the run.
    run: int
    #: Names of the tags, from bit 0 of `tag_bits`.
    tags: list[str]
    #: Event numbers.
    ids: npt.NDArray[np.uint64]
    #: Times of the triggers, in nanoseconds.
    times: npt.NDArray[np.uint64]
    #: Types of the triggers.
    trigger_types: npt.NDArray[np.uint16]
    #: The filter's tags as bits.
    tag_bits: npt.NDArray[np.uint64]
    #: Whether a required source is missing.
    incomplete: npt.NDArray[np.bool_]
    #: Index of each event's first fragment, with one additional element at the end.
    first: npt.NDArray[np.int64]
    #: Source of each fragment.
    sources: npt.NDArray[np.uint32]
    #: Times of the sources' own clocks, in nanoseconds.
    fragment_times: npt.NDArray[np.uint64]
    #: Mark of the event number of each fragment, almost always 0, with the bits of an event file. See `disagrees`, `renumbered`
    #: and `differences`.
    number_marks: npt.NDArray[np.uint32]
    #: Offset of each fragment's payload in bytes, with one additional element at the end.
    offsets: npt.NDArray[np.int64]
    #: Concatenated payloads of all fragments.
    payload: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ids)

    def has_tag(self, name: str) -> npt.NDArray[np.bool_]:
        """Returns a mask of the events that have the tag."""
        bit = 63 if name == "quarantined" else self.tags.index(name)
        chosen: npt.NDArray[np.bool_] = (self.tag_bits >> bit) & 1 == 1
        return chosen

    @property
    def disagrees(self) -> npt.NDArray[np.bool_]:
        """A mask of the fragments whose check value disagrees with that of their event."""
        chosen: npt.NDArray[np.bool_] = self.number_marks & 0x100 != 0
        return chosen

    @property
    def renumbered(self) -> npt.NDArray[np.bool_]:
        """A mask of the fragments whose event number the readout unit has changed."""
        chosen: npt.NDArray[np.bool_] = self.number_marks & 0x200 != 0
        return chosen

    @property
    def differences(self) -> npt.NDArray[np.int32]:
        """For each fragment, the difference of its check value from that of its event; 0 if they agree."""
        numbers: npt.NDArray[np.int32] = (self.number_marks.view("<i4") >> 10) * self.disagrees
        return numbers


def columns(
    path: str | os.PathLike[str],
    *,
    events: int | None = None,
    sources: Iterable[int] | None = None,
    tags: Iterable[str] | None = None,
    skip_damaged: bool = False,
) -> EventColumns:
    """Reads an event file or a run directory as columns: at most `events` events, only fragments of `sources`, only events with one
    of `tags`. The arrays are read-only.

    >>> import sheaf
    >>> c = sheaf.columns(example)
    >>> len(c), c.sources[:4], int(c.offsets[-1])
    (3, array([0, 1, 0, 1], dtype=uint32), 96)
    """
    wanted = None if sources is None else list(sources)
    named = None if tags is None else list(tags)
    raw = read_columns(path, events=events, sources=wanted, tags=named, skip_damaged=skip_damaged)
    return EventColumns(
        run=raw.run,
        tags=raw.tags,
        ids=raw.ids.array("<u8"),
        times=raw.times.array("<u8"),
        trigger_types=raw.trigger_types.array("<u2"),
        tag_bits=raw.tag_bits.array("<u8"),
        incomplete=raw.incomplete.array("?"),
        first=raw.first.array("<i8"),
        sources=raw.sources.array("<u4"),
        fragment_times=raw.fragment_times.array("<u8"),
        number_marks=raw.number_marks.array("<u4"),
        offsets=raw.offsets.array("<i8"),
        payload=raw.payload.array("u1"),
    )


def to_awkward(
    path: str | os.PathLike[str],
    *,
    dtype: Any = "u1",
    events: int | None = None,
    sources: Iterable[int] | None = None,
    tags: Iterable[str] | None = None,
    skip_damaged: bool = False,
) -> Any:
    """Reads an event file or a run directory as an Awkward array of records: `id`, `time`, `trigger_type`, `tag_bits`, `incomplete`,
    and `fragments`, a list of records `source`, `time`, `data`. `data` contains the payload as words of `dtype`. A payload whose
    size is not a multiple of the word size is an error.

    >>> import sheaf
    >>> a = sheaf.to_awkward(example, dtype="<u2")
    >>> a.fragments.data[0, 1, :3].tolist()
    [514, 514, 514]
    """
    import awkward as ak
    import numpy as np

    if not hasattr(ak, "contents"):
        raise ImportError(f"awkward {ak.__version__} is too old; sheaf needs 2 or later: pip install 'awkward>=2'")
    c = columns(path, events=events, sources=sources, tags=tags, skip_damaged=skip_damaged)
    word = np.dtype(dtype)
    odd = np.flatnonzero(c.offsets % word.itemsize)
    if len(odd) > 0:
        fragment = int(odd[0]) - 1
        length = int(c.offsets[fragment + 1] - c.offsets[fragment])
        raise ValueError(
            f"a fragment of source {c.sources[fragment]} has {length} bytes, which is not a multiple of the size of {word}; "
            "choose another dtype, or only sources with such words"
        )
    data = ak.contents.ListOffsetArray(
        ak.index.Index64(c.offsets // word.itemsize), ak.contents.NumpyArray(c.payload.view(word))
    )
    fragment_columns = [ak.contents.NumpyArray(c.sources), ak.contents.NumpyArray(c.fragment_times), data]
    fragments = ak.contents.ListOffsetArray(
        ak.index.Index64(c.first), ak.contents.RecordArray(fragment_columns, ["source", "time", "data"])
    )
    event_columns = [
        ak.contents.NumpyArray(column) for column in (c.ids, c.times, c.trigger_types, c.tag_bits, c.incomplete)
    ]
    names = ["id", "time", "trigger_type", "tag_bits", "incomplete", "fragments"]
    return ak.Array(ak.contents.RecordArray([*event_columns, fragments], names))
