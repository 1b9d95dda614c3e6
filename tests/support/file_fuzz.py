"""Files that no slicer and no host of ours would write, for every reader of notes beside shards,
and offers of models that lie."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from functools import cache
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
from plan_graphs import MLP, SHAPES, chain

from rankmesh.comm.arrays import Array
from rankmesh.comm.decoding import guarded
from rankmesh.comm.errors import InputError, ModelError, RankmeshError, UsageError
from rankmesh.comm.serving.weight_slices import WeightSlice, WeightSlices, weight_slices_of
from rankmesh.comm.transfer.messages import (
    CHUNK,
    Chunk,
    Offer,
    OfferedFile,
    ToHost,
    Want,
    Withheld,
    decode_to_host,
    encode,
)
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placements import SUM, WHOLE, Split, Windows
from rankmesh.compiler.slicing.placement.plan_file import PlanFile, plan_of, plan_text
from rankmesh.compiler.slicing.placement.slice_plan import Conversion, SlicePlan
from rankmesh.compiler.slicing.planning.plan_check import check_operators, check_plan
from rankmesh.compiler.source_graph.source_graph import SourceGraph
from rankmesh.worker.cache.received_model import ReceivedModel
from rankmesh.worker.cache.store import CacheStore

_LONGEST = 1 << 15
_VALUES: list[Any] = [
    None, True, [], {}, "", -1, 0, 1, 2, 3, 7, 1.5, 2**31, 2**53, 2**63 - 1, 2**64, 10**30, "every",
    "replicated", "partial(sum)", "partial(max)", "partial(min)",
    "split(axis=0, bounds=[0, 32, 64])",
    "split(axis=1, bounds=[0, 128, 256])", "split(axis=9, bounds=[0, 1, 2], ratios=[1, 1])",
    "windows(axis=2, starts=[0, 8], stops=[40, 64])", "split(axis=0, bounds=[,,])", "a" * 5000,
    "\ud800", "\x1b[2J", "../x", "/etc/passwd", "a/../b", "\0", [[0, 1]], [[1, 0]], [[-1, 1 << 60]],
]  # fmt: skip
_NUMBER = re.compile(r"\d+")


def changed_json(random: Random, document: bytes) -> bytes:
    """The document with some parts replaced, removed or moved, at times with bytes that are none
    of JSON's."""
    if random.randrange(10) == 0:
        return _with_other_bytes(random, document)
    root = {"": json.loads(document)}
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        places = _places(root)
        box, key = random.choice(places)
        box[key] = _other(random, box[key], [one[name] for one, name in places])
    return json.dumps(root[""]).encode("utf-8", "surrogatepass")


def _with_other_bytes(random: Random, document: bytes) -> bytes:
    data = bytearray(document)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(data))
        data[at : at + random.choice((0, 1, 9))] = random.choice(
            (random.randbytes(2), b"[" * 2000, b"NaN", b"9" * 400, b'"\\ud800"', b"")
        )
    return bytes(data)


def _places(root: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Every place in a document, as its container and its key there."""
    places: list[tuple[Any, Any]] = [(root, "")]
    for box, key in places:
        inner = box[key]
        if isinstance(inner, dict):
            places += [(inner, name) for name in inner]
        elif isinstance(inner, list):
            places += [(inner, index) for index in range(len(inner))]
    return places


def _other(random: Random, value: Any, others: list[Any]) -> Any:
    kind = random.randrange(4)
    if kind == 0 and isinstance(value, str):
        return _NUMBER.sub(lambda _: str(random.choice((0, 1, 2, 64, 128, 256, 1 << 41))), value)
    if kind == 1:
        return deepcopy(random.choice(others))
    if kind == 2 and isinstance(value, dict) and value:
        name = random.choice(list(value))
        return {random.choice(("x", "n0", name)): value[name]}
    if kind == 3 and isinstance(value, int):
        return value + random.choice((-1, 1))
    return deepcopy(random.choice(_VALUES))


@cache
def _graph() -> SourceGraph:
    return chain(*MLP, **SHAPES)


def _plan() -> bytes:
    columns, rows = Split(1, (0, 128, 256)), Split(0, (0, 128, 256))
    last = Split(2, (0, 128, 256))
    strategies = {
        "n0": Strategy((WHOLE, columns), (last,)),
        "n1": Strategy((last,), (last,)),
        "n2": Strategy((last, rows), (SUM,)),
    }
    plan = SlicePlan(2, strategies, (Conversion("y", SUM, WHOLE),), 1, {}, frozenset())
    windows = SlicePlan(
        2,
        {"n0": Strategy((WHOLE, Split(1, (0, 2, 4), (32, 32))), (Windows(2, (0, 8), (40, 64)),))},
        (),
        2,
        {"n1": 1, "n2": 1},
        frozenset({"n0"}),
    )
    return [
        plan_text(PlanFile(one, "m.onnx", "f00", {"batch": 2}), {"n0": "MatMul"}).encode()
        for one in (plan, windows)
    ]


def read_plan_of(data: bytes, folder: Path) -> bool:
    """Read a plan and compare it with a model; whether it is a sound one."""
    try:
        found = plan_of(data, "plan.json")
        text = plan_text(found, found.operators).encode()
        assert plan_of(text, "again").plan.strategies.items() <= found.plan.strategies.items()
        check_operators(_graph(), found.operators, "plan.json")
        check_plan(_graph(), found.plan, "plan.json")
    except UsageError as error:
        return _told(error)
    return True


_WEIGHTS = {"up": np.ones((4, 6), np.float32), "down": np.ones((6, 4), np.float32)}
_SLICES = WeightSlices(
    "m_rank{rank}.onnx",
    (
        {"a": WeightSlice("up", (4, 6), 1, ((0, 3),)), "b": WeightSlice("down", (6, 4), zero=True)},
        {"a": WeightSlice("up", (4, 6), 0, ((0, 2), (4, 6)), order=(1, 0))},
    ),
    {"scale": "it is small"},
)


def read_slices_of(data: bytes, folder: Path) -> bool:
    """Read the slices of weights, and take these of whole weights; whether there are any."""
    try:
        found = weight_slices_of(data, 2, "m_rank{rank}.onnx")
        if found is None:
            return False
        for array in _WEIGHTS.values():
            _cut_all(found, array)
    except InputError as error:
        return _told(error)
    except msgspec.DecodeError as error:
        assert len(str(error)) < 400 and str(error).isprintable()
        return False
    return True


def _cut_all(slices: WeightSlices, array: Array) -> None:
    """Take every slice of each weight that has the shape of the array."""
    for one in {one.weight: one for rank in slices.ranks for one in rank.values()}.values():
        if one.shape == array.shape and one.weight not in slices.fixed:
            for parts in slices.of({one.weight: array}):
                assert all(part.size <= len(parts) * 64 * array.size for part in parts.values())


_CONTENTS = {
    blake2b(data, digest_size=32).hexdigest(): data for data in (b"", b"weights", b"graph" * 9)
}
_FILES = tuple(
    OfferedFile(name, len(data), digest)
    for name, (digest, data) in zip(
        ("data/0", "m_rank0", "m_rank1"), _CONTENTS.items(), strict=True
    )
)
decode_offer = guarded(msgspec.json.Decoder(Offer))
_OFFERS = [msgspec.json.encode(Offer("m", "m_rank{rank}", _FILES))]


def receive_offer(data: bytes, folder: Path) -> bool:
    """Fetch the files of an offer into a cache in the folder; whether all came.

    Nothing else is written, and what is kept has the digest by which it was offered.
    """
    try:
        offer = decode_offer(data)
        assert decode_to_host(encode(offer)) == offer
    except msgspec.DecodeError:
        return False
    wants: list[Want] = []
    try:
        store = CacheStore(folder / "cache", 1 << 20)
        model = ReceivedModel(offer, store, wants.append, lambda: _answer(wants.pop(0)))
    except (ModelError, UsageError) as error:
        assert not list((folder / "cache").glob("writing-*"))
        return _told(error)
    finally:
        assert os.listdir(folder) == ["cache"]
    with closing(model):
        for file in offer.files:
            kept = (model.folder / file.name).read_bytes()
            assert blake2b(kept, digest_size=32).hexdigest() == file.digest
        store.discard(model.folder)
    return True


def _answer(want: Want) -> ToHost:
    data = _CONTENTS.get(want.digest)
    if data is None or len(data) < want.offset + want.length:
        return Withheld(want.digest, "no such bytes")
    return Chunk(
        want.digest, want.offset, data[want.offset : want.offset + min(CHUNK, want.length)]
    )


def _told(error: RankmeshError) -> bool:
    assert len(str(error)) < _LONGEST
    return False


READERS: dict[str, tuple[Callable[[bytes, Path], bool], list[bytes]]] = {
    "plan.json": (read_plan_of, _plan()),
    "weights.json": (read_slices_of, [msgspec.json.encode(_SLICES)]),
    "offer": (receive_offer, _OFFERS),
}
"""Every reader by name, with sound files for it. It returns whether it took the file."""


def taken(name: str, seed: str, files: int, folder: Path) -> int:
    """Give a reader so many changed files; how many it took.

    AssertionError has the file by which it failed.
    """
    read, sound = READERS[name]
    random, count = Random(f"{seed} {name}"), 0
    for number in range(files):
        data = changed_json(random, random.choice(sound))
        try:
            count += read(data, folder)
        except Exception as error:
            raise AssertionError(f"{name} {number}: {data[:2000]!r}") from error
    return count
