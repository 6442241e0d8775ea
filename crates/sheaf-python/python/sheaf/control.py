"""Run control from Python: give commands to `sheaf serve`, and wait for what they do.

The module needs the standard library alone, and nothing of the rest of the package: where the package cannot be built, a copy of this
file beside a script does, with `import control`.

    from sheaf.control import Controller

    controller = Controller("runs/control")
    controller.start(events=100_000, comment="cosmics")
    print(controller.wait_for_end().text)

Each command has a name of its own, which is sent again when the connection fails: however often it is sent, it is carried out once.
"""

from __future__ import annotations

import csv
import http.client
import io
import ipaddress
import json
import math
import os
import secrets
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

__all__ = [
    "Command",
    "CommandFailed",
    "CommandRefused",
    "Comment",
    "ControlError",
    "Controller",
    "Ends",
    "Fault",
    "JournalEntry",
    "LastRun",
    "Lock",
    "NamedConfiguration",
    "NoControllerError",
    "NodeState",
    "Operation",
    "Partition",
    "PartitionUse",
    "Person",
    "Row",
    "RunCommand",
    "RunRecord",
    "Sequence",
    "Silence",
    "Source",
    "Status",
    "Value",
    "ValuesRefused",
]

#: Time that one request for an operation waits for its end, in milliseconds.
_WAIT_MS = 10_000

#: Time for an answer, beside the time that the request asks the controller to wait.
_ANSWER_S = 30.0

#: Pause between two attempts, and between two looks at a run whose end is waited for.
_PAUSE_S = 0.2


class ControlError(Exception):
    """Something that was asked of a controller has not happened."""


class NoControllerError(ControlError):
    """No controller answers."""


class CommandRefused(ControlError):
    """The controller refuses: nothing was done."""

    def __init__(self, status: int, code: str, text: str, remedy: str) -> None:
        super().__init__(f"{text}; {remedy}" if remedy else text)
        #: Status code of HTTP.
        self.status = status
        #: Kind of the refusal: "state", "locked", "stale", "role", "token", "not_found", "invalid" and others.
        self.code = code
        #: What happened.
        self.text = text
        #: What to do.
        self.remedy = remedy


class CommandFailed(ControlError):
    """A command was accepted, and was not carried out."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(f"`{operation.command}` {operation.result}: {operation.text}")
        #: The command, with its result.
        self.operation = operation


class ValuesRefused(CommandRefused):
    """Some values were not taken. All others were."""

    def __init__(self, status: int, code: str, text: str, remedy: str, refused: Mapping[str, str]) -> None:
        super().__init__(status, code, text, remedy)
        #: Reason by name, such as "undeclared" or "late"; at most 16 of them.
        self.refused = dict(refused)


@dataclass(frozen=True)
class _Record:
    """A part of an answer."""


_Kind = TypeVar("_Kind", bound=_Record)
_Listed = TypeVar("_Listed", "tuple[Source, ...]", "tuple[NodeState, ...]")


@dataclass(frozen=True)
class Operation(_Record):
    """A command that was accepted."""

    id: int
    command: str
    by: str
    #: Times are in milliseconds since 1970.
    began_ms: int
    deadline_ms: int
    #: What it waits for; `None` once it has ended.
    progress: str | None
    ended_ms: int | None
    #: "done", "failed" or "superseded".
    result: str | None
    text: str | None


@dataclass(frozen=True)
class Ends(_Record):
    """What ends a run, apart from a command."""

    events: int | None
    duration_ms: int | None


@dataclass(frozen=True)
class LastRun(_Record):
    """The run that ended last."""

    #: Number that grows with each run of the controller.
    launch: int
    #: Number of the run, if it had one.
    run: int | None
    #: Whether its books balance and nothing accepted was lost.
    good: bool
    text: str


@dataclass(frozen=True)
class LockState(_Record):
    """Who has the lock."""

    by: str
    until_ms: int


@dataclass(frozen=True)
class Source(_Record):
    """A source that is to be excluded, or that the run excludes."""

    source: int
    name: str | None
    #: Whether it is to be included.
    included: bool
    #: Whether the run excludes it now. One that is to be included is excluded until its next fragment.
    excluded: bool


@dataclass(frozen=True)
class NodeState(_Record):
    """A node that is to be excluded, that the run excludes, or that is being started again."""

    node: str
    #: Whether it is to be included.
    included: bool
    #: Whether the run excludes it now.
    excluded: bool
    #: Whether it is being started again.
    recovering: bool


@dataclass(frozen=True)
class Fault(_Record):
    """What is wrong with the system. It stays until somebody has seen it."""

    id: int
    since_ms: int
    code: str
    text: str
    remedy: str


@dataclass(frozen=True)
class PartitionUse(_Record):
    """A run that has nodes of a partition."""

    #: Partition of the run; None: the whole system.
    partition: str | None
    #: None until it has a number.
    run: int | None
    by: str
    since_ms: int
    host: str
    process: int
    page: str | None


@dataclass(frozen=True)
class Partition(_Record):
    """A part of the system that has runs of its own, or the whole."""

    #: None: the whole system.
    partition: str | None
    #: Number of its nodes.
    nodes: int
    #: Number of its sources.
    sources: int
    #: Page of its controller, on the host of that, if one runs.
    controller: str | None
    #: Page of its controller for other hosts.
    remote: str | None
    #: Runs that have something of it.
    in_use: tuple[PartitionUse, ...]


@dataclass(frozen=True)
class Silence(_Record):
    """A silence, which suppresses the notices of alarms until it ends."""

    id: int
    code: str
    culprit: str | None
    by: str
    why: str
    since_ms: int
    until_ms: int


@dataclass(frozen=True)
class Value(_Record):
    """A value from outside, such as a voltage."""

    name: str
    unit: str | None
    #: The last number. It is the present one only if the value is "fresh".
    value: float | None
    #: "fresh", "stale" or "unknown".
    state: str
    #: "good", "warning" or "error", by its limits; `None` unless it is fresh.
    level: str | None
    age_ms: int | None
    stale_ms: int
    #: File that it is read from; `None` if programs send it.
    file: str | None
    #: Who has sent it last.
    by: str | None
    #: Why its file gives no number.
    problem: str | None


@dataclass(frozen=True)
class Command(_Record):
    """Whether a command can be given now."""

    command: str
    allowed: bool
    #: Why it cannot.
    why: str | None


@dataclass(frozen=True)
class Row(_Record):
    """A row of a sequence, and what became of it."""

    #: Number of the row, from 1.
    row: int
    #: Settings of the row, by key.
    values: dict[str, str]
    comment: str | None
    #: "waiting", "running", "done", "failed" or "skipped".
    state: str
    #: Number of the latest run, if it had one.
    run: int | None
    #: Accepted triggers of that run, once it has ended.
    triggers: int | None
    #: Runs that were started for it.
    attempts: int
    #: Time from start to end of the latest run, in milliseconds.
    took_ms: int | None
    text: str | None


@dataclass(frozen=True)
class Sequence(_Record):
    """Runs of a table, one after the other."""

    #: Number that grows with each sequence of the controller.
    id: int
    name: str
    by: str
    #: "running", "paused", "stopping" or "ended".
    state: str
    #: Why it is paused, or how it ended.
    reason: str | None
    #: "pause", "continue" or "repeat".
    on_failure: str
    #: Number of the row in progress, or of the next one, from 1.
    row: int | None
    launch: int | None
    #: When the run in progress was started, in milliseconds since 1970.
    row_began_ms: int | None
    #: Number of rows, and of those that are done, have failed and are left out.
    rows: int
    done: int
    failed: int
    skipped: int
    #: Mean time of a row that is done, in milliseconds.
    mean_ms: int | None


@dataclass(frozen=True)
class Status(_Record):
    """The state of run control."""

    #: "idle", "configuring", "configured", "running", "paused" or "stopping".
    state: str
    #: State that the latest command asks for: "idle", "configured", "running" or "paused".
    target: str
    #: Grows whenever something changes that a person would act on.
    revision: int
    system: str
    #: Partition that it controls; None: the whole system.
    partition: str | None
    #: The whole system and all partitions, with who has them; None if there are none, or it is not known.
    partitions: tuple[Partition, ...] | None
    #: Number of the run that comes up, takes triggers or ends.
    run: int | None
    by: str | None
    ends: Ends | None
    operation: Operation | None
    last: Operation | None
    last_run: LastRun | None
    lock: LockState | None
    faults: tuple[Fault, ...]
    #: Sources that are not simply included, in ascending order.
    sources: tuple[Source, ...]
    #: Nodes that are not simply included, or are being started again, by name.
    nodes: tuple[NodeState, ...]
    #: The sequence that is in progress, or ended last.
    sequence: Sequence | None
    #: Silences of alarms, the oldest first.
    silences: tuple[Silence, ...]
    commands: tuple[Command, ...]


@dataclass(frozen=True)
class Comment(_Record):
    """A comment on a run."""

    #: Nanoseconds since 1970.
    time_ns: int
    author: str
    text: str = ""
    #: "good", "bad" or "unknown".
    quality: str | None = None


@dataclass(frozen=True)
class RunCommand(_Record):
    """A command in the record of a run."""

    #: Nanoseconds since 1970.
    time_ns: int
    by: str
    #: Name of the command, such as "pause".
    command: str
    #: Where it came from, such as "page", "hook logbook" or "SIGTERM".
    via: str | None = None
    #: A source, a node, or alarms.
    target: str | None = None
    comment: str | None = None
    #: "done", "failed" or "superseded"; `None` if it was not known when the run was closed.
    result: str | None = None
    #: The result in words.
    text: str | None = None
    #: Nanoseconds since 1970.
    ended_ns: int | None = None


@dataclass(frozen=True)
class RunRecord(_Record):
    """The record of a run, as `sheaf runs show --json` has it."""

    run: int
    directory: str
    #: "in_progress", "good", "not_good" or "not_closed".
    state: str
    software: str
    #: "name" of the file, and "id": runs with the same id were made in the same way.
    configuration: dict[str, str | None]
    #: Nanoseconds since 1970.
    created_ns: int
    ended_ns: int | None
    end: dict[str, Any] | None
    ledger: dict[str, Any] | None
    files: list[dict[str, Any]]
    code: list[dict[str, Any]]
    comments: tuple[Comment, ...]
    #: Settings that differ from the run before, by key, with both values; `None` in a list of runs.
    changed: dict[str, list[str | None]] | None = None
    #: Name of the sequence, row and values, if it was made for one.
    sequence: dict[str, Any] | None = None
    #: "run", and "name" and "version" if it was used by its name: where the configuration comes from.
    configuration_from: dict[str, Any] | None = None
    #: Commands of run control, the oldest first.
    commands: tuple[RunCommand, ...] = ()
    #: Number of further commands between the first half of them and the last.
    commands_left_out: int = 0


@dataclass(frozen=True)
class JournalEntry(_Record):
    """What somebody has asked for, or what happened."""

    at_ms: int
    by: str
    action: str
    answer: str
    text: str


@dataclass(frozen=True)
class NamedConfiguration(_Record):
    """A version of a configuration with a name."""

    name: str
    #: From 1.
    version: int
    #: Run whose configuration it is.
    run: int
    #: Program and version that made that run.
    software: str
    #: Checksum of settings and code.
    id: str
    #: Who gave it the name.
    by: str
    #: In nanoseconds since 1970.
    time_ns: int


@dataclass(frozen=True)
class Person(_Record):
    """Who a token belongs to."""

    name: str
    #: "viewer", "operator", "expert" or "admin".
    role: str


def _partitions(values: list[dict[str, Any]] | None) -> tuple[Partition, ...] | None:
    if values is None:
        return None
    uses = (tuple(_make(PartitionUse, used) for used in value["in_use"]) for value in values)
    return tuple(_make(Partition, {**value, "in_use": used}) for value, used in zip(values, uses, strict=True))


class Controller:
    """A controller, that is a running `sheaf serve`.

    `directory` is that of the controller: it has its address, and the token of whoever started it; that of a partition is
    `runs/control-NAME`. `url` and `token` are used instead if
    they are given; over https, `certificate` is a file with the certificate of the page or of the authority that has signed it (default: the
    authorities that this system knows). A controller that is not reached is called again for `patience_s` seconds, since it may just be starting anew; then
    `NoControllerError` is raised.

    Commands return when they have been carried out. They raise `CommandRefused` or `CommandFailed` if they are not.
    """

    def __init__(
        self,
        directory: str | PathLike[str] = "runs/control",
        *,
        url: str | None = None,
        token: str | None = None,
        certificate: str | PathLike[str] | None = None,
        patience_s: float = 10.0,
    ) -> None:
        self._directory = Path(directory)
        self._url = url
        self._token = token
        self._patience_s = patience_s
        # Nothing of this machine's settings lies between a program and a server on the same host.
        trusted = ssl.create_default_context(cafile=None if certificate is None else os.fspath(certificate))
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )
        # Launch that had ended before this object began a run.
        self._before: int | None = None
        self._has_begun = False
        # Run that follows another one in the same launch, if this object has asked for it.
        self._switched: int | None = None

    def status(self) -> Status:
        """Returns the state of run control, as it is now."""
        value = self._get("/api/v1/control")
        return Status(
            **{name: value[name] for name in ("state", "target", "revision", "system", "run", "by")},
            partition=value.get("partition"),
            partitions=_partitions(value.get("partitions")),
            ends=_optional(Ends, value["ends"]),
            operation=_optional(Operation, value["operation"]),
            last=_optional(Operation, value["last"]),
            last_run=_optional(LastRun, value["last_run"]),
            lock=_optional(LockState, value["lock"]),
            faults=tuple(_make(Fault, fault) for fault in value["faults"]),
            sources=tuple(_make(Source, source) for source in value["sources"]),
            nodes=tuple(_make(NodeState, node) for node in value["nodes"]),
            sequence=_optional(Sequence, value.get("sequence")),
            silences=tuple(_make(Silence, silence) for silence in value["silences"]),
            commands=tuple(_make(Command, command) for command in value["commands"]),
        )

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Faults that nobody has seen, the oldest first."""
        return self.status().faults

    def configure(
        self,
        *,
        events: int | None = None,
        duration_s: float | None = None,
        comment: str | None = None,
        like: int | str | None = None,
        revision: int | None = None,
        wait: bool = True,
    ) -> Operation:
        """Brings up the nodes of a new run, and holds it. `events` and `duration_s` end the run; `like` is as with `start`."""
        return self._begin("configure", events, duration_s, (comment, like), revision, wait)

    def start(
        self,
        *,
        events: int | None = None,
        duration_s: float | None = None,
        comment: str | None = None,
        like: int | str | None = None,
        revision: int | None = None,
        wait: bool = True,
    ) -> Operation:
        """Takes triggers, in a new run if none is configured. `events` and `duration_s` end the run.

        With `like`, the run has the configuration of an earlier run as it was in force then: the number of the run, or a name that its
        configuration has, "NAME" or "NAME@VERSION". `events` and `duration_s` replace its end. It needs the role "expert".

        With `wait=False` every command returns when it is accepted. With `revision`, that of a `status()`, it is refused if the state has
        changed since.
        """
        return self._begin("start", events, duration_s, (comment, like), revision, wait)

    def pause(self, *, comment: str | None = None, revision: int | None = None, wait: bool = True) -> Operation:
        """Takes no triggers until `resume`. The time until then is dead time. The comment is for the record of the run, as with all commands."""
        return self._operate({"command": "pause", "comment": comment}, revision, wait)

    def resume(self, *, comment: str | None = None, revision: int | None = None, wait: bool = True) -> Operation:
        """Takes triggers again."""
        return self._operate({"command": "resume", "comment": comment}, revision, wait)

    def switch(
        self,
        *,
        events: int | None = None,
        duration_s: float | None = None,
        comment: str | None = None,
        revision: int | None = None,
        wait: bool = True,
    ) -> Operation:
        """Begins the next run without a gap: the event after the last one of this run is its first. `events` and `duration_s` end it."""
        operation = self._begin("switch", events, duration_s, (comment, None), revision, wait)
        self._switched = self.status().run if wait else None
        return operation

    def stop(
        self, *, now: bool = False, comment: str | None = None, revision: int | None = None, wait: bool = True
    ) -> Operation:
        """Ends the run: builds and stores its events in flight, within a time limit, or drops them `now`."""
        return self._operate({"command": "stop", "now": now, "comment": comment}, revision, wait)

    def reset(self, *, comment: str | None = None, revision: int | None = None, wait: bool = True) -> Operation:
        """Kills the processes of the run, and clears all faults."""
        return self._operate({"command": "reset", "comment": comment}, revision, wait)

    def operation(self, id: int, *, wait_ms: int = 0) -> Operation:
        """Returns what becomes of a command. Waits until it has ended, at most `wait_ms` and at most a minute."""
        return _make(Operation, self._get(f"/api/v1/operations/{id}?wait_ms={wait_ms}", wait_ms / 1_000))

    def wait_for_end(self, timeout_s: float | None = None) -> LastRun:
        """Waits until the run has ended that this object has begun, or else the one in progress, and returns it.

        Returns the run that ended last if there is none. Raises `TimeoutError` after `timeout_s` seconds.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        status = self.status()
        before = self._before if self._has_begun else _launch(status)
        if not self._has_begun and status.state == "idle":
            if status.last_run is None:
                raise ControlError("there is no run, and there has been none; start one")
            return status.last_run
        while status.last_run is None or status.last_run.launch == before or (
            self._switched is not None and status.last_run.run != self._switched
        ):
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"run {status.run} has not ended in {timeout_s} s: it is {status.state}")
            time.sleep(_PAUSE_S)
            status = self.status()
        self._has_begun, self._switched = False, None
        return status.last_run

    def exclude(self, source: int | str, *, wait_s: float = 30.0) -> tuple[Source, ...]:
        """Excludes a source, by number or name, from the run and from those that follow: events are complete without it.

        Returns when the run does so, or when there is no run, with the sources that are not simply included. With `wait_s=0` it returns at
        once.

        Raises `TimeoutError` if the run takes longer than `wait_s`; the command stays in force."""
        return self._include(source, False, wait_s)

    def include(self, source: int | str, *, wait_s: float = 30.0) -> tuple[Source, ...]:
        """Includes a source again, from its next fragment on. Returns, and raises, as `exclude` does."""
        return self._include(source, True, wait_s)

    def _include(self, source: int | str, included: bool, wait_s: float) -> tuple[Source, ...]:
        part = urllib.parse.quote(str(source), safe="")
        answer = self._ask("PUT", f"/api/v1/sources/{part}/included", {"included": included})
        number = answer["source"]
        sources = tuple(_make(Source, value) for value in answer["sources"])
        return self._wait_for_run(
            sources, lambda status: status.sources, lambda its: not _waits_for(its, number, included), wait_s, f"source {source}"
        )

    def exclude_node(self, node: str, *, wait_s: float = 30.0) -> tuple[NodeState, ...]:
        """Excludes a readout unit or builder unit from the run and from those that follow: events are complete without the sources of a readout
        unit, and a builder unit gets no further events.

        Returns when the run does so, or when there is no run, with the nodes that are not simply included. With `wait_s=0` it returns at once.

        Raises `TimeoutError` if the run takes longer than `wait_s`; the command stays in force."""
        return self._include_node(node, False, wait_s)

    def include_node(self, node: str, *, wait_s: float = 30.0) -> tuple[NodeState, ...]:
        """Includes a node again. Returns, and raises, as `exclude_node` does."""
        return self._include_node(node, True, wait_s)

    def recover(self, node: str, *, wait_s: float = 30.0) -> tuple[NodeState, ...]:
        """Starts a node again that hangs or was lost, in the same run. The process of one that lives is killed.

        Returns, and raises, as `exclude_node` does."""
        part = urllib.parse.quote(node, safe="")
        answer = self._ask("POST", f"/api/v1/nodes/{part}/recover", {"request": secrets.token_hex(16)})
        return self._wait_for_node(answer, node, lambda it: it is None or not it.recovering, wait_s)

    def _include_node(self, node: str, included: bool, wait_s: float) -> tuple[NodeState, ...]:
        part = urllib.parse.quote(node, safe="")
        answer = self._ask("PUT", f"/api/v1/nodes/{part}/included", {"included": included})
        return self._wait_for_node(answer, node, lambda it: (it is not None and it.excluded) != included, wait_s)

    def _wait_for_node(
        self, answer: Mapping[str, Any], node: str, is_done: Callable[[NodeState | None], bool], wait_s: float
    ) -> tuple[NodeState, ...]:
        nodes = tuple(_make(NodeState, value) for value in answer["nodes"])
        return self._wait_for_run(
            nodes, lambda status: status.nodes, lambda its: is_done(next((it for it in its if it.node == node), None)), wait_s, node
        )

    def _wait_for_run(
        self, listed: _Listed, list_of: Callable[[Status], _Listed], is_done: Callable[[_Listed], bool], wait_s: float, what: str
    ) -> _Listed:
        """Waits until the run follows a command, or there is no run. Returns the list in which that shows, which was `listed` at first."""
        until = time.monotonic() + wait_s
        while wait_s > 0 and not is_done(listed):
            status = self.status()
            listed = list_of(status)
            if status.run is None:
                break
            if time.monotonic() > until:
                raise TimeoutError(f"the run does not follow within {wait_s} s; the command for {what} stays in force")
            time.sleep(_PAUSE_S)
        return listed

    def start_sequence(
        self,
        table: str | Iterable[Mapping[str, object]],
        *,
        name: str = "scan",
        resume: bool = False,
        on_failure: str = "pause",
        repeats: int = 3,
        revision: int | None = None,
    ) -> Sequence:
        """Makes the runs of a table, one after the other, and returns when the first begins.

        `table` is the text of a CSV file, or rows such as `{"filter.busy_us": 10, "run.events": 1000, "comment": "low"}`. All rows are
        checked before the first run; `CommandRefused` says row and column. With `resume`, rows are left out that an earlier sequence of this
        `name` has done. When a run is not good, the sequence pauses, continues or repeats the row up to `repeats` times (`on_failure`).
        """
        body = {
            "request": secrets.token_hex(16),
            "name": name,
            "table": table if isinstance(table, str) else _table(table),
            "resume": resume,
            "on_failure": on_failure,
            "repeats": repeats,
        }
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        return _make(Sequence, self._ask("POST", "/api/v1/sequence", body, headers)["sequence"])

    def sequence(self) -> tuple[Row, ...]:
        """Returns the rows of the sequence that is in progress or ended last; `status().sequence` has its state."""
        return tuple(_make(Row, row) for row in self._get("/api/v1/sequence")["rows"])

    def pause_sequence(self) -> Sequence:
        """Begins no other row. A run in progress goes on to its end."""
        return self._direct({"action": "pause"})

    def resume_sequence(self) -> Sequence:
        """Begins the next row, or repeats the one that failed."""
        return self._direct({"action": "resume"})

    def skip_row(self, row: int) -> Sequence:
        """Leaves out a row, which is in progress or the next one. A run of it is stopped."""
        return self._direct({"action": "skip", "row": row})

    def stop_sequence(self) -> Sequence:
        """Ends the sequence. A run in progress is stopped."""
        return self._direct({"action": "stop"})

    def wait_for_sequence(self, timeout_s: float | None = None) -> Sequence:
        """Waits until the sequence has ended or is paused, and returns it. Raises `TimeoutError` after `timeout_s` seconds."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            status = self.status()
            sequence = status.sequence
            if sequence is None:
                raise ControlError("there has been no sequence; start one")
            # One that is paused has ended its run, too.
            if sequence.state == "ended" or (sequence.state == "paused" and sequence.launch is None):
                return sequence
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"the sequence {sequence.name} has not ended in {timeout_s} s")
            time.sleep(_PAUSE_S)

    def _direct(self, body: Mapping[str, Any]) -> Sequence:
        return _make(Sequence, self._ask("POST", "/api/v1/sequence/actions", body)["sequence"])

    def lock(self, *, force: bool = False) -> Lock:
        """Keeps everybody else from giving commands: `with controller.lock(): ...`. An admin takes it by `force`."""
        return Lock(self, force)

    def seen(self, fault: int | Fault) -> None:
        """Notes that somebody has seen a fault: it leaves the list."""
        id = fault.id if isinstance(fault, Fault) else fault
        self._ask("POST", f"/api/v1/faults/{id}/cleared", {})

    def alarms_seen(self) -> None:
        """Notes that somebody has seen the alarms that have ended so far: they leave the list."""
        self._ask("POST", "/api/v1/alarms/seen", {})

    def silence(self, code: str, *, seconds: float, why: str, culprit: str | None = None) -> Silence:
        """Suppresses the notices of alarms for a time, at most a week.

        `culprit` is a node, a source or a reason; without it, all alarms of the code are silenced. A silence of the same alarms takes the place of
        the first.
        """
        body = {"code": code, "culprit": culprit, "duration_ms": round(seconds * 1000), "why": why}
        return _make(Silence, self._ask("POST", "/api/v1/silences", body)["silence"])

    def unsilence(self, silence: int | Silence) -> None:
        """Ends a silence."""
        id = silence.id if isinstance(silence, Silence) else silence
        self._ask("DELETE", f"/api/v1/silences/{id}")

    def set_values(self, values: Mapping[str, float | None], *, time_s: float | None = None) -> None:
        """Sends values from outside by name, such as voltages; `None` or NaN for one that is not known at the moment.

        The configuration declares them, without a file: `[value.NAME]`. Send all of them every few seconds, also those that have not changed: a
        value that is not sent for its `stale_ms` is stale. `time_s` is the time at which they were read, in seconds since 1970, if it was not
        just now. Raises `ValuesRefused` if some are not taken; all others are.
        """
        numbers = {name: _number(name, value) for name, value in values.items()}
        body: dict[str, Any] = {"values": numbers}
        if time_s is not None:
            body["time_ms"] = time_s * 1_000
        self._ask("PUT", "/api/v1/values", body)

    def values(self) -> dict[str, Value]:
        """Returns the values from outside, by name."""
        return {value["name"]: _make(Value, value) for value in self._get("/api/v1/values")["values"]}

    def me(self) -> Person:
        """Returns who the token belongs to."""
        return _make(Person, self._get("/api/v1/me"))

    def runs(self, last: int = 50) -> list[RunRecord]:
        """Returns the last runs, the newest last; at most 1,000."""
        return [_run(run) for run in self._get(f"/api/v1/runs?last={last}")["runs"]]

    def run(self, number: int) -> RunRecord:
        """Returns the record of a run."""
        return _run(self._get(f"/api/v1/runs/{number}"))

    def comment(self, number: int, text: str | None = None, *, quality: str | None = None) -> None:
        """Adds a comment to a run, a judgement of its `quality` ("good", "bad", "unknown"), or both."""
        self._ask("POST", f"/api/v1/runs/{number}/comments", {"text": text, "quality": quality})

    def configurations(self) -> list[NamedConfiguration]:
        """Returns the versions of configurations with names, by name."""
        return [_make(NamedConfiguration, named) for named in self._get("/api/v1/configurations")["configurations"]]

    def name_configuration(self, number: int, name: str) -> NamedConfiguration:
        """Gives a name to the configuration of a run, and returns the version: `start(like=name)` makes a run with it.

        A name that is there gets another version, unless its newest version is the same configuration.
        """
        answer = self._ask("POST", "/api/v1/configurations", {"run": number, "name": name})
        return _make(NamedConfiguration, answer["configuration"])

    def journal(self, last: int = 50) -> list[JournalEntry]:
        """Returns the last commands and what came of them, the oldest first; at most 1,000."""
        return [_make(JournalEntry, entry) for entry in self._get(f"/api/v1/audit?last={last}")["entries"]]

    def _begin(
        self,
        command: str,
        events: int | None,
        duration_s: float | None,
        comment_and_like: tuple[str | None, int | str | None],
        revision: int | None,
        wait: bool,
    ) -> Operation:
        body: dict[str, Any] = {"command": command}
        comment, like = comment_and_like
        if events is not None:
            body["events"] = events
        if duration_s is not None:
            body["duration_ms"] = max(1, round(duration_s * 1_000))
        if comment is not None:
            body["comment"] = comment
        if like is not None:
            body["like"] = str(like)
        before = self.status()
        operation = self._operate(body, revision, wait=False)
        # The start of a configured run is no new one.
        if before.state == "idle" or not self._has_begun:
            self._before, self._has_begun, self._switched = _launch(before), True, None
        return self._wait_for(operation) if wait else operation

    def _operate(self, body: dict[str, Any], revision: int | None, wait: bool) -> Operation:
        # The name is made once. The same name again is the same command.
        body = body | {"request": secrets.token_hex(16)}
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        operation = _make(Operation, self._ask("POST", "/api/v1/operations", body, headers)["operation"])
        return self._wait_for(operation) if wait else operation

    def _wait_for(self, operation: Operation) -> Operation:
        while operation.ended_ms is None:
            operation = self.operation(operation.id, wait_ms=_WAIT_MS)
        if operation.result != "done":
            raise CommandFailed(operation)
        return operation

    def _get(self, path: str, wait_s: float = 0.0) -> Any:
        return self._ask("GET", path, wait_s=wait_s)

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
    ) -> Any:
        """Asks again while the controller is not reached. Every request has the same effect once and several times, except comments."""
        until = time.monotonic() + self._patience_s
        data = None if body is None else json.dumps(body).encode()
        while True:
            try:
                return self._ask_once(method, path, data, headers or {}, wait_s)
            except CommandRefused as refusal:
                if refusal.code != "busy" or time.monotonic() > until:
                    raise
            except (OSError, http.client.HTTPException) as error:
                if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
                    raise NoControllerError(
                        f"{self._url} has a certificate that is not trusted: {error}; name it, or its authority, with `certificate`"
                    ) from error
                if time.monotonic() > until:
                    raise NoControllerError(
                        f"no controller answers at {self._url or self._directory}: {error}; is `sheaf serve` running?"
                    ) from error
            time.sleep(_PAUSE_S)

    def _ask_once(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str], wait_s: float
    ) -> Any:
        request = urllib.request.Request(self._address() + path, data, dict(headers), method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        request.add_header("Sheaf-Via", _via(os.environ.get("SHEAF_HOOK")))
        token = self._bearer()
        if token and not _keeps_secrets(request.full_url):
            raise ControlError(f"a token would be readable on the way to {self._address()}; use https://, or forward the port with `ssh -L`")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with self._opener.open(request, timeout=_ANSWER_S + wait_s) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None

    def _address(self) -> str:
        """Returns the address. One that begins anew may have another, so it is read each time."""
        url = self._url or (self._directory / "address").read_text()
        parts = urllib.parse.urlsplit(url.strip())
        return f"{parts.scheme}://{parts.netloc}"

    def _bearer(self) -> str | None:
        if self._token is not None:
            return self._token
        if self._url is not None:
            # The address that `sheaf serve` prints has the token.
            token = urllib.parse.parse_qs(urllib.parse.urlsplit(self._url).fragment).get("token")
            return token[0] if token else None
        try:
            return (self._directory / "own.token").read_text().strip()
        except OSError:
            # Without a token, the state can be looked at.
            return None


class Lock:
    """The lock of a controller, from `Controller.lock`: taken, renewed while its block lasts, and given back."""

    def __init__(self, controller: Controller, force: bool) -> None:
        self._controller = controller
        self._force = force
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        #: Why the lock could not be renewed: somebody else has taken it by force, or no controller answers.
        self.lost: ControlError | None = None

    def __enter__(self) -> Lock:
        period_s = self._take(self._force)
        self._over.clear()
        self._thread = threading.Thread(target=self._renew, args=(period_s,), name="sheaf lock", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self.lost is None:
            self._controller._ask("DELETE", "/api/v1/lock")
        elif error is None:
            raise self.lost

    def _take(self, force: bool) -> float:
        """Takes the lock and returns when to renew it, in seconds."""
        lock = self._controller._ask("PUT", "/api/v1/lock", {"force": force})["lock"]
        left_s: float = lock["until_ms"] / 1_000 - time.time()
        return max(0.5, left_s / 3)

    def _renew(self, period_s: float) -> None:
        while not self._over.wait(period_s):
            try:
                period_s = self._take(False)
            except ControlError as error:
                self.lost = error
                return


def _waits_for(sources: tuple[Source, ...], source: int, included: bool) -> bool:
    """Returns whether the list of sources that are not simply included shows that the run has not followed."""
    found = [it for it in sources if it.source == source]
    return bool(found) if included else not any(it.excluded for it in found)


def _make(kind: type[_Kind], value: Mapping[str, Any]) -> _Kind:
    """Makes a part of an answer. Members of a later version are passed over."""
    names = {field.name for field in fields(kind)}
    return kind(**{name: member for name, member in value.items() if name in names})


def _optional(kind: type[_Kind], value: Mapping[str, Any] | None) -> _Kind | None:
    return None if value is None else _make(kind, value)


def _table(rows: Iterable[Mapping[str, object]]) -> str:
    """Returns rows as the text of a table. A key that a row does not have stays as the configuration has it."""
    rows = list(rows)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([_cell(row.get(key)) for key in keys] for row in rows)
    return text.getvalue()


def _cell(value: object) -> str:
    """Returns a value as the configuration has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _run(value: Mapping[str, Any]) -> RunRecord:
    comments = tuple(_make(Comment, comment) for comment in value["comments"])
    commands = tuple(_make(RunCommand, command) for command in value.get("commands", ()))
    return _make(RunRecord, {**value, "comments": comments, "commands": commands})


def _via(hook: str | None) -> str:
    """Returns where commands come from, for the records of runs: a hook that runs this program, or a person."""
    return "sheaf.control" if hook is None else "hook " + "".join(letter for letter in hook if "!" <= letter <= "~")


def _launch(status: Status) -> int | None:
    return None if status.last_run is None else status.last_run.launch


def _keeps_secrets(url: str) -> bool:
    """Returns whether nobody can read what is sent to an address: because it is encrypted, or stays on this host."""
    parts = urllib.parse.urlsplit(url)
    try:
        is_here = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        is_here = parts.hostname == "localhost"
    return parts.scheme == "https" or is_here


def _number(name: str, value: float | None) -> float | None:
    """Returns a number as the controller takes it. JSON has no NaN."""
    if value is None:
        return None
    number = float(value)
    if math.isnan(number):
        return None
    if math.isinf(number):
        raise ValueError(f"{name} is infinite")
    return number


def _refusal(error: urllib.error.HTTPError) -> CommandRefused:
    with error:
        body = error.read()
    try:
        value = json.loads(body)
        if value["code"] == "values":
            refused = {one["name"]: one["code"] for one in value["refused"]}
            return ValuesRefused(error.code, value["code"], value["text"], value["remedy"], refused)
        return CommandRefused(error.code, value["code"], value["text"], value["remedy"])
    except (ValueError, KeyError, TypeError):
        text = body.decode(errors="replace").strip() or error.reason
        return CommandRefused(error.code, "unknown", f"the controller answers with status {error.code}: {text}", "")
