"""Two ranks that are killed, stopped, stuck and out of step under running requests: named,
replaced, nothing lost.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import CancelledError

import numpy as np
import pytest
from moody import FOR_EVER, expected, inputs, moody, paused, strike, wait_ready, wait_running
from processes import wait_until

from rankmesh import DeadlineExceeded, Orchestrator, Poisoned, RankFailed, RankHung

HANG = 3.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """Ranks whose hangs are not found during a test."""
    with Orchestrator(moody(tmp_path_factory.mktemp("moody"), 2), hang_timeout=120) as orchestrator:
        yield orchestrator


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """Ranks whose hangs are found soon."""
    with Orchestrator(
        moody(tmp_path_factory.mktemp("moody"), 2), hang_timeout=HANG
    ) as orchestrator:
        yield orchestrator


@pytest.fixture(autouse=True)
def serving(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test begins with ranks that are ready, ends with ranks that answer rightly, and loses no
    request.
    """
    orchestrator = request.getfixturevalue(
        "watched" if "watched" in request.fixturenames else "served"
    )
    wait_ready(orchestrator)
    yield
    check_answer(orchestrator)
    (counts,) = orchestrator.metrics().values()
    assert counts["accepted"] == counts["answered"] + counts["cancelled"] + sum(
        counts["failed"].values()
    )


def check_answer(served: Orchestrator) -> None:
    given = inputs(start=7)
    np.testing.assert_array_equal(served.predict(given)["y"], expected(given, 2))


def restarts(served: Orchestrator) -> int:
    return served.status().ranks[0].restarts


def replayed(served: Orchestrator) -> int:
    return sum(counts["replayed"] for counts in served.metrics().values())


def test_a_request_during_which_a_rank_is_killed_runs_again(served: Orchestrator) -> None:
    before, again, given = restarts(served), replayed(served), inputs()
    with paused(served, 1):
        future = served.submit(given)
        wait_running(served)
        pid = strike(served, 1)
    np.testing.assert_array_equal(future.result()["y"], expected(given, 2))
    status = served.status()
    assert restarts(served) == before + 1 and replayed(served) == again + 1
    assert status.ranks[1].pid != pid and status.state == "ready"
    assert f"rank 1 of 2 on {status.ranks[1].host} (pid {pid}" in status.ranks[1].last_error
    assert (
        "was killed by SIGKILL" in status.ranks[1].last_error
        and "RUNNING" in status.ranks[1].last_error
    )


def test_a_rank_that_dies_while_nothing_runs_is_replaced_at_once(served: Orchestrator) -> None:
    before, again = restarts(served), replayed(served)
    strike(served, 0)
    wait_until(lambda: restarts(served) == before + 1, "the death to be seen")
    wait_ready(served)
    assert replayed(served) == again


def test_requests_that_waited_keep_their_order_behind_the_one_that_runs_again(
    served: Orchestrator,
) -> None:
    order: list[int] = []
    with paused(served, 0):
        futures = [served.submit(inputs(start=number)) for number in range(4)]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: order.append(number))  # type: ignore[misc]
        wait_running(served)
        strike(served, 0)
    wait_until(lambda: len(order) == len(futures), "all answers")
    assert order == [0, 1, 2, 3]


def test_a_stopped_rank_is_named_and_replaced_and_its_request_not_blamed(
    watched: Orchestrator,
) -> None:
    before = restarts(watched)
    for _ in range(2):  # as often as would be poison
        strike(watched, 0, signal.SIGSTOP)
        check_answer(watched)
    assert restarts(watched) == before + 2
    error = watched.status().ranks[0].last_error
    assert (
        "rank 0 of 2" in error
        and f"is stopped by a signal and made no progress for {HANG:g} s" in error
    )


def test_a_rank_that_never_enters_a_collective_is_named_with_its_stack_and_the_request_poison(
    watched: Orchestrator,
) -> None:
    waiting = []
    with pytest.raises(
        Poisoned, match=r"request \d+ is refused: ranks failed 2 times while they ran it"
    ) as poisoned:
        future = watched.submit(inputs(FOR_EVER))
        waiting = [watched.submit(inputs(start=number)) for number in range(3)]
        future.result()
    text = str(poisoned.value)
    assert "rank 1 of 2" in text and f"made no progress for {HANG:g} s" in text
    assert (
        "never entered that in which others wait: rank 0" in text
        and "AllReduce of node 'AllReduce y'" in text
    )
    assert "hang_timeout" in text and "in run_with_iobinding" in text  # where it was
    assert isinstance(poisoned.value.__cause__, RankHung)
    for number, other in enumerate(waiting):  # those behind it are not counted
        np.testing.assert_array_equal(other.result()["y"], expected(inputs(start=number), 2))


def test_a_running_request_whose_deadline_passes_fails_at_once_and_the_ranks_go_on(
    served: Orchestrator,
) -> None:
    before = restarts(served)
    with paused(served, 1):
        future = served.submit(inputs(), timeout=1)
        with pytest.raises(
            DeadlineExceeded,
            match=r"request \d+ was not answered within .*: it is running, attempt 1",
        ):
            future.result()
    check_answer(served)  # behind what still runs
    assert restarts(served) == before


def test_a_deadline_counts_restarts(watched: Orchestrator) -> None:
    before = restarts(watched)
    with pytest.raises(DeadlineExceeded):
        watched.predict(inputs(FOR_EVER), timeout=HANG / 6)
    with pytest.raises(DeadlineExceeded, match="it waited for a free rank"):  # behind what is stuck
        watched.predict(inputs(), timeout=0.1)
    wait_until(lambda: restarts(watched) == before + 1, "the stuck rank to be found")


def test_a_running_request_is_cancelled(served: Orchestrator) -> None:
    before = restarts(served)
    with paused(served, 1):
        future = served.submit(inputs())
        wait_running(served)
        assert future.cancel() and future.cancelled() and future.cancel()
        with pytest.raises(CancelledError):
            future.result()
    check_answer(served)
    assert restarts(served) == before


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's own handler of SIGINT: it sets none where the signal is ignored, as in background
    jobs.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_cancels_the_request_that_is_waited_for(served: Orchestrator) -> None:
    cancelled, caller = served.metrics()["moody"]["cancelled"], threading.get_ident()

    def interrupt() -> None:
        def calls() -> list[str]:
            return [
                frame.f_code.co_name
                for frame, _ in traceback.walk_stack(sys._current_frames()[caller])
            ]

        wait_until(
            lambda: "wait" in calls() and "call" in calls(), "the caller to wait for the answer"
        )
        signal.pthread_kill(caller, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        served.predict(inputs(FOR_EVER))
    interrupting.join()
    assert served.metrics()["moody"]["cancelled"] == cancelled + 1
    strike(served, 1)
    check_answer(served)


def test_a_cancelled_request_is_not_run_again(served: Orchestrator) -> None:
    again = replayed(served)
    with paused(served, 0):
        future = served.submit(inputs())
        wait_running(served)
        future.cancel()
        strike(served, 1)
    check_answer(served)
    assert replayed(served) == again


def test_an_error_of_one_rank_while_another_waits_for_it_is_the_answer(
    served: Orchestrator,
) -> None:
    """The rank that waits is out of step; no later request may get what this one left in a
    collective.
    """
    for _ in range(2):
        with pytest.raises(
            RankFailed, match=r"(?s)rank 1: .*Reshape v.*requested shape:\{3\}"
        ) as raised:
            served.predict(inputs(shape=(3,)))
        assert "on rank 1:" in str(raised.value.__cause__) and "run_with_iobinding" in str(
            raised.value.__cause__
        )
        check_answer(served)
    assert "on some ranks and not on others" in served.status().ranks[0].last_error
