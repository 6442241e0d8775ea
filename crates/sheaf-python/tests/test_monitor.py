"""Histograms: what filling does, and what the run makes of it. The latter needs the command, whose path is in SHEAF_COMMAND."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sheaf import monitor
from test_live import EXAMPLES, Run

COMMAND = os.environ.get("SHEAF_COMMAND", "")
needs_command = pytest.mark.skipif(not COMMAND, reason="SHEAF_COMMAND does not name the command")


def axis(bins: int, low: float, high: float) -> monitor._Axis:
    return monitor._Axis(bins, (low, high), "")


def all_kinds() -> list[monitor._Filled]:
    return [
        monitor.Histogram("a", [axis(7, -1.0, 2.5)], "", "", None),
        monitor.Histogram2D("b", [axis(5, -1.0, 2.5), axis(3, 0.0, 1.0)], "", "", None),
        monitor.Profile("c", [axis(6, -1.0, 2.5)], "", "", None),
    ]


def numbers_of(histogram: monitor._Filled) -> dict[str, Any]:
    described = histogram._snapshot()[1]
    return {name: described.get(name) for name in ("entries", "nan", "contents", "squares", "sums", "sums2", "moments")}


@pytest.mark.parametrize("weighted", [False, True])
def test_arrays_are_filled_as_numbers_one_by_one_are(weighted: bool) -> None:
    random.seed(7)
    special = [math.nan, math.inf, -math.inf, 2.5, -1.0, 0.0]
    x = [random.uniform(-2.0, 3.0) for _ in range(500)] + special
    y = [random.uniform(-0.5, 1.5) for _ in range(500)] + special[::-1]
    weights = [random.uniform(0.5, 2.0) for _ in x] if weighted else None
    for by_array, one_by_one in zip(all_kinds(), all_kinds(), strict=True):
        columns = [x] if by_array._kind == "1d" else [x, y]
        by_array._fill([np.array(column) for column in columns], None if weights is None else np.array(weights))
        for at, values in enumerate(zip(*columns, strict=True)):
            one_by_one._fill(values, None if weights is None else weights[at])
        found, expected = numbers_of(by_array), numbers_of(one_by_one)
        for name, values in expected.items():
            assert found[name] == pytest.approx(values), (by_array._kind, name)
        assert found["nan"] >= 1


def test_contents_are_those_of_numpy() -> None:
    values = np.random.default_rng(1).normal(size=1000)
    filled = monitor.Histogram("a", [axis(20, -2.0, 2.0)], "", "", None)
    filled.fill(values[:300])
    filled.fill(values[300:])
    expected, _ = np.histogram(values, bins=20, range=(-2.0, 2.0))
    assert filled.contents[1:-1] == list(expected)
    assert (filled.contents[0], filled.contents[-1]) == ((values < -2).sum(), (values > 2).sum())
    assert filled.entries == 1000 and "squares" not in filled._snapshot()[1]
    filled.fill(0.0, weight=3.0)
    assert sum(filled._snapshot()[1]["squares"]) == 1009, "weights of 1 before count too"
    filled.reset()
    assert filled.entries == 0 and sum(filled.contents) == 0


def test_wrong_axes_and_values_are_refused() -> None:
    for bins, ends in ((0, (0.0, 1.0)), (1, (1.0, 1.0)), (1, (0.0, math.inf))):
        with pytest.raises(ValueError, match="an axis needs bins"):
            monitor._Axis(bins, ends, "")
    with pytest.raises(ValueError):
        monitor.Profile("a", [axis(1, 0.0, 1.0)], "", "", None).fill(np.zeros(3), np.zeros(2))


def test_a_run_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(monitor.NoRunError, match="the run has not started or has ended"):
        monitor.connect(tmp_path, wait=0.0)


def record_of(run: Run) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((run.directory / "histograms.json").read_text())
    return record


@needs_command
def test_histograms_of_two_programs_are_added_and_recorded(start: Callable[..., Run]) -> None:
    run = start("[readout]\ncount = 2\n")
    run.wait_for("run.monitor")
    with monitor.connect(run.directory, name="one") as one, monitor.connect(run.directory, name="two") as two:
        for publisher, count in ((one, 1000), (two, 500)):
            charge = publisher.histogram("charge", bins=10, range=(0, 10), title="Charge", x="ADC counts", source=1)
            hits = publisher.histogram2d("hits", bins=(4, 2), range=((0, 4), (0, 2)), x="channel", y="source")
            gain = publisher.profile("gain", bins=4, range=(0, 4), y="gain")
            charge.fill(np.arange(count) % 10)
            hits.fill(np.arange(count) % 4, 1)
            gain.fill(np.arange(count) % 4, np.arange(count) % 2)
        one.publish()
        with pytest.raises(monitor.HistogramRefused, match="of another kind or with other bins"):
            two.profile("charge-2", bins=1, range=(0, 1))
            one.histogram("charge-2", bins=1, range=(0, 1))
        with pytest.raises(monitor.HistogramRefused, match="a name has"):
            two.histogram("a name", bins=1, range=(0, 1))
    run.end()
    record = record_of(run)
    assert record["complete"] and record["publishers"] == []
    assert record["refused"] == {"invalid": 1, "other_bins": 1}
    found = {one["histogram"]["name"]: one["histogram"] for one in record["histograms"]}
    assert list(found) == ["charge", "charge-2", "gain", "hits"]
    assert found["charge"]["contents"] == [0] + [150] * 10 + [0] and found["charge"]["entries"] == 1500
    assert sum(found["hits"]["contents"]) == 1500 and sum(found["gain"]["sums"]) == 750
    manifest = json.loads((run.directory / "run.json").read_text())
    assert manifest["histograms"]["histograms"] == 4
    assert not (run.directory / "run.monitor").exists()


@needs_command
def test_a_publisher_that_is_killed_leaves_what_it_has_published(start: Callable[..., Run]) -> None:
    run = start()
    run.wait_for("run.monitor")
    script = f"""
import time, sheaf.monitor
monitor = sheaf.monitor.connect({str(run.directory)!r}, name="killed")
monitor.histogram("charge", bins=10, range=(0, 10)).fill([1, 2, 3])
monitor.publish()
print("published", flush=True)
time.sleep(600)
"""
    killed = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None and killed.stdout.readline() == "published\n"
    killed.kill()
    killed.communicate()
    run.end()
    record = record_of(run)
    assert [one["name"] for one in record["publishers"]] == ["killed"], "it has not said that it ends"
    assert record["histograms"][0]["histogram"]["entries"] == 3


@needs_command
def test_the_last_entries_are_taken_after_the_end_of_the_run_or_reported(start: Callable[..., Run]) -> None:
    run = start()
    run.wait_for("run.monitor")
    late = monitor.connect(run.directory, name="late")
    in_time = monitor.connect(run.directory, name="in-time")
    counts = in_time.histogram("counts", bins=1, range=(0, 1))
    lost = late.histogram("lost", bins=1, range=(0, 1))
    run.process.send_signal(signal.SIGINT)
    # The run waits for the last publication of both for two seconds.
    for _ in range(100):
        counts.fill(0.5)
    in_time.close()
    run.finish()
    lost.fill(0.5)
    with pytest.raises(monitor.NoRunError, match="has ended"):
        late.close()
    found = {one["histogram"]["name"]: one["histogram"]["entries"] for one in record_of(run)["histograms"]}
    assert found == {"counts": 100, "lost": 0}


@needs_command
def test_limits_are_errors_with_a_remedy(start: Callable[..., Run]) -> None:
    run = start("[monitor]\nhistogram_bytes = 20000\n")
    run.wait_for("run.monitor")
    with monitor.connect(run.directory) as publisher:
        publisher.histogram("small", bins=100, range=(0, 1)).fill(np.zeros(10))
        with pytest.raises(monitor.HistogramRefused, match="raise `monitor.histogram_bytes`") as refusal:
            publisher.histogram2d("large", bins=(100, 100), range=((0, 1), (0, 1)))
        assert refusal.value.code == "too_many_bytes"
        with pytest.raises(monitor.HistogramRefused, match="65536, the limit of a histogram"):
            publisher.histogram("too-many-bins", bins=70_000, range=(0, 1))
    run.end()
    assert record_of(run)["refused"] == {"invalid": 1, "too_many_bytes": 1}
    assert "histogram-refused" in (run.directory / "log.jsonl").read_text()


@needs_command
def test_a_run_of_processes_takes_histograms_and_one_without_says_so(start: Callable[..., Run], tmp_path: Path) -> None:
    run = start("", "--processes")
    run.wait_for("run.monitor")
    with monitor.connect(run.directory) as publisher:
        publisher.histogram("charge", bins=10, range=(0, 10)).fill(range(10))
    run.end()
    assert record_of(run)["histograms"][0]["histogram"]["entries"] == 10
    run.directory.rename(tmp_path / "first")
    off = start("[monitor]\nhistogram_bytes = 0\n")
    off.wait_for("bu0.tap")
    with pytest.raises(monitor.NoRunError):
        monitor.connect(off.directory, wait=0.0)
    off.end()
    assert not (off.directory / "histograms.json").exists()


@needs_command
def test_filling_goes_on_while_the_thread_publishes(start: Callable[..., Run]) -> None:
    run = start()
    run.wait_for("run.monitor")
    with monitor.connect(run.directory) as publisher:
        charge = publisher.histogram("charge", bins=100, range=(0, 100))
        threads = [threading.Thread(target=lambda: [charge.fill(np.arange(100)) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            publisher.publish()
        for thread in threads:
            thread.join()
        assert publisher.problem is None
    run.end()
    assert record_of(run)["histograms"][0]["histogram"]["contents"][1:-1] == [200] * 100


@needs_command
def test_the_example_publishes_what_it_sees(start: Callable[..., Run]) -> None:
    run = start("[readout]\ncount = 3\n")
    run.wait_for("bu0.tap")
    command = [sys.executable, EXAMPLES / "monitors/charge.py", run.directory, "--seconds", "0.1"]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    events = int(ended.stdout.split()[0])
    run.end()
    found = {one["histogram"]["name"]: one["histogram"] for one in record_of(run)["histograms"]}
    assert sorted(found) == ["charge", "charge-of-sources", "sizes"]
    assert events > 0 and all(histogram["entries"] == 3 * events for histogram in found.values())
    assert found["sizes"]["contents"][0] == 0 and sum(found["charge"]["contents"]) == 3 * events
