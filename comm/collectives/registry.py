"""Registry of collective backends: built-in ones, those of other packages, a job's choice.

Backends of other packages are entry points of the group `rankmesh.collective_backends`. Only a
name that is not built in is looked up there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module

import msgspec

from ..errors import UsageError
from .backend import CollectiveBackend, JobSite

SHARED_MEMORY, MPI, HIERARCHICAL, GLOO, NCCL, HCCL, PEER = NAMES = (
    "shared_memory",
    "mpi",
    "hierarchical",
    "gloo",
    "nccl",
    "hccl",
    "peer",
)
ENTRY_POINTS = "rankmesh.collective_backends"

_BUILT_IN = {
    SHARED_MEMORY: "shared_memory.backend:SHARED_MEMORY",
    MPI: "libraries.backends:MPI",
    HIERARCHICAL: "hierarchical.backend:HIERARCHICAL",
    GLOO: "libraries.backends:GLOO",
    NCCL: "libraries.backends:NCCL",
    HCCL: "libraries.backends:HCCL",
    PEER: "peer.backend:PEER",
}
"""Module in this folder, and attribute, of each built-in backend."""

_BY_DEVICE = {"gpu": (NCCL, "torch"), "ascend": (HCCL, "torch_npu")}
"""Backend of a device, and the package that it needs."""

_VARIABLE = "RANKMESH_COLLECTIVES"


class BackendChoice(msgspec.Struct, frozen=True):
    """The name of a backend, and the reason for it in a few words."""

    name: str
    reason: str


@cache
def backend_named(name: str) -> CollectiveBackend:
    """The backend of that name; UsageError if there is none or it cannot be imported."""
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        found: CollectiveBackend = getattr(import_module(f".{module}", __package__), attribute)
        return found
    from importlib.metadata import entry_points  # takes a while, and few jobs need it

    others = {one.name: one for one in entry_points(group=ENTRY_POINTS)}
    if name not in others:
        raise UsageError(f"{name!r}, expected one of {', '.join((*NAMES, *sorted(others)))}.")
    try:
        return _checked(others[name].load())
    except (ImportError, AttributeError, TypeError) as error:
        raise UsageError(
            f"{name}, and its backend ({others[name].value}) cannot be imported: {error}. Install "
            f"it again, or choose one of {', '.join(NAMES)}."
        ) from error


def choose_collectives(
    device: str,
    launcher: str,
    on_one_host: bool,
    option: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> BackendChoice:
    """Choose the backend of a job; see JobSite for `device`, `launcher` and `on_one_host`.

    The user's choice (`option`, else RANKMESH_COLLECTIVES) is taken; it is a UsageError if it
    cannot work. All ranks of a job make the same choice, as their machines are alike.
    """
    site = JobSite(device, launcher, on_one_host)
    variables = os.environ if environ is None else environ
    for name, source in ((option, "--collectives"), (variables.get(_VARIABLE), _VARIABLE)):
        if name:
            return _forced(name, source, site)
    return _automatic(site)


def choose_for_host_memory(
    device: str, launcher: str, on_one_host: bool, option: str | None = None
) -> BackendChoice:
    """As `choose_collectives`, for an executor whose results lie in host memory on any device.

    nccl and hccl would copy to the device and back: they need the user's choice.
    """
    where = device if option or os.environ.get(_VARIABLE) else "cpu"
    return choose_collectives(where, launcher, on_one_host, option)


def _automatic(site: JobSite) -> BackendChoice:
    because = ""
    if site.device in _BY_DEVICE:
        name, package = _BY_DEVICE[site.device]
        if not backend_named(name).obstacle(site):
            return BackendChoice(name, f"the ranks are on {site.device}")
        because = f"the ranks are on {site.device} without {package}, "
    if site.under_mpi:
        return BackendChoice(MPI, f"{because}{site.launcher} started the ranks")
    if site.on_one_host:
        return BackendChoice(SHARED_MEMORY, f"{because}all ranks are on this host")
    return BackendChoice(HIERARCHICAL, f"{because}the ranks are on several hosts")


def _forced(name: str, source: str, site: JobSite) -> BackendChoice:
    try:
        obstacle = backend_named(name).obstacle(site)
    except UsageError as error:
        raise UsageError(f"{source} is {error}") from error
    if obstacle:
        raise UsageError(f"{source} is {name}, {obstacle}.")
    return BackendChoice(name, f"{source} says so")


def _checked(found: object) -> CollectiveBackend:
    """The object of an entry point, or an instance of the class that it names."""
    backend = found() if isinstance(found, type) else found
    if not isinstance(backend, CollectiveBackend):
        raise TypeError(f"{found!r} is not a CollectiveBackend (send_capacity, obstacle, join)")
    return backend
