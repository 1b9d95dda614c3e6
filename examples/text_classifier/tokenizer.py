"""Tokenizer: words of texts as numbers, without a vocabulary."""

from __future__ import annotations

import re
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

WORDS = 16
"""Words of a text that count. A shorter text ends with zeros, whose weights are zero."""

BUCKETS = 4096
_WORD = re.compile(r"\w+")


def tokenize(text: NDArray[np.object_]) -> NDArray[np.int64]:
    """The numbers of the words of each text, which is `bytes` in UTF-8: [texts] to [texts, 16]."""
    ids = np.zeros((len(text), WORDS), np.int64)
    for row, one in zip(ids, text, strict=True):
        words = _WORD.findall(one.decode(errors="replace").lower())[:WORDS]
        row[: len(words)] = [1 + crc32(word.encode()) % (BUCKETS - 1) for word in words]
    return ids
