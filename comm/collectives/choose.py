"""Which implementation of the collectives a job uses, and why; importing this loads none of them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping

import msgspec

from ..errors import UsageError

SHARED_MEMORY, MPI, GLOO, NCCL, HCCL = NAMES = ("shared_memory", "mpi", "gloo", "nccl", "hccl")
TORCH = (GLOO, NCCL, HCCL)

_VARIABLE = "RANKMESH_COLLECTIVES"
_MPI_LAUNCHERS = ("Open MPI", "MPICH")
_BY_DEVICE = {"gpu": NCCL, "ascend": HCCL}
_NEEDS = {MPI: ("mpi4py", "mpi"), GLOO: ("torch", "torch"), NCCL: ("torch", "torch"), HCCL: ("torch_npu", "")}


class Choice(msgspec.Struct, frozen=True):
    """An implementation's name, and the reason in a few words."""

    name: str
    reason: str


def choose_collectives(
    device: str, launcher: str, on_one_host: bool, option: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Choice:
    """The choice for ranks on `device` (cpu, gpu, ascend) that `launcher` started, as `Identity.launcher` names it.

    What the user names (`option`, else RANKMESH_COLLECTIVES) is taken, or refused with a UsageError where it
    cannot work. The same on all ranks of a job, whose machines are alike.
    """
    under_mpi = launcher in _MPI_LAUNCHERS
    variables = os.environ if environ is None else environ
    for name, source in ((option, "--collectives"), (variables.get(_VARIABLE), _VARIABLE)):
        if name:
            return _forced(name, source, device, under_mpi, on_one_host)
    return _automatic(device, launcher, under_mpi, on_one_host)


def choose_for_host_memory(device: str, launcher: str, on_one_host: bool, option: str | None = None) -> Choice:
    """As `choose_collectives`, for an executor whose results lie in host memory whatever the device.

    There nccl and hccl would copy to the device and back, so that only a user's word leads to them.
    """
    where = device if option or os.environ.get(_VARIABLE) else "cpu"
    return choose_collectives(where, launcher, on_one_host, option)


def _automatic(device: str, launcher: str, under_mpi: bool, on_one_host: bool) -> Choice:
    wanted = _BY_DEVICE.get(device)
    if wanted and _missing(wanted) is None:
        return Choice(wanted, f"the ranks are on {device}")
    because = f"the ranks are on {device} without {_missing(wanted)}, " if wanted else ""
    if under_mpi:
        return Choice(MPI, f"{because}{launcher} started the ranks")
    if on_one_host:
        return Choice(SHARED_MEMORY, f"{because}all ranks are on this host")
    return Choice(GLOO, f"{because}the ranks are on several hosts")


def _forced(name: str, source: str, device: str, under_mpi: bool, on_one_host: bool) -> Choice:
    if name not in NAMES:
        raise UsageError(f"{source} is {name!r}, expected one of {', '.join(NAMES)}.")
    if name == MPI and not under_mpi:
        raise UsageError(f"{source} is mpi, and mpirun did not start this process: start the ranks with mpirun, or "
                         f"choose {SHARED_MEMORY} or {GLOO}.")
    if name == SHARED_MEMORY and not on_one_host:
        raise UsageError(f"{source} is {SHARED_MEMORY}, and the ranks are on several hosts: choose "
                         f"{MPI if under_mpi else GLOO}.")
    if name in (NCCL, HCCL) and _BY_DEVICE.get(device) != name:
        raise UsageError(f"{source} is {name}, and the ranks are on {device}: choose {GLOO}, or another device.")
    missing = _missing(name)
    if missing:
        extra = _NEEDS[name][1]
        how = f"`pip install 'rankmesh[{extra}]'`" if extra else f"install {missing}"
        raise UsageError(f"{source} is {name}, which needs {missing}, and it is not installed: {how}.")
    return Choice(name, f"{source} says so")


def _missing(name: str) -> str | None:
    """The package that an implementation needs and that is not installed; not imported to find out."""
    package = _NEEDS.get(name, ("",))[0]
    return package if package and importlib.util.find_spec(package) is None else None
