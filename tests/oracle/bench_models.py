"""Export the networks that bench/single.py measures, with MindSpore's own results for one input
each.

    PYTHON_OF_MINDSPORE tests/oracle/bench_models.py [NAME ...]

Run it in an environment with mindspore and mindcv (`pip install mindspore mindcv "numpy<2"`). For
each network it writes NAME.mindir and NAME.npz (`in_0`, ..., `out_0`, ...) to the folder `single-1`
of the bench cache: RANKMESH_BENCH_CACHE, or ~/.cache/rankmesh/bench. What is there already stays.
Weights are random with a fixed seed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_cells
import mindcv
import mindspore as ms
import numpy as np
from mindcv.models.vit import VisionTransformer
from mindspore import nn

Array = np.ndarray[Any, Any]
_RANDOM = np.random.default_rng(0)


def _image() -> list[Array]:
    return [_RANDOM.standard_normal((1, 3, 224, 224), np.float32)]


def _tokens(count: int, vocabulary: int, length: int = 128) -> list[Array]:
    """Tokens, and where more is asked segments and a mask without its last ten."""
    mask = np.ones((1, length), np.int32)
    mask[:, -10:] = 0
    segments = _RANDOM.integers(0, 2, (1, length), np.int32)
    return [_RANDOM.integers(0, vocabulary, (1, length), np.int32), segments, mask][:count]


def _latent() -> list[Array]:
    normal = _RANDOM.standard_normal
    return [
        normal((1, 4, 32, 32), np.float32),
        np.array([500], np.int32),
        normal((1, 77, 768), np.float32),
    ]


NETWORKS: dict[str, tuple[Callable[[], nn.Cell], Callable[[], list[Array]]]] = {
    "resnet50": (lambda: mindcv.create_model("resnet50"), _image),
    "mobilenetv2": (lambda: mindcv.create_model("mobilenet_v2_100"), _image),
    "bert": (bench_cells.Bert, lambda: _tokens(3, 30522)),
    "gpt2": (bench_cells.Gpt2, lambda: _tokens(1, 50257)),
    "vit": (lambda: VisionTransformer(patch_size=32), _image),
    "swin": (lambda: mindcv.create_model("swin_tiny"), _image),
    "unet": (bench_cells.UNet, _latent),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Export the networks of bench/single.py.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}; default all"
    )
    wanted = parser.parse_args().names or list(NETWORKS)
    unknown = set(wanted) - set(NETWORKS)
    if unknown:
        sys.exit(
            f"no network is called {', '.join(sorted(unknown))}: choose from {', '.join(NETWORKS)}"
        )
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        if not (folder / f"{name}.npz").is_file():
            print(f"writing {folder / name}.mindir ...", flush=True)
            _write(folder, name)


def _folder() -> Path:
    cache = os.environ.get("RANKMESH_BENCH_CACHE") or Path.home() / ".cache" / "rankmesh" / "bench"
    return Path(cache) / "single-1"


def _write(folder: Path, name: str) -> None:
    """Model first, results last: a network counts as written once its .npz is there."""
    ms.set_seed(1)
    np.random.seed(1)  # mindcv draws some of its weights from numpy
    make, inputs = NETWORKS[name]
    network = make().set_train(False)
    _scatter(network)
    tensors = inputs()
    given = [ms.Tensor(array) for array in tensors]
    ms.export(network, *given, file_name=str(folder / name), file_format="MINDIR")
    results = network(*given)
    results = results if isinstance(results, tuple) else (results,)
    arrays = {f"in_{i}": array for i, array in enumerate(tensors)} | {
        f"out_{i}": result.asnumpy() for i, result in enumerate(results)
    }
    np.savez(folder / f".{name}.npz", **arrays)
    (folder / f".{name}.npz").rename(folder / f"{name}.npz")


def _scatter(network: nn.Cell) -> None:
    """Scales, shifts and stored statistics away from 0 and 1, so that a wrong fold shows."""
    for parameter in network.get_parameters():
        kind, shape = parameter.name.rpartition(".")[2], parameter.shape
        if kind in ("gamma", "moving_variance"):
            parameter.set_data(ms.Tensor(_RANDOM.uniform(0.8, 1.2, shape).astype(np.float32)))
        elif kind in ("beta", "bias", "moving_mean"):
            parameter.set_data(ms.Tensor(_RANDOM.normal(0, 0.02, shape).astype(np.float32)))
        elif kind == "embedding_table":
            parameter.set_data(ms.Tensor(_RANDOM.normal(0, 0.02, shape).astype(np.float32)))


if __name__ == "__main__":
    main()
