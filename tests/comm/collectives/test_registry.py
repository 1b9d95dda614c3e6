"""Which collectives a job gets, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankmesh.comm.collectives.registry import (
    ENTRY_POINTS,
    NAMES,
    BackendChoice,
    backend_named,
    choose_collectives,
)
from rankmesh.comm.collectives.single_rank import SingleRankCollectives
from rankmesh.comm.errors import UsageError
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.rendezvous.rendezvous import ChannelRendezvous
from rankmesh.comm.transport.channel import Channel

NOTHING: dict[str, str] = {}


@pytest.mark.parametrize(
    ("launcher", "on_one_host", "name", "reason"),
    [
        ("", True, "shared_memory", "all ranks are on this host"),
        ("torchrun", True, "shared_memory", "all ranks are on this host"),
        ("Open MPI", True, "mpi", "Open MPI started the ranks"),
        ("MPICH", False, "mpi", "MPICH started the ranks"),
    ],
)
def test_choice_on_the_cpu(launcher: str, on_one_host: bool, name: str, reason: str) -> None:
    choice = choose_collectives("cpu", launcher, on_one_host, environ=NOTHING)
    assert (choice.name, choice.reason) == (name, reason)


def test_the_option_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    variables = {"RANKMESH_COLLECTIVES": "gloo"}
    choice = choose_collectives("cpu", "", True, "shared_memory", variables)
    assert (choice.name, choice.reason) == ("shared_memory", "--collectives says so")
    choice = choose_collectives("cpu", "", True, None, variables)
    assert (choice.name, choice.reason) == ("gloo", "RANKMESH_COLLECTIVES says so")


@pytest.mark.parametrize(
    ("name", "device", "on_one_host", "said"),
    [
        ("pigeons", "cpu", True, f"'pigeons', expected one of {', '.join(NAMES)}"),
        ("mpi", "cpu", True, "is mpi, and mpirun did not start this process"),
        ("shared_memory", "cpu", False, "the ranks are on several hosts: choose gloo"),
        ("nccl", "cpu", True, "is nccl, and the ranks are on cpu"),
        ("hccl", "gpu", True, "is hccl, and the ranks are on gpu"),
    ],
)
def test_what_cannot_work_is_refused(name: str, device: str, on_one_host: bool, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        choose_collectives(device, "", on_one_host, name, NOTHING)


def test_what_is_not_installed_is_refused_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        UsageError, match=r"gloo, which needs torch, .* `pip install 'rankmesh\[torch\]'`"
    ):
        choose_collectives("cpu", "", True, "gloo", NOTHING)


PACKAGE = """
from rankmesh.comm.collectives.backend import SendCapacity
from rankmesh.comm.collectives.single_rank import SingleRankCollectives

class Carrier:
    send_capacity = SendCapacity(3, 100)

    def obstacle(self, site):
        return "" if site.device == "cpu" else "which runs on CPUs alone"

    def join(self, membership):
        return SingleRankCollectives()

instance = Carrier()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of a third party with backends, as pip would install it."""
    (tmp_path / "pigeons.py").write_text(PACKAGE)
    info = tmp_path / "pigeons-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeons\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{ENTRY_POINTS}]\n"
        "pigeons = pigeons:instance\nclass = pigeons:Carrier\n"
        "gloo = pigeons:instance\nbroken = pigeons:missing\nempty = pigeons:SendCapacity\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    backend_named.cache_clear()
    yield
    backend_named.cache_clear()
    sys.modules.pop("pigeons", None)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["pigeons", "class"])
def test_a_backend_of_another_package_is_found_by_its_entry_point(name: str) -> None:
    assert choose_collectives("cpu", "", False, name, NOTHING).name == name
    assert backend_named(name).send_capacity.taken_by(250) == 3
    with pytest.raises(UsageError, match=f"--collectives is {name}, which runs on CPUs alone."):
        choose_collectives("gpu", "", False, name, NOTHING)


@pytest.mark.usefixtures("installed")
def test_a_backend_of_another_package_carries_the_calls_of_a_rendezvous() -> None:
    ends, arena = Channel.pair(), Arena.create(1)
    rendezvous = ChannelRendezvous(Rank(0, 1, 0, 1, "here", 0), ends[0], arena, 5.0)
    rendezvous.choice = BackendChoice("pigeons", "said so")
    assert isinstance(rendezvous.collectives([], []), SingleRankCollectives)
    for one in (*ends, arena):
        one.close()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dove", r"--collectives is 'dove', expected one of shared_memory, .*, broken, .*pigeons"),
        ("broken", r"--collectives is broken, and its backend \(pigeons:missing\) cannot be imp"),
        ("empty", r"--collectives is empty, and its backend \(pigeons:SendCapacity\) cannot be im"),
    ],
)
def test_a_backend_that_cannot_be_loaded_is_refused(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        choose_collectives("cpu", "", True, name, NOTHING)


@pytest.mark.usefixtures("installed")
def test_built_in_names_cannot_be_taken_and_are_not_looked_up() -> None:
    found = in_fresh_process(
        "import rankmesh.comm.collectives.registry as r; r.backend_named(r.GLOO)"
    )
    assert "rankmesh.comm.collectives.libraries.backends" in found
    assert not {"importlib.metadata", "pigeons", "torch", "numpy"} & found


def in_fresh_process(program: str) -> set[str]:
    """The modules that a program imports."""
    code = f"import sys; {program}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())
