"""Weight messages: ask the ranks of an orchestrator to resolve, write and stage weights."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ..decoding import guarded
from .weight_slices import WeightSlice


class WeightTensor(msgspec.Struct, frozen=True, array_like=True):
    """A tensor that is to be a weight: its name, numpy's name of its dtype, and its shape.

    Its bytes lie at `offset` of the arena of weights, once they are there; `mark` differs wherever
    the contents do.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int = 0
    mark: int = 0


class ResolveWeights(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Which weights of the shard are meant, and do they fit? `offered` are tensors by the names
    that a caller gave.

    With a `path` the tensors are those of that file, where `{rank}` is the rank's number, and the
    rank keeps them for the next question; its own weights are `slices` of them, where there are
    such. With `delta` they are to be added to weights.
    """

    offered: list[WeightTensor]
    path: str
    delta: bool
    slices: dict[str, WeightSlice] | None = None


class WriteWeights(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Write the tensors of the file that was read to the places of `weights`; with `delta` add the
    exported ones.

    Where no file was read, what is to be added lies there already.
    """

    weights: list[WeightTensor]
    delta: bool


class StageWeights(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Make everything ready for the edition `number`, in which `weights` take the place of exported
    ones.

    `version` is how many updates are then in effect. It counts once a Switch is ordered.
    """

    number: int
    version: int
    weights: list[WeightTensor]


class DiscardWeights(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Forget the weights that were staged: they will not be used."""


WeightRequest: TypeAlias = ResolveWeights | WriteWeights | StageWeights | DiscardWeights


class WeightReply(msgspec.Struct, frozen=True, array_like=True):
    """A rank's reply. To Find: the weights meant, by the given names; names that mean none, and why
    the first does not.

    `error` is the name of a class of comm/errors.py; then nothing else counts.
    """

    found: dict[str, WeightTensor] = {}
    unknown: list[str] = []
    reason: str = ""
    error: str = ""
    text: str = ""


encode_weight_request = msgspec.msgpack.Encoder().encode
encode_weight_reply = encode_weight_request
_QUESTIONS: msgspec.msgpack.Decoder[WeightRequest] = msgspec.msgpack.Decoder(WeightRequest)
decode_weight_request = guarded(_QUESTIONS)
decode_weight_reply = guarded(msgspec.msgpack.Decoder(WeightReply))
