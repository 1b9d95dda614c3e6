"""Groups of a torch module's collectives: what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from rankmesh import UsageError
from rankmesh.compiler.torch_models.group import Group

pytestmark = pytest.mark.pure


def test_the_size_is_the_number_of_ranks() -> None:
    assert Group("pair", [2, 0]) == Group("pair", (2, 0), 2)  # type: ignore[arg-type]
    assert Group().size == 0


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"name": "pair"}, "has no ranks: name them, as in Group('pair', ranks=(0, 1))"),
        ({"ranks": (0, 0)}, "has the ranks [0, 0], expected different numbers from 0"),
        ({"ranks": (0, 1), "size": 3}, "has 2 ranks and the size 3: leave out the size"),
        ({"size": 2, "position": 2}, "has the size 2 and the position 2, expected a position"),
        ({"size": -1}, "has the size -1 and the position -1"),
    ],
)
def test_contradictions_are_refused(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as found:
        Group(**stated)
    assert message in str(found.value)
