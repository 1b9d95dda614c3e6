"""Saved weights: the file beside a model that onnxruntime saved, aligned, equal weights kept once.

onnxruntime notes where a weight lies as `location`, `offset` and `length`, and what it packed of it
as `prepacked_<n>` = `KEY|OFFSET;LENGTH;CHECKSUM|...`, in the same file. It writes one after the
other without gaps. But its kernels read packed weights, where they are mapped, with instructions
that end the process unless addresses are multiples of 64.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from ...compiler.onnx_graph.external import entries_of, set_entries
from ...compiler.onnx_graph.onnx_values import tensors

_ALIGN = 64
_PACKED = "prepacked_"


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The weights that lie in a file."""
    return (
        tensor for tensor in tensors(model.graph) if tensor.data_location == TensorProto.EXTERNAL
    )


def pieces(entries: dict[str, str]) -> list[tuple[int, int]]:
    """(offset, size) in bytes of the weight, then of its packed forms."""
    found = [(int(entries.get("offset", "0")), int(entries["length"]))]
    for name, text in entries.items():
        if name.startswith(_PACKED):
            found += [(int(offset), int(size)) for offset, size, _ in _packed_pieces(text)]
    return found


def require_whole(place: str) -> None:
    """Raise OSError where saved weights end early: onnxruntime does not notice a full disk."""
    for tensor in onnx.load(place, load_external_data=False).graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries:
            file = os.path.join(os.path.dirname(place), entries["location"])
            if os.path.getsize(file) < int(entries.get("offset", "0")) + int(
                entries.get("length", "0")
            ):
                raise OSError(errno.ENOSPC, f"{file} ends before the weight '{tensor.name}'")


def align(place: str) -> None:
    """Move the weights of the saved model at `place` to offsets that its kernels can read. Raises
    OSError.
    """
    model = onnx.load(place, load_external_data=False)
    weights = list(external_tensors(model))
    if all(offset % _ALIGN == 0 for tensor in weights for offset, _ in pieces(entries_of(tensor))):
        return
    path = os.path.join(os.path.dirname(place), entries_of(weights[0])["location"])
    with open(path, "rb") as source, open(f"{path}.aligned", "wb") as target:
        for tensor in weights:
            entries = entries_of(tensor)
            set_entries(
                tensor,
                _moved(
                    entries,
                    [_copy(source.fileno(), target.fileno(), *one) for one in pieces(entries)],
                ),
            )
    os.replace(f"{path}.aligned", path)
    onnx.save(model, place)


def _copy(source: int, target: int, offset: int, size: int) -> int:
    """Copy a piece to the next good offset of the new file, which is returned."""
    start = at = -(-os.lseek(target, 0, os.SEEK_END) // _ALIGN) * _ALIGN
    os.truncate(target, start)
    os.lseek(target, start, os.SEEK_SET)
    while at < start + size:
        count = os.sendfile(target, source, offset + at - start, start + size - at)
        if count == 0:
            raise OSError(f"the file of the weights ends before {offset + size}")
        at += count
    return start


def _moved(entries: dict[str, str], offsets: list[int]) -> dict[str, str]:
    """The entries with other offsets, in the order of `pieces`."""
    remaining = map(str, offsets)
    moved = {**entries, "offset": next(remaining)}
    for name, text in entries.items():
        if name.startswith(_PACKED):
            parts = [
                ";".join((next(remaining), size, mark)) for _, size, mark in _packed_pieces(text)
            ]
            moved[name] = "|".join((text.split("|")[0], *parts))
    return moved


def _packed_pieces(text: str) -> Iterator[tuple[str, str, str]]:
    for piece in text.split("|")[1:]:
        offset, size, mark = piece.split(";")
        yield offset, size, mark


Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SavedWeight:
    """One weight in a file: its entries, and (offset, size) in bytes of itself and its packed
    forms.
    """

    entries: dict[str, str]
    pieces: tuple[tuple[int, int], ...]
    data: mmap.mmap

    def equals(self, other: SavedWeight) -> bool:
        """Whether both are the same, byte for byte; their sizes are."""
        return all(
            np.array_equal(
                np.frombuffer(self.data, np.uint8, size, mine),
                np.frombuffer(other.data, np.uint8, size, theirs),
            )
            for (mine, size), (theirs, _) in zip(self.pieces, other.pieces, strict=True)
        )


class WeightDedup:
    """All weights in the saved models of one folder so far.

    onnxruntime maps the external data of a saved model, packed weights included, so models that
    name the same place of the same file share its pages.
    """

    def __init__(self) -> None:
        self._kept: dict[Key, list[SavedWeight]] = {}

    def share(self, place: str) -> None:
        """Rewrite the saved model at `place` to use equal weights that earlier models have.

        Its other weights join those for later models. A file that it no longer needs is removed.
        """
        model = onnx.load(place, load_external_data=False)
        folder = os.path.dirname(place)
        files: dict[str, mmap.mmap] = {}
        for tensor in external_tensors(model):
            entries = entries_of(tensor)
            name = entries["location"]
            files.setdefault(name, _mapped(os.path.join(folder, name)))
            mine = SavedWeight(entries, tuple(pieces(entries)), files[name])
            kept = self._kept.setdefault(_key(tensor, mine), [])
            equal = next((one for one in kept if one.equals(mine)), None)
            if equal is None:
                kept.append(mine)
            else:
                set_entries(tensor, equal.entries)
        onnx.save(model, place)
        for data in {
            id(one.data): one.data for kept in self._kept.values() for one in kept
        }.values():
            data.madvise(mmap.MADV_DONTNEED)  # what was compared need not stay in memory for it
        for name in files.keys() - {
            entries_of(tensor)["location"] for tensor in external_tensors(model)
        }:
            os.unlink(os.path.join(folder, name))


def _key(tensor: TensorProto, kept: SavedWeight) -> Key:
    """The properties in which equal weights agree, to be compared before their bytes.

    Equal keys of packed forms of equal weights mean equal bytes.
    """
    return (
        tensor.data_type,
        tuple(tensor.dims),
        tuple(
            text.split("|")[0] for name, text in kept.entries.items() if name.startswith(_PACKED)
        ),
        tuple(size for _, size in kept.pieces),
    )


def _mapped(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
