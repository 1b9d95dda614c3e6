from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.job.rank import Rank
from rankmesh.comm.transport.messages import (
    Exchange,
    Exchanged,
    Failed,
    Finished,
    Message,
    Start,
    decode,
    encode,
)

pytestmark = pytest.mark.pure

ranks = st.builds(
    lambda world, rank, host, device: Rank(rank % world, world, 0, 1, host, device),
    st.integers(1, 1000),
    st.integers(0, 999),
    st.text(max_size=10),
    st.integers(0, 99),
)
messages = st.one_of(
    st.builds(Start, ranks, st.binary(max_size=50), st.floats(0, 1e6)),
    st.builds(Exchange, st.binary(max_size=50)),
    st.builds(Exchanged, st.lists(st.binary(max_size=20), max_size=5)),
    st.builds(Finished, st.binary(max_size=50)),
    st.builds(Failed, st.text(max_size=20), st.text(max_size=50)),
)


@given(messages)
def test_messages_survive_the_wire(message: Message) -> None:
    assert decode(encode(message)) == message


@given(messages, st.data())
def test_a_part_of_a_message_is_none(message: Message, data: st.DataObject) -> None:
    whole = encode(message)
    with pytest.raises(msgspec.DecodeError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_a_rank_that_cannot_be_is_no_message() -> None:
    good = encode(Start(Rank(1, 4, 1, 2, "h", 0), b"", 0.0))
    with pytest.raises(msgspec.ValidationError, match="rank 7 is outside a world of 4"):
        decode(good.replace(b"\xa4rank\x01", b"\xa4rank\x07"))
