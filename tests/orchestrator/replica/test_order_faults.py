"""What callers are told about a fault in a rank."""

from __future__ import annotations

import traceback

import pytest

from rankmesh.comm.errors import CollectiveAborted, RankmeshError
from rankmesh.comm.serving.orders import Answer
from rankmesh.orchestrator.replica.order_faults import fault_of
from rankmesh.orchestrator.requests.replies import copy_error

pytestmark = pytest.mark.pure


def test_a_fault_of_the_program_comes_with_the_rank_s_own_traceback():
    answers = {
        0: Answer([], error="CollectiveAborted", text="rank 1 failed"),
        1: Answer(
            [],
            error="RankmeshError",
            text="ZeroDivisionError: x",
            trace="  File served.py, line 1\n",
        ),
    }
    fault = fault_of(answers, 2)
    assert fault is not None
    for error in (fault, copy_error(fault)):
        assert (type(error), str(error)) == (RankmeshError, "rank 1: ZeroDivisionError: x")
        told = "".join(traceback.format_exception(error))
        assert told.index("on rank 1:\n  File served.py, line 1") < told.index(
            "ZeroDivisionError: x"
        )


def test_what_only_follows_another_fault_is_told_if_there_is_no_other():
    assert fault_of({0: Answer([])}, 1) is None
    fault = fault_of(
        {0: Answer([]), 1: Answer([], error="CollectiveAborted", text="rank 0 died")}, 2
    )
    assert isinstance(fault, CollectiveAborted) and fault.__cause__ is None
