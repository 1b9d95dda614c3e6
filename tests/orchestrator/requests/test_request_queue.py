from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rankmesh import QueueFull
from rankmesh.orchestrator.config.queue_policy import QueuePolicies, QueuePolicy
from rankmesh.orchestrator.requests.queue import RequestQueue
from rankmesh.orchestrator.requests.request import Request


def request(number: int, priority: int = 0, deadline: float | None = None) -> Request:
    one = Request()
    one.id, one.priority, one.deadline = number, priority, deadline
    return one


def ids(requests: list[Request]) -> list[int]:
    return [one.id for one in requests]


def filled(*requests: Request, limit: int = 100) -> RequestQueue:
    queue = RequestQueue(limit)
    for one in requests:
        queue.put(one)
    return queue


def taken(queue: RequestQueue, now: float = 0.0) -> int | None:
    one, _ = queue.take(now)
    return one.id if one else None


def test_first_come_first_served_within_a_priority() -> None:
    queue = filled(request(1), request(2, 5), request(3, -1), request(4), request(5, 5))
    assert ids(list(queue)) == [2, 5, 1, 4, 3]
    assert [taken(queue) for _ in range(6)] == [2, 5, 1, 4, 3, None]


def test_a_full_queue_refuses_and_says_how_many_wait() -> None:
    queue = filled(request(1), request(2), limit=2)
    with pytest.raises(
        QueueFull, match=r"request 3 is refused: 2 requests wait already, and 2 may"
    ) as refused:
        queue.put(request(3))
    assert refused.value.depth == 2 and len(queue) == 2
    assert taken(queue) == 1
    queue.put(request(3))
    assert [taken(queue), taken(queue)] == [2, 3]


def test_what_is_replayed_comes_before_its_priority_and_is_never_refused() -> None:
    queue = filled(request(1), request(2), request(3, 1), limit=3)
    queue.put_back(request(0))
    queue.put_back(request(9, -1))
    assert len(queue) == 5
    assert ids(queue.drain()) == [3, 0, 1, 2, 9]
    assert not len(queue)


def test_what_is_too_late_is_handed_back_instead_of_run() -> None:
    queue = filled(
        request(1, deadline=3.0),
        request(2),
        request(3, 9, deadline=2.0),
        request(4, -9, deadline=4.0),
    )
    first, dropped = queue.take(3.0)
    assert first is not None and first.id == 2
    assert ids(dropped) == [3, 1]
    last, dropped = queue.take(4.0)
    assert last is None and ids(dropped) == [4]


def test_what_is_cancelled_is_handed_back_instead_of_run() -> None:
    cancelled = request(1)
    queue = filled(cancelled, request(2))
    assert cancelled.drop()
    found, dropped = queue.take(0.0)
    assert found is not None and found.id == 2
    assert dropped == [cancelled] and not len(queue)


def test_a_request_leaves_from_the_middle_once() -> None:
    middle = request(2)
    queue = filled(request(1), middle, request(3))
    assert queue.remove(middle) and not queue.remove(middle)
    assert ids(queue.drain()) == [1, 3]


class Model(RuleBasedStateMachine):
    """The queue beside a list that is searched for everything."""

    LIMIT = 8

    def __init__(self) -> None:
        super().__init__()
        self.queue = RequestQueue(self.LIMIT)
        self.waiting: list[Request] = []
        self.away: list[Request] = []
        self.number = 0
        self.now = 0.0

    def expected(self) -> list[Request]:
        return sorted(self.waiting, key=lambda one: -one.priority)

    @rule(priority=st.integers(-2, 2), wait=st.sampled_from([None, 0.0, 1.0, 2.5, 10.0]))
    def put(self, priority: int, wait: float | None) -> None:
        self.number += 1
        one = request(self.number, priority, None if wait is None else self.now + wait)
        if len(self.waiting) >= self.LIMIT:
            with pytest.raises(QueueFull, match=f"{len(self.waiting)} requests wait"):
                self.queue.put(one)
        else:
            self.queue.put(one)
            self.waiting.append(one)

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.away))
        self.away.remove(one)
        self.queue.put_back(one)
        self.waiting.insert(0, one)

    @rule(passed=st.sampled_from([0.0, 0.5, 2.0]))
    def take(self, passed: float) -> None:
        self.now += passed
        dropped = []
        for one in self.expected():
            if not (one.dropped or one.deadline is not None and one.deadline <= self.now):
                break
            dropped.append(one)
        self.waiting = [one for one in self.waiting if one not in dropped]
        first = next(iter(self.expected()), None)
        assert self.queue.take(self.now) == (first, dropped)
        if first is not None:
            self.waiting.remove(first)
            self.away.append(first)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), leave=st.booleans())
    def cancel(self, data: st.DataObject, leave: bool) -> None:
        one = data.draw(st.sampled_from(self.waiting))
        one.drop()
        if leave:
            assert self.queue.remove(one)
            self.waiting.remove(one)

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def remove_what_is_away(self, data: st.DataObject) -> None:
        assert not self.queue.remove(data.draw(st.sampled_from(self.away)))

    @rule()
    def drain(self) -> None:
        expected = self.expected()
        assert self.queue.drain() == expected
        self.away += expected
        self.waiting = []

    @invariant()
    def agree(self) -> None:
        assert list(self.queue) == self.expected()
        assert len(self.queue) == len(self.waiting)


TestAgainstAList = Model.TestCase
TestAgainstAList.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


def waiting(queue: RequestQueue, number: int, priority: int = 0, submitted: float = 0.0) -> Request:
    """A request that has been put."""
    made = request(number, priority)
    made.submitted = submitted
    queue.put(made)
    return made


def test_a_policy_bounds_the_requests_of_its_priority() -> None:
    queue = RequestQueue(9, QueuePolicies((QueuePolicy(1, limit=1), QueuePolicy(limit=2))))
    waiting(queue, 1, 1)
    with pytest.raises(QueueFull, match="1 request of its priority wait already, and 1 may"):
        waiting(queue, 2, 1)
    waiting(queue, 3)
    waiting(queue, 4)
    with pytest.raises(QueueFull):
        waiting(queue, 5)
    waiting(queue, 6, 7)
    assert [one.id for one in queue] == [6, 1, 3, 4]


def test_requests_that_have_waited_enough_are_refused_or_delayed() -> None:
    policies = (QueuePolicy(1, timeout=1.0, delay=True), QueuePolicy(timeout=2.0))
    queue = RequestQueue(9, QueuePolicies(policies))
    waiting(queue, 1, 1)
    waiting(queue, 2, 1, submitted=0.5)
    waiting(queue, 3, 0)
    assert queue.next_overdue == 1.0 and queue.overdue(0.9) == []
    assert queue.overdue(1.0) == [] and [one.id for one in queue] == [2, 1, 3]
    waiting(queue, 4, 1, submitted=1.2)
    assert [one.id for one in queue] == [2, 4, 1, 3]
    assert [one.id for one in queue.overdue(2.0)] == [3]
    assert [one.id for one in queue] == [4, 1, 2] and len(queue) == 3
    taken, _ = queue.take(2.0)
    assert taken is not None and taken.id == 4 and queue.next_overdue is None
    queue.put_back(taken)
    assert queue.overdue(9.0) == []
