from __future__ import annotations

import glob
import os
import socket
from collections.abc import Callable

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.host.resources import gpu_count
from rankmesh.launch.supervision import host
from rankmesh.worker.session import hardware as device
from rankmesh.worker.session.hardware import device_for_ranks, device_ids

pytestmark = pytest.mark.pure


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A host whose number of GPUs the test says, as no test machine has all of them."""

    def have(count: int, working: bool = True) -> None:
        monkeypatch.setattr(device, "gpu_count", lambda: count)
        monkeypatch.setattr(device, "cuda_works", lambda: working)

    return have


@pytest.mark.parametrize(
    ("wanted", "count", "working", "ranks", "chosen", "reason"),
    [
        (None, 0, False, 1, "cpu", "no NVIDIA GPU is visible"),
        (None, 1, True, 2, "cpu", "1 GPU for 2 ranks"),
        (None, 2, True, 2, "gpu", "2 GPUs for 2 ranks"),
        (None, 2, False, 2, "cpu", "CUDA provider does not work"),
        ("cpu", 8, True, 2, "cpu", "as asked for"),
        ("gpu", 2, True, 2, "gpu", "as asked for"),
        ("ascend", 0, False, 2, "ascend", "as asked for"),
    ],
)
def test_choice(gpus, wanted, count, working, ranks, chosen, reason) -> None:
    gpus(count, working)
    found, line = device_for_ranks(wanted, ranks, False)
    assert found == chosen and reason in line and f"device {chosen}" in line


def test_too_few_gpus_are_an_error_only_where_gpus_were_asked_for(gpus) -> None:
    gpus(1)
    with pytest.raises(
        UsageError, match="2 ranks need 2 GPUs, and this host has 1. Use --device cpu, or --oversub"
    ):
        device_for_ranks("gpu", 2, False)
    assert device_for_ranks("gpu", 2, True)[0] == "gpu"
    assert device_for_ranks(None, 2, True)[0] == "cpu"
    gpus(0)
    with pytest.raises(UsageError, match="this host has 0. Use --device cpu.$"):
        device_for_ranks("gpu", 1, True)


def test_unknown_device() -> None:
    with pytest.raises(UsageError, match="--device tpu: expected one of cpu, gpu, ascend"):
        device_for_ranks("tpu", 1, False)


def test_gpus_are_given_round_robin(gpus) -> None:
    gpus(2)
    assert device_ids("gpu", 5) == [0, 1, 0, 1, 0]
    assert device_ids("cpu", 3) == device_ids("ascend", 3) == [0, 1, 2]
    gpus(0)
    assert device_ids("gpu", 2) == [0, 0]


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        (None, 3),
        ("", 0),
        (" ", 0),
        ("-1", 0),
        ("-1,0", 0),
        ("0", 1),
        ("2,1,-1,0", 2),
        ("GPU-1234abcd", 1),
        ("0,1,2,3", 3),
    ],
)
def test_gpus_that_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, count: int
) -> None:
    monkeypatch.setattr(
        glob, "glob", lambda pattern: ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"]
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_count() == count


def test_names_and_cores_of_this_host() -> None:
    names = host.names()
    assert socket.gethostname() in names and "127.0.0.1" in names
    assert len(names) == len(set(names)) and not [name for name in names if "%" in name]
    assert host.cores() == sorted(os.sched_getaffinity(0))
