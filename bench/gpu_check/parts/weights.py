"""Weights: two processes with one copy of a model's weights on the device, and an update of it."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from onnx_writer import OnnxWriter

from rankmesh import Context, Model, ModelType, Tensor

from ..figures import Figure

_LAYERS = 8
_WIDTHS = {"gpu": (2048, 4096), "cpu": (32, 64)}  # of a layer: 16 and 64 MiB on a GPU
_PATIENCE = 40.0
_MEMORY_BAR = 1.1
_SPAWN = multiprocessing.get_context("spawn")


def measure(device: str) -> list[Figure]:
    """Memory of the GPU with two processes, to one copy, and the seconds of an update.

    A process takes memory for its kernels and workspaces, too, as much for both widths: the
    difference between these is that of the weights alone.
    """
    small, large = _WIDTHS[device]
    (least, _), (most, update) = (_shared(device, width) for width in (small, large))
    figures = [Figure("update of one weight", update * 1e3, "ms")]
    if device == "gpu":
        ratio = (most - least) / (_bytes(large) - _bytes(small))
        beside = (most - ratio * _bytes(large)) / 2 / 2**20
        figures = [
            Figure("bytes that two processes take for one of a weight", ratio, most=_MEMORY_BAR),
            Figure("what each process takes besides", beside, "MiB"),
            Figure("both processes, of weights of 512 MiB", most / _bytes(large)),
            *figures,
        ]
    return figures


def _bytes(width: int) -> int:
    return _LAYERS * width * width * 4


def _shared(device: str, width: int) -> tuple[int, float]:
    """The bytes that two new processes take for a model, and the seconds of an update."""
    mine, theirs = _SPAWN.Pipe()
    owner = _SPAWN.Process(target=_own, args=(theirs, device, width))
    owner.start()
    theirs.close()
    try:
        found: tuple[int, float] = _ask(mine)
        return found
    finally:
        owner.join(5)
        owner.kill()
        owner.join()


def _own(pipe: Connection, device: str, width: int) -> None:
    """The process that owns the weights; it starts the one that uses them."""
    x = np.ones((1, width), np.float32)
    with tempfile.TemporaryDirectory() as scratch:
        path = _write(Path(scratch), width)
        mine, theirs = _SPAWN.Pipe()
        user = _SPAWN.Process(target=_use, args=(theirs, device, path), daemon=True)
        user.start()
        try:
            _free(device)  # the context of this process, while the other makes its own
            _ask(mine)
            before = _free(device)
            pids = f"{os.getpid()},{user.pid}"
            model = _built(path, device, {"shareable_weight_pid_list": pids})
            expected = _predict(model, x)
            mine.send((model.get_model_info("shareable_weight_mem_handle"), x))
            assert np.array_equal(_ask(mine), expected), "the processes compute different results"
            taken = before - _free(device)
            _tell("owner", device)
            update = _updated(model, width)
            mine.send(x)
            assert np.array_equal(_ask(mine), _predict(model, x)), "the update has not arrived"
            pipe.send((taken, update))
        finally:
            user.kill()
            user.join()


def _tell(who: str, device: str) -> None:
    """Print how much of what a process takes is torch's."""
    if device == "gpu":
        import torch

        mebibytes = torch.cuda.memory_reserved() / 2**20
        print(f"{who}: torch reserves {mebibytes:.0f} MiB beside the weights", flush=True)


def _write(folder: Path, width: int) -> str:
    """A chain of products, all of different weights."""
    writer, x = OnnxWriter(folder, "chain"), "x"
    for layer in range(_LAYERS):
        weight = np.full((width, width), (layer + 1) / width, np.float32)
        x = writer.op("MatMul", x, writer.weight(weight))
    writer.save({"x": (1, width)}, x, (1, width))
    return str(folder / "chain.onnx")


def _built(path: str, device: str, config: dict[str, str]) -> Model:
    context, model = Context(), Model()
    context.target, context.cpu.thread_num = [device], 1
    sections = {"ascend_context": config}  # on every device
    model.build_from_file(path, ModelType.MINDIR, context, config_dict=sections)
    return model


def _predict(model: Model, x: np.ndarray) -> np.ndarray:
    found: np.ndarray = model.predict([x])[0].get_data_to_numpy().copy()
    return found


def _updated(model: Model, width: int) -> float:
    """Replace a weight; the seconds that it took."""
    tensor = Tensor(np.full((width, width), 2 / width, np.float32))
    tensor.name = "weight_0"
    start = time.perf_counter()
    model.update_weights([[tensor]])
    return time.perf_counter() - start


def _use(pipe: Connection, device: str, path: str) -> None:
    """The process that uses the weights of the other."""
    import torch

    if device == "gpu":  # what each process has of the GPU besides: context and workspace
        one = torch.ones(512, 512, device="cuda")
        (one @ one).sum().item()
    pipe.send("ready")
    handle, x = pipe.recv()
    model = _built(path, device, {"shareable_weight_mem_handle": str(handle)})
    while True:
        pipe.send(_predict(model, x))
        _tell("user", device)
        x = pipe.recv()


def _ask(pipe: Connection) -> Any:
    if not pipe.poll(_PATIENCE):
        raise TimeoutError(f"the other process has not answered within {_PATIENCE:.0f} s")
    return pipe.recv()


def _free(device: str) -> int:
    """Bytes of the GPU that are free, for all processes; this process has a context already."""
    if device == "cpu":
        return 0
    import torch

    one = torch.ones(512, 512, device="cuda")
    (one @ one).sum().item()
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])
