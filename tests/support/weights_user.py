"""Processes that build models and do with them what a test tells them; spawned, so they import this
file by name.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from told_process import ToldProcess

from rankmesh import Model, RankmeshError, Tensor

_SPAWN = multiprocessing.get_context("spawn")


class User(ToldProcess):
    """A process that builds models of its own and does with the last one what it is told."""

    def __init__(self, prepare: Callable[[], None] | None = None) -> None:
        """`prepare` runs in it before anything else."""
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(theirs, prepare), daemon=True)
        self.process.start()
        theirs.close()

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, prepare: Callable[[], None] | None) -> None:
    made: list[Model] = []
    if prepare:
        prepare()
    with contextlib.suppress(EOFError):
        while True:
            name, *arguments = pipe.recv()
            try:
                pipe.send(
                    _stop_inside(made, pipe, *arguments)
                    if name == "stop_inside"
                    else _ACTS[name](made, *arguments)
                )
            except RankmeshError as error:
                pipe.send(f"{type(error).__name__}: {error}")


def build(made: list[Model], path: str, config: dict[str, Any] | None, target: str = "cpu") -> str:
    from rankmesh import Context, ModelType

    context, one = Context(), Model()
    context.target, context.cpu.thread_num = [target], 1
    one.build_from_file(path, ModelType.MINDIR, context, config_dict=config)
    made.append(one)
    return one.get_model_info("shareable_weight_mem_handle")


def predict(made: list[Model], inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [output.get_data_to_numpy() for output in made[-1].predict(inputs)]


def _watch(made: list[Model], inputs: list[np.ndarray], count: int) -> int:
    """Predict until so many different results came; how many were mixtures."""
    mixed, seen = 0, set()
    while len(seen) < count:
        values = {float(value) for array in predict(made, inputs) for value in array.ravel()}
        mixed += len(values) > 1
        seen |= values
    return mixed


def update(made: list[Model], arrays: dict[str, np.ndarray]) -> str:
    made[-1].update_weights([[tensor(name, array) for name, array in arrays.items()]])
    return made[-1].get_model_info("weights_version")


def _stop_inside(made: list[Model], pipe: Connection, inputs: list[np.ndarray]) -> str:
    """Begin a request, and wait in the middle of it to be told to go on."""
    session: Any = made[-1]._session
    with session._program._live.hold():
        pipe.send("inside")
        pipe.recv()
    return "done"


def _memory(made: list[Model]) -> dict[str, int]:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return {
        line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")
    }


_ACTS = {
    "build": build,
    "predict": predict,
    "watch": _watch,
    "update": update,
    "memory": _memory,
    "info": lambda made, key: made[-1].get_model_info(key),
    "drop": lambda made: made.clear(),
}


def tensor(name: str, array: np.ndarray) -> Tensor:
    made = Tensor(array)
    made.name = name
    return made
