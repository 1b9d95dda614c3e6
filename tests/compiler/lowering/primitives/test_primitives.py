"""Every primitive against MindSpore: recorded networks in every dtype, with known and unknown
dimensions.

They run on the executor that RANKMESH_EXECUTOR names.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_runs import FAMILIES, NAMED, RUNS, computed, differences, draws, label

from rankmesh.comm.errors import UnsupportedPrimitives
from rankmesh.compiler.lowering.unsupported import unsupported
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.worker.executors.base import Executor
from rankmesh.worker.executors.registry import open_executor
from rankmesh.worker.executors.settings import ExecutorSettings


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that each network is written to."""
    return tmp_path_factory.mktemp("primitives") / "case.mindir"


@pytest.fixture(scope="module")
def executor() -> Executor:
    return open_executor(ExecutorSettings(own_pools=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_primitives_compute_what_mindspore_computed(
    family: str, path: Path, executor: Executor
) -> None:
    wrong = {}
    for run in [run for run in RUNS if run[0] == family]:
        try:
            found = faults(run, path, executor)
        except Exception as error:
            raise AssertionError(label(run)) from error
        if found:
            wrong[label(run)] = found
    assert not wrong


def faults(run: tuple[str, int], path: Path, executor: Executor) -> list[str]:
    """What a recorded network does not compute as MindSpore did."""
    family, record = FAMILIES[run[0]], FAMILIES[run[0]].records[run[1]]
    path.unlink(missing_ok=True)
    path.write_bytes(family.file(record))
    source = read_model(str(path))
    missing = unsupported(source)
    if missing:  # docs/operators.md lists them, so that one more shows there
        with pytest.raises(UnsupportedPrimitives, match="|".join(missing)):
            computed(source, path.parent, record, executor)
        return []
    got = computed(source, path.parent, record, executor)
    wanted = list(family.results(record, NAMED.__getitem__))
    if draws(source):
        shapes = [one.shape for one in got], [one.shape for one in wanted]
        return [] if shapes[0] == shapes[1] else [f"shapes {shapes[0]} and not {shapes[1]}"]
    return differences(record, got, wanted)
