"""Filters: functions and classes that judge events."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ._loading import load, marked, wrong_target
from ._sheaf import Event, SheafError, Verdict

#: A callable that judges an event: it returns `True`, `False`, or a verdict of `accept` or `reject`.
FilterLike = Callable[[Event], "bool | Verdict"]

_Target = TypeVar("_Target", bound="Callable[..., Any]")


def accept(*, tags: Iterable[str] = (), payload: bytes = b"") -> Verdict:
    """Returns the verdict to store an event with these tags and this payload (1 MiB at most).

    >>> accept(tags=["muon"], payload=b"42")
    <sheaf.Verdict: accept, tags ["muon"], 2 bytes>
    """
    return Verdict(True, _names(tags), payload)


def reject() -> Verdict:
    """Returns the verdict to discard an event.

    >>> reject().accepted
    False
    """
    return Verdict(False)


def _names(tags: Iterable[str]) -> list[str]:
    if isinstance(tags, str):
        raise TypeError(f"tags must be a list of names, not a single string: tags=[{tags!r}]")
    return list(tags)


def filter(target: _Target) -> _Target:
    """Marks a function or a class as a filter.

    A function takes an event and returns `True`, `False`, `accept(...)` or `reject()`. A class has a method `judge` with the same
    signature. It is instantiated once per worker, with the text `filter.parameters` of the configuration if it takes an argument.

    >>> @filter
    ... def large(event):
    ...     return event.nbytes > 1000

    >>> @filter
    ... class Prescale:
    ...     def __init__(self, parameters):
    ...         self.factor = int(parameters)
    ...
    ...     def judge(self, event):
    ...         return event.id % self.factor == 0
    """
    if inspect.isclass(target):
        if not callable(getattr(target, "judge", None)):
            raise TypeError(f"the filter class {target.__name__} has no method judge(self, event)")
    elif not callable(target):
        raise TypeError(wrong_target("filter", target))
    return marked("filter", target)


def load_filter(name: str, parameters: str = "") -> FilterLike:
    """Loads the filter `module:name` or `path/to/file.py:name`.

    Without `:name`, the module must contain exactly one filter marked with `sheaf.filter`.
    """
    return _ready(load("filter", name), parameters)


def _ready(target: Any, parameters: str) -> FilterLike:
    if inspect.isclass(target):
        made: Any = filter(target)
        takes_text = bool(inspect.signature(made).parameters)
        judge: FilterLike = (made(parameters) if takes_text else made()).judge
        return judge
    if not callable(target):
        raise SheafError(wrong_target("filter", target))
    ready: FilterLike = target
    return ready


def judge(filter: FilterLike, event: Event) -> Verdict:
    """Returns the answer of a filter as a verdict. Useful for trying filters on files.

    >>> judge(lambda event: True, None).accepted
    True
    """
    answer = filter(event)
    if isinstance(answer, Verdict):
        return answer
    # Includes the booleans of NumPy.
    if isinstance(answer, bool) or type(answer).__name__ in ("bool", "bool_"):
        return Verdict(bool(answer))
    raise TypeError(
        f"the filter returned a {type(answer).__name__}; "
        "it must return True, False, sheaf.accept(...) or sheaf.reject()"
    )
