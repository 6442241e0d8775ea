"""Loading of functions and classes that are marked: filters and decoders."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any, TypeVar

from ._sheaf import SheafError

_Target = TypeVar("_Target")


def marked(kind: str, target: _Target) -> _Target:
    """Marks `target` as one of this kind."""
    setattr(target, f"__sheaf_{kind}__", True)
    return target


def wrong_target(kind: str, target: object) -> str:
    """Returns the message about a target that cannot be called."""
    return f"a {kind} must be a function or a class, not a {type(target).__name__}"


def load(kind: str, name: str) -> Any:
    """Returns the target `module:name` or `path/to/file.py:name`; without `:name`, the only marked one of the module."""
    module_name, _, attribute = name.partition(":")
    module = _load_module(module_name)
    if attribute:
        if not hasattr(module, attribute):
            raise SheafError(f"{module_name} has no {kind} {attribute}; it has: {_names(kind, module)}")
        return getattr(module, attribute)
    found = _marked(kind, module)
    if len(found) != 1:
        raise SheafError(f"name a {kind} of {module_name}: {module_name}:NAME; it has: {_names(kind, module)}")
    return next(iter(found.values()))


def _load_module(name: str) -> Any:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise SheafError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _marked(kind: str, module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if getattr(value, f"__sheaf_{kind}__", False)}


def _names(kind: str, module: Any) -> str:
    return ", ".join(_marked(kind, module)) or f"none that is marked with @sheaf.{kind}"
