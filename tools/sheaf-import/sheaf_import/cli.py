"""The command: ``python3 -m sheaf_import FORMAT FILE... DIR``.

Progress and errors go to standard error, one line each; the summary, or with ``--json`` one JSON object, to standard
output. Exit status: 0 done, 2 wrong arguments, 3 package missing, 4 input, 5 output, 6 the reader crashed, 130
interrupted.

The import runs in a child process: readers contain compiled code of others, which damaged input can crash, and then
somebody must be left to clean up and to say so.
"""

import argparse
import errno
import json
import os
import resource
import signal
import sys
import time

from . import km3net, lst1
from .directory import StreamDirectory, remove_staging
from .errors import ImporterError, OutputError, ReaderCrashed

FORMATS = {importer.NAME: importer for importer in (km3net, lst1)}
PROGRESS_SECONDS = 2.0
INTERRUPTED = 130


def main(arguments=None):
    """Runs the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    existed = os.path.lexists(options.dir)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _import(options)
            sys.stdout.flush()
        finally:
            os._exit(status)  # Not sys.exit: the exit handlers belong to the parent.
    return _watch(child, options, existed)


def _parser():
    parser = argparse.ArgumentParser(prog="sheaf_import", description="Turns detector data into fragment streams.")
    formats = parser.add_subparsers(dest="format", metavar="FORMAT", required=True)
    for name, importer in FORMATS.items():
        command = formats.add_parser(name, help=importer.HELP, description=importer.HELP)
        command.add_argument("files", metavar="FILE", nargs="+", help="files of one run, in their order")
        command.add_argument("dir", metavar="DIR", help="the directory for the streams")
        command.add_argument("--run", type=_run_number, help="store under this run number, not the files' own")
        command.add_argument("--force", action="store_true", help="replace the streams that are in DIR")
        command.add_argument("--json", action="store_true", help="print one JSON object on standard output")
        importer.add_options(command)
    return parser


def _run_number(text):
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number < 1 << 32:
        raise argparse.ArgumentTypeError("a run number is from 0 to 4294967295")
    return number


def _import(options):
    """The child's part. Every end of it leaves a complete directory or nothing."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _allow_many_files()
    try:
        report = _transfer(options)
    except ImporterError as error:
        return _fail(options, error)
    except OSError as error:
        remedy = ": raise the limit with `ulimit -n`" if error.errno == errno.EMFILE else ""
        return _fail(options, OutputError(f"{options.dir}: {error.strerror or error}{remedy}"))
    except KeyboardInterrupt:
        return INTERRUPTED
    print(json.dumps({"report": report}) if options.json else _summary(options, report))
    return 0


def _allow_many_files():
    """Raises the limit of open files as far as it goes: a large detector has thousands of sources, a stream each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ValueError, OSError):
        pass  # Some systems do not let "unlimited" be asked for; the limit stays as it is.


def _transfer(options):
    importer = FORMATS[options.format]
    started = shown = time.monotonic()
    recording = importer.read(options.files, options)
    run = recording.run if options.run is None else options.run
    with StreamDirectory(options.dir, run=run, metadata=recording.metadata, force=options.force) as streams:
        for source in recording.sources:
            streams.declare(source)
        for source, event, time_ns, payload in recording.fragments:
            streams.append(source, event, time_ns, payload)
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                _say(f"{streams.fragments} fragments, {streams.bytes / 1e6:.0f} MB, {shown - started:.0f} s")
    return {"format": options.format, "output": options.dir, **streams.report()}


def _watch(child, options, existed):
    """The parent's part: waits, passes a request to stop on, cleans up after a crash."""
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    while True:
        try:
            _, status = os.waitpid(child, 0)
            break
        except KeyboardInterrupt:
            continue  # The terminal has told the child, too; it cleans up and ends.
    if os.WIFSIGNALED(status):
        remove_staging(options.dir, child, and_directory=not existed)
        name = signal.Signals(os.WTERMSIG(status)).name
        files = ", ".join(options.files)
        return _fail(options, ReaderCrashed(f"the {options.format} reader crashed ({name}): one of {files} is damaged"))
    return os.WEXITSTATUS(status)


def _fail(options, error):
    _say(f"error: {error}")
    if options.json:
        remedy = getattr(error, "remedy", None)
        print(json.dumps({"error": {"kind": error.kind, "message": str(error), "remedy": remedy}}), flush=True)
    return error.exit_status


def _summary(options, report):
    lines = [
        f"{options.dir}: run {report['run']}, {report['sources']} sources, {report['events']} events, "
        f"{report['fragments']} fragments, {report['bytes']} bytes",
        f"incomplete events: {report['events_incomplete']}, repeated fragments: {report['fragments_repeated']}",
    ]
    lines += [f"source {entry['source']} lacks {entry['events']} events" for entry in report["missing"]]
    return "\n".join(lines)


def _say(text):
    print(f"sheaf_import: {text}", file=sys.stderr, flush=True)
