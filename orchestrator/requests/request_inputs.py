"""Inputs of one request: its arrays in shared memory, and the order that tells ranks where."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ...comm.arrays import Array
from ...comm.request_memory.tensor_arena import ArenaRegion
from ...comm.serving.orders import (
    GivenOutputs,
    Rooms,
    TensorRef,
    encode_handed,
    encode_run,
    encoded_run,
)
from ...comm.serving.tensor_place import Place
from ...comm.serving.tensor_spec import TensorLayout


class RequestInputs(ABC):
    """The inputs of a request: arrays in the model's order, in shared memory."""

    __slots__ = ()

    @property
    @abstractmethod
    def arrays(self) -> list[Array]:
        """The arrays."""

    @abstractmethod
    def order(self, given: GivenOutputs, rooms: Rooms) -> bytes:
        """The order to run them; see `encode_run`."""

    @abstractmethod
    def region_at(self, start: int, end: int) -> ArenaRegion | None:
        """The region in which these bytes of the arena lie; None where they are of no input."""

    @abstractmethod
    def leased(self) -> list[Array]:
        """The arrays, as arrays that keep the memory they lie in."""


class Inputs(RequestInputs):
    """Arrays that lie together in `region`, which has to be kept, like `layout`."""

    __slots__ = ("_arrays", "layout", "region")

    def __init__(self, region: ArenaRegion, layout: TensorLayout) -> None:
        self.region, self.layout = region, layout
        self._arrays: list[Array] | None = None

    @property
    def arrays(self) -> list[Array]:
        """The arrays; made when they are asked for, as packed inputs need none."""
        if self._arrays is None:
            view = self.region.view
            self._arrays = [
                view(offset, dtype, shape) for offset, dtype, shape, _ in self.layout.parts
            ]
        return self._arrays

    def fill(self, arrays: Sequence[Array]) -> None:
        """Write arrays of these shapes, in the model's order."""
        for index, room in enumerate(self.arrays):
            room[...] = arrays[index]

    def order(self, given: GivenOutputs, rooms: Rooms) -> bytes:
        """See RequestInputs.order."""
        encode = encoded_run if self.layout.common else encode_run
        return encode(self.layout, self.region.offset, given, rooms)

    def region_at(self, start: int, end: int) -> ArenaRegion | None:
        """See RequestInputs.region_at."""
        return self.region if self.region.contains(start, end) else None

    def leased(self) -> list[Array]:
        """See RequestInputs.leased."""
        return [self.region.array(at, dtype, shape) for at, dtype, shape, _ in self.layout.parts]


class HandedInputs(RequestInputs):
    """Arrays that lie in the arena already, each in a region of its own: outputs of other models,
    handed on.
    """

    __slots__ = ("_arrays", "_places")

    def __init__(self, arrays: list[Array], places: Sequence[Place]) -> None:
        """`arrays` keep the regions of their places."""
        self._arrays, self._places = arrays, places

    @property
    def arrays(self) -> list[Array]:
        """See RequestInputs.arrays."""
        return self._arrays

    def order(self, given: GivenOutputs, rooms: Rooms) -> bytes:
        """See RequestInputs.order."""
        refs = [
            TensorRef(place.offset, array.shape)
            for place, array in zip(self._places, self._arrays, strict=True)
        ]
        return encode_handed(tuple(refs), given, rooms)

    def region_at(self, start: int, end: int) -> ArenaRegion | None:
        """See RequestInputs.region_at."""
        regions = (place.region for place in self._places)
        return next((one for one in regions if one.contains(start, end)), None)

    def leased(self) -> list[Array]:
        """See RequestInputs.leased."""
        return self._arrays
