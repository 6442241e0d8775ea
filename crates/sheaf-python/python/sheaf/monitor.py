"""Histograms of a run: fill them, and they are on its page, in its record, and compared with those of a reference run.

The module needs the standard library alone, and is faster with NumPy. Nothing of the rest of the package is needed: a copy of this file beside a
script does, with `import monitor`.

    import sheaf
    import sheaf.monitor

    with sheaf.monitor.connect("runs/run000001") as monitor, sheaf.tap("runs/run000001", rate=100) as tap:
        charge = monitor.histogram("charge", bins=100, range=(0, 4096), title="Charge", x="ADC counts")
        for event in tap:
            charge.fill(event[0].array("<u2"))

Filling is local: no system call, no waiting. A thread publishes what has changed once a second, as whole snapshots, and the run never waits for
it.
"""

from __future__ import annotations

import atexit
import http.client
import ipaddress
import json
import math
import os
import re
import secrets
import socket
import ssl
import sys
import threading
import time
import urllib.parse
import warnings
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, SupportsFloat, TypeVar

try:
    import numpy
except ImportError:  # pragma: no cover - the package has NumPy in its tests
    numpy = None  # type: ignore[assignment]

__all__ = [
    "Histogram",
    "Histogram2D",
    "HistogramRefused",
    "Monitor",
    "MonitorError",
    "NoRunError",
    "Profile",
    "connect",
]

#: Socket in the directory of a run.
_SOCKET = "run.monitor"

#: Time between two publications, and the longest time without any: the run expects the last one of whoever has published lately.
_PERIOD_S = 1.0
_HEARTBEAT_S = 3.0

#: Time for an answer.
_ANSWER_S = 20.0

#: Pause between two attempts to reach a run.
_PAUSE_S = 0.05

#: Numbers of a publication, beyond which the next histograms are in another one.
_NUMBERS = 100_000

#: Numbers, or an array of them.
Values = SupportsFloat | Iterable[SupportsFloat]


class MonitorError(Exception):
    """Histograms did not reach the run."""


class NoRunError(MonitorError):
    """No run takes histograms there."""


class HistogramRefused(MonitorError):
    """The run refuses a histogram, or all of them: nothing of it was taken."""

    def __init__(self, status: int, code: str, text: str, remedy: str) -> None:
        super().__init__(f"{text}; {remedy}" if remedy else text)
        #: Status code of HTTP; 200 where other histograms were taken.
        self.status = status
        #: Kind of the refusal: "other_bins", "too_many_histograms", "too_many_bytes", "too_many_publishers", "token" and others.
        self.code = code
        #: What happened.
        self.text = text
        #: What to do.
        self.remedy = remedy


class _Axis:
    """Bins of equal width, an underflow before them and an overflow behind them."""

    def __init__(self, bins: int, range: tuple[float, float], title: str) -> None:
        low, high = float(range[0]), float(range[1])
        if bins < 1 or not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"{bins} bins from {low} to {high}: an axis needs bins, and a low end below its high end")
        self.bins, self.low, self.high, self.title = int(bins), low, high, title
        self.cells = self.bins + 2
        self.scale = self.bins / (high - low)

    def cell(self, value: float) -> int:
        if value < self.low:
            return 0
        if value >= self.high:
            return self.cells - 1
        return min(int((value - self.low) * self.scale), self.bins - 1) + 1

    def cells_of(self, values: Any) -> Any:
        """Cells of an array without NaN."""
        inside = numpy.clip((values - self.low) * self.scale, 0, self.bins - 1).astype(numpy.int64) + 1
        return numpy.where(values < self.low, 0, numpy.where(values >= self.high, self.cells - 1, inside))

    def describe(self) -> dict[str, Any]:
        return {"bins": self.bins, "low": self.low, "high": self.high, "title": self.title}


class _Filled:
    """What all kinds share. A lock is held while values are filled, and while a snapshot is taken."""

    _kind = ""

    def __init__(self, name: str, axes: Sequence[_Axis], title: str, value_title: str, source: int | None) -> None:
        #: Name, unique in the run.
        self.name = name
        self._axes, self._title, self._value_title, self._source = axes, title, value_title, source
        self._cells = math.prod(axis.cells for axis in axes)
        self._lock = threading.Lock()
        self._entries = self._nan = 0
        #: Number of fills, and the number of those that are published.
        self._fills, self._published = 1, 0
        self._lists: dict[str, Any] = {}
        self._reset_lists()

    def _reset_lists(self) -> None:
        names = ["contents", "sums", "sums2"] if self._kind == "profile" else ["contents"]
        self._lists = {name: self._zeros(self._cells) for name in names}
        self._squares: Any = None
        self._moments = [0.0] * (5 if self._kind == "2d" else 3)

    @staticmethod
    def _zeros(length: int) -> Any:
        return [0.0] * length if numpy is None else numpy.zeros(length)

    @property
    def entries(self) -> int:
        """Number of values that were filled."""
        return self._entries

    @property
    def contents(self) -> list[float]:
        """Sums of the weights: underflow, bins and overflow; of a map the rows of these, from the underflow of y to its overflow."""
        with self._lock:
            return _listed(self._lists["contents"])

    def _fill(self, columns: Sequence[Values], weight: Values | None) -> None:
        with self._lock:
            if numpy is not None and not all(isinstance(column, int | float) for column in columns):
                self._fill_array(columns, weight)
            else:
                self._fill_one_by_one(columns, weight)
            self._fills += 1

    def _fill_array(self, columns: Sequence[Values], weight: Values | None) -> None:
        arrays = [numpy.asarray(column, dtype=float).ravel() for column in columns]
        weights = None if weight is None else numpy.asarray(weight, dtype=float).ravel()
        *arrays, whole = numpy.broadcast_arrays(*arrays, numpy.ones(1) if weights is None else weights)
        is_number = ~numpy.isnan(whole)
        for array in arrays:
            is_number &= ~numpy.isnan(array)
        if self._kind == "profile":
            is_number &= numpy.isfinite(arrays[1])
        length = len(whole)
        arrays, whole = [array[is_number] for array in arrays], whole[is_number]
        if weights is not None and not numpy.isfinite(whole).all():
            raise ValueError("a weight is infinite")
        self._entries += length
        self._nan += int(length - len(whole))
        axes = zip(self._axes, arrays, strict=False)
        cells_of = [(axis, values, axis.cells_of(values)) for axis, values in axes]
        cells = cells_of[0][2] if len(cells_of) == 1 else cells_of[1][2] * self._axes[0].cells + cells_of[0][2]
        if weights is not None and self._squares is None:
            self._squares = self._lists["contents"].copy()
        if self._squares is not None:
            self._squares += numpy.bincount(cells, whole * whole, minlength=self._cells)
        self._add("contents", cells, whole)
        if self._kind == "profile":
            self._add("sums", cells, whole * arrays[1])
            self._add("sums2", cells, whole * arrays[1] * arrays[1])
        inside = numpy.ones(len(whole), dtype=bool)
        for axis, _, of_axis in cells_of:
            inside &= (of_axis > 0) & (of_axis < axis.cells - 1)
        self._moments[0] += float(whole[inside].sum())
        for at, (_, values, _) in enumerate(cells_of):
            weighted = whole[inside] * values[inside]
            self._moments[1 + 2 * at] += float(weighted.sum())
            self._moments[2 + 2 * at] += float((weighted * values[inside]).sum())

    def _add(self, name: str, cells: Any, weights: Any) -> None:
        self._lists[name] += numpy.bincount(cells, weights, minlength=self._cells)

    def _fill_one_by_one(self, columns: Sequence[Values], weight: Values | None) -> None:
        lists = [_numbers(column) for column in columns]
        length = max(len(values) for values in lists)
        weights = [1.0] if weight is None else _numbers(weight)
        length = max(length, len(weights)) if all(lists) and weights else 0
        for values in [*lists, weights]:
            if len(values) not in (1, length):
                raise ValueError(f"there are {len(values)} values where others are {length}")
        if weight is not None and self._squares is None:
            self._squares = self._lists["contents"].copy()
        for at in range(length):
            self._fill_one([values[at % len(values)] for values in lists], weights[at % len(weights)])

    def _fill_one(self, values: Sequence[float], weight: float) -> None:
        self._entries += 1
        is_number = not any(math.isnan(value) for value in [*values, weight])
        if not is_number or (self._kind == "profile" and math.isinf(values[1])):
            self._nan += 1
            return
        if math.isinf(weight):
            raise ValueError("a weight is infinite")
        cells = [axis.cell(value) for axis, value in zip(self._axes, values, strict=False)]
        cell = cells[0] if len(cells) == 1 else cells[1] * self._axes[0].cells + cells[0]
        self._lists["contents"][cell] += weight
        if self._squares is not None:
            self._squares[cell] += weight * weight
        if self._kind == "profile":
            self._lists["sums"][cell] += weight * values[1]
            self._lists["sums2"][cell] += weight * values[1] * values[1]
        if all(0 < cell < axis.cells - 1 for axis, cell in zip(self._axes, cells, strict=True)):
            self._moments[0] += weight
            for at, value in enumerate(values[: len(self._axes)]):
                self._moments[1 + 2 * at] += weight * value
                self._moments[2 + 2 * at] += weight * value * value

    def reset(self) -> None:
        """Forgets all values."""
        with self._lock:
            self._entries = self._nan = 0
            self._reset_lists()
            self._fills += 1

    @property
    def _number_count(self) -> int:
        return self._cells * (len(self._lists) + (self._squares is not None))

    def _snapshot(self) -> tuple[int, dict[str, Any]]:
        """Returns the number of fills, and the histogram as the run takes it."""
        with self._lock:
            lists = {name: _listed(values) for name, values in self._lists.items()}
            if self._squares is not None:
                lists["squares"] = _listed(self._squares)
            described = {
                "name": self.name,
                "kind": self._kind,
                "title": self._title,
                "axes": [axis.describe() for axis in self._axes],
                "value_title": self._value_title,
                "entries": self._entries,
                "nan": self._nan,
                "moments": list(self._moments),
                **lists,
            }
            if self._source is not None:
                described["source"] = self._source
            return self._fills, described


_FilledT = TypeVar("_FilledT", bound=_Filled)


class Histogram(_Filled):
    """Counts in bins of one quantity. `Monitor.histogram` makes one."""

    _kind = "1d"

    def fill(self, values: Values, weight: Values | None = None) -> None:
        """Adds values: a number, a sequence or an array, with one weight or as many."""
        self._fill([values], weight)


class Histogram2D(_Filled):
    """Counts in bins of two quantities. `Monitor.histogram2d` makes one."""

    _kind = "2d"

    def fill(self, x: Values, y: Values, weight: Values | None = None) -> None:
        """Adds pairs of values. One of the two may be a single number."""
        self._fill([x, y], weight)


class Profile(_Filled):
    """Mean of y in bins of x. `Monitor.profile` makes one."""

    _kind = "profile"

    def fill(self, x: Values, y: Values, weight: Values | None = None) -> None:
        """Adds pairs of values. One of the two may be a single number."""
        self._fill([x, y], weight)


class Monitor:
    """A connection to a run, with the histograms of this program. `connect` makes one.

    A thread publishes until `close`, which publishes what is left and raises an error if that does not arrive. A `with` statement closes it.
    """

    def __init__(self, run: _Run, name: str) -> None:
        #: Name of this publisher.
        self.name = name
        self._run = run
        self._session = secrets.token_hex(16)
        self._histograms: dict[str, _Filled] = {}
        #: The last problem, which `close` raises if it lasts.
        self.problem: MonitorError | None = None
        self._sequence = 0
        self._sent = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="sheaf.monitor", daemon=True)
        self._send(False, [])
        self._thread.start()
        atexit.register(self._close_at_exit)

    def histogram(
        self,
        name: str,
        *,
        bins: int,
        range: tuple[float, float],
        title: str = "",
        x: str = "",
        source: int | None = None,
    ) -> Histogram:
        """Makes a histogram of one quantity. The same name again must have the same bins; the sums of all programs are shown."""
        return self._register(Histogram(name, [_Axis(bins, range, x)], title, "", source))

    def histogram2d(
        self,
        name: str,
        *,
        bins: tuple[int, int],
        range: tuple[tuple[float, float], tuple[float, float]],
        title: str = "",
        x: str = "",
        y: str = "",
        source: int | None = None,
    ) -> Histogram2D:
        """Makes a histogram of two quantities, such as channel and source. `bins` and `range` are those of x and y."""
        axes = [_Axis(bins[0], range[0], x), _Axis(bins[1], range[1], y)]
        return self._register(Histogram2D(name, axes, title, "", source))

    def profile(
        self,
        name: str,
        *,
        bins: int,
        range: tuple[float, float],
        title: str = "",
        x: str = "",
        y: str = "",
        source: int | None = None,
    ) -> Profile:
        """Makes a profile: the mean of y and its error in each bin of x."""
        return self._register(Profile(name, [_Axis(bins, range, x)], title, y, source))

    def _register(self, histogram: _FilledT) -> _FilledT:
        """Publishes an empty histogram, so that one that is refused is refused where it is made."""
        if histogram.name in self._histograms:
            raise ValueError(f"this program has a histogram `{histogram.name}` already")
        with self._lock:
            for refusal in self._send(False, [histogram]):
                raise refusal
            self._histograms[histogram.name] = histogram
        return histogram

    def publish(self) -> None:
        """Publishes what has changed, now. Raises `MonitorError` if it does not arrive or is refused."""
        with self._lock:
            self._publish(False)

    def close(self) -> None:
        """Publishes what is left, and ends. Raises `MonitorError` if it does not arrive: the run has ended, for example."""
        if self._stop.is_set():
            return
        self._stop.set()
        atexit.unregister(self._close_at_exit)
        self._thread.join()
        with self._lock:
            self._publish(True)

    def _publish(self, is_last: bool) -> None:
        """Publishes all that has changed, and raises the first refusal behind it: it must not keep the others back."""
        changed = [histogram for histogram in self._histograms.values() if histogram._fills != histogram._published]
        batches: list[list[_Filled]] = [[]]
        numbers = 0
        for histogram in changed:
            if batches[-1] and numbers + histogram._number_count > _NUMBERS:
                batches.append([])
                numbers = 0
            batches[-1].append(histogram)
            numbers += histogram._number_count
        if not changed and not is_last and time.monotonic() - self._sent < _HEARTBEAT_S:
            return
        refusals = [self._send(is_last and batch is batches[-1], batch) for batch in batches]
        for refusal in sum(refusals, []):
            raise refusal

    def _send(self, is_last: bool, histograms: Sequence[_Filled]) -> list[HistogramRefused]:
        """Sends one publication, and returns what was refused. Only what the run has taken counts as published."""
        snapshots = [(histogram, *histogram._snapshot()) for histogram in histograms]
        self._sequence += 1
        publication = {
            "session": self._session,
            "sequence": self._sequence,
            "final": is_last,
            "histograms": [described for *_, described in snapshots],
        }
        receipt = self._run.put(self.name, publication)
        self._sent = time.monotonic()
        refused = {refusal["name"]: refusal for refusal in receipt["refused"]}
        for histogram, fills, _ in snapshots:
            if histogram.name not in refused:
                histogram._published = fills
        return [
            HistogramRefused(200, refusal["code"], refusal["text"], refusal["remedy"]) for refusal in refused.values()
        ]

    def _work(self) -> None:
        while not self._stop.wait(_PERIOD_S):
            try:
                self.publish()
                self.problem = None
            except MonitorError as problem:
                # Warn of each problem once: the next attempt may succeed, and `close` raises a problem that persists.
                if str(problem) != str(self.problem):
                    warnings.warn(f"histograms of {self.name}: {problem}", RuntimeWarning, stacklevel=1)
                self.problem = problem

    def _close_at_exit(self) -> None:
        try:
            self.close()
        except MonitorError as problem:
            print(f"histograms of {self.name} did not reach the run: {problem}", file=sys.stderr)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except MonitorError as problem:
            if error is None:
                raise
            error.add_note(f"also, histograms did not reach the run: {problem}")


class _Run:
    """Where publications go: a socket in the directory of a run, or a page."""

    def __init__(
        self, path: Path | None, address: str, token: str | None, trusted: ssl.SSLContext | None = None
    ) -> None:
        self._path, self._address, self._token, self._trusted = path, address, token, trusted

    def put(self, publisher: str, publication: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(publication, allow_nan=False).encode()
        status, answer = self.ask("PUT", f"/api/v1/publishers/{urllib.parse.quote(publisher)}", body)
        if status != 200:
            raise HistogramRefused(
                status,
                str(answer.get("code", "")),
                str(answer.get("text", f"the answer has the status {status}")),
                str(answer.get("remedy", "")),
            )
        return answer

    def ask(self, method: str, target: str, body: bytes | None = None) -> tuple[int, dict[str, Any]]:
        headers = {"Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._trusted is None:
            connection = http.client.HTTPConnection(self._address, timeout=_ANSWER_S)
        else:
            connection = http.client.HTTPSConnection(self._address, timeout=_ANSWER_S, context=self._trusted)
        try:
            if self._path is not None:
                connection.sock = _connect(self._path)
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        except ssl.SSLCertVerificationError as problem:
            raise MonitorError(
                f"the certificate of {self._address} is not trusted: {problem}; name it, or its authority, with `certificate`"
            ) from problem
        except (OSError, http.client.HTTPException) as problem:
            where = self._path or self._address
            raise NoRunError(f"{where} does not take histograms: the run has not started or has ended ({problem})") from problem
        finally:
            connection.close()
        try:
            value = json.loads(text)
        except ValueError:
            value = {}
        return answer.status, value if isinstance(value, dict) else {}


def _connect(path: Path) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(_ANSWER_S)
    try:
        if len(os.fsencode(path)) <= 100:
            stream.connect(str(path))
        else:
            # The name of a socket is limited; by way of the open directory it is short.
            directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                stream.connect(f"/proc/self/fd/{directory}/{path.name}")
            finally:
                os.close(directory)
    except OSError:
        stream.close()
        raise
    return stream


def connect(
    run: str | PathLike[str],
    *,
    name: str | None = None,
    token: str | None = None,
    certificate: str | PathLike[str] | None = None,
    wait: float = 10.0,
) -> Monitor:
    """Connects to a run, to publish histograms.

    `run` is the directory of a run on this host, or the address of a page (`http://127.0.0.1:7070`, or `https://daq1:7443` of another host). From the
    same user on the same host nothing else is needed. Through the page of `sheaf serve`, `token` is that of an operator, and over https `certificate`
    is a file with the certificate of the page or of the authority that has signed it (default: the authorities that this system knows). `name` is
    that of the publisher, by default that of the script. A run that is still starting is waited for, `wait` seconds at most; then `NoRunError` is
    raised.
    """
    name = name or _script()
    end = time.monotonic() + wait
    while True:
        try:
            return Monitor(_find(os.fspath(run), token, certificate), name)
        except NoRunError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE_S)


def _find(run: str, token: str | None, certificate: str | PathLike[str] | None) -> _Run:
    if not run.startswith(("http://", "https://")):
        return _Run(Path(run) / _SOCKET, "run", None)
    address = urllib.parse.urlsplit(run)
    is_encrypted = address.scheme == "https"
    if token is not None and not is_encrypted and not _is_here(address.hostname or ""):
        raise MonitorError(f"a token would be readable on the way to {run}; use https://, or forward the port with `ssh -L`")
    trusted = None
    if is_encrypted:
        trusted = ssl.create_default_context(cafile=None if certificate is None else os.fspath(certificate))
    page = _Run(None, address.netloc, token, trusted)
    status, answer = page.ask("GET", "/api/v1/histograms?name=-")
    if status != 200:
        raise NoRunError(f"{run} has no run that takes histograms: {answer.get('text', status)}")
    if token is None and isinstance(local := answer.get("socket"), str) and os.access(local, os.W_OK):
        return _Run(Path(local), "run", None)
    return page


def _is_here(host: str) -> bool:
    """Returns whether a name is one of this host, so that nobody else can read what is sent there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _script() -> str:
    stem = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else ""
    return re.sub(r"[^A-Za-z0-9_-]", "-", stem)[:64] or "python"


def _numbers(values: Values) -> list[float]:
    return [float(value) for value in values] if isinstance(values, Iterable) else [float(values)]


def _listed(values: Any) -> list[float]:
    return list(values) if numpy is None else values.tolist()  # type: ignore[no-any-return]
