"""Recorded primitives, run by an executor, and their differences from what MindSpore computed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from recorded import Family, Record, families, make_input

from rankmesh.compiler.element_types import dtypes
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.graph import MindirModel
from rankmesh.launch.rank.compare import Distance
from rankmesh.worker.executors.base import Executor
from rankmesh.worker.partition.plan import Segment

NAMED = {row.name: row.numpy for row in dtypes.ELEMENT_TYPES}
FAMILIES = {name: Family.read(name) for name in families()}
_RANDOM = ("StandardNormal", "UniformReal")
RUNS = [(name, at) for name, family in FAMILIES.items() for at in range(len(family.records))]


def label(run: tuple[str, int]) -> str:
    record = FAMILIES[run[0]].records[run[1]]
    return f"{run[0]}-{record.case}{'-dynamic' if record.dynamic else ''}"


@cache
def given(shape: tuple[int, ...], dtype: str, values: str, position: int) -> np.ndarray:
    """An input in its dtype, which many networks have."""
    return make_input(shape, dtype, values, position).astype(NAMED[dtype])


def draws(source: MindirModel) -> bool:
    """Whether a network draws random numbers, of which no two programs have the same."""
    graphs = (source.entry, *source.functions.values())
    return any(node.primitive in _RANDOM for graph in graphs for node in graph.nodes)


def computed(
    source: MindirModel, folder: Path, record: Record, executor: Executor
) -> list[np.ndarray]:
    """The results of our own."""
    model = lower_mindir(source)
    for node in [node for node in model.graph.node if node.op_type == "Assign"]:
        model.graph.node.remove(
            node
        )  # for the next request; the primitive's own result is what it keeps
    inputs, outputs = (
        tuple(value.name for value in values) for values in (model.graph.input, model.graph.output)
    )
    per_dtype = len(record.inputs) // len(record.dtypes)
    arrays = [
        given(tuple(shape), dtype, values, at % per_dtype).copy()
        for at, (shape, dtype, values) in enumerate(record.inputs)
    ]
    prepared = executor.prepare(Segment(model, inputs, outputs), str(folder))
    return list(prepared.run(arrays, [None] * len(outputs)))


def differences(record: Record, got: list[np.ndarray], wanted: list[np.ndarray]) -> list[str]:
    """What is not as MindSpore has it, with the dtype that was looped over."""
    assert len(got) == len(wanted)
    owners = [
        dtype
        for dtype, count in zip(record.dtypes, record.counts, strict=True)
        for _ in range(count)
    ]
    found = []
    for owner, mine, reference in zip(owners, got, wanted, strict=True):
        if owner in record.lent or record.stands_in:
            reference = reference.astype(mine.dtype)
        if reference.dtype.name == "bfloat16":
            reference = reference.astype(np.float32)
        error = Distance(mine, reference).error
        found += (
            [f"{owner}: {error}: {mine.ravel()[:8]} and not {reference.ravel()[:8]}"]
            if error
            else []
        )
    return found
