"""Run control against a real controller. They need the command, whose path is in SHEAF_COMMAND."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sheaf import control, monitor
from sheaf.control import CommandFailed, CommandRefused, Controller, ControlError, NoControllerError, ValuesRefused
from sheaf.monitor import MonitorError

COMMAND = os.environ.get("SHEAF_COMMAND", "")
PATIENCE = 60.0

SYSTEM = """
[readout]
count = 2
[builder]
count = 2
[trigger]
mode = "fixed"
rate_hz = 1000
[source.emulated]
mean_bytes = 64
rms_bytes = 0
[control]
lock_ms = 3000
"""

needs_command = pytest.mark.skipif(not COMMAND, reason="SHEAF_COMMAND does not name the command")


class Serve:
    """A controller in the background."""

    def __init__(self, place: Path, more: str = "") -> None:
        self.place = place
        self.configuration = place / "run.toml"
        self.configuration.write_text(SYSTEM + more)
        self.directory = place / "runs/control"
        self.begin()

    def begin(self) -> None:
        self.process = subprocess.Popen(
            [COMMAND, "serve", "run.toml", "--page", "127.0.0.1:0"],
            cwd=self.place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end(self) -> None:
        """Leaves the run, as SIGTERM does."""
        self.process.terminate()
        self.process.wait(PATIENCE)

    def token(self, *arguments: str) -> str:
        command = [COMMAND, "token", "add", *arguments, "--directory", str(self.directory)]
        ended = subprocess.run(command, cwd=self.place, check=True, capture_output=True, text=True)
        return str(ended.stdout).strip()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    serve = Serve(tmp_path)
    yield serve
    if serve.process.poll() is not None:
        serve.begin()
    # A run outlives its controller, and must not outlive a test.
    Controller(serve.directory, patience_s=PATIENCE).reset()
    serve.process.send_signal(signal.SIGINT)
    serve.process.wait(PATIENCE)


def connect(serve: Serve) -> Controller:
    return Controller(serve.directory, patience_s=PATIENCE)


def wait_until(happened: Callable[[], bool], what: str) -> None:
    """Waits under a watchdog."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"it did not happen that {what}"
        time.sleep(0.01)


@needs_command
def test_a_run_is_started_paused_resumed_and_stopped(serve: Serve) -> None:
    controller = connect(serve)
    assert controller.status().state == "idle"
    assert controller.configure(comment="a test").result == "done"
    held = controller.status()
    assert (held.state, held.run, held.by) == ("configured", 1, controller.me().name)
    assert controller.start(revision=held.revision).command == "start"
    controller.pause(comment="beam lost")
    assert controller.status().state == "paused"
    assert not next(command for command in controller.status().commands if command.command == "pause").allowed
    controller.resume()
    controller.stop()
    last = controller.wait_for_end()
    assert (last.run, last.good) == (1, True)
    record = controller.run(1)
    given = [(command.command, command.comment, command.result) for command in record.commands]
    beginning = [("configure", "a test", "done"), ("start", None, "done")]
    assert given == [*beginning, ("pause", "beam lost", "done"), ("resume", None, "done"), ("stop", None, "done")]
    assert {(command.by, command.via) for command in record.commands} == {(controller.me().name, "sheaf.control")}
    assert record.commands_left_out == 0
    assert controller.status().last_run == last == controller.wait_for_end()


@needs_command
def test_runs_of_a_number_of_events_follow_each_other_and_are_commented(serve: Serve) -> None:
    controller = connect(serve)
    for number, events in [(1, 50), (2, 70)]:
        controller.start(events=events, comment=f"run of {events}")
        last = controller.wait_for_end(PATIENCE)
        assert (last.run, last.good) == (number, True)
        ledger = controller.run(number).ledger
        assert ledger is not None and ledger["triggers"] == events
    controller.comment(2, "looks fine", quality="good")
    runs = controller.runs()
    assert [run.run for run in runs] == [1, 2]
    assert [comment.text for comment in runs[1].comments] == ["run of 70", "looks fine"]
    assert runs[1].comments[-1].quality == "good"
    assert [entry.action for entry in controller.journal() if entry.answer == "accepted"] == ["start", "start"]


@needs_command
def test_a_run_has_the_configuration_of_an_earlier_one(serve: Serve) -> None:
    controller = connect(serve)
    controller.start(events=60)
    controller.wait_for_end(PATIENCE)
    serve.configuration.write_text(SYSTEM.replace("mean_bytes = 64", "mean_bytes = 32"))
    controller.start(like=1)
    controller.wait_for_end(PATIENCE)
    first, second = controller.run(1), controller.run(2)
    assert second.configuration["id"] == first.configuration["id"]
    assert second.configuration_from == {"run": 1}
    assert second.ledger is not None and second.ledger["triggers"] == 60
    with pytest.raises(CommandRefused, match="there is no run 9") as refused:
        controller.start(like=9)
    assert (refused.value.status, refused.value.code) == (422, "like")


@needs_command
def test_the_configuration_of_a_run_gets_a_name(serve: Serve) -> None:
    controller = connect(serve)
    assert controller.configurations() == []
    controller.start(events=60)
    controller.wait_for_end(PATIENCE)
    named = controller.name_configuration(1, "cosmics")
    assert (named.name, named.version, named.run, named.by) == ("cosmics", 1, 1, controller.me().name)
    controller.start(like="cosmics")
    controller.wait_for_end(PATIENCE)
    assert controller.run(2).configuration_from == {"run": 1, "name": "cosmics", "version": 1}
    # It is the same configuration, so there is no other version.
    assert controller.name_configuration(2, "cosmics") == named
    assert controller.configurations() == [named]
    for number, name, status in [(1, "7", 400), (1, "a/b", 400), (9, "cosmics", 404)]:
        with pytest.raises(CommandRefused) as refused:
            controller.name_configuration(number, name)
        assert refused.value.status == status
    assert controller.configurations() == [named]


@needs_command
def test_a_refusal_has_a_code_and_a_remedy_and_nothing_was_done(serve: Serve) -> None:
    controller = connect(serve)
    with pytest.raises(CommandRefused) as refused:
        controller.pause()
    assert (refused.value.status, refused.value.code) == (409, "state")
    assert refused.value.remedy
    with pytest.raises(CommandRefused) as refused:
        controller.start(revision=controller.status().revision + 1)
    assert refused.value.code == "stale"
    url = (serve.directory / "address").read_text().strip()
    stranger = Controller(url=url)
    assert stranger.status().state == "idle"
    with pytest.raises(CommandRefused) as refused:
        stranger.start()
    assert refused.value.code == "token"
    with pytest.raises(CommandRefused) as refused:
        controller.run(99)
    assert refused.value.code == "not_found"


@needs_command
def test_a_run_that_cannot_begin_is_a_failed_command(serve: Serve) -> None:
    controller = connect(serve)
    controller.status()
    serve.configuration.write_text("[readout]\ncount = 0\n")
    with pytest.raises(CommandFailed) as failed:
        controller.start()
    assert failed.value.operation.result == "failed"
    assert controller.status().state == "idle"


@needs_command
def test_a_run_that_dies_is_a_fault_until_it_is_seen(serve: Serve) -> None:
    controller = connect(serve)
    controller.start()
    process = json.loads((serve.directory / "launch-1/process.json").read_text())
    os.kill(process["pid"], signal.SIGKILL)
    assert not controller.wait_for_end(PATIENCE).good
    fault = controller.faults[0]
    assert fault.code == "run_died" and fault.text and fault.remedy
    controller.seen(fault)
    assert controller.faults == ()


@needs_command
def test_alarms_are_silenced_for_a_time_and_with_a_reason(serve: Serve) -> None:
    controller = connect(serve)
    silence = controller.silence("dead-time", seconds=3600, why="a new filter", culprit="bu0")
    assert (silence.culprit, silence.why) == ("bu0", "a new filter")
    assert silence.until_ms - silence.since_ms == 3_600_000
    assert controller.status().silences == (silence,)
    controller.unsilence(silence)
    assert controller.status().silences == ()
    with pytest.raises(CommandRefused, match="there is no silence 1"):
        controller.unsilence(silence)
    with pytest.raises(CommandRefused, match="choose one of"):
        controller.silence("dead-tim", seconds=60, why="a mistake")
    controller.alarms_seen()


@needs_command
def test_the_lock_is_renewed_keeps_others_out_and_is_given_back(serve: Serve) -> None:
    controller = connect(serve)
    controller.status()
    bob = Controller(url=(serve.directory / "address").read_text(), token=serve.token("bob"))
    assert bob.me().name == "bob"
    with controller.lock():
        taken = controller.status().lock
        assert taken is not None

        def is_renewed() -> bool:
            now = controller.status().lock
            return now is not None and now.until_ms > taken.until_ms

        wait_until(is_renewed, "the lock is renewed")
        with pytest.raises(CommandRefused) as refused:
            bob.start()
        assert refused.value.code == "locked"
    assert controller.status().lock is None


@needs_command
def test_a_controller_that_begins_anew_is_found_at_its_new_address(serve: Serve) -> None:
    controller = connect(serve)
    controller.start()
    serve.end()
    begun = threading.Timer(0.5, serve.begin)
    begun.start()
    assert controller.status().run == 1
    begun.join()
    controller.stop()
    assert controller.wait_for_end(PATIENCE).run == 1


class _Forgetful(BaseHTTPRequestHandler):
    """Takes commands as a controller does, and breaks the connection before the first answer."""

    requests: list[bytes] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append(body)
        if len(self.requests) == 1:
            return
        operation = b'{"id": 1, "command": "pause", "by": "a", "began_ms": 0, "deadline_ms": 0, "progress": null, "ended_ms": 1'
        answer = b'{"operation": ' + operation + b', "result": "done", "text": "", "new": 1}}'
        self.send_response(202)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_a_command_whose_answer_is_lost_is_given_again_under_the_same_name() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Forgetful)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        controller = Controller(url=f"http://127.0.0.1:{server.server_port}/#token=abc", patience_s=PATIENCE)
        assert controller.pause().result == "done"
    finally:
        server.shutdown()
        server.server_close()
    assert len(_Forgetful.requests) == 2 and len(set(_Forgetful.requests)) == 1


def test_a_controller_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoControllerError, match=re.escape(str(tmp_path))):
        Controller(tmp_path, patience_s=0).status()


def test_the_module_works_alone() -> None:
    script = "import runpy, sys; runpy.run_path(sys.argv[1]); assert 'sheaf' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-I", "-S", "-c", script, control.__file__], check=True)


@needs_command
def test_a_table_of_runs_is_made_row_by_row(serve: Serve) -> None:
    controller = connect(serve)
    with pytest.raises(CommandRefused) as refused:
        controller.start_sequence([{"filter.busy_us": -1, "run.events": 20}])
    assert (refused.value.code, controller.status().sequence) == ("table", None)
    assert "row 1" in refused.value.text and "filter.busy_us" in refused.value.text
    rows = [{"filter.kind": "busy", "filter.busy_us": busy, "run.events": 20} for busy in (0, 10)]
    assert controller.start_sequence([*rows, {"run.events": 30, "comment": "no filter"}]).rows == 3
    sequence = controller.wait_for_sequence(PATIENCE)
    assert (sequence.state, sequence.done, sequence.by) == ("ended", 3, controller.me().name)
    assert [(row.state, row.triggers) for row in controller.sequence()] == [("done", 20), ("done", 20), ("done", 30)]
    runs = controller.runs()
    assert [run.sequence["values"].get("filter.busy_us") for run in runs if run.sequence] == ["0", "10", None]
    controller.start_sequence("run.events\n20\n", name="endless")
    with pytest.raises(CommandRefused):
        controller.start_sequence("run.events\n20\n")
    controller.stop_sequence()
    assert controller.wait_for_sequence(PATIENCE).state == "ended"


@needs_command
@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate with")
def test_a_program_on_another_host_has_a_token_and_knows_the_certificate(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=localhost"
    extensions = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*make.split(), *extensions, "-keyout", "page.key", "-out", "page.pem"], cwd=tmp_path, check=True, capture_output=True)
    remote = f'[monitor.remote]\nlisten = "127.0.0.1:{port}"\ncertificate = "page.pem"\nkey = "page.key"\n'
    serve = Serve(tmp_path, remote)
    try:
        url, certificate = f"https://localhost:{port}", tmp_path / "page.pem"
        viewer = Controller(url=url, token=serve.token("vera", "--role", "viewer"), certificate=certificate, patience_s=PATIENCE)
        assert (viewer.me().name, viewer.me().role) == ("vera", "viewer")
        with pytest.raises(CommandRefused, match="vera has the role viewer, and this needs operator"):
            viewer.start()
        operator = Controller(url=f"{url}/#token={serve.token('otto')}", certificate=certificate, patience_s=PATIENCE)
        operator.start()
        with monitor.connect(url, token=serve.token("mona"), certificate=certificate, wait=PATIENCE) as publisher:
            publisher.histogram("charge", bins=4, range=(0, 4)).fill([1, 2, 2])
        with pytest.raises(MonitorError, match="not trusted.*certificate"):
            monitor.connect(url, token="wrong", wait=PATIENCE)
        with pytest.raises(MonitorError, match="use https://"):
            monitor.connect("http://daq.example.org:7443", token="secret", wait=PATIENCE)
        operator.stop()
        assert operator.wait_for_end(PATIENCE).good
        published = json.loads((tmp_path / "runs/run000001/histograms.json").read_text())
        assert [one["histogram"]["name"] for one in published["histograms"]] == ["charge"]
        with pytest.raises(CommandRefused, match="the token is not known"):
            Controller(url=url, token="wrong", certificate=certificate).status()
        with pytest.raises(NoControllerError, match="not trusted.*certificate"):
            Controller(url=url, token="wrong", patience_s=PATIENCE).status()
        with pytest.raises(ControlError, match="use https://"):
            Controller(url="http://daq.example.org:7443", token="secret").status()
    finally:
        serve.end()


VALUES = """
[value.hv-ecal]
unit = "V"
warning_above = 1550
[value.beam]
unit = "nA"
"""


@needs_command
def test_values_from_outside_are_sent_and_those_that_are_not_taken_are_named(tmp_path: Path) -> None:
    serve = Serve(tmp_path, VALUES)
    try:
        controller = connect(serve)
        controller.set_values({"hv-ecal": 1600, "beam": float("nan")}, time_s=time.time() - 5)
        values = controller.values()
        assert (values["hv-ecal"].value, values["hv-ecal"].state, values["hv-ecal"].level) == (1600, "fresh", "warning")
        assert (values["beam"].value, values["beam"].state, values["beam"].unit) == (None, "unknown", "nA")
        with pytest.raises(ValuesRefused) as refused:
            controller.set_values({"bean": 1, "beam": 2.5}, time_s=time.time() - 1)
        assert refused.value.refused == {"bean": "undeclared"}
        assert "declare it in the configuration" in str(refused.value)
        beam = controller.values()["beam"]
        assert beam.value == 2.5 and beam.age_ms is not None and beam.age_ms >= 1_000
        with pytest.raises(CommandRefused, match="in the future"):
            controller.set_values({"beam": 1}, time_s=time.time() + 3_600)
        with pytest.raises(ValueError, match="hv-ecal is infinite"):
            controller.set_values({"hv-ecal": float("inf")})
        with pytest.raises(CommandRefused, match="needs operator"):
            viewer = serve.token("viewer", "--role", "viewer")
            url = (serve.directory / "address").read_text().strip()
            Controller(url=url, token=viewer).set_values({"beam": 3})
    finally:
        serve.process.send_signal(signal.SIGINT)
        serve.process.wait(PATIENCE)


EXAMPLE = Path(__file__).parents[3] / "examples/slow-control/epics_bridge.py"

#: Stands for `pyepics`: two process variables, one of which is not connected.
EPICS = """
class PV:
    def __init__(self, name, callback=None, connection_callback=None, auto_monitor=None):
        self.name = name
        if name == "LAB:HV:ECAL":
            connection_callback(pvname=name, conn=True)
            callback(pvname=name, value=1498.75)
        else:
            connection_callback(pvname=name, conn=False)
"""


@needs_command
def test_the_bridge_from_epics_sends_what_is_connected_and_nothing_for_the_rest(tmp_path: Path) -> None:
    (tmp_path / "epics.py").write_text(EPICS)
    serve = Serve(tmp_path, VALUES)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(control.__file__).parents[1]}"}
    bridge = subprocess.Popen(
        [sys.executable, EXAMPLE, "--control", serve.directory, "--period", "0.1", "hv-ecal=LAB:HV:ECAL", "beam=LAB:BEAM"],
        cwd=tmp_path,
        env=environment,
    )
    try:
        controller = connect(serve)
        wait_until(lambda: controller.values()["hv-ecal"].value == 1498.75, "the bridge sends")
        assert controller.values()["beam"].state == "unknown"
        assert bridge.poll() is None
    finally:
        bridge.kill()
        bridge.wait(PATIENCE)
        serve.process.send_signal(signal.SIGINT)
        serve.process.wait(PATIENCE)
