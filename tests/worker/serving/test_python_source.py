"""Python source: the callable of a file, and the module that the file becomes."""

from __future__ import annotations

import sys
import tokenize
from pathlib import Path

import pytest

from rankmesh.comm.serving.python_function import PythonFunction
from rankmesh.worker.serving.python_source import load_callable

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("file", "module"), [("tokenize", "tokenize_function"), ("steps_of_tests", "steps_of_tests")]
)
def test_a_file_does_not_take_the_place_of_an_installed_module(
    file: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{file}.py"
    path.write_text("import tokenize\n\n\ndef names():\n    return tokenize.__name__, __name__\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    found = load_callable(PythonFunction(str(path), "names", (), ()))
    assert found() == ("tokenize", module)
    del sys.modules[module]
    assert sys.modules["tokenize"] is tokenize
