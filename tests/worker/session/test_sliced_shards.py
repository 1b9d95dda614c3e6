"""Sliced shards of a script under mpirun, whose configuration says how a whole model is sliced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from encrypted import KEY
from mpirun import run_ranks
from sliced import example

from rankmesh import Model, ModelError, ModelType, UsageError

SCRIPT = """import sys
import numpy as np
import rankmesh

model = rankmesh.Model()
config = {"slicing": {"slice": sys.argv[2], "slice_dir": sys.argv[3]}}
try:
    model.build_from_file(sys.argv[1], rankmesh.ModelType.MINDIR, config_dict=config)
except rankmesh.ModelError as error:
    print("refused:", error, flush=True)
    sys.exit()
case = np.load(sys.argv[1].replace(".onnx", ".npz"))
model.resize(model.get_inputs(), [case["ids"].shape])
(logits,) = model.predict([case["ids"]])
error = np.abs(logits.get_data_to_numpy() - case["logits"]).max()
print("right" if error < 1e-5 else f"wrong by {error}", "onnx_ir" in sys.modules, flush=True)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    example().main(tmp_path / "model.onnx")
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path / "script.py"


def test_ranks_of_mpirun_slice_once(script: Path) -> None:
    folder = script.with_name("kept")
    model = script.with_name("model.onnx")
    done = run_ranks(2, model, "tensor=2", folder, script=script)
    assert done.status == 0, done.text
    assert done.text.count("right False\n") == 2
    (kept,) = folder.glob("model-*")
    assert "model_rank1.onnx" in os.listdir(kept)


def test_all_ranks_raise_what_rank_0_has_found(script: Path) -> None:
    model = script.with_name("model.onnx")
    model.write_bytes(b"")
    done = run_ranks(2, model, "tensor=2", script.with_name("kept"), script=script)
    assert done.text.count("refused: build_from_file failed! Error is ") == 2, done.text
    assert done.text.count("is empty, expected") == 2


def test_wrong_slices_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    for sections, words in (
        ({"slice": "tensor=2"}, "makes 2 ranks, and 1 are asked for"),
        ({"slice": "two"}, "expected tensor=N, pipeline=K"),
        ({"slice_dir": "kept"}, "slice_dir is for the shards of slice"),
    ):
        with pytest.raises(UsageError, match=words):
            build(tmp_path, sections)
    (tmp_path / "model.onnx").unlink()
    (tmp_path / "model.onnx").mkdir()
    (tmp_path / "model.onnx" / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="is a folder, .* sliced first: --slice tensor=2"):
        build(tmp_path, {})
    with pytest.raises(ModelError, match=r"model.onnx: has no .safetensors file"):
        build(tmp_path, {"slice": "tensor=1", "slice_dir": str(tmp_path)})
    monkeypatch.setenv("RANKMESH_KEY", KEY.hex())
    with pytest.raises(UsageError, match="for plain models, and a key was given"):
        build(tmp_path, {"slice": "tensor=1"})


def build(folder: Path, sections: dict[str, str]) -> None:
    Model().build_from_file(
        str(folder / "model.onnx"), ModelType.MINDIR, config_dict={"slicing": sections}
    )
