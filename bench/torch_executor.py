"""The torch executor against torch itself: Model.predict of an exported network, and the network.

    python bench/torch_executor.py [--rounds 9] [--threads 1] [--requests 4] [NAME ...]

The networks are those of bench/twins, with random weights of one seed, exported to ONNX by torch.
Each contender has a process of its own: the module of torch in inference mode, the same once more
as the control, and `Model.predict` with RANKMESH_EXECUTOR=torch. They take turns of some requests,
and each round another one begins. Processor time of the process counts, as it is the same on a busy
machine; wall time is shown beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from report import print_machine, print_table, ratios, spread

BAR, ALLOWED = 1.10, 1e-5
OPSET = 20  # the newest of torch's exporter without onnxscript
NAMES = ("bert", "resnet50", "gpt2")
_EAGER, _CONTROL, _OURS = "torch", "control", "rankmesh"


class Turn(NamedTuple):
    """A request's time in ms: of the processor, and on the wall."""

    processor: float
    wall: float


class Running:
    """A contender's process, ready for requests."""

    def __init__(self, who: str, name: str, folder: Path, threads: int) -> None:
        self.result = folder / f"{who}.npy"
        command = [sys.executable, __file__, "--as", who, name, str(folder)]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "RANKMESH_EXECUTOR": "torch",
            "RANKMESH_CACHE": "off",
        }
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.turn(1)

    def turn(self, requests: int) -> Turn:
        """The mean of some requests."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(requests, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("["):
                return Turn(*(seconds * 1e3 / requests for seconds in json.loads(line)))
        sys.exit(f"{self._process.args} has ended")

    def end(self) -> np.ndarray:
        """The first output."""
        self._process.communicate()
        return np.load(self.result)


def measured(name: str, rounds: int, requests: int, threads: int) -> list[str]:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run([sys.executable, __file__, "--as", "export", name, scratch], check=True)
        running = {who: Running(who, name, folder, threads) for who in (_EAGER, _CONTROL, _OURS)}
        turns: dict[str, list[Turn]] = {who: [] for who in running}
        names = list(running)
        for number in range(rounds):
            for who in names[number % 3 :] + names[: number % 3]:
                turns[who].append(running[who].turn(requests))
        results = {who: one.end() for who, one in running.items()}
    error = np.abs(results[_OURS] - results[_EAGER]).max() / np.abs(results[_EAGER]).max()
    processor = {who: [turn.processor for turn in found] for who, found in turns.items()}
    wall = {who: [turn.wall for turn in found] for who, found in turns.items()}
    return [
        name,
        spread(processor[_EAGER], 1),
        spread(processor[_OURS], 1),
        spread(ratios(processor[_CONTROL], processor[_EAGER])),
        spread(ratios(processor[_OURS], processor[_EAGER])),
        spread(ratios(wall[_OURS], wall[_EAGER])),
        f"{error:.1e}{'' if error <= ALLOWED else ' TOO FAR'}",
    ]


def serve(who: str, name: str, folder: Path) -> None:
    """Be a contender: answer lines of numbers with the seconds that so many requests take."""
    request = _ours(name, folder) if who == _OURS else _eager(name)
    np.save(folder / f"{who}.npy", request())
    for line in sys.stdin:
        used, start = time.process_time(), time.perf_counter()
        for _ in range(int(line)):
            request()
        print(json.dumps([time.process_time() - used, time.perf_counter() - start]), flush=True)


def _made(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The module and its inputs."""
    import torch
    from twins.convolutions import ResNet50
    from twins.text import Bert, Gpt2

    torch.manual_seed(1)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    tokens = torch.randint(0, 30000, (1, 128), dtype=torch.int32)
    inputs = {
        "bert": (tokens, torch.zeros_like(tokens), torch.ones_like(tokens)),
        "gpt2": (tokens,),
        "resnet50": (torch.randn(1, 3, 224, 224),),
    }
    return {"bert": Bert, "gpt2": Gpt2, "resnet50": ResNet50}[name]().eval(), inputs[name]


def _eager(name: str) -> Callable[[], np.ndarray]:
    import torch

    module, inputs = _made(name)

    def request() -> np.ndarray:
        with torch.inference_mode():
            made = module(*inputs)
        return (made[0] if isinstance(made, tuple) else made).numpy()

    return request


def _ours(name: str, folder: Path) -> Callable[[], np.ndarray]:
    import rankmesh

    inputs = [one.numpy() for one in _made(name)[1]]
    context, model = rankmesh.Context(), rankmesh.Model()
    context.cpu.thread_num = int(os.environ["OMP_NUM_THREADS"])
    model.build_from_file(str(folder / f"{name}.onnx"), rankmesh.ModelType.MINDIR, context)
    return lambda: model.predict(inputs)[0].get_data_to_numpy()


def export(name: str, folder: Path) -> None:
    """Write the ONNX file."""
    import torch

    module, inputs = _made(name)
    names = [f"in_{at}" for at in range(len(inputs))]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        place = str(folder / f"{name}.onnx")
        torch.onnx.export(
            module, inputs, place, dynamo=False, opset_version=OPSET, input_names=names
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--as", dest="who", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.who:
        name, folder = arguments.names
        run = export if arguments.who == "export" else lambda *rest: serve(arguments.who, *rest)
        return run(name, Path(folder))
    print_machine("rankmesh", "torch", "onnx")
    rows = [
        measured(name, arguments.rounds, arguments.requests, arguments.threads)
        for name in arguments.names
    ]
    print_table(
        [
            "network",
            "torch, processor ms",
            "rankmesh, processor ms",
            "control / torch",
            f"rankmesh / torch (bar {BAR:.2f})",
            "wall",
            "largest difference",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
