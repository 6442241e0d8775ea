"""Fixtures of several tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_live import Run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs = []

    def begin(configuration: str = "", *arguments: str) -> Run:
        runs.append(Run(tmp_path, configuration, *arguments))
        return runs[-1]

    yield begin
    for run in runs:
        run.process.kill()
        run.process.communicate()
