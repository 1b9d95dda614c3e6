"""Ray calls with a deadline: Ray gives few of its calls one.

A call that concerns a host that was cut off returns when Ray notices, which takes about a minute.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ...comm.errors import RankmeshError, UsageError

_Found = TypeVar("_Found")


def ray_module() -> Any:
    """The package ray, which is imported where it is first needed. UsageError where it is not
    installed.
    """
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            f"launcher='ray' needs the package ray ({error}): pip install 'rankmesh[ray]', on "
            "every host of the cluster."
        ) from error
    return ray


def within(seconds: float, purpose: str, call: Callable[[], _Found]) -> _Found:
    """Make a call in another thread; returns or raises what it does.

    RankmeshError, which names the `purpose`, where it takes longer than `seconds`. Its thread then
    ends when Ray lets it.
    """
    outcomes: queue.SimpleQueue[tuple[_Found | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((call(), None))
        except Exception as error:  # of any class: it is raised by the caller
            outcomes.put((None, error))

    threading.Thread(target=run, name="rankmesh-ray-call", daemon=True).start()
    try:
        found, error = outcomes.get(timeout=seconds)
    except queue.Empty:
        raise RankmeshError(
            f"Ray did not {purpose} within {seconds:g} s: look whether the head and the hosts of "
            "the cluster can be reached (`ray status`)."
        ) from None
    if error is not None:
        raise error
    return found  # type: ignore[return-value]  # only an error comes without it
