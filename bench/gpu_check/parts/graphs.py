"""CUDA graphs: networks in fp16 by the torch executor, and by torch's own modules."""

from __future__ import annotations

import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import onnx
import torch
from twins.text import Bert, Gpt2
from twins.unet import UNet

from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.executors.torch.device_queue import TorchQueue
from rankmesh.worker.partition.plan import Segment

from ..figures import Figure

OPSET = 20
_ROUNDS, _RUNS = 9, 20
_GRAPH_BAR, _EAGER_BAR = 1.05, 0.5
_ALLOWED = {"gpu": 2e-2, "cpu": 1e-5}
"""Differences of the outputs, of the largest element: fp16 on a GPU."""
Tensors = Sequence[torch.Tensor]


def measure(device: str) -> list[Figure]:
    """The times of the executor's graphs, to torch's graphs and to torch without graphs."""
    torch.manual_seed(1)
    return [figure for name in _NETWORKS[device] for figure in _measured(name, device)]


def _measured(name: str, device: str) -> list[Figure]:
    """The figures of a network; one that fails leaves those of the others."""
    try:
        return _network(name, device)
    except Exception:  # whatever it is
        traceback.print_exc()
        return [Figure(f"{name}: failed, see the output of this part", 1, most=0)]


def _tokens(place: str) -> torch.Tensor:
    return torch.randint(0, 30000, (1, 128), dtype=torch.int32, device=place)


def _bert(place: str) -> tuple[torch.nn.Module, Tensors]:
    tokens = _tokens(place)
    return Bert(), (tokens, torch.zeros_like(tokens), torch.ones_like(tokens))


def _gpt2(place: str) -> tuple[torch.nn.Module, Tensors]:
    return Gpt2(), (_tokens(place),)


def _unet(place: str) -> tuple[torch.nn.Module, Tensors]:
    sample, context = torch.randn(1, 4, 64, 64), torch.randn(1, 77, 768)
    given = (sample.half().to(place), torch.ones(1, dtype=torch.int32, device=place))
    return UNet(), (*given, context.half().to(place))


def _small(place: str) -> tuple[torch.nn.Module, Tensors]:
    tokens = _tokens(place)
    given = (tokens, torch.zeros_like(tokens), torch.ones_like(tokens))
    return Bert(layers=1, hidden=64, heads=2, inner=128), given


_NETWORKS: dict[str, dict[str, Callable[[str], tuple[torch.nn.Module, Tensors]]]] = {
    "gpu": {"BERT-base": _bert, "GPT-2": _gpt2, "UNet like SD's": _unet},
    "cpu": {"small BERT": _small},
}


def _network(name: str, device: str) -> list[Figure]:
    place = "cuda" if device == "gpu" else "cpu"
    module, given = _NETWORKS[device][name](place)
    module = module.to(place).eval()
    module = module.half() if device == "gpu" else module
    queue = TorchQueue(torch.device(place))
    eager = _eager(module)
    with tempfile.TemporaryDirectory() as scratch, queue.working():
        ours = _ours(module, given, device, Path(scratch))
        error = max(_difference(*pair) for pair in zip(ours(given), eager(given), strict=True))
        contenders = {"eager": lambda: eager(given)}
        if device == "gpu":
            contenders["torch's graph"] = _replay(queue, eager, given)
            contenders["our graph"] = _replay(queue, ours, given)
        else:
            contenders["ours"] = lambda: ours(given)
        seconds = _interleaved(contenders, device)
    return [
        Figure(f"{name}, largest difference", error, most=_ALLOWED[device]),
        *_ratios(name, seconds),
    ]


def _ratios(name: str, seconds: dict[str, list[float]]) -> list[Figure]:
    if "our graph" not in seconds:
        return [Figure(f"{name}, to torch", _ratio(seconds["ours"], seconds["eager"]))]
    ours, graph, eager = seconds["our graph"], seconds["torch's graph"], seconds["eager"]
    bar = None if "UNet" in name else _EAGER_BAR
    return [
        Figure(f"{name}, our graph", median(ours) * 1e3, "ms"),
        Figure(f"{name}, our graph to torch's", _ratio(ours, graph), most=_GRAPH_BAR),
        Figure(f"{name}, our graph to torch without graphs", _ratio(ours, eager), most=bar),
    ]


def _ratio(values: Sequence[float], base: Sequence[float]) -> float:
    return median(value / other for value, other in zip(values, base, strict=True))


def _eager(module: torch.nn.Module) -> Callable[[Tensors], Tensors]:
    def run(given: Tensors) -> Tensors:
        made = module(*given)
        return made if isinstance(made, tuple) else (made,)

    return run


def _ours(
    module: torch.nn.Module, given: Tensors, device: str, folder: Path
) -> Callable[[Tensors], Tensors]:
    """The exported module on the torch executor, its shapes known."""
    path = str(folder / "network.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(given), path, dynamo=False, opset_version=OPSET)
    model = onnx.load(path)
    weights = {one.name for one in model.graph.initializer}
    inputs = tuple(one.name for one in model.graph.input if one.name not in weights)
    outputs = tuple(one.name for one in model.graph.output)
    prepared = TorchExecutor(device).prepare(Segment(model, inputs, outputs), str(folder))
    prepared.compute(given)
    return prepared.compute


def _replay(queue: TorchQueue, run: Callable[[Tensors], Tensors], given: Tensors) -> Any:
    run(given)
    made = queue.record(lambda: run(given))
    assert made is not None
    return made[0]


def _difference(made: torch.Tensor, reference: torch.Tensor) -> float:
    made, reference = made.float(), reference.float()
    return float((made - reference).abs().max() / reference.abs().max())


def _interleaved(contenders: dict[str, Any], device: str) -> dict[str, list[float]]:
    """The seconds of a run, for each round; the contenders take turns."""
    rounds, runs = (_ROUNDS, _RUNS) if device == "gpu" else (3, 2)
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(_seconds(contenders[name], runs, device))
    return found


def _seconds(run: Callable[[], object], runs: int, device: str) -> float:
    wait = torch.cuda.synchronize if device == "gpu" else (lambda: None)
    run()
    wait()
    start = time.perf_counter()
    for _ in range(runs):
        run()
    wait()
    return (time.perf_counter() - start) / runs
