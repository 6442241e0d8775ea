"""A directory of fragment streams, one per source: complete, or not there at all."""

import os
import shutil

from .errors import OutputError
from .stream import StreamWriter

__all__ = ["StreamDirectory", "remove_staging"]

SUFFIX = ".sfrag"


class StreamDirectory:
    """Writes the streams of many sources to one directory and counts what went in.

    Streams are written to a staging directory inside `path` and moved to their place when the ``with`` block ends
    well; an exception leaves `path` as it was before.

    Args:
        path: the output directory; made if it is not there. It must be empty, unless `force`.
        run: the run's number, for all streams.
        metadata: the description for all streams.
        has_ids, has_times: as in :class:`sheaf_import.stream.StreamWriter`.
        force: replace the streams that are there. Other files in `path` are never touched.

    >>> import tempfile
    >>> out = os.path.join(tempfile.mkdtemp(), "run-42")
    >>> with StreamDirectory(out, run=42, metadata={"detector": "example"}) as streams:
    ...     streams.append(source=1, event=10, time_ns=0, payload=b"ab")
    ...     streams.append(source=2, event=10, time_ns=3, payload=b"cde")
    ...     streams.append(source=2, event=11, time_ns=9, payload=b"")
    >>> sorted(os.listdir(out))
    ['source-1.sfrag', 'source-2.sfrag']
    >>> streams.report()["events_incomplete"], streams.report()["missing"]
    (1, [{'source': 1, 'events': 1}])
    """

    def __init__(self, path, run=0, metadata=None, has_ids=True, has_times=True, force=False):
        self.path = os.fspath(path)
        self.run = run
        self._options = dict(run=run, metadata=metadata, has_ids=has_ids, has_times=has_times)
        self._force = force
        self.fragments = 0
        self.bytes = 0
        self._writers = {}
        self._coverage = _Coverage()
        self._made = False
        self._staging = staging_path(self.path, os.getpid())

    def declare(self, source):
        """Makes the stream of `source` even if no fragment follows: a source that should have answered."""
        if source not in self._writers:
            self._coverage.declare(source)
            name = os.path.join(self._staging, f"source-{source}{SUFFIX}")
            self._writers[source] = StreamWriter(name, source, **self._options)

    def append(self, source, event, time_ns, payload):
        """Appends a fragment to the stream of `source`; see :meth:`sheaf_import.stream.StreamWriter.append`."""
        writer = self._writers.get(source)
        if writer is None:
            self.declare(source)
            writer = self._writers[source]
        writer.append(event, time_ns, payload)
        self._coverage.add(source, event)
        self.fragments += 1
        self.bytes += len(payload)

    def report(self):
        """What went in, as a dictionary that JSON can hold.

        `events` counts distinct event ids; `events_incomplete` those in which at least one source of this directory
        has no fragment, `missing` how many events each such source lacks; `fragments_repeated` counts fragments whose
        source had one for that event before. In streams without ids these four are 0 or empty.
        """
        return {
            "run": self.run,
            "sources": len(self._writers),
            "fragments": self.fragments,
            "bytes": self.bytes,
            **self._coverage.report(),
        }

    def __enter__(self):
        try:
            self._prepare()
        except OSError as error:
            raise OutputError(f"{self.path}: cannot write here: {error.strerror}") from error
        return self

    def __exit__(self, kind, value, traceback):
        try:
            if kind is None:
                self._finish()
                return
        except OSError as error:
            raise OutputError(f"{self.path}: cannot write here: {error.strerror}") from error
        finally:
            self._discard()

    def _prepare(self):
        if not os.path.lexists(self.path):
            os.makedirs(self.path)
            self._made = True
        elif not os.path.isdir(self.path):
            raise OutputError(f"{self.path}: not a directory: name a directory for the streams")
        elif not self._force and os.listdir(self.path):
            raise OutputError(f"{self.path}: exists and is not empty: name another directory, or use --force")
        os.mkdir(self._staging)

    def _finish(self):
        for writer in self._writers.values():
            writer.close()
        new = {os.path.basename(writer.path) for writer in self._writers.values()}
        for name in sorted(os.listdir(self.path)):
            if name.endswith(SUFFIX) and name not in new:
                os.unlink(os.path.join(self.path, name))
        for name in sorted(new):
            os.replace(os.path.join(self._staging, name), os.path.join(self.path, name))
        self._made = False

    def _discard(self):
        """Removes the staging directory, and the directory itself if it was made for an import that failed."""
        for writer in self._writers.values():
            writer.abort()
        remove_staging(self.path, os.getpid(), and_directory=self._made)


def staging_path(path, process):
    """Where the importer with process number `process` collects the streams for `path`."""
    return os.path.join(path, f".importing-{process}")


def remove_staging(path, process, and_directory):
    """Removes the staging directory of an import that has ended, and `path` itself if it was made for it."""
    shutil.rmtree(staging_path(path, process), ignore_errors=True)
    if and_directory:
        try:
            os.rmdir(path)
        except OSError:
            pass  # Never made, or somebody else has put something there meanwhile.


class _Coverage:
    """Which source has a fragment of which event: a bit per source in one integer per event."""

    def __init__(self):
        self._bits = {}
        self._events = {}
        self._repeated = 0

    def declare(self, source):
        self._bits[source] = 1 << len(self._bits)

    def add(self, source, event):
        if event is None:
            return
        bit = self._bits[source]
        seen = self._events.get(event, 0)
        if seen & bit:
            self._repeated += 1
        self._events[event] = seen | bit

    def report(self):
        everyone = (1 << len(self._bits)) - 1
        incomplete = [seen for seen in self._events.values() if seen != everyone]
        missing = {
            source: sum(1 for seen in incomplete if not seen & bit) for source, bit in sorted(self._bits.items())
        }
        return {
            "events": len(self._events),
            "events_incomplete": len(incomplete),
            "fragments_repeated": self._repeated,
            "missing": [{"source": source, "events": events} for source, events in missing.items() if events],
        }
