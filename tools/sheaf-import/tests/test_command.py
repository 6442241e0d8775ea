"""The command and the output directory: complete, or not there at all. The readers are replaced by small ones."""

import faulthandler
import json
import os
import signal
import types

import pytest

from sheaf_import import InputError, OutputError, StreamDirectory, cli, read_header, read_stream
from sheaf_import.lst1 import module_time_ns
from sheaf_import.recording import Recording, check_files, require, same_run

FRAGMENTS = [(1, 10, 100, b"a"), (2, 10, 101, b"bc"), (2, 11, 200, b"")]


@pytest.fixture
def detector(monkeypatch):
    """Registers a format of its own, `toy`, whose fragments a test can replace."""
    toy = types.SimpleNamespace(NAME="toy", HELP="a toy", add_options=lambda parser: None, fragments=FRAGMENTS)
    toy.read = lambda paths, options: Recording(5, {"detector": "toy"}, [3], iter(toy.fragments))
    monkeypatch.setitem(cli.FORMATS, "toy", toy)
    return toy


@pytest.fixture(autouse=True)
def interruptible():
    """A shell that starts something in the background has it ignore Ctrl-C; these tests send that signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def fragments_then(action):
    yield from FRAGMENTS
    action()


def test_an_import_writes_each_source_and_reports(detector, tmp_path, capfd):
    out = tmp_path / "out"
    assert cli.main(["toy", "FILE", str(out), "--json"]) == 0
    assert sorted(os.listdir(out)) == ["source-1.sfrag", "source-2.sfrag", "source-3.sfrag"]
    assert [fragment.event for fragment in read_stream(out / "source-2.sfrag")] == [10, 11]
    assert list(read_stream(out / "source-3.sfrag")) == []
    report = json.loads(capfd.readouterr().out)["report"]
    assert report.items() >= {"format": "toy", "output": str(out), "run": 5, "sources": 3}.items()
    assert report.items() >= {"fragments": 3, "bytes": 3, "events": 2}.items()
    assert report.items() >= {"events_incomplete": 2, "fragments_repeated": 0}.items()
    assert report["missing"] == [{"source": 1, "events": 1}, {"source": 3, "events": 2}]


def test_a_run_number_can_be_given(detector, tmp_path):
    assert cli.main(["toy", "FILE", str(tmp_path), "--run", "77"]) == 0
    assert read_header(tmp_path / "source-1.sfrag").run == 77


def test_an_existing_import_is_replaced_only_by_force(detector, tmp_path, capfd):
    assert cli.main(["toy", "FILE", str(tmp_path)]) == 0
    (tmp_path / "source-9.sfrag").write_text("of an older import")
    (tmp_path / "notes.txt").write_text("kept")
    assert cli.main(["toy", "FILE", str(tmp_path)]) == OutputError.exit_status
    assert "--force" in capfd.readouterr().err
    assert (tmp_path / "source-9.sfrag").exists()
    assert cli.main(["toy", "FILE", str(tmp_path), "--force"]) == 0
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "source-1.sfrag", "source-2.sfrag", "source-3.sfrag"]


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("end, status", [
    ("raises", InputError.exit_status),
    ("is interrupted", cli.INTERRUPTED),
    ("is terminated", cli.INTERRUPTED),
    ("crashes", 6),
])
def test_an_import_that_fails_leaves_nothing(detector, tmp_path, capfd, end, status, existed):
    def action():
        if end == "raises":
            raise InputError("FILE: damaged")
        # The crash is wanted: a dump of the stack in the log would look like a defect.
        faulthandler.disable()
        number = {"is interrupted": signal.SIGINT, "is terminated": signal.SIGTERM, "crashes": signal.SIGSEGV}[end]
        os.kill(os.getpid(), number)

    detector.fragments = fragments_then(action)
    out = tmp_path / "out"
    if existed:
        out.mkdir()
    assert cli.main(["toy", "FILE", str(out), "--json"]) == status
    assert os.listdir(tmp_path) == (["out"] if existed else [])
    assert not existed or os.listdir(out) == []
    answer = capfd.readouterr()
    if status != cli.INTERRUPTED:
        assert "FILE" in json.loads(answer.out)["error"]["message"]


def test_the_output_must_be_a_directory(detector, tmp_path, capfd):
    out = tmp_path / "file"
    out.write_text("something else")
    assert cli.main(["toy", "FILE", str(out)]) == OutputError.exit_status
    assert "not a directory" in capfd.readouterr().err
    assert out.read_text() == "something else"


def test_repeated_fragments_are_counted_and_kept(tmp_path):
    with StreamDirectory(tmp_path) as streams:
        for payload in (b"first", b"second"):
            streams.append(1, 10, 0, payload)
    assert streams.report()["fragments_repeated"] == 1
    assert streams.report()["events_incomplete"] == 0
    assert [fragment.payload for fragment in read_stream(tmp_path / "source-1.sfrag")] == [b"first", b"second"]


def test_files_are_looked_at_before_their_reader_is_needed(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        check_files([tmp_path / "absent"], b"root", "a ROOT file")
    other = tmp_path / "other"
    other.write_bytes(b"SIMPLE")
    with pytest.raises(InputError, match="not a ROOT file: it begins with b'SIMP'"):
        check_files([other], b"root", "a ROOT file")


def test_files_of_two_runs_are_refused():
    assert same_run({"a": 1, "b": 1}) == 1
    with pytest.raises(InputError, match="directory of its own"):
        same_run({"a": 1, "b": 2})


def test_a_missing_package_names_its_command():
    with pytest.raises(Exception, match=r"-m pip install 'thing==1'"):
        require("sheaf_no_such_module", "thing", "'thing==1'")


def test_module_time_is_the_closest_second():
    second = 1_000_000_000
    for trigger_ns in range(100 * second, 102 * second, 99_999_937):
        for lag in (-400_000_000, -100, 0, 100, 400_000_000):
            true = (trigger_ns + lag) // 100 * 100
            assert module_time_ns(trigger_ns, true % second // 100) == true
