"""Newcomers: the order in which they make room, and the time that each has."""

from __future__ import annotations

import pytest

from rankmesh.comm.transport import newcomers

pytestmark = pytest.mark.pure


def test_the_one_that_is_silent_for_longest_makes_room() -> None:
    waiting = newcomers.Newcomers[str](2)
    assert [waiting.add(one) for one in "abc"] == [None, None, "a"]
    waiting.remove("a")
    waiting.remove("b")  # it has sent a message
    assert waiting.add("d") is None
    assert waiting.add("e") == "c" and len(waiting) == 3 and list(waiting) == ["c", "d", "e"]


def test_each_has_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = newcomers.Newcomers[str](9)
    assert waiting.next_timeout() is None and waiting.oldest() is None
    waiting.add("a")
    assert 0 < (waiting.next_timeout() or 0) <= newcomers.SECONDS and not waiting.late()
    monkeypatch.setattr(newcomers, "SECONDS", 0)
    waiting.add("b")
    assert waiting.late() == ["b"]
    waiting.remove("a")
    assert waiting.next_timeout() == 0
