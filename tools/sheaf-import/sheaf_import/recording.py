"""What an importer hands over, and the checks that importers share."""

import importlib
import os
import shutil
import sys
from typing import Iterator, NamedTuple, Sequence, Tuple

from .errors import InputError, MissingPackage

__all__ = ["Recording", "check_files", "require", "same_run"]


class Recording(NamedTuple):
    """One run of a detector, as its files tell it."""

    run: int
    """The run number that the files carry."""
    metadata: dict
    """The description for the streams: detector, origin, meaning and unit of source, event, time and payload."""
    sources: Sequence[int]
    """The sources that should be there: they get a stream even if they are silent. May be empty."""
    fragments: Iterator[Tuple[int, int, int, bytes]]
    """(source, event, time in ns, payload), in the order of the files."""


def check_files(paths, magic, what):
    """Raises :class:`InputError` unless each of `paths` is a readable file that begins with `magic`."""
    for path in paths:
        try:
            with open(path, "rb") as file:
                found = file.read(len(magic))
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        if found != magic:
            raise InputError(f"{path}: not {what}: it begins with {found!r}, not with {magic!r}")


def require(module, package, pip):
    """Imports `module` of `package`, or says which `pip` command makes it importable."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # An old or mixed installation fails in many ways, not only with ImportError.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MissingPackage(package, reason, f"{_python()} -m pip install {pip}") from error


def _python():
    """How the user would call this very interpreter."""
    return "python3" if shutil.which("python3") == sys.executable else sys.executable


def same_run(runs):
    """The one run number in `runs` (path to number), or :class:`InputError`: event ids of two runs would mix."""
    (first, run), *others = runs.items()
    for path, other in others:
        if other != run:
            raise InputError(
                f"{os.path.basename(first)} is of run {run} and {os.path.basename(path)} of run {other}: "
                "import each run into a directory of its own"
            )
    return run
