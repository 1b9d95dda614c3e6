"""Planted faults: modules of the package with some lines changed, for tests of the explorer."""

from __future__ import annotations

import inspect
from importlib.abc import InspectLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType


class _Changed(InspectLoader):
    """Loads a module from a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:
        """The text."""
        return self._text


def planted(module: ModuleType, *changes: tuple[str, str]) -> ModuleType:
    """A copy of a module in which the first text of each pair has become the second.

    The module must have each of the first texts exactly once, or AssertionError says so.
    """
    text = inspect.getsource(module)
    for old, new in changes:
        count = text.count(old)
        assert count == 1, f"{module.__name__} has {count} times, expected once:\n{old}"
        text = text.replace(old, new)
    loader = _Changed(text)
    spec = spec_from_loader(module.__name__, loader)
    assert spec is not None
    copy = module_from_spec(spec)
    loader.exec_module(copy)
    return copy
