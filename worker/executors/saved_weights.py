"""The weights of a model that onnxruntime saved, in a file beside it.

onnxruntime notes where a weight lies as `location`, `offset` and `length`, and what it packed of it as
`prepacked_<n>` = `KEY|OFFSET;LENGTH;CHECKSUM|...`, in the same file. It writes one after the other without gaps, but
its kernels read packed weights, where they are mapped, with instructions that end the process unless addresses are
multiples of 64.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import onnx
from onnx import ModelProto, TensorProto

from ..onnx_values import tensors

_ALIGN = 64
_PACKED = "prepacked_"


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The weights that lie in a file."""
    return (tensor for tensor in tensors(model.graph) if tensor.data_location == TensorProto.EXTERNAL)


def entries_of(tensor: TensorProto) -> dict[str, str]:
    """What is noted about where a weight lies."""
    return {entry.key: entry.value for entry in tensor.external_data}


def set_entries(tensor: TensorProto, entries: dict[str, str]) -> None:
    """Note where a weight lies from now on."""
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def packings(entries: dict[str, str]) -> tuple[str, ...]:
    """The keys of what was packed of a weight: equal ones, of equal weights, mean equal bytes."""
    return tuple(text.split("|")[0] for name, text in entries.items() if name.startswith(_PACKED))


def pieces(entries: dict[str, str]) -> list[tuple[int, int]]:
    """(offset, size) in bytes of the weight, then of all that was packed of it."""
    found = [(int(entries.get("offset", "0")), int(entries["length"]))]
    for name, text in entries.items():
        if name.startswith(_PACKED):
            found += [(int(offset), int(size)) for offset, size, _ in _packed_pieces(text)]
    return found


def align(place: str) -> None:
    """Move the weights of the saved model at `place` to offsets that its kernels can read. Raises OSError."""
    model = onnx.load(place, load_external_data=False)
    weights = list(external_tensors(model))
    if all(offset % _ALIGN == 0 for tensor in weights for offset, _ in pieces(entries_of(tensor))):
        return
    path = os.path.join(os.path.dirname(place), entries_of(weights[0])["location"])
    with open(path, "rb") as source, open(f"{path}.aligned", "wb") as target:
        for tensor in weights:
            entries = entries_of(tensor)
            set_entries(tensor, _moved(entries, [_copy(source.fileno(), target.fileno(), *one)
                                                 for one in pieces(entries)]))
    os.replace(f"{path}.aligned", path)
    with open(place, "wb") as file:
        file.write(model.SerializeToString())


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
    first, *rest = map(str, offsets)
    moved = {**entries, "offset": first}
    remaining = iter(rest)
    for name, text in entries.items():
        if name.startswith(_PACKED):
            parts = [";".join((next(remaining), size, mark)) for _, size, mark in _packed_pieces(text)]
            moved[name] = "|".join((text.split("|")[0], *parts))
    return moved


def _packed_pieces(text: str) -> Iterator[tuple[str, str, str]]:
    for piece in text.split("|")[1:]:
        offset, size, mark = piece.split(";")
        yield offset, size, mark
