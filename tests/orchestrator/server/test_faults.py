"""The table of errors: a code for each, and texts that tell nothing of the host."""

from __future__ import annotations

import pytest

from rankmesh.comm import errors
from rankmesh.orchestrator.server.faults import GrpcCode, UnknownModel, fault_of

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("error", "status", "code", "retried"),
    [
        (errors.InputError("x"), 400, GrpcCode.INVALID_ARGUMENT, False),
        (errors.UsageError("x"), 400, GrpcCode.INVALID_ARGUMENT, False),
        (UnknownModel("x"), 404, GrpcCode.NOT_FOUND, False),
        (errors.QueueFull("x", 7), 503, GrpcCode.UNAVAILABLE, True),
        (errors.Draining("x"), 503, GrpcCode.UNAVAILABLE, True),
        (errors.Closed("x"), 503, GrpcCode.UNAVAILABLE, True),
        (errors.OutOfMemory("x"), 503, GrpcCode.RESOURCE_EXHAUSTED, True),
        (MemoryError(), 503, GrpcCode.RESOURCE_EXHAUSTED, True),
        (errors.DeadlineExceeded("x"), 504, GrpcCode.DEADLINE_EXCEEDED, False),
        (errors.Poisoned("x"), 422, GrpcCode.FAILED_PRECONDITION, False),
        (errors.RankDied("x"), 503, GrpcCode.ABORTED, True),
        (errors.ShardMismatch("x"), 500, GrpcCode.INTERNAL, False),
        (ZeroDivisionError("secret"), 500, GrpcCode.INTERNAL, False),
    ],
)
def test_each_error_has_its_codes(
    error: BaseException, status: int, code: GrpcCode, retried: bool
) -> None:
    fault = fault_of(error)
    assert (fault.status, fault.grpc, fault.retry_after is not None) == (status, code, retried)
    assert fault.depth == (7 if isinstance(error, errors.QueueFull) else None)
    assert "secret" not in fault.text


def test_every_error_of_rankmesh_has_a_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, errors.RankmeshError):
            assert fault_of(kind("told")).text == "told"


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("/srv/models/bert.onnx: got 2 inputs", "bert.onnx: got 2 inputs"),
        ("rank 0 died\nTraceback\n  /usr/lib/x.py", "rank 0 died"),
        ("the file '/dev/shm/key' is short", "the file 'key' is short"),
        ("shape [1/2] of a/b and 3 / 4", "shape [1/2] of a/b and 3 / 4"),
    ],
)
def test_texts_have_one_line_and_no_folders(text: str, public: str) -> None:
    assert fault_of(errors.RankFailed(text)).text == public
