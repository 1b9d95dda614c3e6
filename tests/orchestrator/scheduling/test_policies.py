from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmesh import BatchingSettings, ModelSettings, UsageError
from rankmesh.orchestrator.requests.queue import RequestQueue
from rankmesh.orchestrator.requests.request import Request
from rankmesh.orchestrator.scheduling import policies
from rankmesh.orchestrator.scheduling.policies import BatchingPolicy

pytestmark = pytest.mark.pure


def request(
    number: int,
    submitted: float = 0.0,
    rows: int = 1,
    kind: Hashable = "a",
    deadline: float | None = None,
    deaths: int = 0,
    priority: int = 0,
) -> Request:
    one = Request()
    one.id, one.submitted, one.priority, one.deadline = number, submitted, priority, deadline
    one.attempts = one.deaths = deaths
    one.kind, one.rows = kind, rows
    return one


def decided(
    batcher: BatchingPolicy, now: float, *requests: Request
) -> tuple[list[int], float | None]:
    decision = batcher.decide(requests, now)
    return [one.id for one in decision.together], decision.due


def test_nothing_waits() -> None:
    assert decided(BatchingPolicy(4, 0.5), 0.0) == ([], None)


def test_a_batch_runs_as_soon_as_it_is_full() -> None:
    batcher = BatchingPolicy(3, 0.5)
    assert decided(batcher, 0.25, request(1), request(2)) == ([], 0.5)
    assert decided(batcher, 0.25, request(1), request(2), request(3), request(4)) == (
        [1, 2, 3],
        None,
    )


def test_a_batch_runs_when_its_oldest_request_has_waited_enough() -> None:
    batcher = BatchingPolicy(8, 0.5)
    urgent, old = request(1, submitted=0.25, priority=1), request(2, submitted=0.0)
    assert decided(batcher, 0.375, urgent, old) == ([], 0.5)
    assert decided(batcher, 0.5, urgent, old) == ([1, 2], None)


@pytest.mark.parametrize(
    ("rows", "taken"),
    [
        ([1], []),
        ([1, 1], [1, 2]),
        ([1, 1, 1], [1, 2]),
        ([1, 1, 1, 1, 1], [1, 2, 3, 4]),
        ([3], []),
        ([3, 3], [1, 2]),
        ([3, 3, 3], [1, 2]),
    ],
)
def test_a_preferred_number_of_rows_waits_for_no_more(rows: list[int], taken: list[int]) -> None:
    batcher = BatchingPolicy(6, 9.0, preferred=(2, 4))
    waiting = [request(number, rows=count) for number, count in enumerate(rows, 1)]
    assert decided(batcher, 1.0, *waiting) == (taken, None if taken else 9.0)


def test_without_a_delay_whatever_waits_runs_together_at_once() -> None:
    assert decided(BatchingPolicy(8, 0.0), 1.0, request(1, 1.0), request(2, 1.0)) == ([1, 2], None)


def test_without_batches_each_runs_alone() -> None:
    assert decided(BatchingPolicy(1, 9.0), 0.0, request(1), request(2)) == ([1], None)


def test_only_one_kind_runs_together() -> None:
    batcher = BatchingPolicy(2, 0.5)
    mixed = request(1, kind="a"), request(2, kind="b"), request(3, kind="a")
    assert decided(batcher, 0.0, *mixed) == ([1, 3], None)
    assert decided(batcher, 0.0, *mixed[:2], request(4, kind="b")) == ([2, 4], None)
    assert decided(batcher, 0.0, *mixed[:2]) == ([], 0.5)


def test_a_due_batch_goes_before_a_full_one_behind_it() -> None:
    full = [request(number, submitted=1.0, kind="b") for number in (2, 3)]
    assert decided(BatchingPolicy(2, 0.5), 1.0, request(1), *full) == ([1], None)
    assert decided(BatchingPolicy(2, 0.5), 1.0, request(1, submitted=0.75), *full) == ([2, 3], None)


def test_requests_that_join_with_none_run_alone_at_once() -> None:
    batcher = BatchingPolicy(8, 0.5)
    assert decided(batcher, 0.0, request(1, kind=None), request(2, kind=None)) == ([1], None)
    assert decided(batcher, 0.0, request(1), request(2, kind=None)) == ([2], None)


def test_rows_count_and_what_does_not_fit_closes_the_batch() -> None:
    batcher = BatchingPolicy(4, 0.5)
    assert decided(batcher, 0.0, request(1, rows=2), request(2, rows=2), request(3)) == (
        [1, 2],
        None,
    )
    assert decided(batcher, 0.0, request(1, rows=3), request(2, rows=2), request(3)) == ([1], None)
    assert decided(batcher, 0.0, request(1, rows=9), request(2)) == ([1], None)
    assert decided(batcher, 0.0, *(request(number, rows=0) for number in range(6))) == (
        [0, 1, 2, 3],
        None,
    )


def test_after_a_rank_died_its_requests_run_alone() -> None:
    batcher = BatchingPolicy(4, 0.0)
    assert decided(batcher, 0.0, request(1, deaths=1), request(2, deaths=1), request(3)) == (
        [1],
        None,
    )
    assert decided(batcher, 0.0, request(3), request(2, deaths=1), request(4)) == ([3, 4], None)


def test_nobody_waits_longer_than_half_of_the_time_that_he_has() -> None:
    batcher = BatchingPolicy(4, 1.0)
    assert decided(batcher, 0.0, request(1), request(2, deadline=0.5)) == ([], 0.25)
    assert decided(batcher, 0.25, request(1), request(2, deadline=0.5)) == ([1, 2], None)
    assert decided(batcher, 0.25, request(1, deadline=60.0)) == ([], 1.0)


@pytest.mark.parametrize("most", [1, 2])
def test_what_is_taken_leaves_the_queue_with_what_is_too_late_or_cancelled(most: int) -> None:
    queue = RequestQueue(9)
    requests = [request(1), request(2, deadline=1.0), request(3), request(4), request(5)]
    for one in requests:
        queue.put(one)
    requests[0].drop()
    found = BatchingPolicy(most, 0.5).take(queue, 1.0)
    assert found == (requests[2 : 2 + most], None, requests[:2])
    assert list(queue) == requests[2 + most :]


@pytest.mark.parametrize("most", [1, 2])
def test_nothing_is_taken_from_an_empty_queue(most: int) -> None:
    assert BatchingPolicy(most, 0.5).take(RequestQueue(9), 1.0) == ([], None, [])


times = st.integers(0, 40).map(lambda n: n / 8)
arrivals = st.lists(
    st.builds(
        lambda submitted, rows, kind, wait, deaths, priority: request(
            0, submitted, rows, kind, None if wait is None else submitted + wait, deaths, priority
        ),
        times,
        st.integers(0, 5),
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), times.map(lambda t: t + 0.125)),
        st.sampled_from([0, 0, 0, 1]),
        st.integers(0, 1),
    ),
    max_size=24,
)


@settings(deadline=None)
@given(arrivals, st.integers(1, 6), times, times)
def test_every_decision_keeps_the_rules(
    waiting: list[Request], most: int, delay: float, now: float
) -> None:
    waiting = [one for one in waiting if one.submitted <= now]
    decision = BatchingPolicy(most, delay).decide(waiting, now)
    due = {
        one: one.submitted
        + (delay if one.deadline is None else min(delay, (one.deadline - one.submitted) / 2))
        for one in waiting
    }
    if not decision.together:
        assert all(now < when for when in due.values())
        assert decision.due == min(due.values(), default=None)
        return
    kind = decision.together[0].kind
    if len(decision.together) > 1:
        assert sum(max(one.rows, 1) for one in decision.together) <= most
        assert kind is not None and not any(one.deaths for one in decision.together)
        alike = [one for one in waiting if one.kind == kind and not one.deaths]
        assert decision.together == alike[: len(decision.together)]  # nobody is passed over
    elif len(waiting) == 1 and kind is not None and not waiting[0].deaths:
        assert due[waiting[0]] <= now or max(waiting[0].rows, 1) >= most


@settings(deadline=None)
@given(arrivals, st.integers(1, 6), times)
def test_with_idle_ranks_everybody_runs_by_when_he_is_due_and_once(
    arriving: list[Request], most: int, delay: float
) -> None:
    batcher, queue, ran = BatchingPolicy(most, delay), RequestQueue(99), list[Request]()
    arriving.sort(key=lambda one: one.submitted)
    for number, one in enumerate(arriving):
        one.id = number
    coming, now, until = list(arriving), 0.0, None
    while coming or until is not None:
        now = min(coming[0].submitted if coming else 99.0, 99.0 if until is None else until)
        while coming and coming[0].submitted <= now:
            queue.put(coming.pop(0))
        until = None
        while queue and until is None:
            together, until, dropped = batcher.take(queue, now)
            assert not dropped and together or until is not None and until > now
            assert all(now - one.submitted <= delay for one in together)
            ran += together
    assert sorted(ran, key=lambda one: one.id) == arriving


@pytest.fixture
def last_in(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a policy that runs the request that came last."""
    monkeypatch.setattr(policies, "POLICIES", dict(policies.POLICIES))

    @policies.scheduling_policy("last-in")
    class LastIn(policies.SchedulingPolicy):
        immediate = True

        def __init__(self, settings: ModelSettings) -> None:
            pass

        def take(self, queue: RequestQueue, now: float) -> policies.TakenBatch:
            waiting = list(queue)[-1:]
            for one in waiting:
                queue.remove(one)
            return policies.TakenBatch(waiting, None, [])

    return "last-in"


def test_a_policy_is_found_by_its_name(last_in: str) -> None:
    policy = policies.policy_of(ModelSettings("m.onnx", policy=last_in))
    queue = RequestQueue(9)
    for number in range(3):
        queue.put(request(number))
    assert [one.id for one in policy.take(queue, 0.0).together] == [2]
    assert isinstance(
        policies.policy_of(ModelSettings("m.onnx", batching=BatchingSettings(4))), BatchingPolicy
    )
    assert isinstance(policies.policy_of(ModelSettings("m.onnx")), policies.PriorityPolicy)


def test_an_unknown_policy_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="policy: got 'newest', expected one of batching, prio"):
        policies.policy_of(ModelSettings("m.onnx", policy="newest"))


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="there is a scheduling policy 'priority' already"):
        policies.scheduling_policy("priority")(policies.PriorityPolicy)
