"""Exports the small transformers beside this file with MindSpore's own results, as entries of
tests/data/mindir.

Runs in an environment that has mindspore (and no Rankmesh):

    python tests/oracle/transformers.py tests/data/mindir [NAME ...]

Every entry is NAME/NAME.mindir and NAME/NAME.npz: inputs in_0, in_1, ... and outputs out_0, out_1,
... of graph mode on the CPU. Those named in DYNAMIC have a second entry NAME_dyn, whose marked
dimensions are unknown to the file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from transformers_decoders import (
    GPTJ,
    HEADS,
    LENGTH,
    VOCABULARY,
    WIDTH,
    Bloom,
    Experts,
    Gemma,
    GPTNeoX,
    Qwen,
    StaticCache,
)
from transformers_encoders import T5, WORDS, Clip, Deberta, FrameworkEncoder, Whisper
from transformers_encoders import WIDTH as NARROW

RNG = np.random.default_rng(5)


def ids(*shape: int, low: int = 1) -> np.ndarray:
    """Token numbers."""
    return RNG.integers(low, VOCABULARY, shape).astype(np.int32)


def normal(*shape: int) -> np.ndarray:
    """Standard normal numbers."""
    return RNG.standard_normal(shape).astype(np.float32)


ATTENTION = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]], np.int64)
CACHE = [normal(2, 2, 5, 8) for _ in range(4)]
MODELS: dict[str, tuple[type[nn.Cell], list[np.ndarray]]] = {
    "tf_gpt_neox": (GPTNeoX, [ids(2, LENGTH)]),
    "tf_gptj": (GPTJ, [ids(2, LENGTH), np.tile(np.arange(LENGTH, dtype=np.int32), (2, 1))]),
    "tf_qwen_cache": (Qwen, [ids(2, 1), np.full((2, 1), 5, np.int64), ATTENTION, *CACHE]),
    "tf_static_cache": (
        StaticCache,
        [
            ids(2, 1),
            np.array(3, np.int64),
            normal(2, HEADS, LENGTH, 8),
            normal(2, HEADS, LENGTH, 8),
        ],
    ),
    "tf_bloom": (Bloom, [ids(2, LENGTH), ATTENTION]),
    "tf_experts": (Experts, [normal(2, 3, WIDTH)]),
    "tf_gemma": (Gemma, [ids(2, LENGTH)]),
    "tf_t5": (T5, [ids(2, LENGTH), ATTENTION, ids(2, 5)]),
    "tf_clip": (Clip, [ids(3, WORDS), normal(2, 3, 16, 16)]),
    "tf_whisper": (Whisper, [normal(1, 10, 24), ids(1, 5)]),
    "tf_deberta": (Deberta, [np.where(np.arange(6) < [[6], [4]], ids(2, 6), 0).astype(np.int32)]),
    "tf_framework": (
        FrameworkEncoder,
        [normal(2, 4, NARROW), normal(2, 5, NARROW), np.arange(4) >= np.array([[4], [3]])],
    ),
}
# The dimensions that the file leaves open, per input.
DYNAMIC: dict[str, list[tuple[int, ...]]] = {
    "tf_qwen_cache": [(0, 1), (0, 1), (0, 1), (0, 2), (0, 2), (0, 2), (0, 2)],
    "tf_bloom": [(0,), (0,)],
    "tf_experts": [(0, 1)],
    "tf_t5": [(0, 1), (0, 1), (0,)],
    "tf_deberta": [(0, 1)],
}


def opened(array: np.ndarray, axes: tuple[int, ...]) -> Tensor:
    """A placeholder whose dimensions `axes` are unknown."""
    shape = [None if axis in axes else size for axis, size in enumerate(array.shape)]
    return Tensor(shape=shape, dtype=Tensor(array).dtype)


def record(
    folder: Path, name: str, net: nn.Cell, arrays: list[np.ndarray], inputs: list[Tensor]
) -> None:
    """Write one entry."""
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    ms.export(net, *inputs, file_name=str(path / name), file_format="MINDIR")
    os.chmod(path / f"{name}.mindir", 0o644)
    results: Any = net(*map(Tensor, arrays))
    results = results if isinstance(results, (tuple, list)) else (results,)
    saved = {f"in_{i}": array for i, array in enumerate(arrays)}
    np.savez_compressed(
        path / f"{name}.npz", **saved, **{f"out_{i}": r.asnumpy() for i, r in enumerate(results)}
    )


def main(folder: Path, names: list[str]) -> None:
    """Write all entries, or those named."""
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    for name, (cell, arrays) in MODELS.items():
        forms = [(name, [Tensor(array) for array in arrays])]
        if name in DYNAMIC:
            forms.append(
                (f"{name}_dyn", [opened(*pair) for pair in zip(arrays, DYNAMIC[name], strict=True)])
            )
        for entry, inputs in forms:
            if not names or entry in names:
                ms.set_seed(7)
                np.random.seed(7)
                try:
                    record(folder, entry, cell().set_train(False), arrays, inputs)
                    print(entry, "recorded", flush=True)
                except Exception as error:  # MindSpore cannot; the other entries still can
                    print(entry, "not recorded:", str(error)[:1500], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
