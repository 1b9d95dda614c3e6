"""The plain text of an encrypted model: in memory once, and in no file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from encrypted import encrypted
from primitives import Parameter, Writer

MB = 1 << 20
PROGRAM = """
import os, sys
import numpy as np
from rankmesh import Context, Model, ModelType
import rankmesh.worker.session, onnxruntime

def own():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

context = Context()
context.cpu.thread_num = 1
model, before = Model(), own()
model.build_from_file(sys.argv[1], ModelType.MINDIR, context, dec_key=b"0123456789ABCDEF")
mapped = [line for line in open("/proc/self/maps") if "memfd" in line or sys.argv[1] in line]
print(own() - before, len(mapped), model.predict([np.ones(1, np.float32)])[0].get_data_to_numpy()[-1])
"""


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """An encrypted model with a weight of 64 MB that onnxruntime does not pack."""
    weight, x = np.random.default_rng(0).standard_normal(16 * MB, np.float32), np.ones(1, np.float32)
    writer = Writer()
    key = writer.node("Add", [x, Parameter(weight)], weight)
    path = writer.save(tmp_path / "big.mindir", key, weight)
    path.write_bytes(encrypted([path.read_bytes()]))
    return path


def test_one_copy_in_memory_and_none_in_a_file(big: Path, tmp_path: Path) -> None:
    """Wherever a file may be written, `TMPDIR`, the model cache, the folder of the model: none has the weights."""
    folders = {name: str(tmp_path / name) for name in ("TMPDIR", "RANKMESH_CACHE", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")}
    for folder in folders.values():
        os.mkdir(folder, 0o700)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(big)], capture_output=True, text=True, timeout=100,
                          cwd=tmp_path, env={**os.environ, **folders})
    assert done.returncode == 0, done.stderr
    grown, mapped, last = done.stdout.split()
    assert 60 * MB < int(grown) < 90 * MB
    assert mapped == "0"
    assert float(last) == pytest.approx(1 + np.random.default_rng(0).standard_normal(16 * MB, np.float32)[-1])
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > MB] == [big]
