"""Scheduler and dispatcher with ranks that the test plays: what runs where, and how it ends."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from played_model import PlayedModel, played

from rankmesh import BatchingSettings, ModelSettings
from rankmesh.comm.errors import Closed, DeadlineExceeded, Draining, Poisoned, QueueFull, RankDied

pytestmark = pytest.mark.pure


def test_requests_run_in_their_order_and_high_priorities_first() -> None:
    with played() as model:
        first = model.submit()
        later = [model.submit(priority=priority) for priority in (0, 0, 5, 1)]
        order = []
        for _ in range(5):
            model.replicas[0].take()
            model.replicas[0].answer()
            before = [one for one in model.requests if one.done]
            model.replicas[0].look()
            order += [one for one in model.requests if one.done and one not in before]
        assert order == [first, later[2], later[3], later[0], later[1]]
        assert all(one.right for one in model.requests)


def test_a_free_replica_gets_the_next_request_and_what_waits() -> None:
    with played(replicas=2) as model:
        requests = [model.submit() for _ in range(3)]
        assert [one.replica for one in requests] == [0, 1, -1]
        assert model.scheduler.waiting == 1 and model.scheduler.running == 2
        model.run(1)
        assert [one.done for one in requests] == [False, True, True]
        assert requests[2].replica == 1


def test_a_full_queue_refuses_and_counts() -> None:
    with played(ModelSettings("m.onnx", queue_limit=1)) as model:
        model.submit()
        model.submit()
        with pytest.raises(QueueFull, match="1 request wait|1 request"):
            model.submit()
        assert model.run() == 2
        assert all(one.right for one in model.requests)


def test_a_deadline_ends_what_waits_and_what_runs_and_neither_answer_is_given_twice() -> None:
    with played() as model:
        running = model.submit(timeout=1.0)
        waiting = model.submit(timeout=2.0)
        model.replicas[0].take()
        model.wait(1.5)
        assert isinstance(running.error, DeadlineExceeded) and "it is running" in str(running.error)
        assert not waiting.done
        model.wait(1.0)
        assert "it waited for a free rank" in str(waiting.error)
        model.replicas[0].answer()
        model.replicas[0].look()
        assert (running.ends, waiting.ends) == (1, 1)
        assert model.run() == 0  # what waited was not given to the ranks


def test_a_cancelled_request_that_waits_never_runs() -> None:
    with played() as model:
        model.submit()
        waiting = model.submit()
        model.client.abandon(waiting)
        assert model.run() == 1
        assert waiting.dropped and waiting.ends == 0


def test_requests_of_a_dead_replica_run_again_before_all_others() -> None:
    with played(replicas=2) as model:
        first = [model.submit() for _ in range(2)]
        waiting = model.submit()
        model.replicas[0].take()
        model.replicas[0].fail()
        assert first[0].replica == 0 and not first[0].done
        model.run(1)
        assert all(one.right for one in (*first, waiting)) and first[0].attempts == 2
        assert model.dispatcher.counters.snapshot()["replayed"] == 1


def test_requests_that_come_back_run_in_their_order() -> None:
    with played(ahead=True) as model:
        model.submit()
        model.run()
        requests = [model.submit() for _ in range(4)]
        assert model.scheduler.running == 4
        model.replicas[0].fail()
        later = model.submit()
        assert model.scheduler.waiting == 5
        model.replicas[0].start()
        for count in range(1, 6):
            model.replicas[0].take()
            model.replicas[0].answer()
            model.replicas[0].look()
            assert [one.done for one in (*requests, later)].count(True) == count
            assert all(one.done for one in (*requests, later)[:count])


def test_a_cancelled_request_that_was_given_ahead_never_runs() -> None:
    with played(ahead=True) as model:
        model.submit()
        model.run()
        first, second = model.submit(), model.submit()
        model.client.abandon(second)
        assert model.run() == 1
        assert first.right and second.ends == 0


def test_a_request_on_which_ranks_die_twice_is_refused_and_the_others_are_not() -> None:
    with played() as model:
        guilty, other = model.submit(), model.submit()
        for _ in range(2):
            model.replicas[0].take()
            model.replicas[0].fail()
            model.replicas[0].start()
        assert isinstance(guilty.error, Poisoned) and guilty.ends == 1
        assert model.run() == 1
        assert other.right and other.deaths == 0 and guilty.attempts == 2


def test_requests_of_one_kind_run_as_one_batch_and_get_their_own_rows() -> None:
    batching = ModelSettings("m.onnx", batching=BatchingSettings(4, 0.0))
    with played(batching) as model:
        blocking = model.submit()
        requests = [model.submit(rows) for rows in (1, 2, 1, 3)]
        assert model.run() == 3
        assert [one.together for one in (blocking, *requests)] == [1, 3, 3, 3, 1]
        assert all(one.right for one in model.requests)


def test_a_batch_that_fails_runs_again_each_request_alone() -> None:
    with played(ModelSettings("m.onnx", batching=BatchingSettings(4, 0.0))) as model:
        model.submit()
        together = [model.submit(), model.submit()]
        model.replicas[0].take()
        model.replicas[0].answer()
        model.replicas[0].look()
        model.replicas[0].take()
        model.replicas[0].answer(error="ModelError")
        model.replicas[0].look()
        assert not any(one.done for one in together)
        assert model.run() == 2
        assert all(one.right and one.together == 1 for one in together)


def test_a_request_that_fails_alone_ends_with_the_error() -> None:
    with played(ranks=2) as model:
        request = model.submit()
        for rank in range(2):
            model.replicas[0].take(rank)
            model.replicas[0].answer(rank, error="ModelError" if rank else "")
        model.replicas[0].look()
        assert isinstance(request.error, RankDied) and request.ends == 1
        assert model.submit() and model.run() == 1


def test_orders_ahead_of_a_busy_rank_move_to_one_that_is_free() -> None:
    with played(replicas=2, ahead=True) as model:
        model.submit(), model.submit()
        assert model.run(0) == model.run(1) == 1  # both have answered quickly
        requests = [model.submit() for _ in range(5)]
        assert model.scheduler.waiting == 0
        model.replicas[0].take()
        while not all(one.done for one in requests[1:]):
            assert model.run(1) > 0
        assert requests[0].replica == 0 and {one.replica for one in requests[1:]} == {1}


@pytest.mark.parametrize("closed", [False, True])
def test_a_model_that_drains_or_closes_takes_no_more(closed: bool) -> None:
    with played() as model:
        running = model.submit()
        if closed:
            model.dispatcher.give_up(Closed("the orchestrator is closed"))
        else:
            model.scheduler.drain("the orchestrator")
        with pytest.raises(Closed if closed else Draining):
            model.submit()
        model.run()
        assert running.ends == 1 and running.right is not closed


class Scheduling(RuleBasedStateMachine):
    """Any sequence of what callers, ranks and time do. Each request ends once, and rightly."""

    def __init__(self) -> None:
        super().__init__()
        self._context = played(
            ModelSettings("m.onnx", queue_limit=6, batching=self.batching),
            replicas=2,
            ranks=self.ranks,
            ahead=self.batching is None and self.ranks == 1,
        )
        self.model: PlayedModel = self._context.__enter__()
        self.down: set[int] = set()

    batching: BatchingSettings | None = None
    ranks = 1

    @rule(
        rows=st.integers(1, 3),
        timeout=st.sampled_from([None, None, 0.5, 2.0]),
        priority=st.integers(0, 1),
    )
    def submit(self, rows: int, timeout: float | None, priority: int) -> None:
        try:
            self.model.submit(rows, timeout, priority)
        except QueueFull:
            assert self.model.scheduler.waiting >= 6

    @rule(replica=st.integers(0, 1), rank=st.integers(0, 1))
    def take(self, replica: int, rank: int) -> None:
        if replica not in self.down:
            self.model.replicas[replica].take(rank % self.ranks)

    @rule(replica=st.integers(0, 1), rank=st.integers(0, 1), look=st.booleans())
    def answer(self, replica: int, rank: int, look: bool) -> None:
        if replica not in self.down:
            self.model.replicas[replica].answer(rank % self.ranks)
            if look:
                self.model.replicas[replica].look()

    @rule(replica=st.integers(0, 1))
    def fail(self, replica: int) -> None:
        if replica not in self.down:
            self.down.add(replica)
            self.model.replicas[replica].fail()

    @precondition(lambda self: self.down)
    @rule()
    def restart(self) -> None:
        self.model.replicas[self.down.pop()].start()

    @rule(seconds=st.sampled_from([0.001, 0.25, 1.0]))
    def wait(self, seconds: float) -> None:
        self.model.wait(seconds)

    @precondition(lambda self: self.model.requests)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.model.client.abandon(data.draw(st.sampled_from(self.model.requests)))

    @invariant()
    def each_has_at_most_one_end(self) -> None:
        for one in self.model.requests:
            assert one.ends <= 1 and (one.ends == 0 or one.done)
            assert one.answer is None or one.right
            assert isinstance(one.error, (type(None), DeadlineExceeded, Poisoned))

    @invariant()
    def nothing_waits_for_a_free_replica(self) -> None:
        """But for what a batch waits for."""
        free = [one for one in self.model.scheduler.replicas if one.inflight and not one.inflight]
        assert not free or not self.model.scheduler.waiting or self.batching

    def teardown(self) -> None:
        """All that is left ends, once its ranks are there."""
        while self.down:
            self.restart()
        self.model.wait(3.0)
        for _ in range(len(self.model.requests) + 1):
            for replica in self.model.replicas:
                for rank in range(self.ranks):
                    while replica.answer(rank):
                        pass
                replica.look()
                self.model.run(replica.index)
        try:
            assert all(one.done for one in self.model.requests)
            assert len(self.model.dispatcher.replies) == 0
            assert self.model.scheduler.waiting == self.model.scheduler.running == 0
        finally:
            self._context.__exit__(None, None, None)


class BatchedScheduling(Scheduling):
    """The same, of requests that run together."""

    batching = BatchingSettings(4, 0.1)


class SpreadScheduling(Scheduling):
    """The same, of replicas of two ranks."""

    ranks = 2


TestScheduling = Scheduling.TestCase
TestBatchedScheduling = BatchedScheduling.TestCase
TestSpreadScheduling = SpreadScheduling.TestCase
BOUNDS = settings(max_examples=50, stateful_step_count=40)
TestScheduling.settings = TestBatchedScheduling.settings = TestSpreadScheduling.settings = BOUNDS
