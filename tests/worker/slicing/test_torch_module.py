"""Torch modules and captured programs: sliced with the inputs, outputs and open sizes they have.

All that imports torch runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE, rankmesh

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(one) is None for one in ("torch", "onnxscript")),
    reason="torch or onnxscript is not installed",
)

PROGRAM = """
import sys
import numpy as np
import torch
import rankmesh.torch

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x, *, scale, pair):
        hidden = torch.relu(self.up(x)) * scale
        y = self.down(hidden) + pair[0] - pair[1]
        return {"y": y, "more": (hidden.sum(-1), [y.mean(-1)])}

def case(batch, length):
    random = torch.Generator().manual_seed(batch)
    new = lambda *shape: torch.randn(*shape, generator=random)
    return (new(batch, length, 8),), {
        "scale": new(batch, 1, 16), "pair": (new(batch, length, 8), new(8))
    }

torch.manual_seed(0)
network = Network().eval()
arguments, keywords = case(2, 5)
batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
axes = {0: batch, 1: length}
shapes = {"x": axes, "scale": {0: batch}, "pair": (axes, None)}
program = torch.export.export(network, arguments, keywords, dynamic_shapes=shapes)
report = rankmesh.torch.slice(program, (), 2, sys.argv[1])
assert report.error <= 1e-5
for call in (
    lambda: rankmesh.torch.slice(program, (), 2, sys.argv[1], shapes),
    lambda: rankmesh.torch.slice(Network(), (), 2, sys.argv[1]),
):
    try:
        call()
    except rankmesh.UsageError as error:
        print(error)
arguments, keywords = case(3, 7)
found = network(*arguments, **keywords)
given = [*arguments, keywords["scale"], *keywords["pair"]]
outputs = [found["y"], found["more"][0], found["more"][1][0]]
arrays = {f"in_{index}": one.numpy() for index, one in enumerate(given)}
arrays |= {f"out_{index}": one.detach().numpy() for index, one in enumerate(outputs)}
np.savez(sys.argv[2], **arrays)
"""


def test_a_captured_program_with_keywords_and_nested_outputs(tmp_path: Path) -> None:
    case, shards = tmp_path / "case.npz", tmp_path / "shards"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, shards, case],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shapes, training = done.stdout.splitlines()
    assert shapes.startswith("model: an ExportedProgram has its open dimensions: leave")
    assert training == "Network: is in training mode, expected inference: call eval() on it."
    files = ("--inputs", case, "--expect", case, "--rtol", "1e-5", "--atol", "1e-5")
    ran = rankmesh("run", shards / "model_rank{rank}.onnx", *files)
    assert "OK: 6 outputs of 2 ranks match" in ran.stdout, ran.stdout + ran.stderr
