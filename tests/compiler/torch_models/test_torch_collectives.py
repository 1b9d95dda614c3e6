"""Collectives of torch modules: in eager mode and from both exporters, on two ranks.

All that imports torch runs in processes of its own: its threads must not enter that of the tests.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import PATIENCE, rankmesh

SUPPORT = Path(__file__).parents[2] / "support"
TOLERANCE = 1e-5
"""Of the largest absolute difference, relative to the largest absolute value."""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
needs_onnxscript = pytest.mark.skipif(
    importlib.util.find_spec("onnxscript") is None,
    reason="onnxscript, which torch.onnx.export(dynamo=True) needs, is not installed",
)


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """A Python process."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
    )


def finish(process: subprocess.Popen[str]) -> str:
    """What a process printed; it must succeed."""
    text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, text
    return text


def example() -> np.ndarray:
    """The input of torch_shards.Every, which must be made without torch here."""
    return np.random.default_rng(5).standard_normal((3, 4, 6)).astype(np.float32)


def expected(order: list[int], rank: int) -> list[np.ndarray]:
    """The results of torch_shards.Every on one rank of a group."""
    factors = [np.random.default_rng(one).standard_normal((4, 6)) for one in order]
    tensors = [example() * factor.astype(np.float32) for factor in factors]
    total, mine = sum(tensors), order.index(rank)
    return [
        np.asarray(total),
        np.maximum(*tensors),
        np.concatenate(tensors, -1),
        np.split(np.asarray(total), 2, 1)[mine],
        np.concatenate([np.split(one, 2, 1)[mine] for one in tensors], 2),
        np.concatenate([np.split(one, 2, 2)[mine] for one in tensors], 2),
        tensors[1],
    ]


def check(path: Path, order: list[int], rank: int) -> None:
    """Compare a file of results with the expected ones."""
    with np.load(path) as found:
        for name, got, value in zip(
            found.files, found.values(), expected(order, rank), strict=True
        ):
            assert got.shape == value.shape, name
            assert np.abs(got - value).max() <= TOLERANCE * np.abs(value).max(), name


def test_eager_mode_carries_out_every_collective_with_its_gradient(tmp_path: Path) -> None:
    script = (SUPPORT / "torch_shards.py", "eager", tmp_path)
    for process in [start(*script, rank) for rank in (0, 1)]:
        finish(process)
    for rank in (0, 1):
        check(tmp_path / f"world{rank}.npz", [0, 1], rank)
        check(tmp_path / f"swapped{rank}.npz", [1, 0], rank)


@pytest.fixture(scope="module")
def torchscript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the shards of both ranks."""
    folder = tmp_path_factory.mktemp("torchscript")
    finish(start(SUPPORT / "torch_shards.py", "export", folder, "torchscript"))
    return folder


def check_run(shards: Path, folder: Path, order: list[int]) -> None:
    """Run the shards in a folder on two ranks, with results in another."""
    np.savez(folder / "x.npz", x=example())
    files = ("--inputs", folder / "x.npz", "--save", folder / "y{rank}.npz")
    done = rankmesh("run", shards / "{rank}.onnx", *files, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        check(folder / f"y{rank}.npz", order, rank)


def test_shards_of_the_torchscript_exporter_run_every_collective(
    torchscript: Path, tmp_path: Path
) -> None:
    check_run(torchscript, tmp_path, [1, 0])


@needs_onnxscript
def test_shards_of_the_dynamo_exporter_run_every_collective(tmp_path: Path) -> None:
    finish(start(SUPPORT / "torch_shards.py", "export", tmp_path, "dynamo"))
    check_run(tmp_path, tmp_path, [0, 1])


def test_a_shard_given_to_another_rank_is_refused(torchscript: Path, tmp_path: Path) -> None:
    for rank in (0, 1):
        shutil.copy(torchscript / f"{rank}.onnx", tmp_path / f"{1 - rank}.onnx")
    done = rankmesh("run", tmp_path / "{rank}.onnx", "--device", "cpu")
    assert done.returncode == 3
    assert "but was written for member" in done.stderr


ALONE = """
import sys
import rankmesh
assert "torch" not in sys.modules
from rankmesh.torch import all_reduce
import rankmesh.torch as mesh
import torch
assert mesh is rankmesh.torch is sys.modules["rankmesh.torch"] and mesh.all_reduce is all_reduce
assert mesh.all_reduce.__module__ == "rankmesh.compiler.torch_models.collectives"
assert torch.__name__ == "torch"
x = torch.arange(6.0).reshape(2, 3).requires_grad_()
one = mesh.Group(size=1)
for y in (
    mesh.all_reduce(x), mesh.all_reduce(x, group=one), mesh.all_gather(x, 1),
    mesh.reduce_scatter(x, axis=1), mesh.all_to_all(x, 1, 0), mesh.broadcast(x),
    mesh.reduce_gradient(x), torch.compile(mesh.all_reduce, backend="eager")(x),
):
    assert torch.equal(x, y)
    x.grad = None
    y.square().sum().backward()
    assert torch.equal(x.grad, 2 * x)
def refused(call):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
refused(lambda: mesh.all_reduce(x, group=mesh.Group(size=2)))
refused(lambda: mesh.all_reduce(x, "avg"))
refused(lambda: mesh.all_gather(x, 2))
refused(lambda: mesh.slice(torch.nn.Linear(3, 3), x, 2))
class Open(torch.nn.Module):
    def forward(self, x):
        return mesh.all_gather(x)
refused(lambda: torch.onnx.export(Open(), (x.detach(),), "none.onnx", dynamo=False))
import os
os.environ["WORLD_SIZE"] = "4"
refused(lambda: mesh.all_reduce(x))
"""


def test_without_other_ranks_collectives_are_the_identity_or_an_error(tmp_path: Path) -> None:
    lines = finish(start("-W", "ignore", "-c", ALONE)).splitlines()
    begun = [line for line in lines if line.startswith("UsageError ")]
    assert begun == [
        "UsageError a collective of the group 'world' is for 2 ranks, and torch.distributed is not "
        "initialized: call torch.distributed.init_process_group on each rank, or export the module "
        "and start it with `rankmesh run`.",
        "UsageError AllReduce got the reduction 'avg', expected sum, max, min, prod.",
        "UsageError a collective got the axis 2 of a tensor of the shape [2, 3]: expected -2 to 1.",
        "UsageError Linear: is in training mode, expected inference: call eval() on it.",
        "UsageError AllGather in the group 'world' needs the number of ranks for the shape of its "
        "result: state it, as in Group(size=2).",
        "UsageError a collective of the group 'world' is for 4 ranks, and torch.distributed is not "
        "initialized: call torch.distributed.init_process_group on each rank, or export the module "
        "and start it with `rankmesh run`.",
    ]


def test_without_torch_the_module_says_what_to_install(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import rankmesh
for attempt in (lambda: rankmesh.torch, lambda: __import__("rankmesh.torch")):
    try:
        attempt()
    except ModuleNotFoundError as error:
        print(error)
"""
    assert finish(start("-c", program)).count("pip install 'rankmesh[torch]'") == 2
