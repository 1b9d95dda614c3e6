"""Device queue: the work of one device in order, and the way of arrays to its memory and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from ....comm.arrays import Array
from .tensors import as_array, as_tensor
from .torch_settings import float32_products

_SPIN, _LOOK, _PAUSE = 2e-3, 1e-3, 50e-6
"""Seconds in which a wait keeps its core, between looks at the other ranks, and of a sleep."""
Replay = Callable[[], object]


class TorchQueue:
    """One stream for work and one for copies to it.

    Arrays go through pinned memory, by which a device reads and writes the host's while the host
    does other things. Arrays that are pinned already, such as an orchestrator's, go directly. A CPU
    has neither: there the tensors are copied in place.
    """

    def __init__(
        self,
        device: torch.device,
        tf32: bool = False,
        stream: Any = None,
        captures: bool = True,
    ) -> None:
        """With `tf32` products of float32 numbers are in TF32; see `products`.

        `stream` is the one for work, where it exists already; `captures` says whether that work can
        be captured.
        """
        self.device = device
        self._tf32 = tf32
        self._api = torch.get_device_module(device)
        self._on_host = device.type == "cpu"
        there = {} if self._on_host else {"device": device}
        self._work, self._copies = stream or self._api.Stream(**there), self._api.Stream(**there)
        self._captures = captures
        self._rooms: dict[tuple[str, int], torch.Tensor] = {}
        self._graphs: Any = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """The calls inside go into this queue, behind what was loaded on the device before."""
        if not self._on_host:
            self._work.wait_stream(self._api.default_stream(self.device))
        with torch.inference_mode(), self._api.stream(self._work):
            yield

    def products(self) -> AbstractContextManager[None]:
        """While work that may multiply is put into the queue; captured runs need it no more."""
        return float32_products(self._tf32)

    def rooms(self, arrays: Sequence[Array]) -> list[torch.Tensor]:
        """Tensors on the device for arrays like these."""
        return [torch.empty_like(as_tensor(one), device=self.device) for one in arrays]

    def upload(self, arrays: Sequence[Array], rooms: Sequence[torch.Tensor]) -> None:
        """Copy arrays to tensors, after the work so far and before all later work."""
        self._copies.wait_stream(self._work)
        with self._api.stream(self._copies):
            for at, (array, room) in enumerate(zip(arrays, rooms, strict=True)):
                room.copy_(self._pinned("in", at, as_tensor(array)), non_blocking=True)
        self._work.wait_stream(self._copies)

    def download(
        self,
        tensors: Sequence[torch.Tensor],
        outputs: Sequence[Array | None],
        alive: Callable[[], None] | None,
    ) -> list[Array]:
        """The results on the host, once all work is done: in `outputs`, or in new arrays.

        `alive` is called again and again meanwhile, and raises where the wait would have no end.
        """
        targets = [
            self._target(at, tensor, out)
            for at, (tensor, out) in enumerate(zip(tensors, outputs, strict=True))
        ]
        for tensor, target in zip(tensors, targets, strict=True):
            target.copy_(tensor.reshape(target.shape), non_blocking=True)
        self._wait(alive)
        return [_given(target, out) for target, out in zip(targets, outputs, strict=True)]

    @property
    def records(self) -> bool:
        """Whether the device has graphs, and of this work."""
        return self._captures and self._graph_kind is not None

    @property
    def _graph_kind(self) -> Any:
        return getattr(self._api, "CUDAGraph", None) or getattr(self._api, "NPUGraph", None)

    def record(
        self, compute: Callable[[], Sequence[torch.Tensor]]
    ) -> tuple[Replay, Sequence[torch.Tensor]]:
        """Capture what `compute` puts into the queue; how to run it again, and its results.

        Raises RuntimeError where something waits for the device. Replays of one queue share the
        memory between inputs and results.
        """
        if self._graphs is None:
            self._graphs = self._api.graph_pool_handle()
        # Threads of NCCL ask the device meanwhile, and are not captured.
        options = {"capture_error_mode": "thread_local"} if self.device.type == "cuda" else {}
        graph = self._graph_kind()
        stream = {"pool": self._graphs, "stream": self._work}
        with self.products(), self._api.graph(graph, **stream, **options):
            results = compute()
        return graph.replay, results

    def _wait(self, alive: Callable[[], None] | None) -> None:
        if self._on_host:
            return
        if alive is None:
            self._work.synchronize()
            return
        done = self._api.Event()
        done.record(self._work)
        began = looked = time.monotonic()
        while not done.query():
            now = time.monotonic()
            if now - looked > _LOOK:
                alive()
                looked = now
            if now - began > _SPIN:
                time.sleep(_PAUSE)

    def _pinned(self, use: str, at: int, tensor: torch.Tensor) -> torch.Tensor:
        """The numbers of a tensor of the host where the device reads them."""
        if self._on_host or tensor.is_pinned():
            return tensor
        return self._room(use, at, tensor.shape, tensor.dtype).copy_(tensor)

    def _target(self, at: int, tensor: torch.Tensor, out: Array | None) -> torch.Tensor:
        """Where a result goes on the host: to the array itself where that is pinned."""
        if out is not None and tensor.numel() != out.size:
            raise ValueError(f"a result has the shape {tuple(tensor.shape)}, expected {out.shape}")
        if self._on_host:
            return torch.empty_like(tensor, memory_format=torch.contiguous_format)
        if out is not None and out.flags.aligned:
            target = as_tensor(out)
            if target.is_pinned():
                return target
        return self._room("out", at, tensor.shape, tensor.dtype)

    def _room(self, use: str, at: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Pinned memory for the array number `at`, which is used again for each request."""
        size = torch.Size(shape).numel()
        kept = self._rooms.get((use, at))
        if kept is None or kept.nbytes < size * dtype.itemsize:
            kept = torch.empty(size * dtype.itemsize, dtype=torch.uint8, pin_memory=True)
            self._rooms[use, at] = kept
        return kept[: size * dtype.itemsize].view(dtype).view(shape)


def _given(target: torch.Tensor, out: Array | None) -> Array:
    """The array that the caller gets for a result in `target`."""
    made = as_array(target.resolve_conj().resolve_neg())
    if out is None:
        return made.copy()
    if made.__array_interface__["data"][0] != out.__array_interface__["data"][0]:
        out[...] = made.reshape(out.shape)
    return out
