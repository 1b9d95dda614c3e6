"""Quick imports: imports without garbage collection and without seldom used modules."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

_SELDOM = frozenset(
    {
        "google.protobuf.json_format",
        "google.protobuf.text_format",
        "numpy._core._add_newdocs",
        "onnx.compose",
        "onnx.gen_proto",
        "onnx.parser",
        "onnx.printer",
        "onnx.utils",
        "onnx.version_converter",
        "onnx_ir._symbolic_shapes",
        "sympy",
    }
)
"""Modules that numpy, onnx and onnx-ir import and Rankmesh hardly uses: onnx spends a quarter of
its time there, and onnx-ir half on sympy, which computes with sizes that are formulas.
"""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import in this context without garbage collection, which took a fifth of the time.

    Imports make hundreds of thousands of objects and hardly any garbage. The collector ignores
    these objects afterwards, too. Modules that Rankmesh hardly uses are loaded on first use from
    now on. Only for processes of Rankmesh: it changes the whole process.
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
    """Finds the modules that are loaded on first use.

    It does not derive from MetaPathFinder: that class's module imports many others.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder.find_spec."""
        spec = PathFinder.find_spec(name, path, target) if name in _SELDOM else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
