"""Detector data to Sheaf's fragment streams.

A *fragment stream* is one file per source (front end) that holds the source's fragments in the order in which it
made them. ``sheaf run --replay DIR`` builds events from a directory of them.

==================  ===========================================================================================
module              holds
==================  ===========================================================================================
``stream``          the writer and reader of one stream file: needs nothing but Python
``directory``       a directory of streams, complete or not there at all, and the count of what went in
``km3net``          importer: KM3NeT online ROOT files, by km3io
``lst1``            importer: zfits files of the CTAO LST-1 camera, by protozfits
``cli``             the command: ``python3 -m sheaf_import FORMAT FILE... DIR``
==================  ===========================================================================================

To write an importer for another detector, use :class:`sheaf_import.stream.StreamWriter` or
:class:`sheaf_import.directory.StreamDirectory`; docs/howto/import.md shows one in twenty lines.
"""

from .directory import StreamDirectory
from .errors import ImporterError, InputError, MissingPackage, OutputError
from .stream import Fragment, StreamError, StreamHeader, StreamWriter, read_header, read_stream

__all__ = [
    "Fragment",
    "ImporterError",
    "InputError",
    "MissingPackage",
    "OutputError",
    "StreamDirectory",
    "StreamError",
    "StreamHeader",
    "StreamWriter",
    "read_header",
    "read_stream",
]

__version__ = "0.1.0"
