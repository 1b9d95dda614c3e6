"""GGUF files: the weights and notes of a decoder in one file, as llama.cpp reads it.

Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...comm.errors import ModelError

_FEW_BITS = 5
"""Bits for each weight, scales included, up to which a format counts as one of four bits."""


class GgufFile:
    """One file. The package `gguf` reads it; weights stay in the file until they are asked for."""

    def __init__(self, path: str) -> None:
        """Raises ModelError for other files."""
        from gguf import GGUFReader

        self.path = path
        try:
            self._reader = GGUFReader(path)
            self.architecture: str = self.note("general.architecture", str)
        except (OSError, ValueError, IndexError, KeyError, UnicodeDecodeError, OverflowError) as e:
            raise ModelError(f"{path}: cannot be read as a GGUF file: {e}.") from e

    def find(self, key: str) -> Any:
        """A note; None where there is none."""
        field = self._reader.fields.get(key)
        return None if field is None else field.contents()

    def note(self, key: str, kind: type) -> Any:
        """A note that has to be there, of a kind. Raises ModelError."""
        found = self.find(key)
        if not isinstance(found, kind) or isinstance(found, bool) is not (kind is bool):
            shown = "nothing" if found is None else f"{found!r:.40}"
            raise ModelError(f"{self.path}: the note '{key}' is {shown}, expected {kind.__name__}.")
        return found

    def own(self, key: str) -> Any:
        """A note on this architecture; None where there is none."""
        return self.find(f"{self.architecture}.{key}")

    def size(self, key: str) -> int:
        """A size of this architecture, which has to be there. Raises ModelError."""
        found: int = self.note(f"{self.architecture}.{key}", int)
        return found

    @property
    def names(self) -> list[str]:
        """The names of its weights."""
        return [str(one.name) for one in self._reader.tensors]

    def weights(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Each weight with its name, as numbers of 32 bits."""
        from gguf.quants import dequantize

        for one in self._reader.tensors:
            numbers = dequantize(one.data, one.tensor_type).astype(np.float32, copy=False)
            yield str(one.name), numbers.reshape([int(size) for size in reversed(one.shape)])

    @property
    def has_few_bits(self) -> bool:
        """Whether most weights take four bits, or fewer."""
        from gguf import GGML_QUANT_SIZES

        few = total = 0
        for one in self._reader.tensors:
            block, size = GGML_QUANT_SIZES[one.tensor_type]
            total += int(one.n_elements)
            few += int(one.n_elements) * (8 * size <= _FEW_BITS * block)
        return 2 * few > total
