"""Versions of KM3NeT online files. The reader of ROOT files is replaced by a small one; the real one is tested with real files."""

import sys
import types

import pytest

from sheaf_import import InputError, km3net

SLICES = dict(km3net._CLASSES)


@pytest.fixture
def root_file(monkeypatch):
    """Lets uproot find a file with these versions of classes; returns a function that sets them."""

    def state(classes, root="6.30/04"):
        file = types.SimpleNamespace(streamers={name: {version: None} for name, version in classes.items()})
        file.root_version = root

        class Opened:
            def __enter__(self):
                return types.SimpleNamespace(file=file)

            def __exit__(self, *_):
                return False

        monkeypatch.setitem(sys.modules, "uproot", types.SimpleNamespace(open=lambda path: Opened()))

    return state


def test_a_file_of_the_versions_that_km3io_reads_is_accepted(root_file):
    root_file(SLICES)
    assert km3net._check_versions("a.root") == " (written by ROOT 6.30/04)"
    root_file({"KM3NETDAQ::JDAQHit": 1}, root=None)
    assert km3net._check_versions("a.root") == ""


def test_a_file_of_another_version_is_refused_with_the_version_and_what_to_do(root_file):
    root_file({**SLICES, "KM3NETDAQ::JDAQSuperFrame": 5})
    with pytest.raises(InputError) as refused:
        km3net._check_versions("new.root")
    text = str(refused.value)
    assert "new.root (written by ROOT 6.30/04)" in text
    assert "KM3NETDAQ::JDAQSuperFrame has version 5, not 3" in text
    assert "JDAQHit" not in text and "importer of your own" in text


def test_a_file_that_uproot_cannot_open_is_left_to_the_reader(monkeypatch):
    def fail(path):
        raise OSError("damaged")

    monkeypatch.setitem(sys.modules, "uproot", types.SimpleNamespace(open=fail))
    assert km3net._check_versions("a.root") == ""
