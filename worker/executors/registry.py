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
from .base import Executor
from .settings import EXECUTOR_VARIABLE, ONNXRUNTIME, TORCH, ExecutorSettings

ENTRY_POINTS = "rankmesh.executors"
OpenExecutor: TypeAlias = Callable[[ExecutorSettings], Executor]
_BUILT_IN = (ONNXRUNTIME, TORCH)
"""Modules in this folder, whose `open_executor` makes the executor of that name."""


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
    return executor_named(settings.name or suited_to(settings.device))(settings)


@cache
def suited_to(device: str) -> str:
    """The executor for a kind of device: onnxruntime where it runs models there, else torch.

    Where neither does, onnxruntime, whose error says what to install.
    """
    if find_spec("onnxruntime") and import_module(".onnxruntime", __package__).runs_on(device):
        return ONNXRUNTIME
    if find_spec("torch") and (
        device == "cpu" or import_module(".torch", __package__).runs_on(device)
    ):
        return TORCH
    return ONNXRUNTIME
