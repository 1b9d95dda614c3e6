from __future__ import annotations

import pytest

from rankmesh.comm import errors
from rankmesh.comm.errors import RankmeshError, error_named

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
        "RankmeshError": 4, "UsageError": 2, "ModelError": 3, "UnsupportedPrimitives": 3, "ShardMismatch": 3,
        "InputError": 3, "RankFailed": 4, "CollectiveTimeout": 4, "CollectiveMismatch": 4, "CollectiveAborted": 4}
