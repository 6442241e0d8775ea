"""Common fixtures of tests and doctests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tests"))

from event_files import WrittenEvent, write_event_file  # noqa: E402


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Three events of two sources with 16 bytes each, the first with a tag and a payload."""
    events = [
        WrittenEvent(id, {0: b"\x01" * 16, 1: b"\x02" * 16}, time=1_000 + id, trigger_type=3) for id in range(3)
    ]
    events[0].tags, events[0].payload = 0b10, b"said"
    return write_event_file(tmp_path / "example.sheaf", events, ["muon", "electron"])


@pytest.fixture(autouse=True)
def _names_of_doctests(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        if request.node.name.endswith("to_awkward"):
            pytest.importorskip("awkward", minversion="2")
        doctest_namespace["example"] = request.getfixturevalue("example")
