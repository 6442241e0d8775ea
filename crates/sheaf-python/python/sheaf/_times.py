"""Meaning of times."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class TimeBase:
    """Meaning of the times of a file: time `t` is `t` units after the epoch.

    `unit` is the unit in nanoseconds, `epoch_ns` is time 0 in nanoseconds since 1970-01-01 UTC, or None if it is unknown. `stated` is
    False for files that do not state them: their times are nanoseconds.

    >>> base = TimeBase(Fraction(25, 16), 1_767_225_600_000_000_000, True)
    >>> base.nanoseconds(3)
    Fraction(75, 16)
    >>> base.seconds(640_000_000)
    1.0
    >>> print(base.datetime64(640_000_003))
    2026-01-01T00:00:01.000000004
    """

    unit: Fraction
    epoch_ns: int | None
    stated: bool

    def nanoseconds(self, time: int) -> Fraction:
        """Returns the exact time in nanoseconds since the epoch."""
        return time * self.unit

    def seconds(self, times: Any) -> Any:
        """Returns seconds since the epoch as floating-point numbers. They have 53 bits: use differences of times if that matters."""
        import numpy as np

        seconds = np.asarray(times, dtype=np.float64) * self.unit.numerator / (self.unit.denominator * 1_000_000_000)
        return seconds[()] if np.ndim(times) else float(seconds)

    def datetime64(self, times: Any) -> Any:
        """Returns times of the calendar as `datetime64[ns]`, rounded down to the nanosecond.

        Raises ValueError if the epoch is unknown, and OverflowError if a time is after 2262.
        """
        import numpy as np

        if self.epoch_ns is None:
            raise ValueError("the epoch of the times is unknown; set `source.epoch` for the run, or use `seconds`")
        times = np.asarray(times, dtype=np.uint64)
        numerator, denominator = self.unit.numerator, self.unit.denominator
        most = int(times.max()) if times.size else 0
        if most * numerator // denominator + self.epoch_ns >= 2**63:
            raise OverflowError("a time is after 2262, the end of datetime64 in nanoseconds")
        # In two parts, because the product of a time and the numerator may exceed 64 bits. Both numbers are below 2**32.
        whole, rest = np.divmod(times, np.uint64(denominator))
        nanos = whole * np.uint64(numerator) + rest * np.uint64(numerator) // np.uint64(denominator)
        # Modulo 2**64, the sum is right also for an epoch before 1970.
        sums = nanos + np.uint64(self.epoch_ns % 2**64)
        return sums.view("datetime64[ns]")[()]
