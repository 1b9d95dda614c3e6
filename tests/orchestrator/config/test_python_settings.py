"""Settings of models that are Python functions, from files and from calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmesh import ModelSettings, PythonSettings, TensorSettings, UsageError
from rankmesh.orchestrator.config.settings_file import load_settings

pytestmark = pytest.mark.pure

TENSORS = (TensorSettings("x", "bytes", (-1,)),)
X = "{name: x, dtype: int8, dims: [-1]}"


def test_files_are_looked_for_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(
        f"models:\n"
        f"  a: {{python: pre.py:tokenize, inputs: [{X}], outputs: [{X}], replicas: 2}}\n"
        f"  b: {{python: 'pkg.module:f', inputs: [{X}], outputs: [{X}]}}\n"
        f"  c: {{model: c.onnx}}\n"
    )
    a, b, c = load_settings(tmp_path / "serve.yaml").models
    assert isinstance(a, PythonSettings) and isinstance(b, PythonSettings)
    assert (a.source, a.function, a.replicas) == (str(tmp_path / "pre.py"), "tokenize", 2)
    assert (b.source, b.label) == ("pkg.module", "b")
    assert type(c) is ModelSettings
    assert a.inputs == (TensorSettings("x", "int8", (-1,)),)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("{python: a.py:f}", r":2: models\[0\]\.inputs: got null, expected a list"),
        (f"{{python: a.py, inputs: [{X}], outputs: [{X}]}}", r"python: got .*FILE\.py:NAME"),
        (f"{{python: 'a.py:f', inputs: [{X}], outputs: []}}", "outputs: got none"),
        (f"{{python: 'a.py:f', inputs: [{X}, {X}], outputs: [{X}]}}", "two are called 'x'"),
        (
            f"{{python: 'a.py:f', inputs: [{X}], outputs: [{X}], slice: auto}}",
            "slice: is for",
        ),
        (f"{{python: 'a.py:f', inputs: [{X}], outputs: [{X}], ranks: 2}}", "ranks: .* has one"),
        (f"{{python: 'a.py:f', inputs: [{X}], outputs: [{X}], device: gpu}}", "device: got 'gpu'"),
        (
            f"{{python: 'a.py:f', inputs: [{X}], outputs: [{{name: y, dtype: text, dims: []}}]}}",
            r"outputs\[0\]\.dtype: got 'text', expected one of bool, int8, .*, bytes",
        ),
        (
            f"{{python: 'a.py:f', inputs: [{X}], outputs: [{{name: y, type: int8, dims: []}}]}}",
            r"outputs\[0\]\.type: is no setting",
        ),
        (
            f"{{python: 'a.py:f', inputs: [{X}], outputs: [{{name: y, dtype: int8, dims: [-2]}}]}}",
            r"dims: got -2",
        ),
    ],
)
def test_faults_are_told_with_their_place(tmp_path: Path, model: str, text: str) -> None:
    (tmp_path / "serve.yaml").write_text(f"models:\n  a: {model}\n")
    with pytest.raises(UsageError, match=text):
        load_settings(tmp_path / "serve.yaml")


def test_the_name_is_that_of_the_function() -> None:
    assert PythonSettings("pre.py:tokenize", inputs=TENSORS, outputs=TENSORS).label == "tokenize"
