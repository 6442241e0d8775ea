#!/usr/bin/env python3
"""A hook that adds a line to a logbook, which is a text file.

    [hook.logbook]
    on = "after_stop"
    command = ["examples/hooks/logbook.py", "logbook.txt"]

A hook gets a JSON object on standard input. What it prints is in the log of the run, and an exit status other than 0 is a failure.
"""

import json
import sys
from datetime import datetime

call = json.load(sys.stdin)
end = call["end"]
if end is None:
    text = f"run {call['run']} was started by {call['operator']}"
    if call["comment"]:
        text += f": {call['comment']}"
elif end["good"]:
    text = f"run {call['run']} ended ({end['reason']}): {end['stored']} events stored in {end['seconds']:.1f} s"
else:
    text = f"run {call['run']} ended badly ({end['reason']}): {end['detail'] or 'see its record'}"

with open(sys.argv[1], "a", encoding="utf-8") as logbook:
    # One write for each line, so that lines of two systems do not mix.
    logbook.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}\n")
print(f"noted: {text}")
