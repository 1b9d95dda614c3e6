"""A request to an LLM engine: one conversation with its ids and lengths."""

from __future__ import annotations

import itertools
from typing import Any

from ...comm.arguments import check_type
from ...comm.attributes import Attribute

_LARGEST = 2**64 - 1


def check_uint64(name: str, value: Any) -> None:
    """TypeError unless `value` is an int, ValueError unless it fits into 64 bits without a sign."""
    check_type(name, value, int)
    if not 0 <= value <= _LARGEST:
        raise ValueError(f"{name} value should be in range [0, UINT64_MAX], but got {value}.")


class UInt64(Attribute[int]):
    """An int of 64 bits without a sign."""

    def __init__(self, label: str, default: int = 0) -> None:
        super().__init__(default, label)

    def checked(self, value: int) -> int:
        """See Attribute."""
        check_uint64(self.label, value)
        return value


class LLMReq:
    """One inference task of several rounds."""

    req_id = UInt64("req_id")
    prompt_length = UInt64("prompt_length")
    prompt_cluster_id = UInt64("prompt_cluster_id")
    decoder_cluster_id = UInt64("decoder_cluster_id")
    prefix_id = UInt64("prefix_id", _LARGEST)  # no prefix
    sequence_length = UInt64("sequence_length")

    _ids = itertools.count()  # one C call each: threads get no number twice

    def __init__(self, prompt_cluster_id: int, req_id: int, prompt_length: int) -> None:
        self.prompt_cluster_id = prompt_cluster_id
        self.req_id = req_id
        self.prompt_length = prompt_length

    @staticmethod
    def next_req_id() -> int:
        """A number that no request of this process has got here; the first is 0. Threads may ask at once."""
        return next(LLMReq._ids)
