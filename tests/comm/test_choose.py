"""Which collectives a job gets, and what is refused."""

from __future__ import annotations

import importlib.util

import pytest

from rankmesh.comm.collectives.choose import NAMES, choose_collectives
from rankmesh.comm.errors import UsageError

NOTHING: dict[str, str] = {}


@pytest.mark.parametrize(("launcher", "on_one_host", "name", "reason"), [
    ("", True, "shared_memory", "all ranks are on this host"),
    ("torchrun", True, "shared_memory", "all ranks are on this host"),
    ("Open MPI", True, "mpi", "Open MPI started the ranks"),
    ("MPICH", False, "mpi", "MPICH started the ranks"),
])
def test_choice_on_the_cpu(launcher: str, on_one_host: bool, name: str, reason: str) -> None:
    choice = choose_collectives("cpu", launcher, on_one_host, environ=NOTHING)
    assert (choice.name, choice.reason) == (name, reason)


@pytest.mark.parametrize(("device", "name"), [("gpu", "nccl"), ("ascend", "hccl")])
def test_choice_on_devices_whose_library_is_installed(
    device: str, name: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rankmesh.comm.collectives.choose._missing", lambda _: None)
    assert choose_collectives(device, "Open MPI", True, environ=NOTHING).name == name


def test_choice_on_a_device_whose_library_is_not_installed() -> None:
    if importlib.util.find_spec("torch_npu"):
        pytest.skip("torch_npu is installed")
    choice = choose_collectives("ascend", "", True, environ=NOTHING)
    assert choice.name == "shared_memory"
    assert choice.reason == "the ranks are on ascend without torch_npu, all ranks are on this host"


def test_the_option_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankmesh.comm.collectives.choose._missing", lambda _: None)
    variables = {"RANKMESH_COLLECTIVES": "gloo"}
    choice = choose_collectives("cpu", "", True, "shared_memory", variables)
    assert (choice.name, choice.reason) == ("shared_memory", "--collectives says so")
    choice = choose_collectives("cpu", "", True, None, variables)
    assert (choice.name, choice.reason) == ("gloo", "RANKMESH_COLLECTIVES says so")


@pytest.mark.parametrize(("name", "device", "on_one_host", "said"), [
    ("pigeons", "cpu", True, f"'pigeons', expected one of {', '.join(NAMES)}"),
    ("mpi", "cpu", True, "is mpi, and mpirun did not start this process"),
    ("shared_memory", "cpu", False, "the ranks are on several hosts: choose gloo"),
    ("nccl", "cpu", True, "is nccl, and the ranks are on cpu"),
    ("hccl", "gpu", True, "is hccl, and the ranks are on gpu"),
])
def test_what_cannot_work_is_refused(name: str, device: str, on_one_host: bool, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        choose_collectives(device, "", on_one_host, name, NOTHING)


def test_what_is_not_installed_is_refused_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"gloo, which needs torch, .* `pip install 'rankmesh\[torch\]'`"):
        choose_collectives("cpu", "", True, "gloo", NOTHING)
