"""GPUs that a process may use, by the names of CUDA."""

from __future__ import annotations

import pytest

from rankmesh.comm.host import visible_gpus
from rankmesh.comm.host.visible_gpus import VARIABLE, claim_gpu, gpus_listed

pytestmark = pytest.mark.pure

_A, _B = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-1f2e"
_MIG_A, _MIG_B = "MIG-3eb87630-93d5-b2b6-b8ff-9b359caf4ee2", "MIG-GPU-8932f937/1/0"


@pytest.mark.parametrize(
    ("text", "present", "found"),
    [
        (None, 2, ("0", "1")),
        (None, 0, ()),
        ("", 2, ()),
        ("1,0", 2, ("1", "0")),
        ("0, 1 ,-1,2", 4, ("0", "1")),
        ("0,7,1", 2, ("0",)),
        ("1st,0", 2, ("1", "0")),  # as strtoul reads it
        ("0,0", 2, ()),
        (f"{_A},{_B}", 2, (_A, _B)),
        (f"{_A},0", 2, (_A,)),
        (f"0,{_A}", 2, ("0",)),
        (f"{_A},{_A}", 2, ()),
        (f"{_MIG_A}, {_MIG_B}", 1, (_MIG_A, _MIG_B)),
        (f"{_MIG_A},{_A}", 1, (_MIG_A,)),
        (_MIG_A, 0, ()),
        ("all", 2, ()),
    ],
)
def test_the_list_as_cuda_takes_it(text: str | None, present: int, found: tuple[str, ...]) -> None:
    assert gpus_listed(text, present) == found


@pytest.mark.parametrize(
    ("listed", "number", "there", "left"),
    [
        ("3,5", 1, 1, "3,5"),
        ("3,5", 2, 0, "3,5"),
        (f"{_MIG_A},{_MIG_B}", 1, 0, _MIG_B),
        ("", 4, 4, ""),
    ],
)
def test_a_rank_takes_its_gpu(
    listed: str, number: int, there: int, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, listed)
    monkeypatch.setattr(visible_gpus.glob, "glob", lambda pattern: ["/dev/nvidia0"] * 8)
    assert claim_gpu(number) == there
    assert visible_gpus.os.environ[VARIABLE] == left
