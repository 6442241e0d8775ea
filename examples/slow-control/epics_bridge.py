"""Sends process variables of EPICS to a controller, as values from outside.

    python epics_bridge.py hv-ecal=LAB:HV:ECAL beam=LAB:BEAM:CURRENT

It needs `pyepics` (`pip install pyepics`) and the Python package of Sheaf, or a copy of `control.py` beside it.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time

import epics
from sheaf.control import Controller, ControlError

#: Severity of a value that EPICS calls invalid.
INVALID = 3


class Present:
    """The present values, as EPICS reports them. Its callbacks come on other threads."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.lock = threading.Lock()
        self.names = {variable: name for name, variable in variables.items()}
        # A variable that is not connected is not known.
        self.values: dict[str, float | None] = dict.fromkeys(variables)

    def changed(self, pvname: str, value: object, severity: int | None = None, **_: object) -> None:
        is_known = isinstance(value, (int, float)) and severity != INVALID
        with self.lock:
            self.values[self.names[pvname]] = value if is_known else None

    def connected(self, pvname: str, conn: bool, **_: object) -> None:
        if not conn:
            with self.lock:
                self.values[self.names[pvname]] = None

    def copy(self) -> dict[str, float | None]:
        with self.lock:
            return dict(self.values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variables", nargs="+", metavar="NAME=VARIABLE", help="value of the configuration, and its process variable")
    parser.add_argument("--control", default="runs/control", help="directory of the controller")
    parser.add_argument("--period", type=float, default=2.0, help="seconds between two reports; shorter than `stale_ms`")
    arguments = parser.parse_args()

    variables = dict(text.split("=", 1) for text in arguments.variables)
    present = Present(variables)
    kept = [
        epics.PV(variable, callback=present.changed, connection_callback=present.connected, auto_monitor=True)
        for variable in variables.values()
    ]
    print(f"{len(kept)} process variables, every {arguments.period} s")
    controller = Controller(arguments.control)
    while True:
        # All of them, also those that have not changed: Sheaf knows by that that they are of now.
        try:
            controller.set_values(present.copy())
        except ControlError as error:
            print(error, file=sys.stderr)
        time.sleep(arguments.period)


if __name__ == "__main__":
    main()
