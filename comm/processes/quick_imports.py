"""The imports of a process that is to be there soon."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

_SELDOM = frozenset({
    "google.protobuf.json_format", "google.protobuf.text_format", "numpy._core._add_newdocs", "onnx.compose",
    "onnx.gen_proto", "onnx.parser", "onnx.printer", "onnx.utils", "onnx.version_converter"})
"""What numpy and onnx import, onnx for a quarter of its time, and ranks do without: docstrings, tools, texts."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import inside: the collector rests meanwhile and never looks at what was imported; modules that ranks hardly
    ever use are loaded on first use, then and later. For processes of ours, not for the user's.

    Imports make objects by the hundred thousand and next to no garbage; looking for it took a fifth of their time.
    """
    gc.disable()
    if not any(isinstance(finder, _SeldomUsed) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SeldomUsed())
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _SeldomUsed:
    """Finds the modules that are loaded on first use; no subclass of MetaPathFinder, whose module imports many."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder.find_spec."""
        spec = PathFinder.find_spec(name, path, target) if name in _SELDOM else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
