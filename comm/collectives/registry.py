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

_VARIABLE = "RANKMESH_COLLECTIVES"


class BackendChoice(msgspec.Struct, frozen=True):
    """The name of a backend, and the reason for it in a few words; `asked`: the user wants it."""

    name: str
    reason: str
    asked: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


ON_ONE_HOST = BackendChoice(SHARED_MEMORY, "all ranks are on this host")


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
    cannot work. Any other choice is one for memory of the host: `choose_on_devices` changes it
    where results turn out to stay on devices.
    """
    site = JobSite(device, launcher, on_one_host)
    variables = os.environ if environ is None else environ
    for name, source in ((option, "--collectives"), (variables.get(_VARIABLE), _VARIABLE)):
        if name:
            return _forced(name, source, site)
    return _automatic(site)


def _automatic(site: JobSite) -> BackendChoice:
    if site.under_mpi:
        return BackendChoice(MPI, f"{site.launcher} started the ranks")
    if site.on_one_host:
        return ON_ONE_HOST
    return BackendChoice(HIERARCHICAL, "the ranks are on several hosts")


def _forced(name: str, source: str, site: JobSite) -> BackendChoice:
    try:
        obstacle = backend_named(name).obstacle(site)
    except UsageError as error:
        raise UsageError(f"{source} is {error}") from error
    if obstacle:
        raise UsageError(f"{source} is {name}, {obstacle}.")
    return BackendChoice(name, f"{source} says so", asked=True)


def _checked(found: object) -> CollectiveBackend:
    """The object of an entry point, or an instance of the class that it names."""
    backend = found() if isinstance(found, type) else found
    if not isinstance(backend, CollectiveBackend):
        raise TypeError(f"{found!r} is not a CollectiveBackend (send_capacity, obstacle, join)")
    return backend
