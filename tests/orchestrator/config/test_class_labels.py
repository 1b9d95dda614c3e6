"""Labels of classes: read from files that settings name, and refused where they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from served_models import echo

from rankmesh.comm.errors import UsageError
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.config.class_labels import class_labels_of, require_outputs
from rankmesh.orchestrator.config.settings import ModelSettings
from rankmesh.orchestrator.config.settings_file import load_settings

pytestmark = pytest.mark.pure


def test_files_of_labels_are_relative_to_the_settings(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("apple\r\n\n pear \n")
    (tmp_path / "serve.yaml").write_text(
        f"models:\n  - path: {echo(tmp_path, 1)}\n    labels: {{y: words.txt}}\n"
    )
    (settings,) = load_settings(tmp_path / "serve.yaml").models
    assert class_labels_of(settings) == {"y": ("apple", "", "pear")}
    assert class_labels_of(ModelSettings("model.onnx")) == {}


def test_labels_are_of_outputs() -> None:
    outputs = [TensorSpec("y", "float32", (4,))]
    require_outputs("model", {"y": ("apple",)}, outputs)
    with pytest.raises(UsageError, match=r"labels are given for 'z', and the outputs are \['y'\]"):
        require_outputs("model", {"z": ("apple",)}, outputs)


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), (b"\xff\xfe", "it is no text in UTF-8")]
)
def test_files_that_cannot_be_read_are_told(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    settings = ModelSettings("model.onnx", labels={"y": str(path)})
    with pytest.raises(UsageError, match=f"model 'model': the labels of 'y' .*{reason}"):
        class_labels_of(settings)
