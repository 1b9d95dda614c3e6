"""Signatures tell apart what does not fit together, and say in words what was entered."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.collective_call import Call, Kind, RankGroup, Reduction
from rankmesh.comm.collectives.signature import describe, sign

pytestmark = pytest.mark.pure

GROUP = RankGroup("pair", (0, 1))
DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int32",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
CALLS = st.builds(
    Call,
    kind=st.sampled_from([k for k in Kind if k is not Kind.RECEIVE]),
    group=st.just(GROUP),
    reduction=st.sampled_from(Reduction),
    root=st.integers(0, 1),
    tag=st.integers(0, 255),
)


def meaning(call, dtype, nbytes):
    """What must be equal on both sides."""
    reducing = call.kind in (Kind.ALL_REDUCE, Kind.REDUCE, Kind.REDUCE_SCATTER)
    rooted = call.kind in (Kind.BROADCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER)
    return (
        call.kind,
        reducing and call.reduction,
        rooted and call.root,
        call.kind is Kind.SEND and call.tag,
        dtype,
        nbytes,
    )


SIDES = st.tuples(CALLS, st.sampled_from(DTYPES), st.integers(0, 2**40 - 1))


@given(one=SIDES, other=SIDES)
def test_equal_exactly_when_they_fit(one, other):
    signatures = [sign(call, np.dtype(dtype), nbytes) for call, dtype, nbytes in (one, other)]
    assert all(0 <= signature < 2**64 for signature in signatures)
    assert (signatures[0] == signatures[1]) == (meaning(*one) == meaning(*other))


def test_receive_fits_its_send():
    send, receive = (Call(kind=kind, group=GROUP, tag=3) for kind in (Kind.SEND, Kind.RECEIVE))
    assert sign(send, np.dtype("f4"), 8) == sign(receive, np.dtype("f4"), 8)


@pytest.mark.parametrize(
    ("call", "dtype", "words"),
    [
        (
            Call(kind=Kind.REDUCE, group=GROUP, reduction=Reduction.MAX, root=1),
            "float32",
            "Reduce(max) with root 1 of 8 bytes of float32",
        ),
        (
            Call(kind=Kind.BROADCAST, group=GROUP, root=1),
            "bool",
            "Broadcast with root 1 of 8 bytes of bool",
        ),
        (
            Call(kind=Kind.RECEIVE, group=GROUP, tag=9),
            "uint16",
            "Send/Receive with tag 9 of 8 bytes of uint16",
        ),
        (
            Call(kind=Kind.ALL_GATHER, group=GROUP),
            ml_dtypes.bfloat16,
            "AllGather of 8 bytes of bfloat16",
        ),
        (
            Call(kind=Kind.ALL_TO_ALL, group=GROUP),
            "complex128",
            "AllToAll of 8 bytes of complex128",
        ),
    ],
)
def test_description(call, dtype, words):
    assert describe(sign(call, np.dtype(dtype), 8)) == words
