"""Kinds of tests: each test has one, and pure ones can start neither processes nor sessions."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest
from kinds import GUARD, NotPure, sort
from private import ROOT, all_reaches, reaches

ALLOWED_REACHES = 64
"""Uses of private names of others that are left in tests of processes; the number only shrinks."""


def spawn_by_multiprocessing() -> None:
    multiprocessing.get_context("spawn").Process(target=print).start()


def import_onnxruntime() -> None:
    import onnxruntime.capi  # noqa: F401


@pytest.mark.parametrize(
    "impure",
    [
        lambda: subprocess.run(["true"]),
        os.fork,
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: os.system("true"),
        spawn_by_multiprocessing,
        lambda: onnxruntime.InferenceSession(b"model"),
    ],
)
def test_pure_tests_start_no_process_and_no_session(impure: Callable[[], object]) -> None:
    with pytest.raises(NotPure), GUARD.pure():
        impure()


def test_pure_tests_do_not_import_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnxruntime")
    with pytest.raises(NotPure, match="onnxruntime is imported"), GUARD.pure():
        import_onnxruntime()


def test_refusals_that_a_test_swallows_fail_it_too() -> None:
    with pytest.raises(NotPure, match="a process is started"), GUARD.pure():
        try:
            subprocess.run(["true"])
        except AssertionError:
            pass


def test_other_tests_may_do_all_of_it() -> None:
    with GUARD.pure():
        pass
    assert subprocess.run(["true"]).returncode == 0


def test_every_test_is_either_pure_or_of_processes(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        kinds = {mark.name for mark in item.iter_markers()} & {"pure", "process"}
        assert len(kinds) == 1, item.nodeid


def test_marks_that_contradict_each_other_are_an_error(request: pytest.FixtureRequest) -> None:
    item = pytest.Function.from_parent(
        request.node.parent, name="test_other_tests_may_do_all_of_it"
    )
    item.add_marker("pure")
    sort([item])
    assert item.get_closest_marker("process") is None
    item.add_marker("mpi")
    with pytest.raises(pytest.UsageError, match="is marked pure"):
        sort([item])


@pytest.mark.pure
def test_private_names_of_others_are_used_no_more_often_than_allowed() -> None:
    found = all_reaches()
    assert len(found) <= ALLOWED_REACHES, "\n".join(found)
    pure = [one for one in found if "mark.pure" in (ROOT / one.partition(":")[0]).read_text()]
    assert pure == []


@pytest.mark.pure
@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("made._session", ["made._session"]),
        ("class A:\n    def f(self, other):\n        self._a = other._a\n", []),
        ("from rankmesh.comm.a import _b, c", ["_b"]),
        ("monkeypatch.setattr('comm.a._B', 1)", ["comm.a._B"]),
        ("os._exit(1), row._replace(a=1), a.__dict__", []),
    ],
)
def test_private_reaches_are_found(source: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(source)
    assert [name for _, name in reaches(tmp_path / "test_it.py")] == names
