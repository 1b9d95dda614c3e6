"""The small transformer of examples/slicing, as a file to slice."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

_PATH = Path(__file__).resolve().parents[2] / "examples" / "slicing" / "model.py"


def example() -> ModuleType:
    """The example's module; `main(path)` writes the model and an NPZ file beside it."""
    spec = importlib.util.spec_from_file_location("slicing_example", _PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
