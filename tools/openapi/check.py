"""Compares a running `sheaf serve` with its description: `python check.py PATH-OF-SHEAF`.

schemathesis makes requests from the description, valid ones and invalid ones, in sequences too. No answer may be an error of the server, and each must
be of the described status, media type and schema. Runs are started, paused and killed meanwhile. A second pass asks without a token; it comes
last, since wrong tokens are answered with 429 after the first ones.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

SYSTEM = """
[readout]
count = 2
[trigger]
mode = "fixed"
rate_hz = 200
[source.emulated]
mean_bytes = 64
rms_bytes = 0
[control]
stop_timeout_ms = 2000
cut_timeout_ms = 2000
[value.hv-ecal]
unit = "V"
[value.beam]
"""

#: schemathesis has no module to run; its script need not be on the search path.
RUN = "from schemathesis.cli import schemathesis; schemathesis()"

PATIENCE_S = 60.0

#: The stream never ends.
ENDLESS = "/api/v1/stream"

#: What the state of the system decides: a valid request may be refused because there is nothing of that number, or because of the state; and an
#: invalid one for these reasons before it is found to be invalid.
CONFIGURATION = f"""
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "403", "404", "409", "412", "422", "423"]
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "405", "409", "412", "422", "423"]
"""


def main(sheaf: str, examples: int) -> int:
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        (directory / "run.toml").write_text(SYSTEM)
        (directory / "schemathesis.toml").write_text(CONFIGURATION)
        log = (directory / "log").open("w+")
        serve = subprocess.Popen(
            [sheaf, "serve", "run.toml", "--page", "127.0.0.1:0"], cwd=directory, stdout=log, stderr=log
        )
        try:
            control = directory / "runs/control"
            wait_for(control / "address", serve)
            server = Server((control / "address").read_text().strip(), (control / "own.token").read_text().strip())
            (directory / "openapi.json").write_text(json.dumps(closed(server.ask("GET", "/api/v1/openapi.json"))))
            failed = fuzz(directory, server, "--exclude-checks", "ignored_auth", "--max-examples", str(examples))
            operation = server.ask("POST", "/api/v1/operations", {"command": "reset", "request": "the end"})["operation"]
            server.ask("GET", f"/api/v1/operations/{operation['id']}?wait_ms=60000")
            failed |= fuzz(directory, server, "--checks", "ignored_auth", "--phases", "examples")
            failed |= serve.poll() is not None
        finally:
            end(serve)
            log.seek(0)
            lines = log.read().splitlines()
            failed |= any("panicked" in line for line in lines)
            if failed:
                print("the last messages of the controller:", *lines[-20:], sep="\n    ")
    return int(failed)


def closed(schema: Any) -> Any:
    """Returns the description with objects that have no other members than it lists, so that a member that is not described is found."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: closed(value) for name, value in schema.items()}
    if schema.get("type") in ("object", ["object", "null"]) and "properties" in schema:
        result.setdefault("additionalProperties", False)
    return result


def fuzz(directory: Path, server: Server, *more: str) -> bool:
    command = [sys.executable, "-c", RUN, "run", "openapi.json", "--url", server.url]
    command += ["--header", f"Authorization: Bearer {server.token}", "--exclude-path", ENDLESS, "--seed", "1", "--no-color"]
    command += ["--request-timeout", "70", "--suppress-health-check", "all", "--continue-on-failure", *more]
    return subprocess.run(command, cwd=directory).returncode != 0


def end(serve: subprocess.Popen[bytes]) -> None:
    """Interrupts the controller, which stops its run first; again if that takes long."""
    for _ in range(3):
        serve.send_signal(signal.SIGINT)
        try:
            serve.wait(PATIENCE_S / 3)
            return
        except subprocess.TimeoutExpired:
            pass
    serve.kill()
    serve.wait()


class Server:
    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=2 * PATIENCE_S) as answer:
            return json.load(answer)


def wait_for(path: Path, serve: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not path.exists():
        if serve.poll() is not None or time.monotonic() > end:
            sys.exit("sheaf serve has not begun")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(str(Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 20))
