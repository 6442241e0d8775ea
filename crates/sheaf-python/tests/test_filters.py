"""Filters in Python: their kinds and their answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sheaf
from sheaf import processor


def test_whatever_a_filter_may_return_is_a_verdict(example: Path) -> None:
    event = next(iter(sheaf.open(example)))
    for answer in (True, np.bool_(True), np.array([1]).any(), sheaf.accept()):
        assert sheaf.judge(lambda _: answer, event) == sheaf.accept()
    assert sheaf.judge(lambda _: False, event) == sheaf.reject()
    for answer in (None, 1, "yes", b""):
        with pytest.raises(TypeError, match="must return True, False, sheaf.accept"):
            sheaf.judge(lambda _: answer, event)  # type: ignore[arg-type, return-value]


def test_a_verdict_holds_tags_and_a_bounded_payload() -> None:
    verdict = sheaf.accept(tags=("a", "b"), payload=b"x" * (1 << 20))
    assert verdict.tags == ["a", "b"] and len(verdict.payload) == 1 << 20
    with pytest.raises(ValueError, match="the maximum is 1048576"):
        sheaf.accept(payload=b"x" * ((1 << 20) + 1))
    with pytest.raises(TypeError, match="a list of names"):
        sheaf.accept(tags="muon")


def test_filters_are_found_by_name_in_files_and_modules(tmp_path: Path) -> None:
    path = tmp_path / "my_filters.py"
    path.write_text(
        "import sheaf\n"
        "@sheaf.filter\n"
        "def odd(event):\n"
        "    return event.id % 2 == 1\n"
        "def unmarked(event):\n"
        "    return True\n"
    )
    assert sheaf.load_filter(str(path)).__name__ == "odd"  # type: ignore[attr-defined]
    assert sheaf.load_filter(f"{path}:unmarked").__name__ == "unmarked"  # type: ignore[attr-defined]
    with pytest.raises(sheaf.SheafError, match="has no filter even; it has: odd"):
        sheaf.load_filter(f"{path}:even")
    with pytest.raises(sheaf.SheafError, match="there is no file"):
        sheaf.load_filter(str(tmp_path / "nowhere.py"))
    with pytest.raises(sheaf.SheafError, match="none that is marked"):
        sheaf.load_filter("json")


def test_a_class_is_made_once_with_the_parameters(tmp_path: Path) -> None:
    path = tmp_path / "classes.py"
    path.write_text(
        "import sheaf\n"
        "@sheaf.filter\n"
        "class Prescale:\n"
        "    def __init__(self, parameters):\n"
        "        self.factor = int(parameters)\n"
        "    def judge(self, event):\n"
        "        return event.id % self.factor == 0\n"
    )
    judge = sheaf.load_filter(str(path), "2")
    assert judge.__self__.factor == 2  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="no method judge"):
        sheaf.filter(type("Empty", (), {}))


def test_a_filter_is_tried_on_a_file(example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "even.py"
    path.write_text(
        "import sheaf\n"
        "@sheaf.filter\n"
        "def even(event):\n"
        "    return sheaf.accept(tags=['muon'], payload=b'\\x01') if event.id % 2 == 0 else False\n"
    )
    assert processor.main(["--file", str(example), "--json", str(path)]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        '{"event": 0, "accepted": true, "tags": ["muon"], "payload": "01"}',
        '{"event": 1, "accepted": false, "tags": [], "payload": ""}',
        '{"event": 2, "accepted": true, "tags": ["muon"], "payload": "01"}',
    ]
    assert said.err == "2 of 3 events accepted\n"


@pytest.fixture
def _signals() -> Iterator[None]:
    """Restores the signal handlers after the test."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals")
def test_a_closed_pipe_ends_a_trial_without_a_traceback(example: Path, tmp_path: Path) -> None:
    path = tmp_path / "all.py"
    path.write_text("import sheaf\n\n@sheaf.filter\ndef everything(event):\n    return True\n")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "sheaf.processor", "--file", str(example), "--json", str(path)]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_door_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert processor.main(["--join", str(tmp_path / "bu0.farm"), "even.py"]) == 1
    assert "bu0.farm" in capsys.readouterr().err


@pytest.mark.usefixtures("_signals")
def test_a_processor_that_stays_waits_for_a_run_no_longer_than_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert processor.main(["--join", str(tmp_path), "--stay", "--wait", "0.3", "even.py"]) == 1
    assert "has no socket for processors" in capsys.readouterr().err
    with pytest.raises(sheaf.NobodyThereError, match="has no socket for processors"):
        sheaf.Processor(tmp_path)
