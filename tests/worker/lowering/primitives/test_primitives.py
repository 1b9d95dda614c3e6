"""Every primitive against MindSpore: recorded networks in every dtype, with known and unknown
dimensions.
"""

from __future__ import annotations

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
from rankmesh.worker.mindir.reader import read_model
from rankmesh.worker.partition.plan import Segment

NAMED = {row.name: row.numpy for row in dtypes.ELEMENT_TYPES}
FAMILIES = {name: Family.read(name) for name in families()}
RUNS = [(name, at) for name, family in FAMILIES.items() for at in range(len(family.records))]


def label(run: Any) -> str:
    record = FAMILIES[run[0]].records[run[1]]
    return f"{run[0]}-{record.case}{'-dynamic' if record.dynamic else ''}"


def computed(path: Path, record: Record) -> list[np.ndarray]:
    """The results of our own."""
    model = lower_mindir(read_model(str(path)))
    for node in [node for node in model.graph.node if node.op_type == "Assign"]:
        model.graph.node.remove(
            node
        )  # for the next request; the primitive's own result is what it keeps
    inputs, outputs = (
        tuple(value.name for value in values) for values in (model.graph.input, model.graph.output)
    )
    per_dtype = len(record.inputs) // len(record.dtypes)
    arrays = [
        make_input(*spec, at % per_dtype).astype(NAMED[spec[1]])
        for at, spec in enumerate(record.inputs)
    ]
    prepared = OnnxRuntime(own_pools=True).prepare(
        Segment(model, inputs, outputs), str(path.parent)
    )
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
def test_primitive_computes_what_mindspore_computed(run: Any, tmp_path: Path) -> None:
    family, record = FAMILIES[run[0]], FAMILIES[run[0]].records[run[1]]
    path = tmp_path / "case.mindir"
    path.write_bytes(family.file(record))
    missing = unsupported(read_model(str(path)))
    if missing:  # docs/operators.md lists them, so that one more shows there
        with pytest.raises(UnsupportedPrimitives, match="|".join(missing)):
            computed(path, record)
        return
    got = computed(path, record)
    assert not differences(record, got, list(family.results(record, NAMED.__getitem__)))
