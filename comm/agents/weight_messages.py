"""Weight messages: bring updated weights to an agent, and requests about them to its ranks.

Weights are put into the memory of the agent's host once for all its ranks, and named by keys.
"""

from __future__ import annotations

import msgspec


class AskRank(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A control request to a rank, of comm/serving/weights.py, with the keys of its weights.

    `written`: the rank writes them, and their bytes are to follow its reply.
    """

    incarnation: int
    rank: int
    number: int
    question: bytes
    keys: list[int] = []
    written: bool = False


class PutWeight(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Have `size` bytes for an updated weight of any ranks of the host, by its `key`.

    They follow, unless a rank is to write them.
    """

    key: int
    size: int


class DropWeights(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Free updated weights that no rank uses any more."""

    keys: list[int]


class WeightLacking(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """There was no memory for the updated weight of a key: it has to be put again."""

    key: int


class RankAnswered(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A rank's reply to a control request; the bytes of weights that it has written follow."""

    incarnation: int
    rank: int
    number: int
    reply: bytes
