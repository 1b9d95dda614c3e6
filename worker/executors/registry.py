"""Registry of executors: built-in ones, and those of other packages by their entry points.

Executors of other packages are entry points of the group `rankmesh.executors`. Only a name that is
not built in is looked up there. RANKMESH_EXECUTOR names the executor of a process; without it, the
device decides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

from ...comm.errors import UsageError
from ...comm.limits import MOST_THREADS, require_at_most
from .base import Executor
from .settings import EXECUTOR_VARIABLE, ONNXRUNTIME, TORCH, ExecutorSettings

ENTRY_POINTS = "rankmesh.executors"
OpenExecutor: TypeAlias = Callable[[ExecutorSettings], Executor]
_BUILT_IN = (ONNXRUNTIME, TORCH)
"""Modules in this folder, called like their library: `open_executor` makes the executor."""

_BESIDE = {(TORCH, "ascend"): "torch_npu"}
"""A package that a library needs for a device. To import torch for nothing takes two seconds."""


@cache
def executor_named(name: str) -> OpenExecutor:
    """The function that makes executors of that name; it takes their settings.

    Raises UsageError where there is none or it cannot be imported.
    """
    if name in _BUILT_IN:
        found: OpenExecutor = import_module(f".{name}", __package__).open_executor
        return found
    from importlib.metadata import entry_points  # takes a while, and few processes need it

    others = {one.name: one for one in entry_points(group=ENTRY_POINTS)}
    if name not in others:
        known = ", ".join((*_BUILT_IN, *sorted(others)))
        raise UsageError(f"{EXECUTOR_VARIABLE} is {name!r}, expected one of {known}.")
    try:
        found = others[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"{EXECUTOR_VARIABLE} is {name}, and its executor ({others[name].value}) cannot be "
            f"imported: {error}. Install it again, or choose one of {', '.join(_BUILT_IN)}."
        ) from error
    return found


def open_executor(settings: ExecutorSettings) -> Executor:
    """The executor that `settings` name, with these settings. Raises UsageError."""
    require_at_most("threads", settings.threads, MOST_THREADS)
    return executor_named(settings.name or suited_to(settings.device))(settings)


def suited_to(device: str) -> str:
    """The executor for a kind of device; where none runs there, the error of the first that is
    installed says why.
    """
    return running_on(device) or next(filter(find_spec, _BUILT_IN), ONNXRUNTIME)


@cache
def running_on(device: str) -> str:
    """The first of our own executors that computes on a kind of device, "" where none does."""
    for name in _BUILT_IN:
        needed = name, _BESIDE.get((name, device), name)
        if all(map(find_spec, needed)) and _runs_on(name, device):
            return name
    return ""


def _runs_on(name: str, device: str) -> bool:
    try:
        return bool(import_module(f".{name}", __package__).runs_on(device))
    except UsageError:  # the library is there, and cannot be imported
        return False
