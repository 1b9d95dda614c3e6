"""Warm-up samples: describe the requests that a rank runs before it is ready."""

from __future__ import annotations

from typing import Literal

import msgspec

Fill = Literal["zeros", "random", "file"]


class WarmupInput(msgspec.Struct, frozen=True):
    """One input of a sample: its dtype, its shape in the model, and its elements.

    Of a `file` they are its bytes, which it has for one row, and which are repeated for `rows`.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: Fill
    path: str = ""
    rows: int = 1


class WarmupSample(msgspec.Struct, frozen=True):
    """A request that is run `count` times."""

    name: str
    count: int
    inputs: tuple[WarmupInput, ...]
