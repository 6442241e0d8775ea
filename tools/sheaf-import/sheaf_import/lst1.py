"""zfits files of the camera of CTAO's LST-1 telescope, by protozfits.

The camera has 265 modules of 7 pixels. Each module counts events itself and sends, for each, two gains of 40 samples
of its pixels. So here

* source is the module's id,
* event is the module's own event counter, which the file's event id follows,
* time is the module's own: the second of the event's trigger, and within it the module's 10 MHz counter, which starts
  at each pulse per second; in ns, 100 ns fine. Modules differ by a tick now and then, as their clocks did;
* payload is the module's samples: u16 little-endian [gain][pixel][sample], 1120 bytes. With `--with-counters` the
  module's 22 counter bytes follow, little-endian as well: pulses per second u16, 10 MHz ticks u32, event u32,
  trigger u32, local clock (133 MHz) u64.

A module whose status is 0 in an event sent nothing: it has no fragment there.
"""

import os
import warnings

from .errors import InputError
from .recording import Recording, check_files, require, same_run

NAME = "lst1"
HELP = "zfits files of the CTAO LST-1 camera (R1), read by protozfits"
PIP = "'protozfits==2.13.1'"

PIXELS_PER_MODULE = 7
_SECOND_NS = 1_000_000_000
_TICK_NS = 100
_COUNTERS = [("pps", "<u2"), ("ten_mhz", "<u4"), ("event", "<u4"), ("trigger", "<u4"), ("local_clock", "<u8")]


def add_options(parser):
    """Adds what this format alone needs to the command's `parser`."""
    parser.add_argument(
        "--with-counters", action="store_true", help="append the module's 22 counter bytes to each payload"
    )


def read(paths, options):
    """Opens files of one run; returns a :class:`sheaf_import.recording.Recording`."""
    check_files(paths, b"SIMPLE", "a FITS file")
    require("numpy", "numpy", PIP)
    protozfits = require("protozfits", "protozfits", PIP)
    cameras = [_CameraFile(protozfits, path, options.with_counters) for path in paths]
    counters = ", then pps u16, 10 MHz u32, event u32, trigger u32, local clock u64" if options.with_counters else ""
    metadata = {
        "detector": f"CTAO LST-1, telescope {cameras[0].telescope}",
        "origin": [os.path.basename(path) for path in paths],
        "importer": NAME,
        "source": "module id",
        "event": "the module's event counter",
        "time": "second of the trigger and the module's 10 MHz counter, ns since 1970",
        "payload": f"samples u16 [gain][{PIXELS_PER_MODULE} pixels][{cameras[0].samples}]{counters}; little-endian",
    }
    run = same_run({camera.path: camera.run for camera in cameras})
    modules = sorted({module for camera in cameras for module in camera.modules})
    return Recording(run, metadata, modules, (fragment for camera in cameras for fragment in camera.fragments()))


class _CameraFile:
    """The events of one file. What the reader raises on damaged input becomes an InputError."""

    def __init__(self, protozfits, path, with_counters):
        self.path = path
        self._with_counters = with_counters
        try:
            with warnings.catch_warnings():
                # "File may have been truncated" is only a warning there; the reader then crashes on the lost part.
                warnings.simplefilter("error")
                self._file = protozfits.File(path)
            configuration = self._file.CameraConfig[0]
            self.telescope = configuration.telescope_id
            self.samples = configuration.num_samples
            self._pixels = configuration.num_pixels
            self.run = int(configuration.lstcam.run_id)
            self.modules = configuration.lstcam.expected_modules_id.tolist()
        except Exception as error:
            raise self._damaged(error) from error
        if self._pixels != PIXELS_PER_MODULE * len(self.modules):
            raise InputError(
                f"{path}: {self._pixels} pixels in {len(self.modules)} modules: "
                f"this importer knows modules of {PIXELS_PER_MODULE} pixels"
            )

    def fragments(self):
        """(module, event, time in ns, payload) of each module that answered, in the order of the file."""
        for index in range(len(self._file.Events)):
            try:
                fragments = list(self._event(self._file.Events[index]))
            except Exception as error:
                raise self._damaged(error, f" (row {index})") from error
            yield from fragments

    def _event(self, event):
        counters = event.lstcam.counters.tobytes()
        trigger_ns = event.trigger_time_s * _SECOND_NS + event.trigger_time_qns // 4
        samples = event.waveform.astype("<u2", copy=False).reshape(-1, self._pixels, self.samples)
        modules = zip(self.modules, event.lstcam.module_status, self._counter_rows(counters), strict=True)
        for position, (module, status, (raw, row)) in enumerate(modules):
            if status == 0:
                continue
            pixel = PIXELS_PER_MODULE * position
            payload = samples[:, pixel : pixel + PIXELS_PER_MODULE, :].tobytes()
            time_ns = module_time_ns(trigger_ns, int(row["ten_mhz"]))
            yield module, int(row["event"]), time_ns, payload + raw if self._with_counters else payload

    @staticmethod
    def _counter_rows(counters):
        import numpy

        rows = numpy.frombuffer(counters, dtype=_COUNTERS)
        size = rows.itemsize
        return [(counters[size * index : size * (index + 1)], row) for index, row in enumerate(rows)]

    def _damaged(self, error, where=""):
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        return InputError(f"{self.path}{where}: protozfits cannot read it as an LST-1 file: {reason}")


def module_time_ns(trigger_ns, ten_mhz):
    """The module's time: its 10 MHz counter within the second that brings it closest to the trigger.

    >>> module_time_ns(1582059789_516351903, 5163516)
    1582059789516351600

    Around a pulse per second the module may still be, or already be, in the other second:

    >>> module_time_ns(1582059790_000000020, 9999999)
    1582059789999999900
    """
    time_ns = trigger_ns // _SECOND_NS * _SECOND_NS + ten_mhz * _TICK_NS
    if time_ns - trigger_ns > _SECOND_NS // 2:
        time_ns -= _SECOND_NS
    elif trigger_ns - time_ns > _SECOND_NS // 2:
        time_ns += _SECOND_NS
    return time_ns
