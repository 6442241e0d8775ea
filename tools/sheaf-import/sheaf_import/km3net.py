"""KM3NeT online ROOT files, by km3io.

The data acquisition of KM3NeT cuts time into slices. In a slice each optical module (DOM) has one *superframe*: its
hits of that slice. So here

* source is the DOM's id,
* event is the slice's frame index: slices may be out of order in the file, and stay so in the streams,
* time is the UTC time at which the slice begins, in ns,
* payload is the superframe's hits, six bytes each: PMT u8, TDC u32 little-endian (ns in the slice), time over
  threshold u8 (ns). A module without hits has an empty payload.
"""

import os

from .errors import InputError
from .recording import Recording, check_files, require, same_run

NAME = "km3net"
HELP = "KM3NeT online ROOT files (time slices), read by km3io"
PIP = "'km3io==1.1.0' 'uproot==4.3.7' 'awkward==1.10.5' 'numpy==1.26.4'"
STREAMS = ("L0", "L1", "L2", "SN")

# The classes of time slices, with the versions that km3io reads. ROOT writes the version of each class into the file.
_CLASSES = {
    "KM3NETDAQ::JDAQTimeslice": 4,
    "KM3NETDAQ::JDAQTimesliceHeader": 2,
    "KM3NETDAQ::JDAQSuperFrame": 3,
    "KM3NETDAQ::JDAQSuperFrameHeader": 2,
    "KM3NETDAQ::JDAQHit": 1,
}
_CONVERT = (
    "read it with a program that knows this version, such as Jpp, and write its slices as fragment streams with an importer of your own "
    "(docs/howto/import.md)"
)

_TICK_NS = 16
_CHRONOMETER_SECONDS = b"timeslice_start.UTC_seconds"
_CHRONOMETER_TICKS = b"timeslice_start.UTC_16nanosecondcycles"
_NUMBER_OF_HITS = b"vector<KM3NETDAQ::JDAQSuperFrame>.numberOfHits"


def add_options(parser):
    """Adds what this format alone needs to the command's `parser`."""
    parser.add_argument(
        "--stream", choices=STREAMS, default="L1", help="which data stream's time slices to take (default: %(default)s)"
    )


def read(paths, options):
    """Opens files of one run; returns a :class:`sheaf_import.recording.Recording`."""
    check_files(paths, b"root", "a ROOT file")
    require("numpy", "numpy", PIP)
    km3io = require("km3io", "km3io", PIP)
    slices = [_SliceFile(km3io, path, options.stream) for path in paths]
    metadata = {
        "detector": f"KM3NeT detector {slices[0].detector}",
        "origin": [os.path.basename(path) for path in paths],
        "importer": NAME,
        "source": "DOM id",
        "event": "frame index of the time slice",
        "time": "UTC begin of the time slice, ns since 1970",
        "payload": f"{options.stream} hits, 6 bytes each: "
        "PMT u8, TDC u32 little-endian (ns), time over threshold u8 (ns)",
    }
    run = same_run({file.path: file.run for file in slices})
    return Recording(run, metadata, (), (fragment for file in slices for fragment in file.fragments()))


class _SliceFile:
    """The time slices of one file. All that km3io and uproot3 raise on damaged input becomes an InputError."""

    def __init__(self, km3io, path, stream):
        self.path = path
        self._stream = stream
        self._written = _check_versions(path)
        try:
            self._timeslices = km3io.OnlineReader(path).timeslices
            known = str(self._timeslices)
            branches = getattr(self._timeslices, stream, None)
        except Exception as error:
            raise self._damaged(error) from error
        if branches is None:
            raise InputError(f"{path}: has no {stream} time slices. {known}")
        try:
            header = branches.headers
            self.detector = int(header[b"detector_id"].array()[0])
            self._runs = header[b"run"].array().tolist()
            self._frames = header[b"frame_index"].array().tolist()
            self._seconds = header[_CHRONOMETER_SECONDS].array().tolist()
            self._ticks = header[_CHRONOMETER_TICKS].array().tolist()
            self._hits = branches.superframes[_NUMBER_OF_HITS].array().tolist()
        except Exception as error:
            raise self._damaged(error) from error
        self.run = self._one_run()

    def fragments(self):
        """(DOM, frame index, UTC ns, hits) of each superframe, in the order of the file."""
        for index, frame in enumerate(self._frames):
            time_ns = self._seconds[index] * 1_000_000_000 + self._ticks[index] * _TICK_NS
            for dom, payload in self._superframes(index, frame):
                yield dom, frame, time_ns, payload

    def _superframes(self, index, frame):
        """km3io returns a dictionary by DOM and cuts the hits by count: check that nothing fell out on the way."""
        announced = self._hits[index]
        try:
            frames = self._timeslices.stream(self._stream, index).frames
            found = [(int(dom), _pack(hits)) for dom, hits in frames.items()]
        except Exception as error:
            raise self._damaged(error) from error
        if len(found) != len(announced):
            raise InputError(
                f"{self.path}: slice {frame} has {len(announced)} superframes of only {len(found)} modules: "
                "a module appears twice, and km3io keeps one of them"
            )
        for (dom, payload), hits in zip(found, announced):
            if len(payload) != 6 * hits:
                raise InputError(
                    f"{self.path}: slice {frame}, DOM {dom}: {hits} hits announced, {len(payload) // 6} there"
                )
        return found

    def _one_run(self):
        if len(set(self._runs)) != 1:
            raise InputError(f"{self.path}: holds slices of runs {sorted(set(self._runs))}: one run is expected")
        return self._runs[0]

    def _damaged(self, error):
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        return InputError(f"{self.path}: km3io cannot read it as a KM3NeT online file{self._written}: {reason}")


def _check_versions(path):
    """Refuses a file whose classes have other versions than km3io reads. Returns what is known of its writer, for messages."""
    import uproot

    try:
        with uproot.open(path) as file:
            streamers = file.file.streamers
            root = getattr(file.file, "root_version", None)
    except Exception:
        # A damaged file: the reader describes it.
        return ""
    written = f" (written by ROOT {root})" if root else ""
    found = {name: sorted(streamers[name]) for name in _CLASSES if name in streamers}
    others = [
        f"{name} has version {', '.join(map(str, versions))}, not {_CLASSES[name]}"
        for name, versions in found.items()
        if versions != [_CLASSES[name]]
    ]
    if others:
        raise InputError(f"{path}{written}: the format is another one than this importer reads: {'; '.join(others)}; {_CONVERT}")
    return written


def _pack(hits):
    """The hits of a superframe as the front end sent them: 6 bytes each."""
    import numpy

    packed = numpy.empty(len(hits), dtype=[("pmt", "u1"), ("tdc", "<u4"), ("tot", "u1")])
    for field in packed.dtype.names:
        packed[field] = hits[field]
    return packed.tobytes()
