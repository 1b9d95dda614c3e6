"""Flight recorder: what a dump of torch says about collectives that have not ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from rankmesh.comm.collectives.libraries.flight_recorder import (
    described,
    record_collectives,
    unfinished_collectives,
)

ROOT = Path(__file__).parents[4]


def _entry(number: int, **changes: Any) -> dict[str, Any]:
    """As torch 2.11 writes it for NCCL, version 2.10 of the format."""
    return {
        "collective_seq_id": number,
        "input_dtypes": ["Float"],
        "input_sizes": [[4, 8]],
        "is_p2p": False,
        "op_id": number,
        "output_dtypes": ["Float"],
        "output_sizes": [[4, 8]],
        "p2p_seq_id": 0,
        "pg_id": 0,
        "process_group": ["1", "undefined"],
        "profiling_name": "nccl:all_reduce",
        "record_id": number - 1,
        "retired": True,
        "state": "completed",
        "time_created_ns": 1795461397478258785,
        "time_discovered_completed_ns": 0,
        "time_discovered_started_ns": None,
        "timeout_ms": 1800000,
        **changes,
    }


def _dump(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"version": "2.10", "pg_config": {}, "entries": entries}).encode()


@pytest.mark.pure
def test_collectives_without_an_end_are_named() -> None:
    started = _entry(2, retired=False, state="started")
    sent = _entry(
        3,
        retired=False,
        state="scheduled",
        profiling_name="nccl:send 0->1",
        is_p2p=True,
        p2p_seq_id=7,
        input_dtypes=[],
        input_sizes=[],
    )
    assert described(_dump(_entry(1), started, sent)) == (
        "nccl:all_reduce 2 of group 1 on Float[4, 8] is started; "
        "nccl:send 0->1 7 of group 1 on no tensors is scheduled"
    )


@pytest.mark.pure
def test_only_the_oldest_are_told() -> None:
    many = [_entry(number, retired=False, state="scheduled") for number in range(1, 8)]
    last = "nccl:all_reduce 4 of group 1 on Float[4, 8] is scheduled"
    assert described(_dump(*many)).endswith(f"{last}; and 3 more")


@pytest.mark.pure
@pytest.mark.parametrize("dump", [b"{}", b"", b'{"entries": [{"state": 1}]}', _dump(_entry(1))])
def test_nothing_is_said_without_such_collectives(dump: bytes) -> None:
    assert described(dump) == ""


@pytest.mark.pure
def test_a_backend_without_a_recorder_has_none() -> None:
    assert unfinished_collectives("hccl") == ""


@pytest.mark.pure
@pytest.mark.parametrize(("number", "count"), [("2.8.1", 2), ("2.9.0", 1), ("2.11.0+cu130", 1)])
def test_torch_gets_the_variables_that_it_does_not_warn_of(
    number: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(torch, "__version__", number)
    record_collectives()
    assert [name for name in names if name in os.environ] == list(names[:count])


_PROGRAM = """
from rankmesh.comm.collectives.libraries.flight_recorder import *
record_collectives()
import datetime, sys, time
import torch, torch.distributed as dist
store = dist.FileStore(sys.argv[1], 2)
limit = datetime.timedelta(seconds=60)
rank = int(sys.argv[2])
dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=limit)
def left():  # torch notes the end in a thread of its own
    until = time.monotonic() + 60
    while (found := unfinished_collectives("gloo")) and time.monotonic() < until:
        time.sleep(0.01)
    return found
dist.all_reduce(torch.ones(3))
if rank == 0:
    left()
    work = dist.all_reduce(torch.ones(4, 8), async_op=True)
    print(unfinished_collectives("gloo"), flush=True)
    store.set("told", "1")
    work.wait()
    print(left(), flush=True)
else:
    store.get("told")
    dist.all_reduce(torch.ones(4, 8))
"""


def test_torch_records_a_collective_that_waits_for_another_rank(tmp_path: Path) -> None:
    if tuple(map(int, version("torch").split(".")[:2])) < (2, 8):
        pytest.skip("this torch records NCCL alone")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".types"), "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(tmp_path / "store"), str(rank)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in (0, 1)
    ]
    told, _ = [one.communicate(timeout=120)[0] for one in ranks]
    assert told.splitlines() == ["gloo:all_reduce 2 of group 0 on Float[4, 8] is scheduled", ""]
