"""Random convolution networks, sliced and run by real ranks, whose answers are compared with
onnxruntime's: python tests/fuzz/fuzz_convolutions.py [--seconds 150] [--seed 1000].

It prints the seed of each network that is wrong or fails, and ends with 1 if there was one. A proof
by lockstep would not see what ranks do to the layout of images, so none is made.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import nn

import rankmesh

_TOLERANCE = 1e-4
"""Of the largest value of the output, in fp32."""

_STEPS = ("convolution", "convolution", "residual", "residual", "depthwise", "pooling")
_STEPS += ("excitation", "concatenation", "norm", "inception", "upsampling")
_ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.SiLU, nn.Identity, nn.LeakyReLU, nn.Hardswish)
_POOLINGS = (lambda: nn.MaxPool2d(3, 2, 1), lambda: nn.AvgPool2d(2, 2), lambda: nn.MaxPool2d(2, 2))


class RandomNetwork(nn.Module):
    """Some steps of the kinds that image networks are made of, and a head."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.channels = channels = random.choice([3, 16])
        self.kinds = [random.choice(_STEPS) for _ in range(random.randint(3, 8))]
        self.steps = nn.ModuleList()
        for kind in self.kinds:
            width = random.choice([16, 24, 32, 48, 64])
            step, channels = getattr(self, f"_{kind}")(random, channels, width)
            self.steps.append(step)
        self.head = random.choice(["linear", "mean", "image"])
        self.linear = nn.Linear(channels, 10)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for kind, step in zip(self.kinds, self.steps, strict=True):
            if kind == "residual":
                x = torch.relu(x + step(x))
            elif kind == "excitation":
                x = x * step(x)
            elif kind == "concatenation":
                x = torch.cat([x, torch.relu(step(x))], 1)
            elif kind == "inception":
                x = torch.cat([torch.relu(branch(x)) for branch in step], 1)
            else:
                x = step(x)
        if self.head == "image":
            return x
        x = x.mean((2, 3))
        return self.linear(x) if self.head == "linear" else x

    def _convolution(self, random: Random, channels: int, width: int) -> tuple[nn.Module, int]:
        size = random.choice([1, 3, 3, 5, 7])
        bias, stride = random.random() < 0.7, random.choice([1, 1, 2])
        step = [nn.Conv2d(channels, width, size, stride, size // 2, bias=bias)]
        step += [nn.BatchNorm2d(width)] if random.random() < 0.6 else []
        return nn.Sequential(*step, random.choice(_ACTIVATIONS)()), width

    def _residual(self, random: Random, channels: int, width: int) -> tuple[nn.Module, int]:
        first = (nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        second = (nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        last = nn.Conv2d(width, channels, 1, bias=random.random() < 0.5)
        return nn.Sequential(*first, *second, last), channels

    def _depthwise(self, random: Random, channels: int, _: int) -> tuple[nn.Module, int]:
        stride = random.choice([1, 2])
        step = nn.Conv2d(channels, channels, 3, stride, 1, groups=channels)
        return nn.Sequential(step, nn.ReLU6()), channels

    def _pooling(self, random: Random, channels: int, _: int) -> tuple[nn.Module, int]:
        return random.choice(_POOLINGS)(), channels

    def _excitation(self, _: Random, channels: int, __: int) -> tuple[nn.Module, int]:
        few = max(4, channels // 4)
        inner = (nn.Conv2d(channels, few, 1), nn.ReLU(), nn.Conv2d(few, channels, 1), nn.Sigmoid())
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), *inner), channels

    def _concatenation(self, _: Random, channels: int, width: int) -> tuple[nn.Module, int]:
        return nn.Conv2d(channels, width, 3, padding=1), channels + width

    def _norm(self, _: Random, channels: int, __: int) -> tuple[nn.Module, int]:
        return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU()), channels

    def _inception(self, _: Random, channels: int, width: int) -> tuple[nn.Module, int]:
        sizes = ((width, 1), (width, 3), (16, 5))
        branches = [nn.Conv2d(channels, out, size, padding=size // 2) for out, size in sizes]
        return nn.ModuleList(branches), 2 * width + 16

    def _upsampling(self, random: Random, channels: int, _: int) -> tuple[nn.Module, int]:
        larger = random.random() < 0.3
        return nn.Upsample(scale_factor=2) if larger else nn.Identity(), channels


def exported(random: Random, path: Path) -> np.ndarray[Any, Any] | None:
    """Write a random network, and give an input; None where images became too small for it."""
    network = RandomNetwork(random).eval()
    side, batch = random.choice([28, 32, 33, 40, 56, 64]), random.choice([1, 1, 1, 2, 3, 4])
    x = torch.randn(batch, network.channels, side, random.choice([side, side, 48]))
    axes = {"x": {0: "batch"}, "y": {0: "batch"}} if random.random() < 0.15 else None
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": axes}
    try:
        torch.onnx.export(network, (x,), str(path), dynamo=False, opset_version=17, **names)
    except RuntimeError:
        return None
    return x.numpy()


def error_of(random: Random, folder: Path) -> float | None:
    """The largest difference of a random network's ranks, relative to the largest value."""
    model = folder / "model.onnx"
    x = exported(random, model)
    if x is None:
        return None
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})[0]
    ranks, memory = random.choice([2, 2, 2, 3, 4]), random.choice([None, 8 << 30, 8 << 30])
    stages = random.choice([1, 1, 2]) if ranks % 2 == 0 else random.choice([1, 3])
    plan = rankmesh.plan_slices(str(model), ranks=ranks, memory=memory, stages=stages)
    report = rankmesh.slice_model(str(model), plan, str(folder / "shards"), verify="none")
    with rankmesh.Orchestrator(report.pattern, ranks=ranks, threads=1, cache=False) as ranks_of_it:
        found = ranks_of_it.predict({"x": x})["y"]
        return float(abs(found - wanted).max() / max(abs(wanted).max(), 1e-9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--seed", type=int, default=1000)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    end, seed, right, wrong = time.monotonic() + given.seconds, given.seed, 0, 0
    while time.monotonic() < end:
        seed += 1
        torch.manual_seed(seed)
        with tempfile.TemporaryDirectory() as folder:
            try:
                error = error_of(Random(seed), Path(folder))
            except rankmesh.RankmeshError as failure:
                error = float("nan")
                print(f"seed {seed}: {failure}", flush=True)
        if error is not None and error <= _TOLERANCE:
            right += 1
        elif error is not None:
            wrong += 1
            print(f"seed {seed}: off by {error:.2g}", flush=True)
    print(f"{right} right, {wrong} wrong or failed; the last seed was {seed}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
