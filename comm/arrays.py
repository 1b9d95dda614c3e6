"""Array types: the names that annotations use for numpy arrays and their shapes."""

from __future__ import annotations

from typing import Any, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
