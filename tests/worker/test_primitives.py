"""Every primitive against MindSpore: recorded networks in every dtype, with known and unknown dimensions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meetings import meetings
from recorded import Family, Record, families, make_input

from rankmesh.comm.errors import RankmeshError
from rankmesh.launch.compare import Distance
from rankmesh.worker import dtypes
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.program import Program

NAMED = {row.name: row.numpy for row in dtypes.ELEMENT_TYPES}
FAMILIES = {name: Family.read(name) for name in families()}
RUNS = [(name, at) for name, family in FAMILIES.items() for at in range(len(family.records))]


def label(run: Any) -> str:
    record = FAMILIES[run[0]].records[run[1]]
    return f"{run[0]}-{record.case}{'-dynamic' if record.dynamic else ''}"


@pytest.fixture(scope="module")
def meeting() -> Iterator[Any]:
    with meetings() as ranks:
        yield ranks[0]


def computed(path: Path, record: Record, meeting: Any) -> list[np.ndarray]:
    """The results of our own."""
    program = Program.open(str(path), meeting, OnnxRuntime())
    with contextlib.closing(program):
        per_dtype = len(record.inputs) // len(record.dtypes)
        arrays = [make_input(*spec, at % per_dtype).astype(NAMED[spec[1]]) for at, spec in enumerate(record.inputs)]
        slots = zip(program.plan.inputs, arrays, strict=True)
        return list(program.predict({slot.name: array for slot, array in slots}).values())


def differences(record: Record, got: list[np.ndarray], wanted: list[np.ndarray]) -> list[str]:
    """What is not as MindSpore has it, with the dtype that was looped over."""
    assert len(got) == len(wanted)
    owners = [dtype for dtype, count in zip(record.dtypes, record.counts, strict=True) for _ in range(count)]
    found = []
    for owner, mine, reference in zip(owners, got, wanted, strict=True):
        if owner in record.lent:
            reference = reference.astype(mine.dtype)
        if reference.dtype.name == "bfloat16":
            reference = reference.astype(np.float32)
        error = Distance(mine, reference).error
        found += [f"{owner}: {error}: {mine.ravel()[:8]} and not {reference.ravel()[:8]}"] if error else []
    return found


@pytest.mark.parametrize("run", RUNS, ids=label)
def test_primitive_computes_what_mindspore_computed(run: Any, tmp_path: Path, meeting: Any) -> None:
    family, record = FAMILIES[run[0]], FAMILIES[run[0]].records[run[1]]
    path = tmp_path / "case.mindir"
    path.write_bytes(family.file(record))
    got = computed(path, record, meeting)
    assert not differences(record, got, list(family.results(record, NAMED.__getitem__)))
