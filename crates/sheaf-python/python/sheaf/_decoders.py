"""Decoders: functions and classes that find the hits in fragments of self-triggered front ends."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ._loading import load, marked, wrong_target
from ._sheaf import SheafError

if TYPE_CHECKING:
    import numpy

#: Fields of a hit, as a NumPy data type describes them: `numpy.dtype(sheaf.HIT)`. 16 bytes.
HIT = [("time", "<u8"), ("channel", "<u4"), ("value", "<u2"), ("extra", "<u2")]

#: Fields of a window that the filter `coincidence` stores with an event: `numpy.frombuffer(event.payload, sheaf.WINDOW)`. 32 bytes.
WINDOW = [("begin_ps", "<u8"), ("end_ps", "<u8"), ("first_ps", "<u8"), ("hits", "<u4"), ("sources", "<u4")]

#: Channel of a hit that is no hit: it tells that the source's time has come to its `time`.
TIME_MARKER = 0xFFFF_FFFF

#: Channel of a hit that is no hit: a pulse of the reference came when the source's clock read its `time`.
TIME_PULSE = 0xFFFF_FFFE

#: Channel of a hit that is no hit: the source's counter restarts at 0 after it read `time`. Hits before it precede it in the array.
TIME_RESET = 0xFFFF_FFFD

#: Channel of a hit that is no hit: a pulse of the reference that restarts the counter, which read `time` before.
TIME_PULSE_RESET = 0xFFFF_FFFC

_Target = TypeVar("_Target", bound="Callable[..., Any]")


class RawFragment:
    """A fragment as its source sent it."""

    __slots__ = ("data", "event", "source", "time")

    def __init__(self, source: int, event: int, time: int, data: memoryview) -> None:
        #: Number of the source.
        self.source = source
        #: Event id of the fragment; 0 if it has none.
        self.event = event
        #: Time of the fragment in nanoseconds; 0 if it has none.
        self.time = time
        #: The payload. It is valid during the call.
        self.data = data

    def array(self, dtype: Any) -> numpy.ndarray[Any, Any]:
        """Returns the whole records in the payload as an array; bytes after the last whole record are left out.

        >>> RawFragment(0, 0, 0, memoryview(b"ab1")).array("<u2").tolist()
        [25185]
        """
        import numpy

        dtype = numpy.dtype(dtype)
        return numpy.frombuffer(self.data, dtype, count=len(self.data) // dtype.itemsize)

    def __len__(self) -> int:
        return len(self.data)


def hits(time: Any, channel: Any = 0, value: Any = 0, extra: Any = 0) -> numpy.ndarray[Any, Any]:
    """Returns the hits of a fragment, in any order of time.

    `time` is an array of readings of the source's clock, in ticks of `source.timed.tick`. With `source.timed.times = "fragment"` they
    count from the time of the fragment. The other arguments are arrays of the same length, or one number for all.

    >>> hits([5, 7], channel=[1, 2]).tolist()
    [(5, 1, 0, 0), (7, 2, 0, 0)]
    """
    import numpy

    found = numpy.empty(len(time), HIT)
    found["time"] = time
    found["channel"] = channel
    found["value"] = value
    found["extra"] = extra
    return found


def decoder(target: _Target) -> _Target:
    """Marks a function or a class as a decoder of hits.

    A function takes a `RawFragment` and returns an array of `sheaf.hits`. A class has a method `decode` with the same signature. It is
    instantiated once for each source, with the text `source.decoder.parameters` of the configuration if it takes an argument.

    >>> @decoder
    ... def superframe(fragment):
    ...     found = fragment.array([("pmt", "u1"), ("tdc", "<u4"), ("tot", "u1")])
    ...     return hits(found["tdc"], channel=found["pmt"], value=found["tot"])
    """
    if inspect.isclass(target):
        if not callable(getattr(target, "decode", None)):
            raise TypeError(f"the decoder class {target.__name__} has no method decode(self, fragment)")
    elif not callable(target):
        raise TypeError(wrong_target("decoder", target))
    return marked("decoder", target)


def load_decoder(name: str, parameters: str = "") -> Callable[[], Callable[[RawFragment], Any]]:
    """Loads the decoder `module:name` or `path/to/file.py:name`, and returns a function that makes one for a source.

    Without `:name`, the module must contain exactly one decoder marked with `sheaf.decoder`.
    """
    target = load("decoder", name)
    if not inspect.isclass(target):
        if not callable(target):
            raise SheafError(wrong_target("decoder", target))
        function: Callable[[RawFragment], Any] = target
        return lambda: function
    made: Any = decoder(target)
    takes_text = bool(inspect.signature(made).parameters)
    return lambda: (made(parameters) if takes_text else made()).decode
