from __future__ import annotations

import pytest

from rankmesh.comm import errors
from rankmesh.comm.errors import (
    CollectiveAborted,
    CollectiveMismatch,
    CollectiveTimeout,
    DeadlineExceeded,
    QueueFull,
    RankDied,
    RankFailed,
    RankHung,
    RankmeshError,
    error_named,
)

pytestmark = pytest.mark.pure

CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_travels_by_its_name(kind: type[RankmeshError]) -> None:
    arrived = error_named(kind.__name__, "what happened")
    assert type(arrived) is kind and str(arrived) == "what happened"


@pytest.mark.parametrize("name", ["", "ValueError", "SystemExit", "_BY_NAME", "__class__"])
def test_unknown_names_are_plain_errors(name: str) -> None:
    assert type(error_named(name, "x")) is RankmeshError


def test_exit_codes() -> None:
    codes = {kind.__name__: kind.exit_code for kind in CLASSES}
    assert codes == {
        "RankmeshError": 4,
        "UsageError": 2,
        "ModelError": 3,
        "UnsupportedPrimitives": 3,
        "ShardMismatch": 3,
        "InputError": 3,
        "RankFailed": 4,
        "CollectiveTimeout": 4,
        "CollectiveMismatch": 4,
        "CollectiveAborted": 4,
        "RankDied": 4,
        "RankHung": 4,
        "QueueFull": 4,
        "DeadlineExceeded": 4,
        "OutOfMemory": 4,
        "Poisoned": 4,
        "RestartBudgetExhausted": 4,
        "Draining": 4,
        "Closed": 4,
    }


def test_a_dead_and_a_hung_rank_are_failed_ranks() -> None:
    assert {kind for kind in CLASSES if issubclass(kind, RankFailed)} == {
        RankFailed,
        RankDied,
        RankHung,
        CollectiveTimeout,
        CollectiveMismatch,
        CollectiveAborted,
    }


def test_a_passed_deadline_is_a_timeout_to_python_too() -> None:
    with pytest.raises(TimeoutError, match=r"^2 s$"):
        raise DeadlineExceeded("2 s")


def test_a_full_queue_says_how_many_wait() -> None:
    assert QueueFull("16 wait", 16).depth == 16
