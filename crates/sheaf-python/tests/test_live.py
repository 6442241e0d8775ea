"""Runs in progress: consumers and processors in Python. They need the command, whose path is in SHEAF_COMMAND."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sheaf

COMMAND = os.environ.get("SHEAF_COMMAND")
PATIENCE = 60.0
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

pytestmark = pytest.mark.skipif(COMMAND is None, reason="SHEAF_COMMAND does not name the command")


class Run:
    """A run in the background."""

    def __init__(self, directory: Path, configuration: str = "", *arguments: str) -> None:
        config = directory / "run.toml"
        config.write_text(f'[run]\nnumber = 1\nduration_s = 0\noutput = "{directory}"\n{configuration}')
        self.directory = directory / "run000001"
        self.process = subprocess.Popen(
            [COMMAND, "run", str(config), "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, name: str) -> Path:
        path = self.directory / name
        wait_until(lambda: path.exists() or self.process.poll() is not None, f"{path} is there")
        return path

    def end(self) -> dict[str, Any]:
        """Ends the run, whose books must balance, and returns its summary."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.finish()

    def finish(self, status: int = 0) -> dict[str, Any]:
        """Waits for the run to end by itself, with this exit status."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == status, err
        self.log = err
        summary: dict[str, Any] = json.loads(out)
        assert summary["ledger"]["balanced"], summary["ledger"]["problems"]
        return summary


def wait_until(happened: Callable[[], bool], what: str) -> None:
    """Waits under a watchdog."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"it did not happen that {what}"
        time.sleep(0.01)


def has_events(directory: Path) -> bool:
    """Returns whether files with events are in this directory of a run."""
    return any(file.stat().st_size > 20_000 for file in directory.glob("*.sheaf"))


def wait_for_events(directory: Path) -> None:
    """Waits until the run has judged some events: enough for one of each kind."""
    wait_until(lambda: has_events(directory), f"events are in {directory}")


def test_a_consumer_sees_events_as_they_are_stored_and_ends_with_the_run(start: Callable[..., Run]) -> None:
    run = start("[consumers]\nrate_hz = 200.0\n[readout]\ncount = 2\n[builder]\ncount = 2\n")
    for door in ("bu0.tap", "bu1.tap"):
        run.wait_for(door)
    seen: dict[int, bytes] = {}
    with sheaf.tap(run.directory, name="a test") as tap:
        assert (tap.run, tap.sources) == (1, [0, 1])
        for event in tap:
            seen[event.id] = b"".join(bytes(fragment) for fragment in event)
            assert event.builder in ("bu0", "bu1") and event.sources == (0, 1)
            if len(seen) == 50:
                run.process.send_signal(signal.SIGINT)
        assert tap.next(timeout=0.1) is None, "the run has ended"
        counts = tap.counts
    assert counts["taken"] == len(seen) >= 50 and counts["seen"] == sum(counts.values()) - counts["seen"]
    summary = run.end()
    assert summary["counters"]["consumers_joined"] == 2
    assert summary["counters"]["consumers_events_sent"] == len(seen)
    stored = {event.id: b"".join(bytes(f) for f in event) for event in sheaf.open(run.directory) if event.id in seen}
    assert stored == seen, "what was seen is what is stored"


def test_a_closed_tap_and_one_without_a_run_are_reported(start: Callable[..., Run], tmp_path: Path) -> None:
    run = start()
    run.wait_for("bu0.tap")
    tap = sheaf.tap(run.directory)
    with pytest.raises(sheaf.SheafError, match="no tag has the name"):
        sheaf.tap(run.directory, tags=["nobody"])
    tap.close()
    with pytest.raises(RuntimeError, match="closed"):
        tap.next()
    run.end()
    with pytest.raises(sheaf.SheafError, match="not accepting consumers"):
        sheaf.tap(run.directory)


FILTERS = '''
import numpy as np
import sheaf

kept = []

@sheaf.filter
def third(event):
    return sheaf.accept(tags=["third"], payload=bytes(event[0])[:4]) if event.id % 3 == 0 else False

@sheaf.filter
def wrong(event):
    if event.id % 4 == 0:
        raise ValueError(f"no {event.id}")
    if event.id % 4 == 1:
        return None
    if event.id % 4 == 2:
        return sheaf.accept(tags=["unknown"])
    return True

@sheaf.filter
def off(event):
    marked = [(fragment.source, fragment.difference) for fragment in event if fragment.disagrees]
    return sheaf.accept(payload=repr(marked).encode()) if marked else False

@sheaf.filter
def keeps_views(event):
    kept.append(event[0].array())
    return True
'''


def processor(run: Run, directory: Path, name: str) -> subprocess.Popen[str]:
    path = directory / "filters.py"
    path.write_text(FILTERS)
    door = run.wait_for("bu0.farm")
    command = [sys.executable, "-m", "sheaf.processor", "--join", str(door), "--json", f"{path}:{name}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


FARM = """
[readout]
count = 2
[builder]
count = 1
[filter]
door = true
tags = ["third"]
"""


def test_processors_judge_a_run_and_leave_it_orderly(start: Callable[..., Run], tmp_path: Path) -> None:
    run = start(FARM, "--events", "3000")
    first, second = (processor(run, tmp_path, "third") for _ in range(2))
    said = [json.loads(process.communicate(timeout=PATIENCE)[0]) for process in (first, second)]
    summary = run.finish()
    assert sum(work["judged"] for work in said) == 3000
    assert (summary["ledger"]["stored"], summary["ledger"]["rejected"]) == (1000, 2000)
    events = list(sheaf.open(run.directory))
    assert sorted(event.id for event in events) == list(range(0, 3000, 3))
    assert all(event.tags == ("third",) and bytes(event.payload) == bytes(event[0])[:4] for event in events)


OFF_BY_ONE = """
[source]
count = 4
[source.emulated]
content = "number"
faulty_source = 2
faulty_event = 40
[check]
on_shift = "mark"
[check_fields.number]
value = "u64le at 0"
"""


def test_a_filter_sees_which_fragments_have_a_check_value_that_disagrees(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(FARM + OFF_BY_ONE, "--events", "100")
    process = processor(run, tmp_path, "off")
    assert json.loads(process.communicate(timeout=PATIENCE)[0])["judged"] == 100
    # Events that disagree set the status 3.
    summary = run.finish(status=3)
    # The last event has no fragment of the source, which counts one trigger less.
    seen = {event.id: bytes(event.payload) for event in sheaf.open(run.directory)}
    assert seen == {id: b"[(2, 1)]" for id in range(40, 99)}
    assert summary["kept"]["disagreeing"] == len(seen)
    assert summary["ledger"]["rejected"] == 100 - len(seen)


def test_mistakes_of_a_filter_cost_no_event(start: Callable[..., Run], tmp_path: Path) -> None:
    run = start(FARM + "retries = 0\n", "--events", "40")
    process = processor(run, tmp_path, "wrong")
    assert json.loads(process.communicate(timeout=PATIENCE)[0])["judged"] == 40
    summary = run.finish()
    assert summary["ledger"]["stored"] == 40
    quarantined = {event.id for event in sheaf.open(run.directory) if event.tags == ("quarantined",)}
    assert quarantined == {id for id in range(40) if id % 4 != 3}
    assert re.search(r"ValueError: no \d+ \(.*filters.py, line \d+\)", run.log), run.log
    assert "must return True, False" in run.log and "'third'" not in run.log and 'the tag "unknown"' in run.log


def test_a_filter_that_keeps_a_view_has_failed(start: Callable[..., Run], tmp_path: Path) -> None:
    run = start(FARM + "retries = 0\n", "--events", "10")
    process = processor(run, tmp_path, "keeps_views")
    process.communicate(timeout=PATIENCE)
    run.finish()
    assert all(event.tags == ("quarantined",) for event in sheaf.open(run.directory))
    assert "kept a view" in run.log


def test_a_processor_that_is_told_to_end_leaves_the_run_to_others(start: Callable[..., Run], tmp_path: Path) -> None:
    run = start(FARM)
    first = processor(run, tmp_path, "third")
    with sheaf.tap(run.directory) as tap:
        assert tap.next(timeout=PATIENCE) is not None
    second = processor(run, tmp_path, "third")
    first.send_signal(signal.SIGTERM)
    judged = json.loads(first.communicate(timeout=PATIENCE)[0])["judged"]
    assert judged > 0 and first.returncode == 0
    with sheaf.tap(run.directory) as tap:
        assert tap.next(timeout=PATIENCE) is not None
    run.process.send_signal(signal.SIGINT)
    judged += json.loads(second.communicate(timeout=PATIENCE)[0])["judged"]
    ledger = run.end()["ledger"]
    assert ledger["stored"] + ledger["rejected"] == judged
    assert not any("quarantined" in event.tags for event in sheaf.open(run.directory))


def test_the_example_filter_decides_in_python_as_in_c(start: Callable[..., Run], tmp_path: Path) -> None:
    parameters = "sum=200000000 source=70000000"
    library = tmp_path / "libenergy_sum.so"
    include = EXAMPLES.parent / "crates/sheaf-capi/include"
    source = EXAMPLES / "filters/c/energy_sum.c"
    compiled = ["cc", "-O2", "-shared", "-fPIC", "-I", str(include), "-o", str(library), str(source)]
    subprocess.run(compiled, check=True)
    # The first run keeps all events. The second has the same events and a filter in C.
    everything = tmp_path / "everything"
    everything.mkdir()
    plain = Run(everything, "", "--events", "2000")
    plain.finish()
    judge = sheaf.load_filter(str(EXAMPLES / "filters/python/energy_sum.py"), parameters)
    expected = {}
    for event in sheaf.open(plain.directory):
        verdict = sheaf.judge(judge, event)
        if verdict.accepted:
            expected[event.id] = (tuple(verdict.tags), bytes(verdict.payload))
    filtered = start(
        f'[filter]\nkind = "library"\npath = "{library}"\nparameters = "{parameters}"\ntags = ["sum", "pair"]\n',
        "--events",
        "2000",
    )
    filtered.finish()
    assert {e.id: (e.tags, bytes(e.payload)) for e in sheaf.open(filtered.directory)} == expected
    kinds = {tags for tags, _ in expected.values()}
    assert kinds == {("sum",), ("pair",), ("sum", "pair")}, "the comparison means something"


def test_a_filter_is_exchanged_between_runs(start: Callable[..., Run], tmp_path: Path) -> None:
    script = tmp_path / "mine.py"

    def install(every: int) -> None:
        script.write_text(f"import sheaf\n@sheaf.filter\ndef mine(event):\n    return event.id % {every} == 0\n")

    install(2)
    filter = f'kind = "python"\npath = "{script}"\npython = "{sys.executable}"\nprocesses = true\nworkers = 1\n'
    run = start(f"[filter]\n{filter}[readout]\ncount = 1\n[builder]\ncount = 1\n", "--runs", "0")
    wait_for_events(run.directory)
    install(3)
    run.process.send_signal(signal.SIGUSR1)
    wait_for_events(tmp_path / "run000002")
    script.write_text("def mine(event:\n")
    run.process.send_signal(signal.SIGUSR1)
    out, err = run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode == 1, err
    assert "run 3 is not started" in err
    assert "SyntaxError" in err
    assert not (tmp_path / "run000003").exists()
    checksums = set()
    for every, line in zip((2, 3), out.splitlines(), strict=True):
        ledger, directory = json.loads(line)["ledger"], Path(json.loads(line)["output"])
        assert ledger["balanced"], ledger["problems"]
        assert sorted(event.id for event in sheaf.open(directory)) == list(range(0, ledger["triggers"], every))
        checksums.add(json.loads((directory / "run.json").read_text())["code"][0]["crc32c"])
    assert len(checksums) == 2


def test_a_processor_that_stays_judges_the_next_run_with_what_is_installed_then(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    script = tmp_path / "mine.py"
    script.write_text("import sheaf, numbers_of_mine\n@sheaf.filter\ndef mine(event):\n    return numbers_of_mine.wants(event)\n")

    def install(every: str) -> None:
        (tmp_path / "numbers_of_mine.py").write_text(f"def wants(event):\n    return event.id % ({every}) == 0\n")

    install("2")
    run = start(FARM + "patience_ms = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 5000\n", "--runs", "0")
    command = [sys.executable, "-m", "sheaf.processor", "--join", str(tmp_path), "--stay", "--json", str(script)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as staying:
        try:
            wait_for_events(run.directory)
            # Imports of a script are loaded again, too. The different length makes Python's cached copy stale.
            install("2 + 1")
            run.process.send_signal(signal.SIGUSR1)
            wait_for_events(tmp_path / "run000002")
            run.process.send_signal(signal.SIGINT)
            out, err = run.process.communicate(timeout=PATIENCE)
            assert run.process.returncode == 0, err
            staying.send_signal(signal.SIGTERM)
            said, why = staying.communicate(timeout=PATIENCE)
        finally:
            staying.kill()
    assert staying.returncode == 0, why
    ledgers = []
    for every, line in zip((2, 3), out.splitlines(), strict=True):
        ledger, directory = json.loads(line)["ledger"], Path(json.loads(line)["output"])
        assert ledger["balanced"], ledger["problems"]
        assert sorted(event.id for event in sheaf.open(directory)) == list(range(0, ledger["triggers"], every))
        ledgers.append(ledger["triggers"])
    # It may have tried the door of a run that had ended.
    judged = [json.loads(line)["judged"] for line in said.splitlines()]
    assert [events for events in judged if events > 0] == ledgers
