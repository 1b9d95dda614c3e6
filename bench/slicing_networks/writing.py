"""Writing of one network: random weights, export by torch, examples, and a run by onnxruntime."""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import preload  # noqa: F401  # first: what it defines has to be there before transformers
import torch
from registry import Field, Made, Network, resolve
from torch import nn

SEED = 14
SMALL = 0.5
"""A matrix whose standard deviation is below this part of 1 / sqrt(inputs) is drawn anew."""
NOISE = 0.1
THREADS = 1


def write(network: Network, path: Path) -> dict[str, Any]:
    """Writes PATH.onnx, PATH.npz and PATH.json (last); returns the record of the JSON file."""
    begun = time.monotonic()
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    torch.backends.mha.set_fastpath_enabled(False)  # its operator has no form in ONNX
    torch.manual_seed(SEED)
    record: dict[str, Any] = {
        "name": network.name,
        "kind": network.kind,
        "source": network.source,
        "params": network.params,
    }
    record |= (network.write or _write_module)(network, path)
    record["seconds"] = round(time.monotonic() - begun, 1)
    unfinished = path.with_suffix(".json.new")
    unfinished.write_text(json.dumps(record, indent=1, default=str) + "\n")
    unfinished.rename(path.with_suffix(".json"))
    return record


def _write_module(network: Network, path: Path) -> dict[str, Any]:
    made = network.build()
    module = made.module.eval()
    if made.scaled:
        randomise(module)
    examples = write_examples(made, path)
    file = path.with_suffix(".onnx")
    export(network, made, examples, file)
    if network.external:
        _move_weights(file)
    record = {
        "exporter": "dynamo" if network.dynamo else "torchscript",
        "opset": network.opset,
        "sizes": made.sizes,
        "dynamic": made.opens,
        "inputs": {one.name: describe(one) for one in made.fields},
        "weights": sum(one.numel() for one in module.parameters()),
    }
    return record | check(made, examples, file)


def describe(one: Field) -> dict[str, Any]:
    return {"shape": one.shape, "dtype": one.dtype, "draw": one.draw, "high": one.high}


def randomise(module: nn.Module) -> None:
    """Gives weights that are constant some noise, and matrices that are small a usual size.

    Biases of zero and attention that is nearly uniform would hide errors of a slicer.
    """
    generator = torch.Generator().manual_seed(SEED)

    def noise(like: torch.Tensor) -> torch.Tensor:
        return torch.randn(like.shape, generator=generator, dtype=torch.float32).to(like.dtype)

    with torch.no_grad():
        for value in module.parameters():
            if value.is_floating_point() and value.numel():
                _enliven(value, noise)
        for one in module.modules():
            if isinstance(one, nn.modules.batchnorm._BatchNorm) and one.running_mean is not None:
                one.running_mean.add_(NOISE * noise(one.running_mean))
                one.running_var.mul_(1 + NOISE * noise(one.running_var).abs())


def _enliven(value: torch.Tensor, noise: Any) -> None:
    if value.numel() == 1 or float(value.std()) < 1e-6:
        value.add_(NOISE * noise(value))
    elif value.dim() > 1:
        usual = 1 / math.sqrt(value[0].numel())
        if float(value.std()) < SMALL * usual:
            value.copy_(usual * noise(value))


def draw(fields: list[Field], sizes: dict[str, int]) -> dict[str, torch.Tensor]:
    """Example inputs at these sizes, the same at every call."""
    generator = torch.Generator().manual_seed(SEED)
    return {one.name: _draw(one, sizes, generator) for one in fields}


def _draw(one: Field, sizes: dict[str, int], generator: torch.Generator) -> torch.Tensor:
    shape = [resolve(size, sizes) for size in one.shape]
    dtype = getattr(torch, one.dtype)
    if one.draw == "ids":
        return torch.randint(0, one.high, shape, generator=generator).to(dtype)
    if one.draw == "mask":
        mask = torch.ones(shape, dtype=dtype)
        if len(shape) == 2 and min(shape) > 1:
            mask[-1, -1] = 0
        return mask
    if one.draw == "positions":
        numbers = torch.arange(shape[-1], dtype=dtype) + sizes.get("past", 0)
        return numbers.expand(shape).contiguous()
    if one.draw == "ones":
        return torch.ones(shape, dtype=dtype)
    if one.draw == "zeros":
        return torch.zeros(shape, dtype=dtype)
    if one.draw == "boxes":  # left, top, right, bottom of words on a page
        boxes = torch.randint(0, one.high // 2, shape, generator=generator)
        boxes[..., 2:] += boxes[..., :2]
        return boxes.to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def export(network: Network, made: Made, examples: dict[str, torch.Tensor], file: Path) -> None:
    """Writes the ONNX file by one of torch's two exporters."""
    axes = axes_of(made)
    extra: dict[str, Any] = {"dynamic_axes": _with_outputs(axes, made)} if axes else {}
    if network.dynamo:
        extra = {"dynamic_shapes": dynamic_shapes(made), "external_data": False}
    with torch.no_grad():
        torch.onnx.export(
            made.module,
            tuple(examples.values()),
            str(file),
            input_names=list(examples),
            output_names=made.outputs,
            opset_version=network.opset,
            dynamo=network.dynamo,
            **({"verbose": False, "optimize": True} if network.dynamo else {}),
            **extra,
        )


def axes_of(made: Made) -> dict[str, dict[int, str]]:
    """The open axes of each input, with their names."""
    if not made.opens:
        return {}
    return {
        one.name: {at: size for at, size in enumerate(one.shape) if isinstance(size, str)}
        for one in made.fields
    }


def dynamic_shapes(made: Made) -> Any:
    """The open axes as the exporter of torch.export takes them."""
    axes = axes_of(made)
    named = (
        {at: size.replace("+", "_plus_") for at, size in axes[one.name].items()}
        for one in made.fields
    )
    return (tuple(named),) if axes else None


def write_examples(made: Made, path: Path) -> dict[str, torch.Tensor]:
    """Writes PATH.npz; returns the same numbers."""
    examples = draw(made.fields, made.sizes)
    np.savez(path.with_suffix(".npz"), **{name: one.numpy() for name, one in examples.items()})
    return examples


def _with_outputs(axes: dict[str, dict[int, str]], made: Made) -> dict[str, dict[int, str]]:
    """Names for the open axes of caches that are returned; torch finds those of other outputs."""
    symbols = {size for one in axes.values() for size in one.values()}
    for name in made.outputs:
        if name.startswith("present") and "batch" in symbols:
            axes[name] = {0: "batch", 2: "past+sequence" if "past" in symbols else "sequence"}
    return axes


def _move_weights(file: Path) -> None:
    model = onnx.load(file)
    data = file.with_suffix(".data")
    data.unlink(missing_ok=True)
    onnx.save(model, file, save_as_external_data=True, location=data.name, size_threshold=1024)


def check(made: Made, examples: dict[str, torch.Tensor], file: Path) -> dict[str, Any]:
    """Runs the file by onnxruntime and compares with torch, open axes at a second size as well."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    known = {one.name for one in session.get_inputs()}
    found: dict[str, Any] = {
        "error": _error(made, examples, session, known),
        "unused": sorted(set(examples) - known),
        "outputs": {one.name: one.shape for one in session.get_outputs()},
    }
    if made.opens:
        others = made.sizes | made.others
        found["other_sizes"] = others
        found["other_error"] = _error(made, draw(made.fields, others), session, known)
    return found


def _error(made: Made, examples: dict[str, torch.Tensor], session: Any, known: set[str]) -> float:
    """The largest difference to torch, in parts of the largest number of that output."""
    feeds = {name: one.numpy() for name, one in examples.items() if name in known}
    results = session.run(None, feeds)
    with torch.no_grad():
        expected = made.module.eval()(*examples.values())
    expected = expected if isinstance(expected, tuple | list) else (expected,)
    worst = 0.0
    for got, wanted in zip(results, expected, strict=True):
        wanted = wanted.numpy()
        if got.shape != wanted.shape:
            raise ValueError(f"onnxruntime returns {got.shape}, torch {wanted.shape}")
        if not np.isfinite(got).all():
            raise ValueError("onnxruntime returns numbers that are not finite")
        if got.size:
            scale = max(float(np.abs(wanted).max()), 1e-6)
            difference = np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max()
            worst = max(worst, float(difference) / scale)
    return worst


def disk_usage(folder: Path) -> int:
    """The bytes that files of a folder take on the disk, holes left out."""
    return sum(one.stat().st_blocks * 512 for one in os.scandir(folder) if one.is_file())
