"""Runs a filter as a worker of a builder unit, or over a file.

    python -m sheaf.processor --join runs/run000001/bu0.farm energy.py:energy_sum
    python -m sheaf.processor --join daq7:7100 energy.py:energy_sum
    python -m sheaf.processor --file runs/run000001 energy.py:energy_sum

Each process judges on one thread; several of them use several processors. It ends with the run, or with Ctrl-C or SIGTERM, and
then judges first what it has.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import tomllib
from typing import Any

import sheaf


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return _judge_file(options) if options.file else _join(options)
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
        help="the builder unit's door, a run's directory with one, or its address (filter.listen)",
    )
    where.add_argument("--file", metavar="PATH", help="an event file or a run directory: print the verdicts")
    parser.add_argument("--patience", metavar="SECONDS", type=float, default=0.0, help="wait so long for the door")
    parser.add_argument(
        "--tls",
        metavar=("CERTIFICATE", "KEY", "AUTHORITY"),
        nargs=3,
        help="PEM files, where the run asks for them",
    )
    parser.add_argument("--ahead", metavar="N", type=int, help="events that it has at a time")
    parser.add_argument("--parameters", metavar="TEXT", help="instead of filter.parameters of the configuration")
    parser.add_argument("--json", action="store_true", help="print JSON: the work done, or a verdict a line")
    parser.add_argument("filter", metavar="MODULE:NAME|FILE.py:NAME", help="a function or a class")
    return parser


def _join(options: argparse.Namespace) -> int:
    tls = tuple(options.tls) if options.tls else None
    processor = sheaf.Processor(options.join, ahead=options.ahead, patience=options.patience, tls=tls)
    parameters = options.parameters
    if parameters is None:
        parameters = _parameters(tomllib.loads(processor.configuration))
    judge = sheaf.load_filter(options.filter, parameters)

    # Signals come to the main thread, which has nothing else to do.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: processor.stop())
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
    if isinstance(result, BaseException):
        raise result
    if options.json:
        print(json.dumps(result))
    else:
        print(f"{result['judged']} events judged", file=sys.stderr)
    return 0


def _parameters(configuration: dict[str, Any]) -> str:
    return str(configuration.get("filter", {}).get("parameters", ""))


def _judge_file(options: argparse.Namespace) -> int:
    reader = sheaf.open(options.file)
    if not isinstance(reader, sheaf.EventReader):
        raise sheaf.SheafError(f"{options.file} has fragments of one source; filters judge events")
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
    print(f"{accepted} of {judged} events accepted", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
