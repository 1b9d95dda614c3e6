"""Kinds of tests: `pure` ones start no process and create no onnxruntime session, all others may.

tests/conftest.py sorts the collected tests and guards the pure ones: a pure test that starts a
process, imports onnxruntime or creates a session of it fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

PROCESS_EVENTS = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.system",
    "subprocess.Popen",
}
"""Audit events of Python when a process is started, except by multiprocessing."""


class NotPure(AssertionError):
    """A test marked pure does what tests of that kind must not do."""


def sort(items: Iterable[pytest.Item]) -> None:
    """Mark every test that is not marked pure as `process`; UsageError where one claims both."""
    for item in items:
        pure = item.get_closest_marker("pure") is not None
        if pure and any(map(item.get_closest_marker, ("process", "mpi", "gpu"))):
            raise pytest.UsageError(f"{item.nodeid} is marked pure, and as a test that is not")
        if not pure:
            item.add_marker("process")


class Guard:
    """Watches this process; inside `pure` it refuses processes and sessions, elsewhere nothing."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._refusing = False
        self._broken: list[str] = []
        self._guarded: set[type] = set()
        self._wrap(BaseProcess, "start", "multiprocessing starts a process")
        sys.addaudithook(self._audit)

    @contextmanager
    def pure(self) -> Iterator[None]:
        """Refuse until the end, and raise NotPure there for what was refused and swallowed."""
        self._guard_sessions()
        self._broken.clear()
        self._refusing = True
        try:
            yield
        finally:
            self._refusing = False
        if self._broken:
            raise NotPure(self._broken[0])

    def _guard_sessions(self) -> None:
        """Wrap the sessions of onnxruntime once it is imported; to import it is refused itself."""
        onnxruntime = sys.modules.get("onnxruntime")
        session = getattr(onnxruntime, "InferenceSession", None)
        if session is not None and session not in self._guarded:
            self._guarded.add(session)
            self._wrap(session, "__init__", "a session of onnxruntime is created")

    def _wrap(self, kind: type, name: str, said: str) -> None:
        original: Callable[..., Any] = getattr(kind, name)

        def guarded(*arguments: Any, **options: Any) -> Any:
            self._refuse(said)
            return original(*arguments, **options)

        setattr(kind, name, guarded)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._refusing:
            return
        if event in PROCESS_EVENTS:
            self._refuse(f"a process is started ({event})")
        elif event == "import" and arguments[0] == "onnxruntime":
            self._refuse("onnxruntime is imported")

    def _refuse(self, said: str) -> None:
        if self._refusing and os.getpid() == self._pid:
            self._broken.append(f"a test marked pure must not: {said}; mark it `process` instead")
            raise NotPure(self._broken[-1])


GUARD = Guard()
