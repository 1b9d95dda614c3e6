"""Hugging Face folders: sliced with their weights as they are, and refused with the reason."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rankmesh
from rankmesh.compiler.slicing.hugging_face import read_folder

PROGRAM = """
import sys
import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

folder = sys.argv[1]
sizes = dict(n_layer=1, n_embd=32, n_head=4, vocab_size=96, n_positions=64, eos_token_id=1)
network = GPT2LMHeadModel(GPT2Config(bos_token_id=0, **sizes)).eval()
network.save_pretrained(folder)
ids, mask = torch.randint(2, 96, (3, 9)), torch.ones(3, 9, dtype=torch.int64)
mask[1, 6:] = 0  # behind the text: a row that sees no token has no meaning
logits = network(input_ids=ids, attention_mask=mask).logits.detach()
case = {"input_ids": ids, "attention_mask": mask, "logits": logits}
np.savez(sys.argv[2], **{name: one.numpy() for name, one in case.items()})
"""


def python(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


FAULTS = """
import json, sys
from pathlib import Path
from transformers import BertConfig, BertModel
from rankmesh import ModelError
from rankmesh.compiler.slicing.hugging_face import read_folder

sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
BertModel(BertConfig(vocab_size=8, **sizes)).save_pretrained(sys.argv[1])
folder = Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
for wrong in json.loads(sys.argv[2]):
    (folder / "config.json").write_text(json.dumps({**config, **wrong}))
    try:
        read_folder(str(folder))
    except ModelError as error:
        print(error)
(folder / "config.json").write_text(json.dumps(config))
(folder / "model.safetensors").write_bytes(bytes(64))
try:
    read_folder(str(folder))
except ModelError as error:
    print(error)
"""


needs_transformers = pytest.mark.skipif(
    any(importlib.util.find_spec(one) is None for one in ("torch", "transformers", "onnxscript")),
    reason="transformers, torch or onnxscript is not installed: pip install 'rankmesh[hf]'",
)
"""The extra `test` leaves transformers out, as it takes a minute to install."""


@needs_transformers
def test_a_decoder_is_sliced_and_computes_what_transformers_computes(tmp_path: Path) -> None:
    folder, case = tmp_path / "tiny.gpt", tmp_path / "case.npz"
    python("-W", "ignore", "-c", PROGRAM, folder, case)
    files = ("--inputs", case, "--expect", case, "--rtol", "1e-5", "--atol", "1e-5")
    sliced = ("--slice", "auto", "--ranks", 2, "--slice-dir", tmp_path / "kept")
    done = python("-m", "rankmesh", "run", folder, *sliced, *files)
    assert "OK: 2 outputs of 2 ranks match" in done
    assert list(tmp_path.glob("kept/*/tiny.gpt_rank1.onnx"))


@needs_transformers
def test_what_transformers_cannot_load_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """Code in the folder too: transformers would ask whether to run it."""
    faults = {
        "has the architecture Foo, which transformers": {"architectures": ["Foo"]},
        "contains custom code": {"model_type": "foo", "auto_map": {"AutoConfig": "code.Config"}},
        "lack 16 weights of BertModel, such as encoder.layer.1.": {"num_hidden_layers": 2},
        "has the shape [8], and config.json makes it [16]": {"hidden_size": 16},
        "expected int, got str": {"hidden_size": "x"},
        "cannot load it: Error while deserializing": None,
    }
    given = json.dumps([one for one in faults.values() if one])
    lines = python("-W", "ignore", "-c", FAULTS, tmp_path, given).splitlines()
    for words, line in zip(faults, lines, strict=True):
        assert words in line and line.startswith(str(tmp_path)), line


@pytest.mark.pure
@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "is a folder without config.json"),
        (["config.json"], "has no .safetensors file"),
        (["config.json", "pytorch_model.bin"], "are in pytorch_model.bin, which is a pickle"),
    ],
)
def test_other_folders_are_refused(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).write_text("{}")
    with pytest.raises(rankmesh.ModelError, match=message):
        read_folder(str(tmp_path))


@pytest.mark.pure
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    monkeypatch.setitem(sys.modules, "rankmesh.compiler.torch_models.hugging_face", None)
    with pytest.raises(rankmesh.UsageError, match=r"pip install 'rankmesh\[slice,hf\]'"):
        read_folder(str(tmp_path))
