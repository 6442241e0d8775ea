"""Programs in Python that feed a run. They need the command, whose path is in SHEAF_COMMAND."""

from __future__ import annotations

import itertools
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import sheaf
from test_live import COMMAND, EXAMPLES, PATIENCE, Run, has_events

pytestmark = pytest.mark.skipif(COMMAND is None, reason="SHEAF_COMMAND does not name the command")

FEED = '[source]\nkind = "feed"\ncount = 2\n[readout]\ncount = 1\n[builder]\ncount = 1\n'


def payload(source: int, event: int) -> bytes:
    return bytes((event + source + at) % 256 for at in range(event * 7 % 50))


def send_until_it_has_ended(run: Run, board: sheaf.Source) -> Iterator[int]:
    """Sends one event after another, yields their number after each, and ends the run when it has stored some.

    Programs may be far ahead of the triggers: how much they have sent does not tell whether there are events.
    """
    is_told = False
    for event in itertools.count():
        board.send(event, b"data", source=0)
        board.send(event, b"data", source=1)
        yield event + 1
        if event % 100 == 0 and not is_told and has_events(run.directory):
            run.process.send_signal(signal.SIGINT)
            is_told = True


def test_a_program_feeds_a_run_one_fragment_at_a_time_and_in_batches(
    start: Callable[..., Run],  # noqa: F811
    tmp_path: Path,
) -> None:
    events = 700
    run = start(FEED)
    ids = np.arange(events)
    sizes = [len(payload(1, event)) for event in range(events)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    data = np.frombuffer(b"".join(payload(1, event) for event in range(events)), dtype="u1")
    with sheaf.Source(tmp_path / "run.toml", sources=[0, 1], wait=PATIENCE) as board:
        assert board.wait_for_start(), "the run starts with its last program"
        assert (board.run, board.phase, board.sources) == (1, "running", [0, 1])
        assert board.last_event(0) is None
        for event in range(events):
            if event % 2 == 0 or not board.try_send(event, payload(0, event), source=0):
                board.send(event=event, time_ns=event * 10, payload=payload(0, event), source=0)
        half = events // 2
        board.send_batch(ids[:half], data, offsets[: half + 1], times_ns=ids[:half] * 20, source=1)
        board.send_batch(ids[half:].astype("u8"), data, offsets[half:], source=1)
        board.send_batch(ids[:0], data, offsets[:0], source=1)
        board.end(0)
        assert (board.has_ended(0), board.has_ended(1)) == (True, False)
        with pytest.raises(sheaf.SheafError, match="source 0 has ended"):
            board.send(events, b"", source=0)
        board.end()
        assert board.drain()
        assert board.sent(0) == board.accepted(0) == board.sent(1) == board.accepted(1) == events
    assert run.finish()["ledger"]["stored"] == events
    stored = list(sheaf.open(run.directory))
    assert [event.id for event in stored] == list(range(events))
    for event in stored:
        assert [bytes(fragment) for fragment in event] == [payload(0, event.id), payload(1, event.id)]
        assert event[1].time == (event.id * 20 if event.id < half else 0)


def test_a_program_that_was_killed_continues_behind_its_last_event(
    start: Callable[..., Run],  # noqa: F811
    tmp_path: Path,
) -> None:
    run = start(FEED.replace("count = 2", "count = 1"))
    first = sheaf.Source(tmp_path / "ru0.feed", source=0, wait=PATIENCE)
    first.wait_for_start()
    for event in range(100):
        first.send(event, b"first")
    first.close()
    with pytest.raises(RuntimeError, match="closed"):
        first.send(100, b"")
    with sheaf.Source(tmp_path / "ru0.feed", source=0, wait=PATIENCE) as second:
        assert second.last_event() == 99
        second.send(100, b"second")
    assert run.finish()["ledger"]["stored"] == 101


def test_records_of_a_program_are_stored_once_before_during_and_after_the_run(
    start: Callable[..., Run],  # noqa: F811
    tmp_path: Path,
) -> None:
    run = start(FEED)
    with sheaf.Source(tmp_path / "run.toml", sources=[0, 1], wait=PATIENCE, late_records=True) as board:
        for _ in range(2):
            board.record("begin", "board.cfg", b"gain = 3", time_ns=1_000, source=1)
        with pytest.raises(ValueError, match="name one with source"):
            board.record("begin", "board.cfg", b"")
        with pytest.raises(ValueError, match="kind must be one of"):
            board.record("middle", "board.cfg", b"", source=0)
        with pytest.raises(sheaf.SheafError, match="larger than this connection carries"):
            board.record("begin", "large", bytes((1 << 20) + 1), source=0)
        assert board.wait_for_start()
        assert not board.wait_for_end(0.01)
        board.record("slow_control", "voltages", np.arange(4, dtype="u1"), time_ns=2_000, source=0)
        sent = 0
        with pytest.raises(sheaf.RunEndedError):
            for sent in send_until_it_has_ended(run, board):
                pass
        assert board.wait_for_end()
        assert board.phase == "ended"
        before = time.time_ns()
        board.record("end", "counters", b"", source=0)
        after = time.time_ns()
    stored = run.finish()["ledger"]["stored"]
    assert 0 < stored <= sent + 1
    reader = sheaf.open(run.directory)
    assert isinstance(reader, sheaf.EventReader)
    begin, during, end = sorted(reader.records(), key=lambda record: record.time)
    assert (begin.source, begin.kind, begin.time, begin.name) == (1, "begin", 1_000, "board.cfg")
    assert begin.content == b"gain = 3"
    assert (during.source, during.kind, during.time, during.name) == (0, "slow_control", 2_000, "voltages")
    assert during.content == bytes(range(4))
    assert (end.source, end.kind, end.name, end.content) == (0, "end", "counters", b"")
    assert before <= end.time <= after
    assert sum(1 for _ in reader) == stored


def test_mistakes_are_reported_and_send_nothing(start: Callable[..., Run], tmp_path: Path) -> None:  # noqa: F811
    run = start(FEED)
    config = tmp_path / "run.toml"
    with pytest.raises(sheaf.SheafError, match="no readout unit of this configuration reads source 5"):
        sheaf.Source(config, source=5)
    with pytest.raises(ValueError, match="source=7 or sources"):
        sheaf.Source(config)
    with pytest.raises(sheaf.NobodyThereError):
        sheaf.Source(tmp_path / "ru7.feed", source=0, wait=0)
    board = sheaf.Source(config, sources=[0, 1], wait=PATIENCE)
    ids = np.arange(2)
    with pytest.raises(ValueError, match="name one with source"):
        board.send(0, b"")
    with pytest.raises(ValueError, match="there are 2 offsets; there must be 3"):
        board.send_batch(ids, b"abc", ids, source=0)
    with pytest.raises(ValueError, match="offsets must not fall"):
        board.send_batch(ids, b"abc", np.array([0, 3, 2]), source=0)
    with pytest.raises(ValueError, match="the payload has 3 bytes"):
        board.send_batch(ids, b"abc", np.array([0, 3, 4]), source=0)
    with pytest.raises(TypeError, match="64-bit integers"):
        board.send_batch(ids.astype("u4"), b"abc", np.array([0, 1, 2]), source=0)
    with pytest.raises(TypeError, match="not contiguous"):
        board.send(0, np.zeros((4, 4), dtype="u1")[:, 1], source=0)
    assert (board.sent(0), board.sent(1)) == (0, 0)
    board.close()
    run.end()


def test_a_run_that_ends_ends_the_block_of_a_program(start: Callable[..., Run], tmp_path: Path) -> None:  # noqa: F811
    run = start(FEED)
    sent = 0
    with sheaf.Source(tmp_path / "run.toml", sources=[0, 1], wait=PATIENCE) as board:
        board.wait_for_start()
        for sent in send_until_it_has_ended(run, board):
            pass
    assert 0 < run.end()["ledger"]["stored"] <= sent + 1


def test_a_program_declines_a_start(start: Callable[..., Run], tmp_path: Path) -> None:  # noqa: F811
    run = start(FEED)
    board = sheaf.Source(tmp_path / "run.toml", source=0, wait=PATIENCE)
    assert not board.wait_for_start(timeout=0), "source 1 has no program"
    board.decline("the gas is off")
    _, said = run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode == 1
    assert "declines the start of the run: the gas is off" in said


def test_ctrl_c_ends_a_program_that_waits_and_other_threads_go_on(tmp_path: Path, start: Callable[..., Run]) -> None:  # noqa: F811
    run = start(FEED)
    script = (
        "import sys, threading, sheaf\n"
        f"board = sheaf.Source({str(tmp_path / 'run.toml')!r}, source=0, wait={PATIENCE})\n"
        "threading.Timer(0.0, lambda: print('waiting', flush=True)).start()\n"
        "board.wait_for_start()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waits:
        assert waits.stdout is not None
        assert waits.stdout.readline() == "waiting\n"
        waits.send_signal(signal.SIGINT)
        _, said = waits.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in said
    run.end()


def test_the_example_boards_feed_a_run(start: Callable[..., Run], tmp_path: Path) -> None:  # noqa: F811
    run = start((EXAMPLES / "sources/boards.toml").read_text())
    board = [sys.executable, str(EXAMPLES / "sources/python/board.py"), str(tmp_path / "run.toml")]
    boards = [threading.Thread(target=subprocess.run, args=([*board, source, "300"],)) for source in "01"]
    for thread in boards:
        thread.start()
    for thread in boards:
        thread.join(PATIENCE)
    assert run.finish()["ledger"]["stored"] == 300


def test_a_run_starts_a_program_that_needs_no_arguments(start: Callable[..., Run]) -> None:  # noqa: F811
    example = EXAMPLES / "sources" / "python" / "started.py"
    run = start(
        '[source]\nkind = "command"\ncount = 2\n[readout]\ncount = 1\n[builder]\ncount = 1\n'
        f'[programs.boards]\ncommand = ["{sys.executable}", "-u", "{example}"]\n'
    )
    summary = run.finish()
    assert summary["ledger"]["stored"] == 1000
    assert summary["programs"][0]["failures"] == 0
    log = (run.directory / "ru0.boards.log").read_text()
    assert "sources [0, 1]" in log


def certificates(directory: Path) -> None:
    """Makes an authority, and its certificates for the node at 127.0.0.1, for programs, and for a stranger."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make certificates with")
    new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    commands = [f"req -x509 {new} -days 365 -subj /CN=authority -keyout authority.key -out authority.pem"]
    for name, alternative in (("node", "IP:127.0.0.1"), ("source", "DNS:source"), ("stranger", "DNS:stranger")):
        commands += [
            f"req {new} -subj /CN={name} -addext subjectAltName={alternative} -keyout {name}.key -out {name}.csr",
            f"x509 -req -in {name}.csr -days 365 -CA authority.pem -CAkey authority.key -copy_extensions copy -out {name}.pem",
        ]
    for command in commands:
        subprocess.run(["openssl", *command.split()], cwd=directory, check=True, capture_output=True)


def test_programs_of_other_hosts_have_the_certificate_and_the_key_of_the_run(
    start: Callable[..., Run],  # noqa: F811
    tmp_path: Path,
) -> None:
    certificates(tmp_path)
    (tmp_path / "run.key").write_text("a" * 64)
    (tmp_path / "run.key").chmod(0o600)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % listener.getsockname()[1]
    secrets = (
        f'[source.feed]\nlisten = "{address}"\n[transport]\nkey_file = "{tmp_path}/run.key"\n[transport.tls]\n'
        f'certificate = "{tmp_path}/node.pem"\nkey = "{tmp_path}/node.key"\nauthority = "{tmp_path}/authority.pem"\n'
    )
    run = start(FEED + secrets)
    # Another host has a certificate for programs, and no socket.
    elsewhere = tmp_path / "elsewhere.toml"
    own = secrets.replace("node.", "source.").replace("[source.feed]\n", f'[source.feed]\ndirectory = "{tmp_path}/absent"\n')
    elsewhere.write_text(FEED + own)
    key = tmp_path / "run.key"
    tls = (tmp_path / "source.pem", tmp_path / "source.key", tmp_path / "authority.pem")
    stranger = (tmp_path / "stranger.pem", tmp_path / "stranger.key", tmp_path / "authority.pem")
    with sheaf.Source(elsewhere, source=0, wait=PATIENCE) as first:
        with pytest.raises(sheaf.SheafError, match="transport.tls"):
            sheaf.Source(address, source=1, wait=PATIENCE, key=key)
        with pytest.raises(sheaf.SheafError, match="source.feed.guest_names"):
            sheaf.Source(address, source=1, wait=PATIENCE, key=key, tls=stranger)
        with pytest.raises(sheaf.SheafError, match="key of the run"):
            sheaf.Source(address, source=1, wait=PATIENCE, tls=tls)
        with sheaf.Source(address, source=1, wait=PATIENCE, tls=tls, key=key) as second:
            for event in range(200):
                first.send(event, payload(0, event))
                second.send(event, payload(1, event))
    assert run.finish()["ledger"]["stored"] == 200
    for event in sheaf.open(run.directory):
        assert [bytes(fragment) for fragment in event] == [payload(0, event.id), payload(1, event.id)]


def test_without_a_run_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHEAF_SOURCE_ADDRESS", raising=False)
    monkeypatch.delenv("SHEAF_SOURCES", raising=False)
    with pytest.raises(sheaf.SheafError, match="no run has started this program"):
        sheaf.Source()
    with pytest.raises(ValueError, match="give source="):
        sheaf.Source("run.toml")
