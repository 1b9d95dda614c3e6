"""The description of a tensor that has no data."""

from __future__ import annotations

from typing import Protocol

from .data_type import DataType, Format


class Described(Protocol):
    """What a tensor and a description have in common."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def dtype(self) -> DataType | None:
        """The type of the elements."""

    @property
    def shape(self) -> list[int]:
        """The dimensions."""

    @property
    def format(self) -> Format:
        """The order of the axes."""

    @property
    def element_num(self) -> int:
        """The number of elements."""

    @property
    def data_size(self) -> int:
        """The size in bytes."""


class TensorMeta:
    """What is known of an output before there is any data."""

    def __init__(self) -> None:
        self.name = ""
        self.dtype: DataType | None = DataType.UNKNOWN
        self.shape: list[int] = []
        self.format = Format.DEFAULT
        self.element_num = 0
        self.data_size = 0

    def __str__(self) -> str:
        return describe(self)


def describe(tensor: Described) -> str:
    """The lines that a tensor and a description of one print alike."""
    return (f"name: {tensor.name},\ndtype: {tensor.dtype},\nshape: {tensor.shape},\nformat: {tensor.format},\n"
            f"element_num: {tensor.element_num},\ndata_size: {tensor.data_size}.")
