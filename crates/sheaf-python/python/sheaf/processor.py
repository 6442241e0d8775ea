"""Runs a filter as a worker of a builder unit, or over a file.

    python -m sheaf.processor --join runs/run000001/bu0.farm energy.py:energy_sum
    python -m sheaf.processor --join daq7:7100 energy.py:energy_sum
    python -m sheaf.processor --join daq7:7100 --stay energy.py:energy_sum
    python -m sheaf.processor --file runs/run000001 energy.py:energy_sum

Each process judges on one thread; start several to use several processors. It ends with the run, or after Ctrl-C or SIGTERM, when
its pending events are judged. With `--stay` it restarts for the next run and loads the filter, and everything that the filter
imports, again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import threading
import time
import tomllib
from types import FrameType
from typing import Any

import sheaf

#: Interval in seconds at which signals are checked while waiting for a run.
_KNOCK = 0.2

#: Signals that end a processor.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: Number of signals that end it at once, and the exit status then.
_SIGNALS_TO_ABORT, _EXIT_INTERRUPTED = 3, 130


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns the exit status. With `--stay`, the process executes itself again after a run instead."""
    options = _parser().parse_args(arguments)
    try:
        if options.file:
            return _judge_file(options)
        stop = _Stop()
        if _join(options, stop) and options.stay:
            _begin_again(arguments, stop)
        return 0
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. The rest of the buffer must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except sheaf.SheafError as error:
        print(f"sheaf.processor: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sheaf.processor",
        description="Run a filter as a worker of a builder unit, or over a file.",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--join",
        metavar="DOOR|HOST:PORT",
        help="door of the builder unit, directory of a run with one door, or address (filter.listen)",
    )
    where.add_argument("--file", metavar="PATH", help="event file or run directory to judge; print the verdicts")
    parser.add_argument(
        "--patience",
        "--wait",
        metavar="SECONDS",
        type=float,
        help="time to wait for a run (default: 0; with --stay: unlimited)",
    )
    parser.add_argument(
        "--stay",
        action="store_true",
        help="join the next run, too, with the filter installed then, until Ctrl-C or until --patience is exceeded",
    )
    parser.add_argument(
        "--tls",
        metavar=("CERTIFICATE", "KEY", "AUTHORITY"),
        nargs=3,
        help="PEM files, if the run requires them",
    )
    parser.add_argument("--key", metavar="FILE", help="key file of the run, if the run requires it")
    parser.add_argument("--ahead", metavar="N", type=int, help="number of events to hold at a time")
    parser.add_argument("--parameters", metavar="TEXT", help="parameters to use instead of filter.parameters of the configuration")
    parser.add_argument("--json", action="store_true", help="print JSON: statistics, or one verdict per line")
    parser.add_argument("filter", metavar="MODULE:NAME|FILE.py:NAME", help="function or class")
    return parser


class _Stop:
    """Signal handling: the first signal ends the work after the pending events, the third ends the process at once."""

    def __init__(self) -> None:
        self.signals = 0
        self.processor: sheaf.Processor | None = None
        # Signals are delivered to the main thread, which does nothing else.
        for number in _SIGNALS:
            signal.signal(number, self._hear)
        # Signals that arrived while this program restarted are handled now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self.signals += 1
        if self.signals >= _SIGNALS_TO_ABORT:
            os._exit(_EXIT_INTERRUPTED)
        if self.processor is not None:
            self.processor.stop()


def _join(options: argparse.Namespace, stop: _Stop) -> bool:
    """Judges the events of one run. Returns whether another run may follow, because no signal has arrived."""
    processor = _knock(options, stop)
    if processor is None:
        return False
    stop.processor = processor
    if stop.signals:
        processor.stop()
    parameters = options.parameters
    if parameters is None:
        parameters = _parameters(tomllib.loads(processor.configuration))
    judge = sheaf.load_filter(options.filter, parameters)
    done: list[dict[str, int] | BaseException] = []

    def work() -> None:
        try:
            done.append(processor.work(judge))
        except BaseException as error:
            done.append(error)

    worker = threading.Thread(target=work, name="judge")
    worker.start()
    while worker.is_alive():
        worker.join(0.2)
    (result,) = done
    if isinstance(result, sheaf.SheafError) and options.stay:
        print(f"sheaf.processor: {result}; waiting for the next run", file=sys.stderr)
    elif isinstance(result, BaseException):
        raise result
    elif options.json:
        print(json.dumps(result))
    else:
        print(f"{result['judged']} events judged", file=sys.stderr)
    return not stop.signals


def _knock(options: argparse.Namespace, stop: _Stop) -> sheaf.Processor | None:
    """Joins a run when there is one. Returns `None` if a signal arrives first."""
    patience = options.patience
    if patience is None:
        patience = math.inf if options.stay else 0.0
    tls = tuple(options.tls) if options.tls else None
    end = time.monotonic() + patience
    while not stop.signals:
        left = min(max(end - time.monotonic(), 0.0), _KNOCK)
        try:
            return sheaf.Processor(options.join, ahead=options.ahead, patience=left, tls=tls, key=options.key)
        except sheaf.NobodyThereError:
            if time.monotonic() >= end:
                raise
    return None


def _begin_again(arguments: list[str] | None, stop: _Stop) -> None:
    """Restarts this program, so that nothing loaded for one run remains in the next. Returns only if a signal has arrived.

    No signal is lost meanwhile. A signal to this thread stays pending for the new program. Threads created by libraries do not
    block signals, so a signal to one of them ends the process.
    """
    command = ["-m", "sheaf.processor", *arguments] if arguments is not None else sys.orig_argv[1:]
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    if not stop.signals:
        os.execv(sys.executable, [sys.executable, *command])


def _parameters(configuration: dict[str, Any]) -> str:
    return str(configuration.get("filter", {}).get("parameters", ""))


def _judge_file(options: argparse.Namespace) -> int:
    reader = sheaf.open(options.file)
    if not isinstance(reader, sheaf.EventReader):
        raise sheaf.SheafError(f"{options.file} contains fragments of one source, but filters judge events")
    judge = sheaf.load_filter(options.filter, options.parameters or "")
    accepted = judged = 0
    for event in reader:
        verdict = sheaf.judge(judge, event)
        judged += 1
        accepted += verdict.accepted
        if options.json:
            payload = bytes(verdict.payload).hex()
            line = {"event": event.id, "accepted": verdict.accepted, "tags": verdict.tags, "payload": payload}
            print(json.dumps(line))
    sys.stdout.flush()
    print(f"{accepted} of {judged} events accepted", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
