"""Windows of convolutions and pools: their paddings and the sizes of what they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .operator_node import TorchNode


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows over the last dimensions of a tensor: of `kernel` elements, `dilations` apart.

    `pads` has the elements before all axes and then behind all; None leaves them to `auto_pad`.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...] | None
    auto_pad: str
    ceil_mode: bool = False

    @classmethod
    def of(cls, node: TorchNode, kernel: Sequence[int]) -> SlidingWindows:
        """The windows that a node states; those of a convolution are as large as its weight."""
        rank, auto = len(kernel), node.text("auto_pad", "NOTSET")
        stated = tuple(node.integers("pads") or (0,) * 2 * rank)
        return cls(
            tuple(kernel),
            tuple(node.integers("strides") or (1,) * rank),
            tuple(node.integers("dilations") or (1,) * rank),
            stated if auto == "NOTSET" else (0,) * 2 * rank if auto == "VALID" else None,
            auto,
            bool(node.integer("ceil_mode")),
        )

    @property
    def spans(self) -> tuple[int, ...]:
        """The elements from the first to the last of a window, along each axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def paddings(self, sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The elements before and behind each axis of an input of these sizes."""
        rank = len(self.kernel)
        if self.pads is not None:
            return tuple(zip(self.pads[:rank], self.pads[rank:], strict=True))
        return tuple(
            self._same(size, span, stride)
            for size, span, stride in zip(sizes, self.spans, self.strides, strict=True)
        )

    def _same(self, size: int, span: int, stride: int) -> tuple[int, int]:
        """The padding that makes ceil(size / stride) windows."""
        total = max(0, (-(-size // stride) - 1) * stride + span - size)
        smaller = total // 2
        return (
            (smaller, total - smaller)
            if self.auto_pad != "SAME_LOWER"
            else (total - smaller, smaller)
        )

    def counts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The windows along each axis; with ceil_mode none starts in the padding behind."""
        found = []
        for at, (before, behind) in enumerate(self.paddings(sizes)):
            room = sizes[at] + before + behind - self.spans[at]
            stride = self.strides[at]
            count = (-(-room // stride) if self.ceil_mode else room // stride) + 1
            if self.ceil_mode and (count - 1) * stride >= sizes[at] + before:
                count -= 1
            found.append(count)
        return tuple(found)

    def extents(self, sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The paddings for which the windows fill the padded input, or what is left of it."""
        found = []
        pairs = zip(self.paddings(sizes), self.counts(sizes), strict=True)
        for at, ((before, behind), count) in enumerate(pairs):
            wanted = (count - 1) * self.strides[at] + self.spans[at]
            found.append((before, max(behind, wanted - sizes[at] - before)))
        return tuple(found)


def symmetric(paddings: Sequence[tuple[int, int]]) -> tuple[int, ...] | None:
    """The padding of each axis, where it is the same on both sides."""
    if any(before != behind or before < 0 for before, behind in paddings):
        return None
    return tuple(before for before, _ in paddings)


def pad_list(paddings: Sequence[tuple[int, int]]) -> list[int]:
    """The paddings as torch wants them: those of the last axis first."""
    return [number for pair in reversed(paddings) for number in pair]
