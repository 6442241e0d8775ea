"""The importer that the how-to shows is run as it stands there."""

import pathlib
import re
import subprocess
import sys

from sheaf_import import read_header, read_stream

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_importer_of_the_howto_works(tmp_path):
    text = (ROOT / "docs/howto/import.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "importer.py").write_text(program)
    (tmp_path / "data.txt").write_text("4 17 1000 c0ffee\n5 17 1003 00\n4 18 2000 01\n")
    command = [sys.executable, tmp_path / "importer.py", tmp_path / "data.txt", tmp_path / "out", "12"]
    environment = {"PYTHONPATH": str(ROOT / "tools/sheaf-import"), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert [tuple(fragment) for fragment in read_stream(tmp_path / "out/source-4.sfrag")] == [
        (17, 1000, bytes.fromhex("c0ffee")),
        (18, 2000, b"\x01"),
    ]
    assert read_header(tmp_path / "out/source-5.sfrag").run == 12
