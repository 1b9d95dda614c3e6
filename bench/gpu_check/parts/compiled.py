"""Compiled calls: a network by torch.compile on a device, and its captured runs."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import torch
from onnx_writer import OnnxWriter

from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.executors.torch.compiled_calls import CompiledCalls
from rankmesh.worker.executors.torch.device_queue import TorchQueue
from rankmesh.worker.executors.torch.torch_segment import TorchSegment
from rankmesh.worker.partition.plan import Segment

from ..figures import Figure, Skipped

_ROWS, _WIDTH = 64, 256
_RUNS = 20
_ALLOWED = 1e-5
"""Differences of the outputs, of the largest element."""


def measure(device: str) -> list[Figure]:
    """How far compiled runs are from those call by call, and their time."""
    place = torch.device("cuda" if device == "gpu" else "cpu", 0 if device == "gpu" else None)
    x = torch.randn(_ROWS, _WIDTH).to(place)
    queue = TorchQueue(place)
    with tempfile.TemporaryDirectory() as scratch, queue.working(), queue.products():
        path = _write(Path(scratch))
        plain, compiled = (_prepared(path, device, compiles) for compiles in (False, True))
        wanted, start = plain.compute([x])[0], time.monotonic()
        made = compiled.compute([x])[0]
        seconds = time.monotonic() - start
        (calls,) = compiled.lists.values()
        if not isinstance(calls, CompiledCalls):
            raise Skipped("torch.compile compiles nothing here: see the output of this part")
        figures = [
            Figure("compiling", seconds, "s"),
            Figure("compiled, largest difference", _difference(made, wanted), most=_ALLOWED),
            Figure("compiled, to call by call", _ratio(compiled, plain, x, queue)),
        ]
        if device == "gpu":
            figures.append(_captured(queue, compiled, x, wanted))
    return figures


def _write(folder: Path) -> str:
    """Two products with what is between layers of a transformer."""
    draw, writer, made = np.random.default_rng(3), OnnxWriter(folder, "network"), "x"
    for _ in range(2):
        weight = draw.normal(size=(_WIDTH, _WIDTH)).astype(np.float32) / np.sqrt(_WIDTH)
        product = writer.op("MatMul", made, writer.weight(weight))
        shape = writer.constant(np.array([_ROWS, -1]))
        moved = writer.op("Reshape", writer.op("Tanh", product), shape)
        made = writer.op("Softmax", writer.op("Add", moved, made), axis=-1)
    writer.save({"x": (_ROWS, _WIDTH)}, made, (_ROWS, _WIDTH))
    return str(folder / "network.onnx")


def _prepared(path: str, device: str, compiles: bool) -> TorchSegment:
    model = onnx.load(path, load_external_data=False)
    executor = TorchExecutor(device, compiles=compiles)
    return executor.prepare(Segment(model, ("x",), ("y",)), str(Path(path).parent))


def _difference(made: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((made - wanted).abs().max() / wanted.abs().max())


def _ratio(one: TorchSegment, other: TorchSegment, x: torch.Tensor, queue: TorchQueue) -> float:
    return median(_seconds(one, x, queue) / _seconds(other, x, queue) for _ in range(5))


def _seconds(segment: TorchSegment, x: torch.Tensor, queue: TorchQueue) -> float:
    start = time.perf_counter()
    for _ in range(_RUNS):
        made = segment.compute([x])[0]
    queue.download([made], [None], None)  # waits for all of them
    return time.perf_counter() - start


def _captured(
    queue: TorchQueue, compiled: TorchSegment, x: torch.Tensor, wanted: torch.Tensor
) -> Figure:
    """Whether a replay of compiled calls computes what is in their input by then."""
    replay, results = queue.record(lambda: compiled.compute([x]))
    x.neg_()
    expected = compiled.compute([x])[0].clone()
    replay()
    error = _difference(results[0], expected)
    moved = _difference(expected, wanted) > _ALLOWED
    return Figure(
        "a replay of compiled calls, largest difference", error if moved else 1.0, most=_ALLOWED
    )
