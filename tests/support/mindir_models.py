"""The models of tests/data by name: their files, their saved inputs and outputs, and Models built
from them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankmesh import Context, Model, ModelType

DATA = Path(__file__).parents[1] / "data" / "mindir"


def file_of(name: str) -> str:
    return str(DATA / name / f"{name}.mindir")


def saved(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    with np.load(DATA / name / f"{name}.npz") as arrays:
        return tuple(
            [arrays[f"{kind}_{i}"] for i in range(len(arrays)) if f"{kind}_{i}" in arrays]
            for kind in ("in", "out")
        )


def built(name: str, **arguments: Any) -> Model:
    context = Context()
    context.cpu.thread_num = 1
    model = Model()
    model.build_from_file(file_of(name), ModelType.MINDIR, context, **arguments)
    return model


def fails(
    error: type[Exception], text: str, function: Any, *arguments: Any, **keywords: Any
) -> None:
    with pytest.raises(error) as caught:
        function(*arguments, **keywords)
    assert text in str(caught.value)
