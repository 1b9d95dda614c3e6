"""Every primitive against MindSpore: recorded networks in every dtype, with known and unknown
dimensions.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import Family, Record, families, make_input

from rankmesh.comm.errors import UnsupportedPrimitives
from rankmesh.launch.rank.compare import Distance
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.lowering.lower_mindir import lower_mindir
from rankmesh.worker.lowering.unsupported import unsupported
from rankmesh.worker.mindir import dtypes
from rankmesh.worker.mindir.graph import MindirModel
from rankmesh.worker.mindir.reader import read_model
from rankmesh.worker.partition.plan import Segment

NAMED = {row.name: row.numpy for row in dtypes.ELEMENT_TYPES}
FAMILIES = {name: Family.read(name) for name in families()}
RUNS = [(name, at) for name, family in FAMILIES.items() for at in range(len(family.records))]


def label(run: Any) -> str:
    record = FAMILIES[run[0]].records[run[1]]
    return f"{run[0]}-{record.case}{'-dynamic' if record.dynamic else ''}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that each network is written to."""
    return tmp_path_factory.mktemp("primitives") / "case.mindir"


@cache
def given(shape: tuple[int, ...], dtype: str, values: str, position: int) -> np.ndarray:
    """An input in its dtype, which many networks have."""
    return make_input(shape, dtype, values, position).astype(NAMED[dtype])


def computed(source: MindirModel, folder: Path, record: Record) -> list[np.ndarray]:
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
    prepared = OnnxRuntime(own_pools=True).prepare(Segment(model, inputs, outputs), str(folder))
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


@pytest.mark.parametrize("run", RUNS, ids=label)
def test_primitive_computes_what_mindspore_computed(run: Any, path: Path) -> None:
    family, record = FAMILIES[run[0]], FAMILIES[run[0]].records[run[1]]
    path.unlink(missing_ok=True)
    path.write_bytes(family.file(record))
    source = read_model(str(path))
    missing = unsupported(source)
    if missing:  # docs/operators.md lists them, so that one more shows there
        with pytest.raises(UnsupportedPrimitives, match="|".join(missing)):
            computed(source, path.parent, record)
        return
    got = computed(source, path.parent, record)
    assert not differences(record, got, list(family.results(record, NAMED.__getitem__)))
