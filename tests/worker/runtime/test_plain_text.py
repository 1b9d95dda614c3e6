"""The plain text of an encrypted model: in memory once, and in no file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from encrypted import KEY, encrypt_file, encrypted
from mindir_models import built, file_of, saved
from primitives import Parameter, Writer

from rankmesh import Context, Model, ModelType

MB = 1 << 20
PROGRAM = """
import os, sys
import numpy as np
from rankmesh import Context, Model, ModelType
import rankmesh.worker.session.session, onnxruntime

def own():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

context = Context()
context.cpu.thread_num = 1
model, before = Model(), own()
model.build_from_file(sys.argv[1], ModelType.MINDIR, context, dec_key=b"0123456789ABCDEF")
mapped = [line for line in open("/proc/self/maps") if "memfd" in line or sys.argv[1] in line]
print(own() - before, len(mapped), model.predict([np.ones(1, np.float32)])[0].get_data_to_numpy()[-1])
"""  # noqa: E501


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """An encrypted model with a weight of 64 MB that onnxruntime does not pack."""
    weight, x = (
        np.random.default_rng(0).standard_normal(16 * MB, np.float32),
        np.ones(1, np.float32),
    )
    writer = Writer()
    key = writer.node("Add", [x, Parameter(weight)], weight)
    path = writer.save(tmp_path / "big.mindir", key, weight)
    path.write_bytes(encrypted([path.read_bytes()]))
    return path


def test_one_copy_in_memory_and_none_in_a_file(big: Path, tmp_path: Path) -> None:
    """Wherever a file may be written, `TMPDIR`, the model cache, the folder of the model: none has
    the weights.
    """
    folders = {
        name: str(tmp_path / name)
        for name in ("TMPDIR", "RANKMESH_CACHE", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
    }
    for folder in folders.values():
        os.mkdir(folder, 0o700)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(big)],
        capture_output=True,
        text=True,
        timeout=250,
        cwd=tmp_path,
        env={**os.environ, **folders},
    )
    assert done.returncode == 0, done.stderr
    grown, mapped, last = done.stdout.split()
    assert 60 * MB < int(grown) < 90 * MB
    assert mapped == "0"
    assert float(last) == pytest.approx(
        1 + np.random.default_rng(0).standard_normal(16 * MB, np.float32)[-1]
    )
    assert [
        path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > MB
    ] == [big]


@pytest.mark.parametrize(
    "name", ["bf16_params", "cf_if", "cf_while", "fp16_mlp", "lenet5", "passthrough", "zoo_nn"]
)
def test_encrypted_models_compute_bit_for_bit_what_plain_ones_do(name: str, tmp_path: Path) -> None:
    """Weights of several types at odd places, used by branches and loops, and given out
    themselves."""
    path = encrypt_file(Path(file_of(name)), tmp_path / "m.mindir", "AES-CBC", 1000)
    context = Context()
    context.cpu.thread_num = 1
    model = Model()
    model.build_from_file(str(path), ModelType.MINDIR, context, dec_key=KEY, dec_mode="AES-CBC")
    inputs = saved(name)[0]
    for got, wanted in zip(model.predict(inputs), built(name).predict(inputs), strict=True):
        assert got.get_data_to_numpy().tobytes() == wanted.get_data_to_numpy().tobytes()
