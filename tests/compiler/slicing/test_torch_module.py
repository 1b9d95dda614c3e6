"""Torch modules and captured programs: sliced with their inputs, outputs, open sizes and weights.

All that imports torch runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import PATIENCE, rankmesh

from rankmesh import Orchestrator

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
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)
        self.square, self.norm = torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)
        self.other = torch.nn.LayerNorm(64)  # of the same numbers

    def forward(self, x, *, scale, pair):
        hidden = torch.relu(self.norm(self.up(x))) * scale
        hidden = self.other(self.square(hidden))
        y = self.down(hidden) + pair[0] - pair[1]
        return {"y": y, "more": (hidden.sum(-1), [y.mean(-1)])}

def case(batch, length):
    random = torch.Generator().manual_seed(batch)
    new = lambda *shape: torch.randn(*shape, generator=random)
    return (new(batch, length, 32),), {
        "scale": new(batch, 1, 64), "pair": (new(batch, length, 32), new(32))
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
changed = Network().eval()
np.savez(sys.argv[3], **{name: one.numpy() for name, one in changed.state_dict().items()})
with torch.no_grad():
    changed.other.weight.mul_(2)
    np.savez(sys.argv[4], **{"other.weight": changed.other.weight.numpy()})
    np.savez(sys.argv[5], y=changed(*arguments, **keywords)["y"].numpy())
"""


def test_a_captured_program_keeps_its_inputs_outputs_and_weights(tmp_path: Path) -> None:
    case, shards = tmp_path / "case.npz", tmp_path / "shards"
    new = [str(tmp_path / name) for name in ("new.npz", "one.npz", "y.npz")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, shards, case, *new],
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
    held = np.load(case)
    with Orchestrator(str(shards / "model_rank{rank}.onnx"), threads=1) as served:
        served.update_weights(new[0])  # in torch's layout, and under torch's names
        served.update_weights(new[1])
        (y, *_) = served.predict(*(held[f"in_{index}"] for index in range(4))).values()
    np.testing.assert_allclose(y, np.load(new[2])["y"], rtol=0, atol=1e-5)
