"""Files of named groups, encoded by hand as MindSpore's node_strategy.proto says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def number(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low]) if not rest else bytes([low | 0x80]) + number(rest)


def field(tag: int, data: bytes) -> bytes:
    return number(tag << 3 | 2) + number(len(data)) + data


def encoded(groups: Mapping[str, Sequence[int]], packed: bool = False) -> bytes:
    """A ParallelGroupMap; MindSpore's proto2 writes ranks one by one, `packed` is the other
    encoding.
    """
    items = b""
    for name, ranks in groups.items():
        dims = (
            field(1, b"".join(map(number, ranks)))
            if packed
            else b"".join(b"\x08" + number(r) for r in ranks)
        )
        items += field(1, field(1, name.encode()) + field(2, dims))
    return items
